"""Backends by name. A backend is `(gm: torch.fx.GraphModule, example_inputs: list[Tensor]) -> callable`.

Names resolve in order: what the program registered, the rows below (imported when first used), then entry points of the group
`dynamo_debug_backends`. `module:function` names any function that can be imported.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from dynamo import config
from dynamo.surroundings.collector import paused

Backend = Callable[..., Callable[..., Any]]


@dataclass(frozen=True, eq=False)
class BackendRow:
    """A backend that comes with the project: `module:function`, imported on first use."""

    name: str
    path: str
    doc: str
    debug: bool = False


ROWS: tuple[BackendRow, ...] = (
    BackendRow("eager", "dynamo.backends.simple:eager", "run the captured graph with torch's eager kernels", debug=True),
    BackendRow("aot_eager", "dynamo.aot:aot_eager", "ahead-of-time forward and backward graphs, run with eager's kernels", debug=True),
    BackendRow("inductor", "inductor.backend:inductor", "ahead-of-time graphs compiled to fused C kernels"),
    BackendRow("sanitizer", "inductor.sanitizer.backend:sanitizer", "kernels in interpreters that check every access", debug=True),
    *(
        BackendRow(name, "inductor.backend:cudagraphs", "ahead-of-time graphs of eager's kernels, captured as CUDA graphs")
        for name in ("cudagraphs", "aot_cudagraphs")
    ),
    *(
        BackendRow(f"relu_{bug}_TESTING_ONLY", f"dynamo.backends.testing:relu_{bug}", f"eager with a seeded {bug} in relu", debug=True)
        for bug in ("compile_error", "runtime_error", "accuracy_error")
    ),
)

OWN_LIMIT = "recompile_limit"  # set on backends for which the option of that name doesn't hold

_registered: dict[str, Backend] = {}
when_reset: list[Callable[[], None]] = []  # what backends do where everything compiled is forgotten
_between: Callable[[str, Backend], Backend] | None = None


class UnknownBackend(RuntimeError):
    """No backend of that name."""

    own_name = "dynamo.backends.registry.UnknownBackend"  # see CompileError


def register_backend(compiler_fn: Backend | None = None, name: str | None = None) -> Any:
    """Make a backend known by name (its `__name__` by default). Usable as a decorator.

    Raises TypeError when the backend can't be called.
    """
    if compiler_fn is None:
        return lambda fn: register_backend(fn, name)
    if not callable(compiler_fn):
        raise TypeError(f"a backend must be callable, got {type(compiler_fn).__name__}")
    _registered[name or compiler_fn.__name__] = compiler_fn
    return compiler_fn


def list_backends(exclude_tags: tuple[str, ...] = ("debug",)) -> list[str]:
    """Names of all backends, sorted. Debugging backends are left out unless `exclude_tags` is empty."""
    rows = [r.name for r in ROWS if not (r.debug and "debug" in (exclude_tags or ()))]
    return sorted({*rows, *_registered, *_entry_points()})


def stand_between(wrap: Callable[[str, Backend], Backend] | None) -> None:
    """From now on every backend that is looked up is replaced by `wrap(name, backend)`, so that tools see graphs. None: no more."""
    global _between
    _between = wrap


def lookup_backend(backend: str | Backend) -> tuple[str, Backend]:
    """(name, callable). Raises UnknownBackend with the nearest names."""
    name, found = looked_up(backend)
    if _between is not None:
        return name, _between(name, found)
    if _writes_down():  # the minifier stands above this package: it is found by name, and only where somebody asks for it
        return name, cast(Backend, importlib.import_module("minifier.classic").between(name, found))
    return name, found


def _writes_down() -> bool:
    """Whether graphs that fail are written down: a level alone asks for it too."""
    return bool(config.repro_after) or config.source("repro_after") == "default" != config.source("repro_level")


def looked_up(backend: str | Backend) -> tuple[str, Backend]:
    """As `lookup_backend`, whoever stands between."""
    if not isinstance(backend, str):
        if not callable(backend):
            raise TypeError(f"backend must be a name or a callable, got {type(backend).__name__}")
        return getattr(backend, "__name__", type(backend).__name__), backend
    if backend in _registered:
        return backend, _registered[backend]
    for row in ROWS:
        if row.name == backend:
            module, _, attr = row.path.partition(":")
            with paused():
                return backend, cast(Backend, getattr(importlib.import_module(module), attr))
    points = _entry_points()
    if backend in points:
        return backend, cast(Backend, points[backend].load())
    if ":" in backend:
        return backend, _imported(backend)
    names = list_backends(exclude_tags=())
    near = difflib.get_close_matches(backend, names, 3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"backends are {', '.join(names)}"
    raise UnknownBackend(f"unknown backend {backend!r}; {hint}")


def _imported(name: str) -> Backend:
    """The function of `module:function`."""
    module, _, attr = name.partition(":")
    if not module:
        raise UnknownBackend(f"unknown backend {name!r}: no module is named")
    try:
        found = getattr(importlib.import_module(module), attr)
    except (ImportError, AttributeError) as e:
        raise UnknownBackend(f"unknown backend {name!r}: {e}") from e
    if not callable(found):
        raise UnknownBackend(f"unknown backend {name!r}: it is a {type(found).__name__}, which can't be called")
    return cast(Backend, found)


def is_own(backend: Backend) -> bool:
    """Whether a backend is a row of ours, not the user's."""
    return any(f"{backend.__module__}:{getattr(backend, '__name__', '')}" == row.path for row in ROWS if "TESTING" not in row.name)


def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points  # noqa: PLC0415  # reads the metadata of what is installed: only for names no row has

    return {p.name: p for p in entry_points(group="dynamo_debug_backends")}
