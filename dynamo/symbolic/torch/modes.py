"""Global modes of torch: grad mode, autocast, default dtype, determinism, inference mode, random state.

A setter is really called while tracing (so that fakes see the mode), put into the graph (so that the running graph switches
as eager does), and undone when tracing ends. A getter is answered from the real mode; most modes are part of the state guard,
the others are guarded where they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from dynamo.graph import helpers as graph_helpers
from dynamo.source import const_source
from dynamo.surroundings.modes import autocast_nesting, plain_modes
from dynamo.symbolic.protocols.registry import FUNCTIONS, constructor, function, method
from dynamo.symbolic.values.kinds import NONE, Const, GraphValue, OpaqueValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

    Args = list[Value]
    Kwargs = dict[str, Value]

_C = torch._C
_Getter = Callable[..., Any]


def _switch(tx: Tracer, setter: Callable[..., Any], args: list[Any], undo: Callable[[], Any]) -> None:
    setter(*args)
    tx.effects.on_exit.append(undo)
    tx.switched.add(setter)
    tx.add_node("call_function", setter, tuple(args), {}, None)


def _plain(tx: Tracer, setter: Callable[..., Any], args: Args, kwargs: Kwargs) -> list[Any]:
    known = tx.try_python(*args, *kwargs.values())
    if known is None:
        raise tx.break_("DD010", f"argument of {getattr(setter, '__name__', setter)}")
    return known


# ---- modes with one value ---------------------------------------------------------------------------------


def _add_mode(setter: Callable[..., Any], getter: _Getter, guarded: bool, is_traced: bool) -> None:
    """`guarded`: the state guard of every entry covers the mode. `is_traced`: see `plain_modes`."""

    def row(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
        known = _plain(tx, setter, args, kwargs)
        before = getter()
        if before == known[0] and type(before) is type(known[0]):
            if not guarded:
                _guard_mode(tx, setter, getter, before)
            return NONE
        if not is_traced:
            _read_by_kernels(tx, setter)
        _switch(tx, setter, known, lambda: setter(before))
        return NONE

    def read(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
        now = getter(*_plain(tx, getter, args, kwargs))
        if not guarded:
            _guard_mode(tx, setter, getter, now)
        return tx.wrap(now, None)

    FUNCTIONS.add(setter)(row)
    FUNCTIONS.add(getter)(read)


def _read_by_kernels(tx: Tracer, setter: Callable[..., Any]) -> None:
    """Kernels read the mode when they run, so it is switched between graphs; under `fullgraph` the graph runs as it was captured."""
    if not tx.fullgraph:
        raise tx.break_("DD022", f"{setter.__name__} with another value: kernels read that mode while they run")


def _guard_mode(tx: Tracer, setter: Callable[..., Any], getter: _Getter, now: Any) -> None:
    if setter not in tx.switched:
        tx.guard(const_source(getter, f"{getter.__name__}()").step("call", call_it), "eq", now)


def call_it(fn: Callable[[], Any]) -> Any:
    """The step of a guard on what a function without arguments says."""
    return fn()


# covered by the state guard of every entry
_GUARDED = frozenset({"_set_grad_enabled", "_set_default_dtype", "set_autocast_cache_enabled", "_set_float32_matmul_precision"})
for _setter, _getter, _is_traced in plain_modes():
    _add_mode(_setter, _getter, _setter.__name__ in _GUARDED, _is_traced)


# ---- autocast ---------------------------------------------------------------------------------------------


def _per_device(setter: Callable[..., Any], getter: _Getter) -> None:
    """Autocast settings: (device, value), or the old form (value) that means cuda."""

    def row(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
        known = _plain(tx, setter, args, kwargs)
        device = known[0] if len(known) > 1 else "cuda"
        before = getter(device)
        if before == known[-1]:
            return NONE
        _switch(tx, setter, known, lambda: setter(device, before))
        return NONE

    FUNCTIONS.add(setter)(row)


_per_device(torch.set_autocast_enabled, torch.is_autocast_enabled)
_per_device(torch.set_autocast_dtype, torch.get_autocast_dtype)


if hasattr(_C, "_set_fp32_precision_setter"):

    @function(_C._set_fp32_precision_setter)
    def _fp32_precision(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
        backend, op, precision = _plain(tx, _C._set_fp32_precision_setter, args, kwargs)
        before = _C._get_fp32_precision_getter(backend, op)
        if before != precision:
            _read_by_kernels(tx, _C._set_fp32_precision_setter)
            undo = partial(_C._set_fp32_precision_setter, backend, op, before)
            _switch(tx, _C._set_fp32_precision_setter, [backend, op, precision], undo)
        return Const(precision)


@function(torch.autocast_increment_nesting)
def _increment(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    _switch(tx, torch.autocast_increment_nesting, [], torch.autocast_decrement_nesting)
    return Const(autocast_nesting())


@function(torch.autocast_decrement_nesting)
def _decrement(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    _switch(tx, torch.autocast_decrement_nesting, [], torch.autocast_increment_nesting)
    return Const(autocast_nesting())


@function(torch.clear_autocast_cache)
def _clear_cache(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """Only the running graph clears it: tracing must not drop what eager code put there."""
    tx.add_node("call_function", torch.clear_autocast_cache, (), {}, None)
    return NONE


@function(_C._set_deterministic_algorithms)
def _deterministic(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    mode, *rest = _plain(tx, _C._set_deterministic_algorithms, args, kwargs)
    warn_only = bool(rest and rest[0])
    before = (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled())
    if before == (mode, warn_only):
        return NONE
    _read_by_kernels(tx, torch.use_deterministic_algorithms)
    _C._set_deterministic_algorithms(mode, warn_only=warn_only)
    tx.effects.on_exit.append(lambda: _C._set_deterministic_algorithms(before[0], warn_only=before[1]))
    tx.add_node("call_function", torch.use_deterministic_algorithms, (mode,), {"warn_only": warn_only}, None)
    return NONE


# ---- inference mode ---------------------------------------------------------------------------------------


@constructor(_C._InferenceMode)
def _inference_mode(tx: Tracer, cls: type, args: Args, kwargs: Kwargs) -> Value:
    (mode,) = _plain(tx, cls, args, kwargs)
    guard = graph_helpers.enter_inference_mode(bool(mode))
    node = tx.add_node("call_function", graph_helpers.enter_inference_mode, (bool(mode),), {}, guard)
    open_ = [True]

    def leave() -> None:
        if open_:
            open_.clear()
            guard.__exit__(None, None, None)

    tx.effects.on_exit.append(leave)
    node.meta["leave"] = leave
    return GraphValue(node, cls, tx.root_step)


# pybind methods are plain C functions below an `instancemethod`
@function(_C._InferenceMode.__dict__["__enter__"].__func__)
def _inference_enter(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """The mode was switched when the object was made: torch makes and enters it in one breath."""
    return args[0]


@function(_C._InferenceMode.__dict__["__exit__"].__func__)
def _inference_exit(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    self_ = args[0]
    if not isinstance(self_, GraphValue):
        raise tx.break_("DD022", "leaving an inference mode entered before the frame")
    self_.node.meta["leave"]()
    tx.add_node("call_function", graph_helpers.exit_inference_mode, (tx.builder.node_here(self_.node),), {}, None)
    return NONE


@method(torch.device.__enter__, torch.device.__exit__)
def _device_context(tx: Tracer, self_: Value, args: Args, kwargs: Kwargs) -> Value:
    raise tx.break_("DD022", "torch.device as a context manager")


# ---- random state -----------------------------------------------------------------------------------------


@function(torch.manual_seed, torch.random.manual_seed)
def _manual_seed(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """Only the running graph seeds: tracing draws nothing.

    Its node names the function by `torch.random`: torch puts another one in the place of `torch.manual_seed` when it imports its compiler.
    """
    (seed,) = _plain(tx, torch.random.manual_seed, args, kwargs)
    tx.add_node("call_function", torch.random.manual_seed, (seed,), {}, None)
    return OpaqueValue(torch.Generator, torch.default_generator, const_source(torch.default_generator, "default_generator"))


@function(torch.get_rng_state)
def _get_rng_state(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    with tx.builder.mode:
        state = torch.empty(_RNG_BYTES, dtype=torch.uint8)
    return tx.wrap_output(tx.add_node("call_function", torch.random.get_rng_state, (), {}, state), state)


@function(torch.set_rng_state)
def _set_rng_state(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    (state,) = [*args, *kwargs.values()]
    tx.add_node("call_function", torch.random.set_rng_state, (tx.to_fx(state),), {}, None)
    return NONE


_RNG_BYTES = torch.get_rng_state().numel()


@function(torch.seed, torch.initial_seed)
def _seed(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    raise tx.break_("DD003", "the seed of the random generator")
