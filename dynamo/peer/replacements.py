"""The functions that scripts meet in place of torch's: `torch.compile`, `torch.compiler.*`, and names of `torch._dynamo`."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

from dynamo import config
from dynamo.backends import registry
from dynamo.peer import known_options
from dynamo.peer.asking import is_torchs_own
from dynamo.peer.installation import PEER, active, note
from dynamo.peer.names import STANCES
from dynamo.peer.serving import peer_module
from dynamo.surroundings.collector import paused


def choose_backend(asked: Any) -> Any:
    """The backend a script gets: the one forced on the command line, otherwise the one it asks for."""
    now = active()
    return now.backend if now is not None and now.backend else asked


def torch_compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    **later: Any,
) -> Any:
    """`torch.compile` with the same arguments; ones that a newer torch added are ignored with a note.

    Raises RuntimeError for modes and options that torch refuses too. Operators of torch that compile on their own account get torch's.
    """
    if is_torchs_own(sys._getframe(1)):
        return _by_torch(model, fullgraph, backend)
    if mode is not None and options is not None:
        raise RuntimeError("torch.compile: mode or options, not both; write the mode's options into options")
    if options and (backend is None or backend == "inductor"):
        known_options.check(options)
    known_options.note_changes()
    for name in later:
        note("DN011", f"torch.compile({name}=...) has no effect in this compiler")
    if type(model) is sys.modules["torch"].jit.RecursiveScriptModule:
        raise RuntimeError(
            "torch.compile does not support compiling torch.jit.script or torch.jit.freeze models directly; compile what was scripted"
        )
    if model is None:
        asked = {"fullgraph": fullgraph, "dynamic": dynamic, "backend": backend, "mode": mode, "options": options, "disable": disable}
        return functools.partial(torch_compile, **asked)
    asked_for = get_default_backend() if backend is None else backend
    chosen = choose_backend(asked_for)
    if chosen is not asked_for:
        mode = options = None  # they were meant for the other one
    off = disable or config.get("disable")
    return api().compile(model, fullgraph=fullgraph, dynamic=dynamic, backend=chosen, mode=mode, options=options, disable=off)


def _by_torch(model: Any, fullgraph: bool, backend: Any) -> Any:
    """Compiled by torch's own compiler, with our frame hook away."""
    compiled = peer_module(PEER).optimize(backend="eager" if backend is None else backend, nopython=fullgraph)(model)
    disabled_call = importlib.import_module("dynamo._C").disabled_call

    @functools.wraps(model)
    def call(*args: Any, **kwargs: Any) -> Any:
        return disabled_call(compiled, args, kwargs)

    return call


def set_default_backend(backend: Any) -> None:
    """`torch.compiler.set_default_backend`; None goes back to inductor."""
    now = active()
    assert now is not None
    now.default_backend = backend


def get_default_backend() -> Any:
    now = active()
    chosen = now.default_backend if now is not None else None
    return "inductor" if chosen is None else chosen


def set_stance(stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None) -> Any:
    """`torch.compiler.set_stance`: a context manager, a decorator, or for good."""
    if stance not in STANCES:
        raise RuntimeError(f"invalid torch.compile stance {stance!r}; stances are {', '.join(sorted(STANCES))}")
    stances = importlib.import_module("dynamo.public.stances")  # loads the frame engine, which an import of the script should not
    if stance not in stances.STANCES or skip_guard_eval_unsafe or force_backend is not None:
        asked = stance if stance not in stances.STANCES else "skip_guard_eval_unsafe" if skip_guard_eval_unsafe else "force_backend"
        note("DN013", f"torch.compiler.set_stance: {asked} has no effect in this compiler")
    return stances.Stance(stance if stance in stances.STANCES else stances.UNKNOWN)


def nested_compile_region(fn: Any = None, **options: Any) -> Any:
    """`torch.compiler.nested_compile_region` promises that a region is the same each time; it is traced each time here."""
    return fn if fn is not None else nested_compile_region


def optimize(backend: Any = "inductor", *args: Any, **kwargs: Any) -> Any:
    """`torch._dynamo.optimize`."""
    return api().optimize(choose_backend(backend), *args, **kwargs)


def optimize_assert(backend: Any = "inductor", *args: Any, **kwargs: Any) -> Any:
    return api().optimize_assert(choose_backend(backend), *args, **kwargs)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True) -> Any:
    """`torch.compiler.disable`. `wrapping` is for torch's own use."""
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    return api().disable(fn, recursive=recursive, reason=reason)


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    return registry.list_backends(tuple(exclude_tags or ()))


def mark_without_effect(*args: Any, **kwargs: Any) -> None:
    """Hints about addresses and lifetimes of tensors: calls compare addresses, and results of CUDA graphs are theirs who hold them."""


def mark_dynamic(*args: Any, **kwargs: Any) -> None:
    """Sizes that are said to change: accepted and noted, for shapes are static here."""
    note("DN016", "sizes marked as dynamic have no effect: shapes are static in this version, each new shape compiles anew")


def lookup_backend(compiler_fn: Any) -> Any:
    """`torch._dynamo.lookup_backend`: the function behind a name, anything else as it is.

    Whoever stands between is not asked: what the function gets is no graph of ours."""
    return registry.looked_up(compiler_fn)[1] if isinstance(compiler_fn, str) else compiler_fn


@functools.cache
def api() -> Any:
    """The functions behind the public names; loaded when a script first uses one, for it loads torch.

    Function modes of the program see nothing of it, and the cycle collector does not look at all of torch meanwhile.
    """
    with paused(), sys.modules["torch"]._C.DisableTorchFunction():
        return importlib.import_module("dynamo.public.api")


def is_compile_supported(device: Any) -> bool:
    """Whether compiled code runs on a device: libraries ask before they compile helpers of their own."""
    return importlib.import_module("torch").device(device).type in ("cpu", "cuda")


def _forward(name: str) -> Callable[..., Any]:
    """The function of that name in `dynamo`, looked up when it is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(api(), name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


# `is_compiling` and its kin stay torch's own: outside a trace they are False, inside one the interpreter knows them.
TORCH_COMPILER: dict[str, Any] = {
    "disable": disable,
    "get_default_backend": get_default_backend,
    "list_backends": list_backends,
    "nested_compile_region": nested_compile_region,
    "set_default_backend": set_default_backend,
    "set_stance": set_stance,
    "cudagraph_mark_step_begin": mark_without_effect,
    **{name: _forward(name) for name in ("allow_in_graph", "assume_constant_result", "reset")},
}

# Our own names that take a backend: a forced backend holds for them too.
OWN: dict[str, Any] = {"compile": torch_compile, "optimize": optimize, "optimize_assert": optimize_assert}
