"""One (operator, dtype) of torch's test database through the public API: is compiled equal to eager, and how was it compiled.

The samples of a case are one program, so they cost one capture and one call of the C compiler; when that program is wrong, every
sample is tried alone, which says where. How a case was compiled is read from the events of the compile.
"""

from __future__ import annotations

import contextlib
import math
import random
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_device_type import precisionOverride, tol, toleranceOverride
from torch.testing._internal.opinfo.core import DecorateInfo
from torch.utils._pytree import tree_flatten, tree_map

import dynamo
from dynamo.trace import Store, session
from dynamo.trace.events import CompileEnded, FrameSkipped, GraphBroke, GraphLowered, Note
from repro_corpus.observe import seed
from tests.samples import draw as drawn_samples

SAMPLES = 3
SEED = 42
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)
WITH_GRADIENTS = (torch.float32, torch.float64)

# torch.testing's own defaults, which an OpInfo's overrides replace
DEFAULTS = {torch.float32: (1.3e-6, 1e-5), torch.float64: (1e-7, 1e-7), torch.bfloat16: (1.6e-2, 1e-5)}

# results are memory nobody wrote
UNDEFINED = frozenset("empty empty_like empty_permuted empty_strided new_empty new_empty_strided resize_ resize_as_".split())

Program = Callable[[Sequence[Any]], list[Any]]


@dataclass(frozen=True)
class Outcome:
    """`forward` and `backward` ('' where there is none): native, decomposed, extern or break. `wrong` is '' or what differs from eager."""

    forward: str
    backward: str
    wrong: str = ""
    externs: tuple[str, ...] = ()


