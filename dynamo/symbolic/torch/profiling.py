"""Profilers and named ranges.

A range is nothing in a graph while no profiler runs: what is asked is guarded. While one runs, and where a frame breaks inside a range, the
program enters the range itself, so that it is in the profile with all it holds. Profilers are started and stopped between graphs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynamo.source import const_source
from dynamo.symbolic.protocols.attributes import getattr_, setattr_
from dynamo.symbolic.protocols.registry import FUNCTIONS, function
from dynamo.symbolic.values.kinds import NONE, Const, TracingState, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

    Args = list[Value]
    Kwargs = dict[str, Value]

_profiler = torch.autograd.profiler
_is_enabled = torch._C._autograd._profiler_enabled


class OpenRange(TracingState):
    """What a range of the trace keeps while it is open; a break inside moves to before the range."""

    cls = type(None)

    def describe(self) -> str:
        return "a named range of a profiler"


def _call(fn: Callable[[], Any]) -> Any:
    return fn()


@function(_is_enabled, torch.autograd._profiler_enabled)
def _enabled(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    now = bool(_is_enabled())
    tx.guard(const_source(_is_enabled, "_profiler_enabled()").step("call", _call), "eq", now)
    return Const(now)


# ---- ranges -----------------------------------------------------------------------------------------------


@function(_profiler.record_function.__init__)
def _make(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    self_, *rest = args
    known = tx.try_python(*rest, *kwargs.values())
    if known is None:
        raise tx.break_("DD010", "name of a range")
    real = _profiler.record_function(*known[: len(rest)], **dict(zip(kwargs, known[len(rest) :], strict=True)))
    for name, value in vars(real).items():
        setattr_(tx, self_, name, tx.wrap(value, None))
    return NONE


@function(_profiler.record_function.__enter__)
def _enter(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    (self_,) = args
    if _enabled(tx, [], {}).value:  # type: ignore[attr-defined]  # a Const
        raise tx.break_("DD022", "a named range while a profiler runs")
    setattr_(tx, self_, "record", OpenRange(tx))
    return self_


@function(_profiler.record_function.__exit__)
def _exit(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    self_ = args[0]
    if not isinstance(getattr_(tx, self_, "record"), OpenRange):
        raise tx.break_("DD022", "a named range that was entered before the graph")
    setattr_(tx, self_, "record", NONE)
    return NONE


# ---- profilers --------------------------------------------------------------------------------------------


def _switched(name: str) -> Callable[[Tracer, Args, Kwargs], Value]:
    def row(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
        raise tx.break_("DD022", f"{name} of a profiler")

    return row


for _cls in (torch.profiler.profile, torch.profiler._KinetoProfile, _profiler.profile, _profiler.emit_nvtx, _profiler.emit_itt):
    for _name, _method in vars(_cls).items():
        if inspect.isfunction(_method):
            FUNCTIONS.add(_method)(_switched(f"{_cls.__name__}.{_name}"))
