"""`associative_scan`, unrolled into the graph where torch's `vmap` of the combining function is the function itself.

Eager maps the function over the slices of a level. Applied to a whole level, it does the same if it computes element by element; anything
else is a break. Models call it only when they see that they are being compiled.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch

from dynamo.source import const_source
from dynamo.symbolic.protocols.attributes import tx_call
from dynamo.symbolic.torch.polyfills import combine_first, generic_scan
from dynamo.symbolic.torch.regions import region, tensors_of, without_effects
from dynamo.symbolic.values.errors import BreakError
from dynamo.symbolic.values.kinds import FunctionValue, TensorValue, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.fx import Graph

    from dynamo.symbolic.attempt.tracer import Tracer

_ELEMENTWISE = frozenset(
    """
    add sub mul truediv div true_divide neg exp expm1 log log1p sqrt rsqrt sigmoid tanh sin cos abs relu square reciprocal maximum minimum
    logaddexp where lt le gt ge eq ne logical_and logical_or logical_not and_ or_ xor select
    """.split()  # noqa: SIM905  # a list of words
)


def scan(tx: Tracer, fn: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Unroll, or break so that eager runs (and checks) the call."""
    assert fn.obj is not None  # torch's own function
    try:
        given = inspect.signature(fn.obj).bind(*args, **kwargs).arguments
    except TypeError as e:
        raise _native(tx, "with these arguments", e) from e
    combine, xs = given["combine_fn"], given["xs"]
    plain = [tx.try_python(given[name]) for name in ("dim", "reverse", "combine_mode") if name in given]
    named = dict(zip((name for name in ("dim", "reverse", "combine_mode") if name in given), plain, strict=True))
    mode = named.get("combine_mode")
    if None in plain or mode is None or mode[0] != "generic":
        raise _native(tx, "that is not generic")
    if type(named["dim"][0]) is not int or type(named.get("reverse", (False,))[0]) is not bool:
        raise _native(tx, "with these arguments")
    dim, reverse = given["dim"], given.get("reverse", tx.wrap(False, None))
    leaves = list(tensors_of(tx, xs))
    if not leaves or any(v.fake.shape != leaves[0].fake.shape or v.fake.dtype != leaves[0].fake.dtype for v in leaves):
        raise _native(tx, "of tensors of several kinds")
    at: int = named["dim"][0]
    shape = leaves[0].fake.shape
    if not -len(shape) <= at < len(shape) or shape[at] == 0:
        raise _native(tx, "over a dimension that isn't there")
    _rehearse(tx, combine, xs, dim, leaves[0], at % len(shape))
    return _inlined(tx, generic_scan, [combine, xs, dim, reverse])


def _native(tx: Tracer, why: str, cause: BaseException | None = None) -> BreakError:
    return tx.break_("DD022", f"associative_scan {why}", cause=cause)


def _inlined(tx: Tracer, fn: Callable[..., Any], args: list[Value]) -> Value:
    return tx_call(tx, tx.wrap(fn, const_source(fn, fn.__name__)), args)


def _rehearse(tx: Tracer, combine: Value, xs: Value, dim: Value, leaf: TensorValue, at: int) -> None:
    """Combine the first slices on the side: every step must give a tensor like a slice."""
    shape = (*leaf.fake.shape[:at], *leaf.fake.shape[at + 1 :])
    with region(tx) as scope, without_effects(tx, f"{combine.describe()} under associative_scan"):
        _inlined(tx, combine_first, [combine, xs, dim])
    if not _is_elementwise(scope.graph, shape, leaf.fake.dtype):
        raise _native(tx, "of a function that is not computed element by element")


def _is_elementwise(graph: Graph, shape: tuple[int, ...], dtype: torch.dtype) -> bool:
    for node in graph.nodes:
        val = node.meta.get("val")
        if not isinstance(val, torch.Tensor) or val.dtype not in (dtype, torch.bool):
            return False
        if node.op == "placeholder":
            if val.dim() > len(shape) + 1:
                return False
            continue
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        if name not in _ELEMENTWISE or tuple(val.shape) != shape:
            return False
    return True
