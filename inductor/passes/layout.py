"""Channels last through the graph: around convolutions that want it, element-wise operators, norms and pools follow.

In: a functional graph with `packed_convolution` nodes. Out: the same graph where the fakes of values between them are channels last,
with one copy where a value enters in another layout. What the caller sees keeps its strides: such nodes are left as they are, and
lowering writes them in the layout of their fake.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, Node

from dynamo.fake import FakeTensor
from dynamo.ops.facts import is_pointwise
from inductor.runtime.packed import PACKED

aten = torch.ops.aten

# besides pointwise ones: operators that compute every channel alike, and whose kernels loop in the order of their output
FOLLOWING = frozenset(
    {
        aten.native_batch_norm.default,
        aten._native_batch_norm_legit_functional.default,
        aten._native_batch_norm_legit_no_training.default,
        aten.native_batch_norm_backward.default,
        aten.max_pool2d_with_indices.default,
        aten.avg_pool2d.default,
        aten._adaptive_avg_pool2d.default,
        aten.cat.default,
        aten.constant_pad_nd.default,
        aten.upsample_nearest2d.vec,
        aten.upsample_nearest2d.default,
        aten.upsample_bilinear2d.vec,
        aten.upsample_bilinear2d.default,
    }
)


def channels_last_strides(shape: Sequence[int]) -> tuple[int, ...]:
    _, channels, height, width = shape
    return (height * width * channels, 1, width * channels, channels)


def relaid(val: Any, strides: tuple[int, ...], shape: tuple[int, ...] | None = None) -> FakeTensor:
    """A fake like `val` with other strides, and another shape if one is given."""
    shape = tuple(val.shape) if shape is None else shape
    return FakeTensor(torch.empty_strided(shape, strides, dtype=val.dtype, device="meta"), torch.device(val.device))


def is_image(val: Any) -> bool:
    return isinstance(val, torch.Tensor) and val.dim() == 4 and val.numel() > 0


def is_channels_last(val: Any) -> bool:
    wanted = channels_last_strides(val.shape)
    return all(n == 1 or a == b for n, a, b in zip(val.shape, val.stride(), wanted, strict=True))


def laid_out(val: Any) -> Any:
    """The same fakes, images among them channels last."""
    if isinstance(val, (tuple, list)):
        return type(val)(laid_out(v) for v in val)
    return relaid(val, channels_last_strides(val.shape)) if is_image(val) else val


def is_arithmetic(node: Node) -> bool:
    return is_pointwise(node.target)


def follow(node: Node, last: set[Node], pointwise: Callable[[Node], bool] = is_arithmetic) -> None:
    """Give a node the layout of its operands where one image among them is channels last, and the result is an image."""
    val, source = node.meta.get("val"), node.args[0] if node.args else None
    if node.target is operator.getitem and source in last:
        assert isinstance(source, Node) and isinstance(node.args[1], int)
        node.meta = {**node.meta, "val": source.meta["val"][node.args[1]]}
        if is_image(node.meta["val"]):
            last.add(node)
        return
    image = val[0] if isinstance(val, (tuple, list)) and val else val
    if is_image(image) and (node.target in FOLLOWING or pointwise(node)) and any(n in last for n in node.all_input_nodes):
        node.meta = {**node.meta, "val": laid_out(val)}
        last.add(node)


def channels_last(graph: Graph) -> None:
    last: set[Node] = set()
    copies: dict[Node, Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is PACKED:
            source = node.args[0]
            assert isinstance(source, Node)
            if not is_channels_last(source.meta["val"]):
                node.replace_input_with(source, copied(graph, node, source, copies))
            last.add(node)
            show_as_before(graph, node)
        elif all(user.op != "output" for user in node.users):
            follow(node, last)


def show_as_before(graph: Graph, node: Node) -> None:
    """Where the caller gets the result of a convolution, it is a copy in eager's strides."""
    eager = node.meta["eager"]
    if eager.stride() == node.meta["val"].stride():
        return
    for output in [user for user in node.users if user.op == "output"]:
        with graph.inserting_before(output):
            copy = graph.call_function(aten.clone.default, (node,))
        copy.meta = {**node.meta, "val": eager}
        output.replace_input_with(node, copy)


def copied(graph: Graph, before: Node, source: Node, copies: dict[Node, Node]) -> Node:
    """The value in channels last, copied once for all that want it."""
    if source not in copies:
        with graph.inserting_before(before):
            copy = graph.call_function(aten.clone.default, (source,), {"memory_format": torch.channels_last})
        copy.meta = {**source.meta, "val": laid_out(source.meta["val"])}
        copies[source] = copy
    return copies[source]
