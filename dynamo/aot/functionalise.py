"""What makes a recorded program functional: the forms of writing ATen ops that don't write, and how to undo a view.

A write to a view is a write to what it views: `select_scatter` undoes `select`, `slice_scatter` undoes `slice`, a reshape is
undone by the reshape back. Those rows are the views of aten/src/ATen/FunctionalInverses.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch.fx import Node

from dynamo.aot import rng  # noqa: F401  # declares an operator
from dynamo.aot.facts import Step
from dynamo.ops.facts import facts_of, unwritten_form
from dynamo.ops.rows import KEEPS_SHAPE_OF_OUT

aten = torch.ops.aten
OpOverload = torch._ops.OpOverload


# functional forms whose name does not follow from the op's
_FUNCTIONAL: dict[Any, Any] = {
    aten.native_batch_norm.default: aten._native_batch_norm_legit_functional.default,
    aten._native_batch_norm_legit.default: aten._native_batch_norm_legit_functional.default,
    aten.normal_.default: aten.normal_functional.default,
    getattr(aten.random_, "from"): torch.ops.dynamo_debug.random_from.default,
    aten.fill_.Scalar: aten.fill.Scalar,
    aten.fill_.Tensor: aten.fill.Tensor,
    aten.zero_.default: aten.zero.default,
}

# ops that compute in the dtype of `out` where no dtype is given, instead of casting what they would return without it
_COMPUTES_AS_OUT = frozenset({"sum", "prod", "mean", "nansum", "cumsum", "cumprod"})

# the same of ops that take no dtype: only they themselves compute so
_COMPUTES_AS_OUT_ONLY = frozenset({"var", "std", "logsumexp"})

# numbers become bytes before they are asked for their truth, where there are several: 0.3 and 256 are then false
_ASKS_BYTES = frozenset({"any", "all"})

_MULTI = frozenset({aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int, aten.chunk.default, aten.tensor_split.sections})


@cache
def functional_form(op: Any) -> Any:
    """The op that computes the same and writes nothing, or None. It returns the op's fresh results, then what was written."""
    known = _FUNCTIONAL.get(op)
    if known is not None:
        return known
    training = facts_of(op).training
    if training is not None and training.how == "writes":
        return None
    return unwritten_form(op)


