"""Graph modules whose Python code is written when it is wanted: a backend that only reads the graph never needs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule
from torch.fx._lazy_graph_module import _LazyGraphModule

READS_GRAPHS_ONLY = "reads_graphs_only"  # set on backends that neither call what they are given nor hand it on


def lazy_module(root: torch.nn.Module, graph: Graph) -> GraphModule:
    return _LazyGraphModule(root, graph, class_name="GraphModule")


def forward_of(gm: GraphModule) -> Callable[..., Any]:
    """The function of the graph. Until its code is written, `gm.forward` would call the module, with the hooks of all modules."""
    _LazyGraphModule.force_recompile(gm)
    return gm.forward
