"""The backend `inductor`: ahead-of-time graphs compiled to C kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule

from dynamo.aot import aot_module
from inductor.decompositions import SPLITS
from inductor.runtime.graph_cache import DiskCache

if TYPE_CHECKING:
    from dynamo.aot.joint import Joint
    from inductor.compile import Compiled
    from inductor.runtime.pending import Pending


def inductor(gm: GraphModule, example_inputs: Sequence[torch.Tensor], *, options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """Compile a captured graph, with its backward where gradients are needed. `options` (modes of the GPU) change nothing on CPUs."""
    cache = DiskCache(dict(options or {}))
    return aot_module(
        gm,
        example_inputs,
        decompositions=SPLITS,
        fw_compiler=compile_one,
        bw_compiler=compile_one,
        cache=cache,
        prepare=prepare,
        arrange=arrange,
    )


inductor.reads_graphs_only = True  # type: ignore[attr-defined]  # see dynamo/graph/lazy.py


def prepare(gm: GraphModule) -> GraphModule:
    """Rewrites of the captured graph: those that have to come before differentiation."""
    from inductor.passes.attention import fuse_attention  # noqa: PLC0415  # not needed where the cache has the graph
    from inductor.passes.bags import gather_bags  # noqa: PLC0415  # as above

    return gather_bags(fuse_attention(gm))


def arrange(joint: Joint) -> None:
    """Layouts that forward and backward have to agree on."""
    from inductor.passes.training_layout import arrange  # noqa: PLC0415  # as above

    arrange(joint)


def compile_one(gm: GraphModule, example_inputs: Sequence[Any], *, is_backward: bool) -> Compiled | Pending:
    """One ATen graph. The C compiler may still be at work when this returns."""
    from inductor.compile import start_graph  # noqa: PLC0415  # lowering and its tables: not needed where the cache has the graph

    return start_graph(gm, example_inputs, is_backward=is_backward)
