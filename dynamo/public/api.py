"""The public functions. Names and behaviour follow torch's compiler, old and new."""

from __future__ import annotations

import copyreg
import functools
import types
import weakref
from collections.abc import Callable
from typing import Any, Self, TypeVar

import torch

from dynamo import _C, internal_errors, marks, torch_facts
from dynamo.backends.registry import Backend, list_backends, lookup_backend, when_reset
from dynamo.bytecode.assemble import shown_as
from dynamo.compile.context import Context, EntryInfo, contexts
from dynamo.compile.frames import frame_handler
from dynamo.compile.misses import miss, why_missed
from dynamo.public.module import OptimizedModule, compiled_module, module_compiled
from dynamo.skipped import user_place
from dynamo.trace import emit, events

F = TypeVar("F", bound=Callable[..., Any])

_shared: weakref.WeakValueDictionary[Any, Context] = weakref.WeakValueDictionary()
_lasting: list[Context] = []  # those whose backend was not made for one use


def context_for(backend: str | Backend, *, fullgraph: bool = False, options: dict[str, Any] | None = None) -> Context:
    """One context per backend and options, so that compiling a function twice finds what was compiled before."""
    key = (backend if isinstance(backend, str) else id(backend), fullgraph, repr(sorted((options or {}).items())))
    ctx = _shared.get(key)
    if ctx is None or (not isinstance(backend, str) and ctx.backend is not backend):
        ctx = _shared[key] = Context(backend, miss, fullgraph=fullgraph, options=options)
        if isinstance(backend, str) or "<locals>" not in str(getattr(backend, "__qualname__", "<locals>")):
            _lasting.append(ctx)
    return ctx


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Compile a function, method, callable object or `nn.Module`; without `model`, a decorator.

    fullgraph: raise GraphBreakError instead of breaking the graph. mode and options go to the backend. dynamic: shapes are static
    in this version; True is accepted and noted. disable: return the model unchanged.
    Raises TypeError for something that can't be called and UnknownBackend for an unknown backend name.
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
        )
    if disable:
        return model
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"unknown mode {mode!r}; modes are {', '.join(_MODES)}")
    if dynamic:
        emit(events.Note("DD092", "dynamic=True: shapes are static in this version; each new shape compiles anew", "info"))
    merged = dict(options or {})
    if mode not in (None, "default") and backend == "inductor":
        merged["mode"] = mode
    return wrap_callable(model, context_for(backend, fullgraph=fullgraph, options=merged))


_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def wrap_callable(target: Any, ctx: Context) -> Any:
    """The compiled form of anything that can be called."""
    made = _compiled_form(target, ctx)
    if isinstance(target, types.FunctionType) and isinstance(made, _C.Compiled):
        vars(made).update(vars(target))  # as functools.wraps does
    return made


def _compiled_form(target: Any, ctx: Context) -> Any:
    if isinstance(target, _C.Compiled):
        return ctx.compiled(target.fn)  # type: ignore[arg-type]  # a Compiled holds a plain function
    if isinstance(target, OptimizedModule):
        return wrap_callable(target._orig_mod, ctx)
    if isinstance(target, torch.nn.Module):
        return OptimizedModule(target, compiled_module(target, ctx).__get__(target))
    if type(target) is types.FunctionType:
        return ctx.compiled(_calling(target) if _is_called_whole(target) else target)
    if isinstance(target, types.MethodType) and type(target.__func__) is types.FunctionType:
        return ctx.compiled(target.__func__).__get__(target.__self__)
    if isinstance(target, type):
        raise TypeError(f"can't compile the class {target.__name__}; compile its instances or methods")
    if not callable(target):
        raise TypeError(f"can't compile a {type(target).__name__}: it is not callable")
    return ctx.compiled(_forwarder(target))


def _saved(compiled: OptimizedModule) -> Any:
    """How `pickle` and `torch.save` keep it: its module, and how that is compiled where it is loaded."""
    ctx: Context = compiled._compiled.__func__.context  # type: ignore[attr-defined]  # a bound method
    by_name = ctx.backend_name in list_backends(()) and lookup_backend(ctx.backend_name)[1] is ctx.backend
    return _loaded, (compiled._orig_mod, ctx.backend_name if by_name else ctx.backend, ctx.fullgraph, ctx.options)


def _loaded(module: torch.nn.Module, backend: str | Backend, fullgraph: bool, options: dict[str, Any]) -> Any:
    return wrap_callable(module, context_for(backend, fullgraph=fullgraph, options=options))


copyreg.pickle(OptimizedModule, _saved)


