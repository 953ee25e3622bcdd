"""Autograd state of tensors: what makes or changes a leaf, and gradients that no graph can hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynamo.symbolic.protocols.registry import FUNCTIONS, method
from dynamo.symbolic.torch.tensors import set_flag
from dynamo.symbolic.values.kinds import FALSE, TRUE, TensorValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

    Args = list[Value]
    Kwargs = dict[str, Value]

Base = torch._C.TensorBase


@method(Base.requires_grad_)
def _requires_grad_(tx: Tracer, self_: TensorValue, args: Args, kwargs: Kwargs) -> Value:
    set_flag(tx, self_, args[0] if args else kwargs.get("requires_grad", TRUE))
    return self_


@method(Base.detach_)
def _detach_(tx: Tracer, self_: TensorValue, args: Args, kwargs: Kwargs) -> Value:
    if self_.fake.requires_grad and self_.obj is not None:
        raise tx.break_("DD027", f"{self_.describe()} is cut off from its history")
    return tx.call_method("detach_", [self_, *args], kwargs)


# ---- sparse gradients -------------------------------------------------------------------------------------


def _is_sparse(tx: Tracer, weight: Value, flag: Value) -> bool:
    """Whether the gradient of `weight` will be a sparse tensor, which no graph describes."""
    return isinstance(weight, TensorValue) and weight.fake.requires_grad and torch.is_grad_enabled() and tx.try_python(flag) != [False]


def _given(place: tuple[str, int], args: Args, kwargs: Kwargs) -> Value:
    name, position = place
    return kwargs[name] if name in kwargs else args[position] if position < len(args) else FALSE


def _sparse_function(fn: Callable[..., Any], weight: tuple[str, int], flag: tuple[str, int]) -> None:
    def row(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
        if _is_sparse(tx, _given(weight, args, kwargs), _given(flag, args, kwargs)):
            raise tx.break_("DD011", f"a sparse gradient of {fn.__name__}")
        return tx.call_function(fn, args, kwargs)

    FUNCTIONS.add(fn)(row)


# function, the tensor whose gradient it is, the flag that asks for it
_SPARSE: tuple[tuple[Callable[..., Any], tuple[str, int], tuple[str, int]], ...] = (
    (torch.nn.functional.embedding, ("weight", 1), ("sparse", 6)),
    (torch.nn.functional.embedding_bag, ("weight", 1), ("sparse", 7)),
    (torch.embedding, ("weight", 0), ("sparse", 4)),
    (torch.embedding_bag, ("weight", 0), ("sparse", 5)),
    (torch.gather, ("input", 0), ("sparse_grad", 3)),
)
for _fn, _weight, _flag in _SPARSE:
    _sparse_function(_fn, _weight, _flag)


@method(Base.gather)
def _gather(tx: Tracer, self_: TensorValue, args: Args, kwargs: Kwargs) -> Value:
    if _is_sparse(tx, self_, _given(("sparse_grad", 2), args, kwargs)):
        raise tx.break_("DD011", "a sparse gradient of gather")
    return tx.call_method("gather", [self_, *args], kwargs)
