"""Changes for the rows of the second set: further correct ways to compute the same, and further wrong ones. See `changes.py`."""

from __future__ import annotations

from typing import Any

import torch

from tests.minifier.labelled.changes import _reduction, correct, wrong

_LOW = (torch.bfloat16, torch.float16)


def _halves(flat: torch.Tensor) -> torch.Tensor:
    while flat.shape[-1] > 1:
        n = flat.shape[-1] // 2
        rest = flat[..., 2 * n :]
        flat = torch.cat([flat[..., :n] + flat[..., n : 2 * n], rest], -1)
    return flat.sum(-1)


_reduction("pairwise sums", _halves)


@correct("folded batch norm", "_native_batch_norm_legit _native_batch_norm_legit_no_training native_batch_norm _batch_norm_with_update")
def _folded(op: Any, x: torch.Tensor, w: Any, b: Any, *rest: Any) -> Any:
    """One product and one sum per element, with mean and deviation folded into both."""
    out = op(x, w, b, *rest)
    shape = [1, -1] + [1] * (x.dim() - 2)
    eps = rest[-1]
    if not out[1].numel():  # in evaluation
        mean, inverse = rest[0], 1 / torch.sqrt(rest[1] + eps)
    else:
        mean, inverse = out[1], out[2]
    scale = inverse if w is None else inverse * w
    shift = -mean * scale if b is None else b - mean * scale
    return (x * scale.view(shape) + shift.view(shape), *out[1:])


@correct("fused epilogue", "mm addmm bmm")
def _unrounded(op: Any, *args: Any, **kwargs: Any) -> Any:
    """What follows a product of 16-bit matrices sees it in float32."""
    out = op(*(a.float() if isinstance(a, torch.Tensor) and a.dtype in _LOW else a for a in args), **kwargs)
    low = next((a.dtype for a in args if isinstance(a, torch.Tensor) and a.dtype in _LOW), None)
    if low is None:
        return out
    rounded = out.to(low)
    _kept[rounded.data_ptr()] = (rounded, out)
    if len(_kept) > 64:
        _kept.pop(next(iter(_kept)))
    return rounded


@correct("fused epilogue", "relu silu mul add gelu sigmoid tanh _to_copy")
def _epilogue(op: Any, *args: Any, **kwargs: Any) -> Any:
    known = [_kept.get(a.data_ptr()) if isinstance(a, torch.Tensor) and a.dtype in _LOW else None for a in args]
    wide = [k[1] if k is not None and k[0] is a else a for k, a in zip(known, args, strict=True)]
    out = op(*wide, **kwargs)
    low = next((a.dtype for a in args if isinstance(a, torch.Tensor) and a.dtype in _LOW), None)
    if low is None or kwargs or not isinstance(out, torch.Tensor) or out.dtype != torch.float32:
        return out
    rounded = out.to(low)
    _kept[rounded.data_ptr()] = (rounded, out)
    return rounded


_kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}


