"""A compiler for PyTorch programs that can be looked into.

    import dynamo
    fast = dynamo.compile(fn, backend="eager")
    print(dynamo.explain(fn)(x))

Names load on first use, so that tools which only read records never import torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynamo import config, utils
    from dynamo.backends.registry import list_backends, register_backend
    from dynamo.errors import BackendError, CompileError, GraphBreakError, RecompileError, RecompileLimitError
    from dynamo.export import export
    from dynamo.peer.script_adapter import as_torch_compile, install_as_torch_compile
    from dynamo.public.api import (
        allow_in_graph,
        assume_constant_result,
        compile,
        disable,
        disallow_in_graph,
        entries,
        forbid_in_graph,
        graph_break,
        is_compiling,
        optimize,
        optimize_assert,
        reset,
        run,
        skip,
    )
    from dynamo.public.explain import explain
    from dynamo.public.module import OptimizedModule
    from dynamo.public.replay import replay

__version__ = "0.1.0"

_WHERE = {
    **dict.fromkeys(
        (
            "allow_in_graph",
            "assume_constant_result",
            "compile",
            "disable",
            "disallow_in_graph",
            "entries",
            "forbid_in_graph",
            "graph_break",
            "is_compiling",
            "optimize",
            "optimize_assert",
            "reset",
            "run",
            "skip",
        ),
        "dynamo.public.api",
    ),
    "list_backends": "dynamo.backends.registry",
    "register_backend": "dynamo.backends.registry",
    "BackendError": "dynamo.errors",
    "CompileError": "dynamo.errors",
    "GraphBreakError": "dynamo.errors",
    "RecompileError": "dynamo.errors",
    "RecompileLimitError": "dynamo.errors",
    "explain": "dynamo.public.explain",
    "OptimizedModule": "dynamo.public.module",
    "replay": "dynamo.public.replay",
    "as_torch_compile": "dynamo.peer.script_adapter",
    "install_as_torch_compile": "dynamo.peer.script_adapter",
}
_MODULES = ("config", "export", "utils")

# `dynamo.compile` is a function, and the package of that name is where it is made. A package's name is set in its parent once, when it is
# loaded: that happens here, before anything else can load it, and is taken back. `from dynamo.compile import ...` finds the package.
importlib.import_module("dynamo.compile")
del globals()["compile"]

__all__ = [
    "BackendError",
    "CompileError",
    "GraphBreakError",
    "OptimizedModule",
    "RecompileError",
    "RecompileLimitError",
    "allow_in_graph",
    "as_torch_compile",
    "assume_constant_result",
    "compile",
    "config",
    "disable",
    "disallow_in_graph",
    "entries",
    "explain",
    "export",
    "forbid_in_graph",
    "graph_break",
    "install_as_torch_compile",
    "is_compiling",
    "list_backends",
    "optimize",
    "optimize_assert",
    "register_backend",
    "replay",
    "reset",
    "run",
    "skip",
    "utils",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"dynamo.{name}")
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module 'dynamo' has no attribute {name!r}")
    with importlib.import_module("dynamo.surroundings.collector").paused():
        value = getattr(importlib.import_module(where), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
