"""Bags of one size become gathered rows that are added up: one loop nest, and a scatter for the gradient.

In: a captured graph (torch calls, before differentiation). Out: the same graph in which

    embedding_bag(index[bags, n], weight, mode)  =  embedding(index, weight).sum(1), or .mean(1)

where shapes are known and nothing else is asked of the operator. ATen's kernel sorts the indices to find the gradient.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Graph, GraphModule, Node
from torch.fx._lazy_graph_module import _LazyGraphModule

from dynamo.decisions import decide

Tensor = torch.Tensor


def bags(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """As `torch.nn.functional.embedding_bag`; called by the ahead-of-time tracer."""
    is_plain = offsets is None and max_norm is None and padding_idx is None and not (scale_grad_by_freq or sparse or include_last_offset)
    fits = is_plain and input.dim() == 2 and input.numel() > 0 and input.device.type == "cpu" and mode in ("sum", "mean")
    if not fits or weight.dtype not in (torch.float32, torch.float64) or not decide("passes", "bags"):
        return F.embedding_bag(
            input,
            weight,
            offsets,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            per_sample_weights,
            include_last_offset,
            padding_idx,
        )
    rows = F.embedding(input, weight)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(2)
    return rows.sum(1) if mode == "sum" else rows.mean(1)


def gather_bags(gm: GraphModule) -> GraphModule:
    """The graph with its embedding bags through `bags`; the graph itself where there is none."""
    if not any(is_bag(node) for node in gm.graph.nodes):
        return gm
    graph = Graph()
    copies: dict[Node, Any] = {}
    for node in gm.graph.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
        if is_bag(node):
            copies[node].target = bags
    return _LazyGraphModule(gm, graph)


def is_bag(node: Node) -> bool:
    return node.op == "call_function" and node.target is F.embedding_bag