def form_of_call(op: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The functional form, unless it would compute in another dtype than `out` has the op compute in, or give another shape."""
    out = kwargs.get("out")
    name = op._schema.name.removeprefix("aten::")
    if isinstance(out, torch.Tensor):
        if name in _COMPUTES_AS_OUT_ONLY and out.dtype != args[0].dtype:
            return None
        if name in KEEPS_SHAPE_OF_OUT and out.dim() != 1:
            return None
        if name in _ASKS_BYTES and out.dtype is torch.uint8 and args[0].dtype not in (torch.bool, torch.uint8):
            return None
    return functional_form(op)


def missing_arguments(op: Any, form: Any, given: int) -> list[Any]:
    """Defaults of `op` that its functional form wants spelled out."""
    if isinstance(form, Cloned):
        return []
    found: list[Any] = []
    for mine, theirs in zip(op._schema.arguments[given:], form._schema.arguments[given:], strict=False):
        if theirs.kwarg_only or theirs.has_default_value():
            break
        found.append(mine.default_value)
    return found


def options_from_out(op: Any, form: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What the functional form of an out= op must be told because there is no `out` to go by."""
    out = kwargs.get("out")
    name = op._schema.name.removeprefix("aten::")
    if not isinstance(out, torch.Tensor) or name not in _COMPUTES_AS_OUT or isinstance(form, Cloned):
        return {}
    takes_dtype = any(a.name == "dtype" and a.kwarg_only for a in form._schema.arguments)
    return {"dtype": out.dtype} if takes_dtype and kwargs.get("dtype") is None else {}


class Cloned:
    """A writing op that has no functional form: clones what it writes, runs it, returns its results and the clones.

    Called with the op's own arguments; the result is one flat tuple.
    """

    def __init__(self, op: Any, writes: tuple[int | str, ...]) -> None:
        self.op = op
        self.writes = writes
        self.__name__ = f"functional_{op._schema.name.rpartition('::')[2]}"
        self.__qualname__ = self.__name__
        self.__module__ = __name__

    def __repr__(self) -> str:
        return f"{self.__name__}[{self.op}]"

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        given = list(args)
        clones: list[torch.Tensor] = []
        for where in self.writes:
            held: Any = kwargs if isinstance(where, str) else given
            if isinstance(where, str) or where < len(given):
                held[where] = _clone(held[where], clones)
        out = self.op(*given, **kwargs)
        fresh = [o for o in flat(out) if not any(o is c for c in clones)]
        return (*fresh, *clones)


def _clone(value: Any, clones: list[torch.Tensor]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_clone(v, clones) for v in value]
    if not isinstance(value, torch.Tensor):
        return value
    clones.append(value.clone())
    return clones[-1]


def flat(value: Any) -> list[Any]:
    """Tensors of a nested result, in order; None and numbers are dropped."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in flat(v)]
    return []


def laid_out_as(like: torch.Tensor, node: Node, emit: Callable[..., Any]) -> Node:
    """The value of a node in the layout of a tensor. A form that doesn't write may lay out its results otherwise than the operator does."""
    val = node.meta["val"]
    if val.stride() == like.stride():
        return node
    empty = emit(aten.empty_strided.default, list(like.shape), list(like.stride()), dtype=val.dtype, device=val.fake_device)
    made: Node = emit(aten.copy.default, empty, node)
    return made


def is_multi(op: Any) -> bool:
    return op in _MULTI


def part_steps(op: Any, args: tuple[Any, ...], outs: list[Any]) -> list[Step]:
    """One slice or select per result of a splitting op."""
    shape = args[0].shape
    if op is aten.unbind.int:
        dim = args[1] if len(args) > 1 else 0
        return [Step(aten.select.int, (dim, i), among=True) for i in range(len(outs))]
    dim = args[2] if len(args) > 2 else 0
    steps, at = [], 0
    for out in outs:
        size = out.shape[dim]
        steps.append(Step(aten.slice.Tensor, (dim, at, at + size), among=True))
        at += size
    assert at <= shape[dim]
    return steps


# (view op) -> (parent's val, step arguments) -> how to get the new parent from the new view: (op, takes parent, arguments)
Undo = Callable[[Any, tuple[Any, ...]], tuple[Any, bool, tuple[Any, ...]]]


def _reshape_back(parent: Any, args: tuple[Any, ...]) -> tuple[Any, bool, tuple[Any, ...]]:
    return aten.view.default, False, (list(parent.shape),)


def _permute_back(parent: Any, args: tuple[Any, ...]) -> tuple[Any, bool, tuple[Any, ...]]:
    dims = [d % max(parent.dim(), 1) for d in args[0]]
    return aten.permute.default, False, ([dims.index(i) for i in range(len(dims))],)


def _scatter(op: Any) -> Undo:
    return lambda parent, args: (op, True, args)


def _again(op: Any) -> Undo:
    return lambda parent, args: (op, False, args)


def _dtype_back(parent: Any, args: tuple[Any, ...]) -> tuple[Any, bool, tuple[Any, ...]]:
    return aten.view.dtype, False, (parent.dtype,)


def _squeeze_back(parent: Any, args: tuple[Any, ...]) -> tuple[Any, bool, tuple[Any, ...]]:
    return aten.view.default, False, (list(parent.shape),)


UNDO: dict[Any, Undo] = {
    aten.select.int: _scatter(aten.select_scatter.default),
    aten.slice.Tensor: _scatter(aten.slice_scatter.default),
    aten.diagonal.default: _scatter(aten.diagonal_scatter.default),
    aten.as_strided.default: _scatter(aten.as_strided_scatter.default),
    aten.view.default: _reshape_back,
    aten._reshape_alias.default: _reshape_back,
    aten.squeeze.default: _squeeze_back,
    aten.squeeze.dim: _squeeze_back,
    aten.squeeze.dims: _squeeze_back,
    aten.unsqueeze.default: _squeeze_back,
    aten.permute.default: _permute_back,
    aten.transpose.int: _again(aten.transpose.int),
    aten.t.default: _again(aten.t.default),
    aten.view.dtype: _dtype_back,
    aten.view_as_real.default: _again(aten.view_as_complex.default),
    aten.view_as_complex.default: _again(aten.view_as_real.default),
    aten._conj.default: _again(aten._conj.default),
    aten._neg_view.default: _again(aten._neg_view.default),
}

# in-place ops that only change metadata, and the view they amount to
# What hides from autograd that it gives views, and the views: some of torch's own operators write to their `out` through one
HIDDEN_VIEWS: dict[Any, Any] = {
    aten._unsafe_view.default: aten.view.default,
    aten.unsafe_split.Tensor: aten.split.Tensor,
    aten.unsafe_split_with_sizes.default: aten.split_with_sizes.default,
}

VIEW_OF_IN_PLACE: dict[Any, Any] = {
    aten.t_.default: aten.t.default,
    aten.transpose_.default: aten.transpose.int,
    aten.squeeze_.default: aten.squeeze.default,
    aten.squeeze_.dim: aten.squeeze.dim,
    aten.squeeze_.dims: aten.squeeze.dims,
    aten.unsqueeze_.default: aten.unsqueeze.default,
    aten.as_strided_.default: aten.as_strided.default,
    aten.swapdims_.default: aten.transpose.int,
    aten.swapaxes_.default: aten.transpose.int,
    aten.detach_.default: aten.detach.default,
}


def alias_source(node: Node) -> Node:
    """The node whose memory this one shows when views are not copied."""
    while node.op == "call_function":
        if isinstance(node.target, torch._ops.OpOverload):
            if not facts_of(node.target).views:
                return node
            node = node.args[0]  # type: ignore[assignment]  # a view has its base first
        elif getattr(node.target, "__name__", "") == "getitem" and _is_view_node(node.args[0]):
            node = node.args[0].args[0]  # type: ignore[union-attr, assignment]  # what it takes an item of is a call of a view
        else:
            return node
    return node


def _is_view_node(node: Any) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and facts_of(node.target).views
