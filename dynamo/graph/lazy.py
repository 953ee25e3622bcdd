"""Graph modules whose Python code is written when it is wanted: a backend that only reads the graph never needs it."""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, graph_module
from torch.fx._lazy_graph_module import _LazyGraphModule

READS_GRAPHS_ONLY = "reads_graphs_only"  # set on backends that neither call what they are given nor hand it on


def lazy_module(root: torch.nn.Module | dict[str, Any], graph: Graph) -> GraphModule:
    return _LazyGraphModule(root, graph, class_name="GraphModule")


def forward_of(gm: GraphModule) -> Callable[..., Any]:
    """The function of the graph. Until its code is written, `gm.forward` would call the module, with the hooks of all modules."""
    _LazyGraphModule.force_recompile(gm)
    code = getattr(gm.forward, "__code__", None)
    if code is not None:
        weakref.finalize(gm, _forget_text, code.co_filename).atexit = False
    return gm.forward


def _forget_text(filename: str) -> None:
    """torch keeps the text of every graph for tracebacks, and never drops it."""
    linecache.cache.pop(filename, None)
    getattr(graph_module._loader, "eval_cache", {}).pop(filename, None)