def name_of(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def tolerances(op: Any, dtype: torch.dtype) -> dict[str, float]:
    """The widest tolerance the OpInfo allows itself anywhere for this dtype."""
    rtol, atol = DEFAULTS.get(dtype, (0.0, 0.0))
    for info in op.decorators:
        for decorator in info.decorators if isinstance(info, DecorateInfo) else [info]:
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                wider: tol = decorator.d[dtype]
                atol, rtol = max(atol, wider.atol), max(rtol, wider.rtol)
            if isinstance(decorator, precisionOverride) and dtype in decorator.d:
                atol = max(atol, decorator.d[dtype])
    return {"rtol": rtol, "atol": atol}


def program(op: Callable[..., Any]) -> Program:
    """The op on every sample. Its code object is its own, so that no two cases share a compile cache."""

    def run(samples: Sequence[Any]) -> list[Any]:
        return [op(first, *args, **kwargs) for first, args, kwargs in samples]

    return types.FunctionType(run.__code__.replace(), run.__globals__, "run", None, run.__closure__)


def copied(samples: Any) -> Any:
    """The same samples in memory of their own; tensors used twice stay the same tensor."""
    known: dict[int, torch.Tensor] = {}

    def copy(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in known:
            known[id(value)] = fresh(value)
        return known[id(value)]

    return tree_map(copy, samples)


def fresh(t: torch.Tensor) -> torch.Tensor:
    if t.layout != torch.strided:
        return t.detach().clone().requires_grad_(t.requires_grad)
    out = torch.empty(0, dtype=t.dtype, device=t.device)
    out.set_(t.untyped_storage().clone(), t.storage_offset(), t.shape, t.stride())
    return out.requires_grad_(t.requires_grad)


def tensors_in(tree: Any) -> list[torch.Tensor]:
    return [x for x in tree_flatten(tree)[0] if isinstance(x, torch.Tensor)]


def cotangent(out: torch.Tensor) -> torch.Tensor:
    """Different for every element, and the same for equal shapes."""
    return torch.linspace(0.5, 1.5, out.numel(), dtype=torch.float64).reshape(out.shape).to(out.device, out.dtype)


def evaluate(fn: Program, case: Case) -> list[Any]:
    """Results, then gradients of the inputs that require them."""
    samples = copied(case.samples)
    seed(SEED)
    out = fn(samples)
    results = list(tree_flatten(out)[0])
    if not case.gradients:
        return results
    ends = [t for one, finish in zip(out, case.finish, strict=True) for t in tensors_in(finish(one)) if t.requires_grad]
    leaves = [t for t in tensors_in(samples) if t.requires_grad]
    if not ends or not leaves:
        return results
    return [*results, *torch.autograd.grad(ends, leaves, [cotangent(e) for e in ends], allow_unused=True)]


def difference(actual: list[Any], expected: list[Any], case: Case) -> str:
    """'' when equal."""
    if len(actual) != len(expected):
        return f"{len(actual)} results for {len(expected)}"
    found = [text for i, pair in enumerate(zip(actual, expected, strict=True)) if (text := unequal(i, *pair, case))]
    return found[0] if found else ""


def unequal(i: int, a: Any, e: Any, case: Case) -> str:
    if type(a) is not type(e):
        return f"result {i} is a {type(a).__name__}, expected a {type(e).__name__}"
    if not isinstance(e, torch.Tensor):
        same = a == e or (a != a and e != e) or (isinstance(e, float) and math.isclose(a, e, rel_tol=1e-5))
        return "" if same else f"result {i}: {a!r} for {e!r}"
    for fact in ("shape", "dtype", "layout", "requires_grad"):
        if getattr(a, fact) != getattr(e, fact):
            return f"result {i}: {fact} is {getattr(a, fact)}, expected {getattr(e, fact)}"
    if case.op.name in UNDEFINED:
        return ""
    allowed = tolerances(case.op, e.dtype)
    a, e = a.detach(), e.detach()
    try:
        torch.testing.assert_close(a, e, equal_nan=True, check_stride=False, **allowed)
    except AssertionError as error:
        return f"result {i}: " + " ".join(str(error).split())[:200]
    return ""


_ORDER = ("native", "decomposed", "extern", "break")


def how(store: Store, backward: bool = False) -> tuple[str, tuple[str, ...]]:
    """The class of a compile, from its events, and its ATen calls."""
    if store.of(GraphBroke) or store.of(FrameSkipped) or any(e.outcome in ("error", "skipped") for e in store.of(CompileEnded)):
        return "break", ()
    if any(n.id in ("AOT001", "DI001", "DI002") for n in store.of(Note)):
        return "extern", ("the whole graph",)
    kinds, externs = {"native"}, set()
    for event in store.of(GraphLowered):
        if event.graph_id.endswith(".bw") == backward:
            kinds |= set(event.how.values()) - {"view"}
            externs |= {op.removeprefix("aten.") for op, kind in event.how.items() if kind == "extern"}
    return max(kinds, key=_ORDER.index), tuple(sorted(externs))


class Case:
    """The samples of one operator and dtype; `finish` makes an output one whose gradient is well defined."""

    def __init__(self, op: Any, dtype: torch.dtype, samples: Sequence[Any], finish: Sequence[Callable[[Any], Any]]) -> None:
        self.op, self.dtype, self.samples, self.finish = op, dtype, samples, finish
        self.gradients = dtype in WITH_GRADIENTS and op.supports_autograd

    def alone(self) -> list[Case]:
        return [Case(self.op, self.dtype, [s], [f]) for s, f in zip(self.samples, self.finish, strict=True)]

    def expected(self) -> list[Any] | Exception:
        """What eager gives, exceptions included: they are part of what compiled must give."""
        with quiet():
            try:
                return evaluate(program(self.op.op), self)
            except Exception as error:  # noqa: BLE001 whatever eager raises is the expectation
                return error

    def check(self) -> tuple[str, Store]:
        """'' or how compiled differs from eager, and the events of the compile."""
        expected = self.expected()
        with quiet(), session() as store, dynamo.config.patch(suppress_errors=False, c_optimize=1, force_disable_caches=True):
            try:
                actual: Any = evaluate(dynamo.compile(program(self.op.op), backend="inductor"), self)
            except Exception as error:  # noqa: BLE001 compared with eager's
                actual = error
        if isinstance(actual, Exception) or isinstance(expected, Exception):
            raises_alike = isinstance(actual, type(expected)) if isinstance(expected, Exception) else False
            return "" if raises_alike else f"{short(actual)} for {short(expected)}", store
        return difference(actual, expected, self), store


def draw(op: Any, dtype: torch.dtype, device: str = "cpu", count: int = SAMPLES) -> Case:
    """The first samples, always the same ones."""
    seed(SEED)
    random.seed(SEED)
    np.random.seed(SEED)
    gradients = dtype in WITH_GRADIENTS and op.supports_autograd
    with quiet():
        drawn = drawn_samples(op, dtype, count, device=device, requires_grad=gradients)
    samples = [(s.input, tuple(s.args), dict(s.kwargs)) for s in drawn]
    return Case(op, dtype, samples, [s.output_process_fn_grad for s in drawn])


def short(value: Any) -> str:
    return f"{type(value).__name__}: {' '.join(str(value).split())[:300]}" if isinstance(value, Exception) else "a result"


@contextlib.contextmanager
def samples_unseeded() -> Iterator[None]:
    """Samples of random operators seed inside the call, which no graph can hold. Here the seed is set before the call."""
    before = common_methods_invocations.wrapper_set_seed
    common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    try:
        yield
    finally:
        common_methods_invocations.wrapper_set_seed = before


def sweep(op: Any, dtype: torch.dtype) -> Outcome:
    with samples_unseeded():
        case = draw(op, dtype)
        wrong, store = case.check()
        if wrong and len(case.samples) > 1:
            alone = [(i, one.check()[0]) for i, one in enumerate(case.alone())]
            wrong = "; ".join(f"sample {i}: {text}" for i, text in alone if text) or f"together only: {wrong}"
    forward, externs = how(store)
    backward, _ = how(store, backward=True)
    return Outcome(forward, backward if case.gradients else "", wrong, externs)
