"""What a graph needs that the cache on disk does not have: rewrites of it, layouts, the rows of every operator, and the way to kernels.

`inductor.backend` imports this file when it meets such a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch.fx import GraphModule

from dynamo.aot.decompose import select
from inductor.compile import start_graph
from inductor.lowering import families
from inductor.lowering.registry import ROWS
from inductor.passes.attention import fuse_attention
from inductor.passes.bags import gather_bags
from inductor.passes.image_layout import arrange
from inductor.passes.masks import leave_out_masks
from inductor.targets.triton.launcher import operators

__all__ = ["arrange", "operators", "prepare", "splits", "start_graph"]


def prepare(gm: GraphModule) -> GraphModule:
    """Rewrites of the captured graph: those that have to come before differentiation."""
    return leave_out_masks(gather_bags(fuse_attention(gm)))


def splits() -> Mapping[Any, Callable[..., Any]]:
    """The operators traced in smaller pieces: those of `dynamo.aot.decompose` that no lowering row implements."""
    families.load()
    return select(native=ROWS)
