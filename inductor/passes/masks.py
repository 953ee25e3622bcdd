"""Masks of attention that depend on nothing: `arange(n) >= 0`, or a triangle.

In: a captured graph (torch calls, before differentiation). Out: the same graph, where such a mask that lets everything pass is none, and
a triangle is `is_causal`. With a mask torch runs attention by slower kernels than without, and by matrix products where the mask is
broadcast along its last dim. Libraries leave those masks out where they may look at the numbers, so eager has none.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Graph, GraphModule, Node
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.utils._pytree import tree_map

from dynamo.decisions import decide

NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
MOST = 1 << 24  # elements of a mask that is computed

# what depends on its arguments alone, as functions and as methods
OPERATORS = "add sub mul floordiv ge gt le lt eq ne and_ or_ invert getitem"
OF_TORCH = "arange ones zeros full tril triu diff cumsum logical_and logical_or logical_not"
FUNCTIONS = frozenset({getattr(operator, n) for n in OPERATORS.split()} | {getattr(torch, n) for n in OF_TORCH.split()})
METHODS = frozenset(f"{OF_TORCH} {OPERATORS} new_ones new_zeros view reshape expand unsqueeze squeeze transpose contiguous bool to".split())


def leave_out_masks(gm: GraphModule) -> GraphModule:
    """The graph without such masks; the graph itself where there is none."""
    known: dict[Node, Any] = {}
    calls = gm.graph.find_nodes(op="call_function", target=F.scaled_dot_product_attention)
    found = {node: kind for node in calls if (kind := kind_of(mask_of(node), known)) and decide("passes", f"leave out mask {node.name}")}
    if not found:
        return gm
    graph, copies = Graph(), dict[Node, Node]()
    for node in gm.graph.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
        if node in found:
            copies[node].kwargs = {**arguments(copies[node]), "attn_mask": None, "is_causal": found[node] == "triangle"}
            copies[node].args = ()
    return _LazyGraphModule(gm, graph)


def arguments(node: Node) -> dict[str, Any]:
    return {**dict(zip(NAMES, node.args, strict=False)), **node.kwargs}


def mask_of(node: Node) -> Node | None:
    given = arguments(node)
    mask = given.get("attn_mask")
    return mask if isinstance(mask, Node) and not given.get("is_causal") else None


def kind_of(node: Node | None, known: dict[Node, Any]) -> str:
    """`all` where everything passes, `triangle` where position i sees those up to i."""
    mask = None if node is None else number_of(node, known)
    if not isinstance(mask, torch.Tensor) or mask.dim() < 2:
        return ""
    once = mask[tuple(slice(0, 1) if s == 0 else slice(None) for s in mask.stride())]
    if mask.dtype is not torch.bool or once.numel() > MOST:
        return ""
    if bool(once.all()):
        return "all"
    length, others = mask.shape[-2:]
    if length != others or any(n != 1 for n in once.shape[:-2]) or once.shape[-2:] != mask.shape[-2:]:
        return ""
    return "triangle" if torch.equal(once.reshape(length, length), torch.ones(length, length, dtype=torch.bool).tril()) else ""


def number_of(node: Node, known: dict[Node, Any]) -> Any:
    """What a node computes, on the processor; None where it depends on more than constants."""
    if node not in known:
        known[node] = computed(node, known)
    return known[node]


def is_known(node: Node) -> bool:
    """Whether the node computes something of its arguments alone."""
    return node.target in (METHODS if node.op == "call_method" else FUNCTIONS if node.op == "call_function" else ())


def computed(node: Node, known: dict[Node, Any]) -> Any:
    if not is_known(node) or any(number_of(source, known) is None for source in node.all_input_nodes):
        return None
    given = torch.fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
    try:
        with torch.device("meta"):
            shape = call(node, *tree_map(on_meta, given))
        if isinstance(shape, torch.Tensor) and shape.untyped_storage().nbytes() > 8 * MOST:
            return None
        return call(node, *tree_map(on_processor, given))
    except (RuntimeError, TypeError, ValueError, IndexError):
        return None  # the program says so itself when it runs


def call(node: Node, args: Any, kwargs: Any) -> Any:
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    assert callable(node.target)
    return node.target(*args, **kwargs)


def on_meta(value: Any) -> Any:
    return value.to("meta") if isinstance(value, torch.Tensor) else torch.device("meta") if isinstance(value, torch.device) else value


def on_processor(value: Any) -> Any:
    return torch.device("cpu") if isinstance(value, torch.device) else value
