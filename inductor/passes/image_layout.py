"""Channels last through graphs whose convolutions want it.

In: the joint graph, before it is split into forward and backward, so that both know what saved values look like. Out: the same graph
where convolutions, their derivatives and what lies between them work on channels-last images. What the caller sees keeps its strides.

On processors those are training graphs with many depthwise convolutions: ATen's kernels for them, and oneDNN's with small images, take up
to twice as long on contiguous ones. Other graphs stay as they are: the gradient of a dense weight would come channels last and had to be
copied for the caller, and what is evaluated is prepared otherwise (`convolution.py`).

On GPUs those are graphs whose convolutions run on tensor cores: cuDNN's kernels for contiguous images copy them to channels last and back.
On an H200 a dense one takes 40 to 100 % of the time, its backward 60 to 110 %, one of 32 groups half (16 images, float32 as tf32).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from dynamo.decisions import decide
from dynamo.ops.facts import acting
from inductor.lowering import families
from inductor.lowering.registry import ROWS
from inductor.passes.layout import copied, follow, is_channels_last, is_image, laid_out

if TYPE_CHECKING:
    from dynamo.aot.joint import Joint

aten = torch.ops.aten
CONVOLUTION, BACKWARD = aten.convolution.default, aten.convolution_backward.default
IMAGES: dict[Any, tuple[int, ...]] = {CONVOLUTION: (0,), BACKWARD: (0, 1)}  # which arguments are images
DEPTHWISE_PART = 0.25  # of the elements that convolutions compute


def arrange(joint: Joint) -> None:
    """Change the layouts of values inside the joint graph, where that pays."""
    convolutions = [n for n in joint.graph.nodes if n.target is CONVOLUTION]
    pays = convolutions and WISHES.get(convolutions[0].meta["val"].device.type)
    if pays and pays(convolutions, joint.needs_backward) and decide("passes", "channels last"):
        relay(joint)


def has_depthwise(convolutions: Sequence[Node], needs_backward: bool) -> bool:
    """All are of float32 images, and enough of what they compute is depthwise and not channels last already."""
    depthwise = computed = 0
    for node in convolutions:
        val, groups = node.meta["val"], node.args[8]
        if not is_image(val) or val.dtype is not torch.float32 or node.args[6]:
            return False
        computed += val.numel()
        depthwise += val.numel() if groups == val.shape[1] > 1 and not is_channels_last(val) else 0
    return needs_backward and depthwise > DEPTHWISE_PART * computed


def has_tensor_cores(convolutions: Sequence[Node], needs_backward: bool) -> bool:
    """All are of types that tensor cores multiply, and none is depthwise."""
    types = {torch.float16, torch.bfloat16} | ({torch.float32} if torch.backends.cudnn.allow_tf32 else set())
    for node in convolutions:
        val, weight, groups = node.meta["val"], node.args[1], node.args[8]
        assert isinstance(weight, Node)
        is_depthwise = groups != 1 and weight.meta["val"].shape[1] == 1
        if not is_image(val) or val.dtype not in types or node.args[6] or is_depthwise:
            return False
    return True


# device -> whether these convolutions, and what lies between them, are faster channels last
WISHES: dict[str, Callable[[Sequence[Node], bool], bool]] = {"cpu": has_depthwise, "cuda": has_tensor_cores}


def relay(joint: Joint) -> None:
    families.load()
    shown = {n for n in (*joint.results, *joint.grads, *acting(joint.graph)) if n is not None}
    last: set[Node] = set()
    copies: dict[Node, Node] = {}
    for node in list(joint.graph.nodes):
        if node.target in IMAGES:
            for source in images(node):
                if not is_channels_last(source.meta["val"]):
                    node.replace_input_with(source, copied(joint.graph, node, source, copies))
            eager, node.meta = node.meta["val"], {**node.meta, "val": laid_out(node.meta["val"])}  # weight gradients too
            last.add(node)
            if node in shown:
                show(joint, node, eager)
        elif node not in shown:
            follow(node, last, has_pointwise_row)


def images(node: Node) -> Iterator[Node]:
    for position in IMAGES[node.target]:
        source = node.args[position]
        assert isinstance(source, Node)
        yield source


def has_pointwise_row(node: Node) -> bool:
    """Not all derivatives of pointwise operators have torch's tag."""
    row = ROWS.get(node.target)
    return row is not None and row.family.startswith("pointwise")


def show(joint: Joint, node: Node, eager: Any) -> None:
    """The caller gets a copy in eager's strides."""
    with joint.graph.inserting_after(node):
        copy = joint.graph.call_function(aten.clone.default, (node,))
    copy.meta = {**node.meta, "val": eager}
    joint.results = [copy if n is node else n for n in joint.results]
