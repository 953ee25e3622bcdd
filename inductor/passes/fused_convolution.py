"""Convolutions with what follows them as one call of cuDNN: batch norm in the weights, a sum, and ReLU.

In: a graph without gradients for a GPU, whose convolutions work on channels-last float32 images. Out: the same graph, where

    relu(norm(conv(x, W)))      =  cudnn_convolution_relu(x, s * W, t)                 s = gamma / sqrt(var + eps)
    relu(norm(conv(x, W)) + z)  =  cudnn_convolution_add_relu(x, s * W, z, 1, t)       t = beta - s * mean

The weights may change between calls without a trace, so they are scaled in every call: by the kernel that lays them out channels last,
which ATen would start otherwise, and where images are so much larger than weights that it costs little beside what reads and writes
them. On an H200 the call takes as long as the convolution alone.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node

from dynamo.decisions import decide
from dynamo.fake import FakeTensor
from inductor.passes.convolution import NORMS, norm_after
from inductor.passes.layout import channels_last_strides, is_channels_last, is_image, relaid

aten = torch.ops.aten
LARGER = 2  # times the elements of an image those of a weight that is as contiguous as it is channels last


@dataclass(frozen=True)
class Found:
    """`first` to `last` are the nodes that the call stands for; `added` is what is added before the ReLU."""

    first: Node
    norm: Node
    last: Node
    added: Node | None

    @property
    def size(self) -> int:
        weight = self.first.args[1]
        assert isinstance(weight, Node)
        return int(weight.meta["val"].numel())


def fuse_convolutions(graph: Graph, static: frozenset[Node]) -> None:
    best: dict[Node, Found] = {}  # of several convolutions that are added the one with most weights
    for node in graph.find_nodes(op="call_function", target=aten.convolution.default):
        f = match(node, static)
        if f is not None and (f.last not in best or f.size >= best[f.last].size):
            best[f.last] = f
    found = [f for f in best.values() if decide("passes", f"fuse {f.first.name} to {f.last.name}")]
    shifts: dict[Node, Node] = {}
    for eps in dict.fromkeys(eps_of(f.norm) for f in found):
        shifts.update(shifts_of(graph, [f for f in found if eps_of(f.norm) == eps], eps))
    made: dict[Node, Node] = {}
    for f in found:
        made[f.last] = replace(graph, f, shifts[f.norm], made.get(f.added, f.added) if f.added is not None else None)


def eps_of(norm: Node) -> float:
    return float(norm.args[NORMS[norm.target][2]])  # type: ignore[arg-type]  # a number, by the schema


def parameters(norm: Node) -> list[Any]:
    """Weight, bias, mean and variance."""
    return [norm.args[p] for p in NORMS[norm.target][0]]


def match(node: Node, static: frozenset[Node]) -> Found | None:
    x, weight, bias, _, _, _, transposed, _, _ = node.args
    norm = norm_after(node, static)
    if norm is None or bias is not None or transposed or weight not in static or not all(map(is_fit, (node, x))):
        return None
    assert isinstance(weight, Node)
    given = [weight, *parameters(norm)]
    if any(not isinstance(p, Node) or p.meta["val"].dtype is not torch.float32 for p in given):
        return None
    value, filters = node.meta["val"], weight.meta["val"]
    if is_channels_last(filters) and value.numel() < LARGER * filters.numel():
        return None
    last = only_user(next((u for u in norm.users if u.args[1] == 0), None))
    added = None
    if last is not None and last.target is aten.add.Tensor and not last.kwargs and len(last.args) == 2:
        left, right = last.args
        added = right if isinstance(left, Node) and left.args[:1] == (norm,) else left
        last = only_user(last) if isinstance(added, Node) and is_fit(added) and added.meta["val"].shape == value.shape else None
    if last is None or last.target is not aten.relu.default or not is_fit(last):
        return None
    return Found(node, norm, last, added if isinstance(added, Node) else None)


def is_fit(node: Any) -> bool:
    val: Any = node.meta.get("val") if isinstance(node, Node) else None
    return is_image(val) and val.device.type == "cuda" and val.dtype is torch.float32 and is_channels_last(val)


def only_user(node: Node | None) -> Node | None:
    users = list(node.users) if node is not None else []
    return users[0] if len(users) == 1 else None


def call(graph: Graph, like: Node, target: Any, args: tuple[Any, ...], val: Any) -> Node:
    made = graph.call_function(target, args)
    made.meta = {**like.meta, "val": val}
    return made


def shifts_of(graph: Graph, found: list[Found], eps: float) -> dict[Node, Node]:
    """Norm -> `beta - mean * gamma / sqrt(var + eps)`, all of them in one kernel."""
    norms = [f.norm for f in found]
    gammas, betas, means, variances = (list(c) for c in zip(*map(parameters, norms), strict=True))
    vals = [g.meta["val"] for g in gammas]
    with graph.inserting_before(min(f.first for f in found)):
        step = call(graph, norms[0], aten._foreach_add.Scalar, (variances, eps), vals)
        for target, others in ((aten._foreach_rsqrt.default, None), (aten._foreach_mul.List, gammas), (aten._foreach_mul.List, means)):
            step = call(graph, norms[0], target, (items(graph, step), *([others] if others else [])), vals)
        step = call(graph, norms[0], aten._foreach_sub.List, (betas, items(graph, step)), vals)
        return dict(zip(norms, items(graph, step), strict=True))


def items(graph: Graph, many: Node) -> list[Node]:
    return [call(graph, many, operator.getitem, (many, k), val) for k, val in enumerate(many.meta["val"])]


def replace(graph: Graph, f: Found, shift: Node, added: Node | None) -> Node:
    x, weight, _, stride, padding, dilation, _, _, groups = f.first.args
    gamma, _, _, variance = parameters(f.norm)
    assert isinstance(weight, Node)
    flat, image = gamma.meta["val"], weight.meta["val"]
    with graph.inserting_before(f.last):
        scale = call(graph, f.norm, aten.add.Scalar, (variance, eps_of(f.norm)), flat)
        scale = call(graph, f.norm, aten.rsqrt.default, (scale,), flat)
        scale = call(graph, f.norm, aten.mul.Tensor, (scale, gamma), flat)
        shape = (image.shape[0], 1, 1, 1)
        scale = call(graph, f.norm, aten.view.default, (scale, list(shape)), like(flat, shape))
        filters = call(graph, f.norm, aten.mul.Tensor, (weight, scale), relaid(image, channels_last_strides(image.shape)))
        geometry = (list(stride), list(padding), list(dilation), groups)  # type: ignore[arg-type]  # numbers, by the schema
        if added is None:
            made = call(graph, f.last, aten.cudnn_convolution_relu.default, (x, filters, shift, *geometry), f.last.meta["val"])
        else:
            args = (x, filters, added, 1.0, shift, *geometry)
            made = call(graph, f.last, aten.cudnn_convolution_add_relu.default, args, f.last.meta["val"])
    f.last.replace_all_uses_with(made)
    return made


def like(val: Any, shape: tuple[int, ...]) -> FakeTensor:
    return relaid(val, (1,) * len(shape), shape)