def _forwarder(target: Callable[..., Any]) -> types.FunctionType:
    """A Python function for a callable that is none (a C function, an object with __call__)."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    assert type(call) is types.FunctionType
    call.__name__ = getattr(target, "__name__", type(target).__name__)
    call.__doc__ = target.__doc__
    called = target.func if isinstance(target, functools.partial) else type(target).__call__
    code = called.__code__ if type(called) is types.FunctionType else call.__code__
    name = code.co_qualname if code is not call.__code__ else call.__name__
    call.__code__ = shown_as(call.__code__, code, name)
    return call


def _is_called_whole(fn: types.FunctionType) -> bool:
    """Whether a function is captured by its call, and not by its code: GPUs have a kernel for it."""
    return (fn.__module__, fn.__qualname__) == ("torch.nn.attention.flex_attention", "flex_attention") and torch.cuda.is_available()


_calling = functools.cache(_forwarder)


def optimize(
    backend: str | Backend = "inductor",
    *,
    nopython: bool = False,
    guard_export_fn: None = None,
    disable: bool = False,
    dynamic: bool | None = None,
) -> Optimizer:
    """The classic decorator: `optimize("eager")(fn)`. nopython is fullgraph.

    `with optimize("eager"):` compiles the functions that are called inside.
    """
    if not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"backend must be a name or a callable, got {type(backend).__name__}")
    return Optimizer(backend, nopython, disable, dynamic)


class Optimizer:
    """What `optimize` gives: called with a function it compiles that; as a context manager it compiles each frame that begins inside."""

    def __init__(self, backend: str | Backend, nopython: bool, disable: bool, dynamic: bool | None) -> None:
        self.backend, self.nopython, self.disable, self.dynamic = backend, nopython, disable, dynamic
        self._open: list[tuple[Context, object]] = []

    def __call__(self, fn: Any) -> Any:
        return compile(fn, backend=self.backend, fullgraph=self.nopython, disable=self.disable, dynamic=self.dynamic)

    def __enter__(self) -> Self:
        ctx = context_for(self.backend, fullgraph=self.nopython)
        self._open.append((ctx, None if self.disable else _C.enter_scope(ctx)))
        return self

    def __exit__(self, *exc: object) -> None:
        _, scope = self._open.pop()
        if scope is not None:
            _C.leave_scope(scope)


def optimize_assert(backend: str | Backend = "inductor", **kwargs: Any) -> Optimizer:
    """`optimize(backend, nopython=True)`."""
    return optimize(backend, nopython=True, **kwargs)


# ---- not compiling --------------------------------------------------------------------------------------------


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Run `fn` in eager: with everything it calls, or (recursive=False) only its own frame. Usable as a decorator.

    Inside a compiled function a call of it is a graph break, which tells `reason`.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, OptimizedModule):
        fn = fn._orig_mod
    if isinstance(fn, _C.Compiled):
        fn = fn.fn
    if isinstance(fn, torch.nn.Module):
        forward = fn.forward
        fn.forward = disable(forward, recursive, reason=reason)
        return fn
    if isinstance(fn, type):
        for name in ("__call__", "forward"):
            if name in fn.__dict__:
                setattr(fn, name, disable(fn.__dict__[name], recursive, reason=reason))
        return fn
    if not callable(fn):
        raise TypeError(f"can't disable a {type(fn).__name__}: it is not callable")
    if not recursive:
        target = fn.__func__ if isinstance(fn, types.MethodType) else fn
        marks.mark_disabled(target, False, reason or "")
        return fn

    @functools.wraps(fn)
    def eager(*args: Any, **kwargs: Any) -> Any:
        return _C.disabled_call(fn, args, kwargs)

    marks.mark_disabled(eager, True, reason or "")
    return eager


def skip(fn: Any = None) -> Any:
    """The classic name of `disable(recursive=False)`: only this frame stays eager."""
    if fn is None:
        return skip
    return disable(fn, recursive=False)


def graph_break(msg: str = "") -> None:
    """End the graph here. Outside of compiled code it does nothing."""


def allow_in_graph(fn: Any) -> Any:
    """Put calls of `fn` into the graph without looking inside. Takes a function or a list of them."""
    return marks.mark_allowed(fn)


def disallow_in_graph(fn: Any) -> Any:
    """Break the graph at calls of `fn`, a torch function that would be an operation."""
    return marks.mark_disallowed(fn)


def assume_constant_result(fn: F) -> F:
    """Call `fn` while compiling and take its result as a constant from then on."""
    marks.mark_constant(fn)
    return fn


def forbid_in_graph(fn: Any) -> Any:
    """Raise when a compiled function calls `fn`: the same as disallow_in_graph here, an error under fullgraph."""
    return marks.mark_disallowed(fn)


# ---- state ----------------------------------------------------------------------------------------------------


def reset() -> None:
    """Forget everything compiled, in all contexts."""
    for ctx in contexts():
        ctx.reset()
    for release in when_reset:
        release()
    _shared.clear()
    _lasting.clear()
    module_compiled.clear()
    _C.reset_frames()


def run(fn: Any = None) -> Any:
    """Frozen: use what is compiled, never compile. Calls that fit no entry run in eager and are reported.

    `run(fn)` gives a callable; `with run():` freezes everything inside.
    """
    if fn is None:
        return _Frozen()
    target = fn if isinstance(fn, _C.Compiled | OptimizedModule | types.MethodType) else compile(fn)

    def frozen(*args: Any, **kwargs: Any) -> Any:
        with _Frozen():
            return target(*args, **kwargs)

    return functools.wraps(getattr(fn, "__wrapped__", fn) if not isinstance(fn, torch.nn.Module) else fn.forward)(frozen)


class _Frozen:
    """Stance 1 of the frame engine for a while."""

    def __enter__(self) -> None:
        self.old = _C.set_stance(1)

    def __exit__(self, *exc: object) -> None:
        _C.set_stance(self.old)


def _on_frozen_miss(compiled: _C.Compiled, inputs: tuple[Any, ...]) -> None:
    reasons = why_missed(compiled.cache, inputs)
    reason = reasons[0].text if reasons else "nothing is compiled for this code"
    name = getattr(compiled.fn, "__qualname__", "?")
    emit(events.FrozenMiss(name, reason))
    internal_errors.warn(f"run(): {name} fits no compiled entry and runs in eager: {reason} [DD093]", *user_place())


def is_compiling() -> bool:
    """True inside traced code, False when the code runs in eager."""
    return False


def entries(compiled: Any) -> list[EntryInfo]:
    """What is compiled for a function or module: one info per entry, most recently used first."""
    target: Any = compiled
    if isinstance(target, OptimizedModule):
        target = target._compiled
    if isinstance(target, types.MethodType):
        target = target.__func__
    return [e.info for e in target.cache.entries if isinstance(e.info, EntryInfo)]


_C.set_frame_handler(frame_handler)
_C.set_frozen_handler(_on_frozen_miss)
torch_facts.warn_if_newer()
