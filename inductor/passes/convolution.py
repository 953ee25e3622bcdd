"""Convolutions of graphs without gradients: weights are prepared outside the call, activations stay channels last.

In: `aten.convolution` of four-dimensional float32 tensors whose weights are held by the program (parameters and buffers), and the
batch norm that follows. Out: `dynamo_debug.packed_convolution`, see `inductor/runtime/packed.py`, whose input and output are laid out
channels last. Training graphs keep ATen's convolution: the weights change at every step, and the backward wants them as they are.

Convolutions of one pixel come first: they are matrix products, whatever holds their weights. The call is what they cost: 4 images,
96 to 24 channels, one thread of a Zen 4: 3 us as a product, 25 us prepared.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, Node

from dynamo.decisions import decide
from inductor.passes.layout import channels_last_strides, relaid
from inductor.runtime.packed import PACKED, available

aten = torch.ops.aten

# inference batch norms: operator -> positions of (weight, bias, mean, variance), of the training flag, of eps
NORMS: dict[Any, tuple[tuple[int, ...], int | None, int]] = {
    aten.native_batch_norm.default: ((1, 2, 3, 4), 5, 7),
    aten._native_batch_norm_legit_functional.default: ((1, 2, 3, 4), 5, 7),
    aten._native_batch_norm_legit_no_training.default: ((1, 2, 3, 4), None, 6),
}


def is_plain(node: Any) -> bool:
    """A four-dimensional float32 tensor on the CPU with elements."""
    val = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(val, torch.Tensor) and val.dtype == torch.float32 and val.dim() == 4 and val.device.type == "cpu" and val.numel() > 0


def held(nodes: Any, static: frozenset[Node]) -> bool:
    return all(n is None or n in static for n in nodes)


def norm_after(node: Node, static: frozenset[Node]) -> Node | None:
    """The inference batch norm that alone reads a convolution, if it is per-channel constants and only its result is used."""
    users = list(node.users)
    if len(users) != 1 or users[0].target not in NORMS or users[0].args[0] is not node:
        return None
    norm = users[0]
    places, training, _ = NORMS[norm.target]
    if (training is not None and norm.args[training]) or not held([norm.args[p] for p in places], static):
        return None
    mean, var = norm.args[places[2]], norm.args[places[3]]
    if any(not isinstance(t, Node) or t.meta["val"].dtype != torch.float32 for t in (mean, var)):
        return None
    return norm if all(u.target is operator.getitem and (u.args[1] == 0 or not u.users) for u in norm.users) else None


def packable(node: Node, static: frozenset[Node]) -> bool:
    if node.target is not aten.convolution.default or not all(map(is_plain, (node, *node.args[:2]))):
        return False
    _, weight, bias, _, _, _, transposed, _, _ = node.args
    return not transposed and weight in static and held([bias], static)


def pack(node: Node, norm: Node | None) -> Node:
    x, weight, bias, stride, padding, dilation, _, _, groups = node.args
    parameters: tuple[Any, ...] = ()
    eps: Any = 0.0
    if norm is not None:
        places, _, eps_at = NORMS[norm.target]
        parameters, eps = tuple(norm.args[p] for p in places), norm.args[eps_at]
    graph = node.graph
    with graph.inserting_before(node):
        made = graph.call_function(
            PACKED,
            (x, weight, bias, list(parameters), eps, list(stride), list(padding), list(dilation), groups),  # type: ignore[arg-type]  # lists, by the operator's schema
        )
    val = node.meta["val"]
    made.meta = {**node.meta, "val": relaid(val, channels_last_strides(val.shape)), "eager": val}
    return made


def is_one_pixel(node: Node) -> bool:
    """Images of one pixel, and filters of one."""
    if node.target is not aten.convolution.default or not all(map(is_plain, (node, *node.args[:2]))):
        return False
    arguments: tuple[Any, ...] = node.args
    x, weight, _, _, padding, _, transposed, _, groups = arguments
    sizes = (*x.meta["val"].shape[2:], *weight.meta["val"].shape[2:])
    return not transposed and groups == 1 and not any(padding) and all(n == 1 for n in sizes)


def multiply_pixels(graph: Graph) -> None:
    """`out[n, o, 0, 0] = sum over c of x[n, c, 0, 0] * weight[o, c, 0, 0] + bias[o]`."""
    for node in list(graph.nodes):
        if not is_one_pixel(node) or not decide("passes", f"multiply {node.name}"):
            continue
        x, weight, bias = node.args[:3]
        images, channels, *_ = node.meta["val"].shape
        with graph.inserting_before(node):
            rows, filters = rows_of(x), rows_of(weight)
            shape, strides = filters.meta["val"].shape, filters.meta["val"].stride()
            factors = (rows, matrix(filters, aten.permute.default, (filters, [1, 0]), shape[::-1], strides[::-1]))
            target, added = (aten.mm.default, ()) if bias is None else (aten.addmm.default, (bias,))
            product = matrix(node, target, (*added, *factors), (images, channels), (channels, 1))
            image = graph.call_function(aten.view.default, (product, list(node.meta["val"].shape)))
        image.meta = node.meta
        node.replace_all_uses_with(image)
        graph.erase_node(node)


def rows_of(node: Any) -> Node:
    """The images or filters of one pixel as the rows of a matrix."""
    val = node.meta["val"]
    return matrix(node, aten.view.default, (node, list(val.shape[:2])), val.shape[:2], val.stride()[:2])


def matrix(source: Node, target: Any, args: tuple[Any, ...], shape: tuple[int, ...], strides: tuple[int, ...]) -> Node:
    """A call with a matrix of this layout as result, in the name of `source`."""
    made = source.graph.call_function(target, args)
    made.meta = {**source.meta, "val": relaid(source.meta["val"], strides, tuple(shape))}
    return made


def pack_convolutions(graph: Graph, static: frozenset[Node]) -> bool:
    """Whether any was packed."""
    if not static or not available():
        return False
    found = False
    for node in list(graph.nodes):
        if not packable(node, static):
            continue
        norm = norm_after(node, static)
        if norm is not None and not decide("passes", f"fold {norm.name} into {node.name}"):
            norm = None
        if not decide("passes", f"pack {node.name}"):
            continue
        found = True
        made = pack(node, norm)
        if norm is None:
            node.replace_all_uses_with(made)
            graph.erase_node(node)
            continue
        for item in list(norm.users):
            item.replace_all_uses_with(made)
            graph.erase_node(item)
        graph.erase_node(norm)
        graph.erase_node(node)
    return found
