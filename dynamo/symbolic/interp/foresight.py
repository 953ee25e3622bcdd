"""Breaks that are certain before a call begins.

A break ends an attempt of the tracer, and the next attempt traces everything up to it again (`compile/capture.py`). Where the callee of
the root frame alone decides, the frame stops at the call at once, with nothing of it done: `loss.backward()` after a whole model, `print`,
a function that the user has disabled.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from dynamo.symbolic.protocols.registry import CERTAIN, CODES, FUNCTIONS, METHODS
from dynamo.symbolic.torch import policy
from dynamo.symbolic.torch.tensors import breaking_method, is_tensor_descriptor
from dynamo.symbolic.values.errors import BreakError
from dynamo.symbolic.values.kinds import BuiltinValue, FunctionValue, MethodValue, TensorValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer


def certain_break(tx: Tracer, fn: Value, receiver: Value | None) -> BreakError | None:
    """The break that calling `fn` is bound to be, or None. `receiver` is the first argument, where there is one. Changes nothing."""
    if isinstance(fn, MethodValue):
        return certain_break(tx, fn.fn, fn.self_)
    if not isinstance(fn, BuiltinValue | FunctionValue) or fn.obj is None:
        return None
    found = _row(fn, receiver)
    return tx.break_(*found) if found is not None else None


def _row(fn: BuiltinValue | FunctionValue, receiver: Value | None) -> tuple[str, str] | None:
    """(id, what), asked for in the order of `calls.call`: the function's own row, the user's marks, methods of tensors."""
    obj: Any = fn.obj
    if id(obj) in CERTAIN:
        return CERTAIN[id(obj)]
    if any(table.get(key) is not None for table, key in ((FUNCTIONS, obj), (METHODS, obj), (CODES, getattr(obj, "__code__", None)))):
        return None
    is_descriptor = isinstance(obj, types.MethodDescriptorType | types.WrapperDescriptorType)
    mark = "" if is_descriptor else policy.mark_of(obj)
    if mark in policy.REFUSALS:
        return policy.refusal(obj, mark)
    if mark or not isinstance(receiver, TensorValue):
        return None
    is_method = is_tensor_descriptor(obj) if is_descriptor else isinstance(fn, FunctionValue) and policy.is_tensor_function(fn)
    return breaking_method(obj.__name__, receiver) if is_method else None