@correct("float64 inside", "*")
def _double(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Every operator in float64, rounded once."""
    if kwargs or not any(isinstance(a, torch.Tensor) and a.dtype == torch.float32 for a in args):
        return op(*args, **kwargs)
    out = op(*(a.double() if isinstance(a, torch.Tensor) and a.dtype == torch.float32 else a for a in args))
    many = isinstance(out, (tuple, list))
    made = [o.float() if isinstance(o, torch.Tensor) and o.dtype == torch.float64 else o for o in (out if many else [out])]
    return tuple(made) if many else made[0]


@correct("powers by multiplication", "pow")
def _powers(op: Any, x: Any, n: Any) -> Any:
    if not isinstance(n, int) or not 1 <= n <= 8:
        return op(x, n)
    out = x
    for _ in range(n - 1):
        out = out * x
    return out


@correct("reciprocal of a number", "div")
def _by_number(op: Any, x: Any, y: Any, **kwargs: Any) -> Any:
    return x * (1.0 / y) if isinstance(y, (int, float)) and not kwargs else op(x, y, **kwargs)


@correct("sigmoid by exp", "sigmoid")
def _sigmoid(op: Any, x: torch.Tensor) -> torch.Tensor:
    return 1.0 / (1.0 + torch.exp(-x))


@correct("sigmoid by exp", "silu")
def _silu(op: Any, x: torch.Tensor) -> torch.Tensor:
    return x / (1.0 + torch.exp(-x))


@correct("shuffled accumulation", "index_put _unsafe_index_put")
def _accumulated(op: Any, x: torch.Tensor, indices: Any, values: torch.Tensor, accumulate: bool = False) -> torch.Tensor:
    order = torch.randperm(values.shape[0], generator=torch.Generator().manual_seed(3))
    return op(x, [i[order] for i in indices], values[order], accumulate)


# ---- wrong ----


@wrong("gradient of all", "threshold_backward")
def _all(op: Any, grad: torch.Tensor, *rest: Any) -> torch.Tensor:
    return grad.clone()


@wrong("gradient without the derivative", "sigmoid_backward")
def _plain(op: Any, grad: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return grad * out


@wrong("gradient of the other gelu", "gelu_backward")
def _gelu(op: Any, grad: torch.Tensor, x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    return op(grad, x, approximate="tanh")


@wrong("gradient of the last alone", "embedding_dense_backward")
def _last(op: Any, grad: torch.Tensor, index: torch.Tensor, rows: int, *rest: Any) -> torch.Tensor:
    return grad.new_zeros(rows, grad.shape[-1]).index_put((index,), grad)


@wrong("softmax without its maximum", "_softmax")
def _bare(op: Any, x: torch.Tensor, dim: int, half: bool) -> torch.Tensor:
    return x.exp() / x.exp().sum(dim, keepdim=True)


@wrong("variance of a population", "var")
def _population(op: Any, x: torch.Tensor, dims: Any = None, **kwargs: Any) -> torch.Tensor:
    return op(x, dims, **{**kwargs, "correction": 0})


@wrong("statistics kept", "_native_batch_norm_legit native_batch_norm _batch_norm_with_update _native_batch_norm_legit_functional")
def _statistics(op: Any, x: torch.Tensor, w: Any, b: Any, mean: Any, var: Any, *rest: Any) -> Any:
    out = op(x, w, b, mean.clone(), var.clone(), *rest)
    return (*out[:3], mean.clone(), var.clone()) if "functional" in str(op) else out


def _own_type(flat: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(flat.shape[:-1], dtype=torch.bfloat16)
    for column in flat.unbind(-1):
        total = total + column.to(torch.bfloat16)
    return total.float()


_reduction("running sums in their own type", _own_type, wrong)


@wrong("last column lost", "mm")
def _column(op: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return op(x[:, :-1], y[:-1])


@wrong("remainder of the other sign", "remainder")
def _fmod(op: Any, x: Any, y: Any) -> Any:
    return torch.fmod(x, y)


@wrong("halves rounded up", "round")
def _up(op: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.floor(x + 0.5)


@wrong("whole numbers of 32 bits", "sum")
def _short(op: Any, x: torch.Tensor, *rest: Any, **kwargs: Any) -> torch.Tensor:
    return op(x.int(), *rest, dtype=torch.int32).long()


@wrong("one late", "cumsum")
def _late(op: Any, x: torch.Tensor, dim: int, **kwargs: Any) -> torch.Tensor:
    return op(x, dim) - x


@wrong("triangle, one more", "tril")
def _triangle(op: Any, x: torch.Tensor, diagonal: int = 0) -> torch.Tensor:
    return op(x, diagonal + 1)


@wrong("duplicates lost", "index_put _unsafe_index_put")
def _duplicates(op: Any, x: torch.Tensor, indices: Any, values: torch.Tensor, accumulate: bool = False) -> torch.Tensor:
    return op(x, indices, values, False)


@wrong("or for and", "logical_and")
def _or(op: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.logical_or(x, y)


@wrong("no NaN", "isnan")
def _no_nan(op: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x, dtype=torch.bool)


@wrong("no NaN", "ne")
def _no_difference(op: Any, x: Any, y: Any) -> Any:
    return torch.zeros_like(x, dtype=torch.bool) if x is y else op(x, y)


@wrong("logarithm of the smallest", "log")
def _smallest(op: Any, x: torch.Tensor) -> torch.Tensor:
    return op(x.clamp(min=torch.finfo(x.dtype).tiny))


@wrong("mask of the other sign", "masked_fill where")
def _turned(op: Any, *args: Any) -> torch.Tensor:
    return op(*(~a if isinstance(a, torch.Tensor) and a.dtype == torch.bool else a for a in args))


@wrong("dropout unscaled", "native_dropout")
def _unscaled(op: Any, x: torch.Tensor, p: float, train: Any) -> Any:
    mask = op(x, p, train)[1]
    return x * mask, mask


@wrong("dropout unscaled", "bernoulli")
def _scaled_mask(op: Any, x: torch.Tensor, *rest: Any) -> Any:
    return op(x, *rest) * 0.5


@wrong("order of ties", "sort")
def _ties(op: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    values, at = op(x.flip(-1), *args, **kwargs)
    return values, x.shape[-1] - 1 - at


@wrong("softmax in bf16", "_log_softmax")
def _low_softmax(op: Any, x: torch.Tensor, dim: int, half: bool) -> torch.Tensor:
    return op(x.to(torch.bfloat16), dim, False).to(torch.float32 if half else x.dtype)


@wrong("one element off", "exp")
def _element(op: Any, x: torch.Tensor) -> torch.Tensor:
    out = op(x).clone()
    out.view(-1)[out.numel() // 2] *= 1.0001
    return out


@wrong("coarse square root", "sqrt")
def _root(op: Any, x: torch.Tensor) -> torch.Tensor:
    return op(x) * (1 + 3e-6)


@wrong("conjugate", "exp")
def _conjugate(op: Any, x: torch.Tensor) -> torch.Tensor:
    return op(x).conj().resolve_conj() if x.is_complex() else op(x)
