"""Compilers that change how ATen operators are computed: correctly (rounding alone differs) or wrongly. Rows by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from dynamo.aot import aot_module
from dynamo.ops.facts import facts_of
from inductor.backend import SPLITS

aten = torch.ops.aten
Change = Callable[..., Any]  # (operator, args, kwargs) -> result
CORRECT: dict[str, dict[str, Change]] = {}
WRONG: dict[str, dict[str, Change]] = {}


class _Changed(fx.Interpreter):
    """Runs an ATen graph with some operators replaced, by their base names; `*` is every operator."""

    def __init__(self, gm: fx.GraphModule, table: dict[str, Change]) -> None:
        super().__init__(gm)
        self.table = table

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        base = facts_of(target).base if isinstance(target, torch._ops.OpOverload) else ""
        change = self.table.get(base) or (self.table.get("*") if base else None)
        return super().call_function(target, args, kwargs) if change is None else change(target, *args, **kwargs)


def backend_of(table: dict[str, Change]) -> Callable[..., Any]:
    """A backend whose operators are changed; composite ones stay whole."""

    def one(gm: fx.GraphModule, inputs: Sequence[Any], *, is_backward: bool) -> Callable[[list[Any]], Any]:
        return lambda values: _Changed(gm, table).run(*values)

    def backend(gm: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
        return aot_module(gm, inputs, decompositions=SPLITS, fw_compiler=one, bw_compiler=one)

    return backend


def change(table: dict[str, dict[str, Change]], name: str, ops: str) -> Callable[[Change], Change]:
    def note(function: Change) -> Change:
        for op in ops.split():
            table.setdefault(name, {})[op] = function
        return function

    return note


def correct(name: str, ops: str) -> Callable[[Change], Change]:
    return change(CORRECT, name, ops)


def wrong(name: str, ops: str) -> Callable[[Change], Change]:
    return change(WRONG, name, ops)


def _inside(x: torch.Tensor) -> torch.dtype:
    return torch.float32 if x.dtype in (torch.bfloat16, torch.float16) else x.dtype


def _dims(x: torch.Tensor, rest: Sequence[Any]) -> list[int]:
    dims = rest[0] if rest and isinstance(rest[0], (list, tuple)) else None
    return [d % x.ndim for d in dims] if dims else list(range(x.ndim))


def _summed(x: torch.Tensor, dims: list[int], keep: bool, how: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    others = [d for d in range(x.ndim) if d not in dims]
    flat = x.to(_inside(x)).permute(*others, *dims).reshape([*(x.shape[d] for d in others), -1])
    out = how(flat)
    return out.reshape([1 if d in dims else n for d, n in enumerate(x.shape)]) if keep else out


def _reduction(name: str, how: Callable[[torch.Tensor], torch.Tensor], table: Any = correct) -> None:
    @table(name, "sum mean")
    def reduced(op: Any, x: torch.Tensor, *rest: Any, **kwargs: Any) -> torch.Tensor:
        if not x.is_floating_point():
            return op(x, *rest, **kwargs)
        dims = _dims(x, rest)
        total = _summed(x, dims, bool(rest[1]) if len(rest) > 1 else False, how)
        count = math.prod(x.shape[d] for d in dims) if "mean" in str(op) else 1
        return (total / count).to(kwargs.get("dtype") or x.dtype)


_reduction("chunked sums", lambda f: sum((c.sum(-1) for c in f.split(37, -1)), torch.zeros(f.shape[:-1], dtype=f.dtype)))
_reduction("reversed sums", lambda f: f.flip(-1).contiguous().view(*f.shape).cumsum(-1)[..., -1])


def _one_by_one(flat: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(flat.shape[:-1], dtype=flat.dtype)
    for column in flat.unbind(-1):
        total = total + column
    return total


_reduction("running sums", _one_by_one)


@correct("two passes in float64", "var native_layer_norm")
def _passes(op: Any, x: torch.Tensor, *rest: Any, **kwargs: Any) -> Any:
    wide = op(x.double(), *(r.double() if isinstance(r, torch.Tensor) else r for r in rest), **kwargs)
    return tuple(w.to(x.dtype) for w in wide) if isinstance(wide, tuple) else wide.to(x.dtype)


@correct("online softmax", "_softmax _log_softmax")
def _online(op: Any, x: torch.Tensor, dim: int, half: bool) -> torch.Tensor:
    wide = x.to(_inside(x))
    top, total = torch.full_like(wide.select(dim, 0), -torch.inf), torch.zeros_like(wide.select(dim, 0))
    for chunk in wide.split(64, dim):
        new = torch.maximum(top, chunk.amax(dim))
        total = total * (top - new).exp() + (chunk - new.unsqueeze(dim)).exp().sum(dim)
        top = new
    away = wide - top.unsqueeze(dim)
    out = away - total.log().unsqueeze(dim) if "log" in str(op) else away.exp() / total.unsqueeze(dim)
    return out.to(x.dtype)


def _fused(op: Any, x: Any, y: Any, **kwargs: Any) -> Any:
    """With the product before it unrounded: float64 holds products of float32 exactly."""
    wide = [v.double() if isinstance(v, torch.Tensor) and v.dtype == torch.float32 else v for v in (x, y)]
    return op(*wide, **kwargs).float() if any(isinstance(v, torch.Tensor) for v in (x, y)) else op(x, y, **kwargs)


@correct("fused multiply-add", "mul")
def _product(op: Any, x: Any, y: Any) -> Any:
    out = op(x, y)
    if isinstance(out, torch.Tensor) and out.dtype == torch.float32:
        wide = [v.double() if isinstance(v, torch.Tensor) else v for v in (x, y)]
        _products[out.data_ptr()] = (out, op(*wide))
        if len(_products) > 64:
            _products.pop(next(iter(_products)))
    return out


@correct("fused multiply-add", "add sub")
def _sum_of_product(op: Any, x: Any, y: Any, **kwargs: Any) -> Any:
    for v in (x, y):
        if isinstance(v, torch.Tensor) and v.data_ptr() in _products and _products[v.data_ptr()][0] is v:
            exact = _products[v.data_ptr()][1]
            return _fused(op, exact if v is x else x, exact if v is y else y, **kwargs)
    return op(x, y, **kwargs)


_products: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}


@correct("vector functions", "exp sin cos log log1p tanh erf sigmoid gelu pow mish")
def _vector(op: Any, x: Any, *rest: Any, **kwargs: Any) -> Any:
    """Off by up to three units in the last place, as vector libraries are."""
    out = op(x, *rest, **kwargs)
    if out.dtype != torch.float32:
        return out
    noise = torch.rand(out.shape, generator=torch.Generator().manual_seed(1)) * 6 - 3
    return torch.where(out.isfinite(), out * (1 + noise * torch.finfo(torch.float32).eps / 2), out)


_LOW = (torch.bfloat16, torch.float16)


@correct("wide intermediates", "*")
def _wide(op: Any, *args: Any, **kwargs: Any) -> Any:
    """16-bit numbers are kept in float32 from one operator to the next, and rounded at the end alone."""
    out = op(*(_raised(a) for a in args), **kwargs)
    if isinstance(out, torch.Tensor) and out.dtype == torch.float32 and any(isinstance(a, torch.Tensor) and a.dtype in _LOW for a in args):
        low = next(a.dtype for a in args if isinstance(a, torch.Tensor) and a.dtype in _LOW)
        rounded = out.to(low)
        _widened[rounded.data_ptr()] = (rounded, out)
        if len(_widened) > 64:
            _widened.pop(next(iter(_widened)))
        return rounded
    return out


def _raised(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.dtype not in _LOW:
        return value
    known = _widened.get(value.data_ptr())
    return known[1] if known is not None and known[0] is value else value.float()


_widened: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}


def _product_by(name: str, how: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
    @correct(name, "mm bmm")
    def product(op: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return how(x.to(_inside(x)), y.to(_inside(y))).to(x.dtype)


_product_by("chunked products", lambda x, y: torch.stack([a @ b for a, b in zip(x.split(17, -1), y.split(17, -2), strict=True)]).sum(0))
_product_by("reversed products", lambda x, y: x.flip(-1) @ y.flip(-2))


@correct("attention by hand", "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_fused_attention_overrideable")
def _attention(op: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any, **kwargs: Any) -> Any:
    weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1)
    return weights @ v, torch.logsumexp(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1)


@correct("convolution by unfolding", "convolution")
def _unfolded(op: Any, x: torch.Tensor, w: torch.Tensor, b: Any, stride: Any, pad: Any, dilation: Any, *rest: Any) -> torch.Tensor:
    groups = rest[-1]
    out = []
    for one, kernel in zip(x.chunk(groups, 1), w.chunk(groups, 0), strict=True):
        columns = torch.nn.functional.unfold(one, kernel.shape[-2:], dilation, pad, stride)
        out.append(kernel.reshape(kernel.shape[0], -1) @ columns)
    height = (x.shape[2] + 2 * pad[0] - dilation[0] * (w.shape[2] - 1) - 1) // stride[0] + 1
    made = torch.cat(out, 1).reshape(x.shape[0], w.shape[0], height, -1)
    return made if b is None else made + b.view(-1, 1, 1)


@correct("chunked scans", "cumsum cumprod")
def _scan(op: Any, x: torch.Tensor, dim: int, **kwargs: Any) -> torch.Tensor:
    parts: list[torch.Tensor] = []
    for chunk in x.split(50, dim):
        part = op(chunk, dim)
        if parts:
            last = parts[-1].select(dim, -1).unsqueeze(dim)
            part = part + last if "sum" in str(op) else part * last
        parts.append(part)
    return torch.cat(parts, dim)


@correct("shuffled scatter", "scatter_add index_add")
def _scatter(op: Any, x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    order = torch.randperm(index.shape[0], generator=torch.Generator().manual_seed(3))
    return op(x, dim, index[order], source[order])


@correct("reciprocal of the root", "rsqrt")
def _rsqrt(op: Any, x: torch.Tensor) -> torch.Tensor:
    return 1.0 / x.sqrt()


@correct("product with the reciprocal", "div")
def _quotient(op: Any, x: Any, y: Any, **kwargs: Any) -> Any:
    return x * (1.0 / y) if not kwargs and isinstance(y, torch.Tensor) else op(x, y, **kwargs)


# ---- wrong ----

_reduction("sum without the last element", lambda f: f[..., :-1].sum(-1), wrong)
_reduction("sum of rounded addends", lambda f: f.to(torch.bfloat16).float().sum(-1), wrong)


@wrong("other gelu", "gelu")
def _gelu(op: Any, x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    return op(x, approximate="tanh")


@wrong("other epsilon", "native_layer_norm")
def _epsilon(op: Any, x: Any, shape: Any, w: Any, b: Any, eps: float) -> Any:
    return op(x, shape, w, b, eps * 10)


@wrong("variance as a difference", "var")
def _variance(op: Any, x: torch.Tensor, dims: Any = None, **kwargs: Any) -> torch.Tensor:
    n = x.shape[-1]
    return ((x * x).mean(-1) - x.mean(-1) ** 2) * (n / (n - 1))


def _approximate(name: str, ops: str, error: float) -> None:
    @wrong(name, ops)
    def approximate(op: Any, *args: Any, **kwargs: Any) -> Any:
        return op(*args, **kwargs) * (1 + error)


_approximate("coarse exponential", "exp", 1e-5)
_approximate("coarse root", "rsqrt", 3e-5)
_approximate("coarse tangent", "tanh", 1e-5)
_approximate("coarse product", "mm", 1e-4)


@wrong("product in bf16", "mm")
def _bf16(op: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return op(x.to(torch.bfloat16), y.to(torch.bfloat16)).to(x.dtype)


@wrong("product in short mantissas", "mm")
def _tf32(op: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return op(*((v.view(torch.int32) & ~0x1FFF).view(torch.float32) for v in (x, y)))


@wrong("other mask", "native_dropout bernoulli")
def _other_mask(op: Any, x: torch.Tensor, *rest: Any) -> Any:
    torch.rand(1)
    return op(x, *rest)


@wrong("rand drawn twice", "rand_like randn_like rand randn")
def _twice(op: Any, *args: Any, **kwargs: Any) -> Any:
    op(*args, **kwargs)
    return op(*args, **kwargs)


@wrong("lost mask", "where")
def _lost(op: Any, c: Any, a: Any, b: Any) -> Any:
    return torch.where(torch.ones_like(c), a, b)


@wrong("swallowed NaN", "maximum relu clamp clamp_min amax")
def _swallowed(op: Any, x: torch.Tensor, *rest: Any, **kwargs: Any) -> Any:
    return op(x.nan_to_num(nan=0.0, posinf=math.inf, neginf=-math.inf), *rest, **kwargs)


@wrong("saturated infinity", "exp")
def _saturated(op: Any, x: torch.Tensor) -> torch.Tensor:
    return op(x).clamp(max=torch.finfo(x.dtype).max)


@wrong("float64 in float32", "sin cos exp")
def _narrow(op: Any, x: torch.Tensor) -> torch.Tensor:
    return op(x.float()).double()


@wrong("index off by one", "embedding index_select gather")
def _shifted(op: Any, x: torch.Tensor, *rest: Any) -> torch.Tensor:
    made = [(r - 1).clamp(min=0) if isinstance(r, torch.Tensor) else r for r in rest]
    return op(x, *made)


@wrong("greater or equal", "gt")
def _equal(op: Any, x: Any, y: Any) -> Any:
    return torch.ge(x, y)


@wrong("last argument of the largest", "argmax")
def _last(op: Any, x: torch.Tensor, dim: int, *rest: Any) -> torch.Tensor:
    return x.shape[dim] - 1 - op(x.flip(dim), dim, *rest)


@wrong("remainder lost at the border", "avg_pool2d")
def _border(op: Any, x: torch.Tensor, *rest: Any) -> torch.Tensor:
    out = op(x, *rest).clone()
    out[..., -1] *= 0.99
    return out
