"""Attention written out becomes `scaled_dot_product_attention`, whose kernels keep the scores in cache, in both directions.

In: a captured graph (torch calls, before differentiation, so that the backward is the flash backward too). Out: the same graph with

    dropout(softmax(mask(q @ kt * scale)), 0) @ v  =  sdpa(q, kt.transpose(-2, -1), v, attn_mask, scale)

as one node, an `Attention`. It decides when shapes are known, that is when the ahead-of-time tracer calls it, and runs the calls as
they were captured where the fused kernel does not apply. The mask is what is added, or -inf and the like filled in: with f at most
-1e30, masked_fill(s, c, f) has the softmax of s + where(c, f, 0). One thing differs from the calls: a row in which every key is
masked with -inf is zeros, where softmax makes NaN of it.

One thread of a Zen 4, [2, 12, 128, 64]: 4.0 ms as written, 1.7 ms fused; [1, 12, 1024, 64] with gradients: 776 and 423 ms.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Graph, GraphModule, Node
from torch.fx._lazy_graph_module import _LazyGraphModule

from dynamo.decisions import decide

Tensor = torch.Tensor
IN_PLACE = ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "imatmul", "ilshift", "irshift")
FAR_BELOW = -1e30  # adding any score to this or less gives this again

# what captured calls are named here: function or method name -> kind of step
KINDS: Mapping[Any, str] = {
    **dict.fromkeys((torch.matmul, operator.matmul, "matmul", "__matmul__"), "matmul"),
    **dict.fromkeys((torch.mul, operator.mul, operator.imul, "mul", "mul_", "__mul__"), "mul"),
    **dict.fromkeys((torch.div, torch.true_divide, operator.truediv, operator.itruediv, "div", "div_", "__truediv__"), "div"),
    **dict.fromkeys((torch.add, operator.add, operator.iadd, "add", "add_", "__add__"), "add"),
    **dict.fromkeys((torch.masked_fill, "masked_fill", "masked_fill_"), "masked_fill"),
    **dict.fromkeys((torch.softmax, F.softmax, "softmax"), "softmax"),
    **dict.fromkeys((F.dropout, torch.dropout), "dropout"),
    **dict.fromkeys(("to", "type"), "cast"),
    "float": "float",
}


def kind_of(node: Any) -> str:
    return KINDS.get(node.target, "") if isinstance(node, Node) and node.op in ("call_function", "call_method") else ""


def argument(node: Node, position: int, name: str, default: Any = None) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


@dataclass(frozen=True)
class Found:
    """The nodes from the scores (first) to the result (last), and what they amount to."""

    nodes: tuple[Node, ...]
    scale: float
    masks: tuple[tuple[str, Node, Any], ...]  # ("add", mask, None) or ("fill", condition, value)
    dtypes: tuple[torch.dtype, ...]  # that values on the way are cast to
    is_put_back: bool  # the strides of the result do not matter


class Walk:
    """Walks from the probabilities back to the scores, collecting what is done to them. Steps are met last first."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.scale = 1.0
        self.masks: list[tuple[str, Node, Any]] = []
        self.dtypes: list[torch.dtype] = []
        self.is_scaled = False

    def to_softmax(self, node: Any) -> Node | None:
        """What the softmax is taken of, or None."""
        while only_user(node):
            self.nodes.append(node)
            kind = kind_of(node)
            if kind == "softmax":
                dtype = argument(node, 3 if node.target is F.softmax else 2, "dtype")
                if argument(node, 1, "dim") not in (-1, 3) or not self.cast(dtype):
                    return None
                return node.args[0] if isinstance(node.args[0], Node) else None
            if kind == "dropout":
                if argument(node, 1, "p", 0.5) != 0 and argument(node, 2, "training" if node.target is F.dropout else "train", True):
                    return None
            elif kind not in ("cast", "float") or not self.is_cast(node):
                return None
            node = node.args[0]
        return None

    def to_scores(self, node: Any) -> Node | None:
        """The product of queries and keys, or None."""
        while only_user(node):
            self.nodes.append(node)
            kind = kind_of(node)
            if kind == "matmul":
                return node
            if kind in ("mul", "div"):
                node = self.scaled(node, kind)
            elif kind == "add" and not node.kwargs:
                node = self.added(node)
            elif kind == "masked_fill":
                node = self.filled(node)
            elif kind in ("cast", "float") and self.is_cast(node):
                node = node.args[0]
            else:
                return None
        return None

    def scaled(self, node: Node, kind: str) -> Any:
        left, right = (*node.args, None)[:2]
        if kind == "mul" and isinstance(right, Node):
            left, right = right, left
        if not isinstance(right, (int, float)) or isinstance(right, bool) or right == 0 or node.kwargs:
            return None
        self.is_scaled = True
        self.scale *= right if kind == "mul" else 1 / right
        return left

    def added(self, node: Node) -> Any:
        """The mask is the operand that is not scores. A mask below a scale would have to be scaled too."""
        left, right = (*node.args, None)[:2]
        if self.is_scaled or not isinstance(left, Node) or not isinstance(right, Node):
            return None
        scores, mask = (left, right) if leads_to_product(left) else (right, left)
        self.masks.append(("add", mask, None))
        return scores

    def filled(self, node: Node) -> Any:
        value, condition = argument(node, 2, "value"), argument(node, 1, "mask")
        if self.is_scaled or not isinstance(value, (int, float)) or value > FAR_BELOW or not isinstance(condition, Node):
            return None
        self.masks.append(("fill", condition, float(value)))
        return node.args[0]

    def is_cast(self, node: Node) -> bool:
        return kind_of(node) == "float" or (len(node.args) == 2 and not node.kwargs and self.cast(node.args[1]))

    def cast(self, dtype: Any) -> bool:
        if isinstance(dtype, torch.dtype):
            self.dtypes.append(dtype)
        return dtype is None or isinstance(dtype, torch.dtype)


def only_user(node: Any) -> bool:
    return isinstance(node, Node) and len(node.users) == 1


def leads_to_product(node: Any) -> bool:
    """Whether scalings, masks and casts of a product come to this node."""
    while only_user(node):
        kind = kind_of(node)
        if kind == "matmul":
            return True
        if kind == "add":
            return any(leads_to_product(a) for a in node.args)
        if kind == "mul" and not isinstance(node.args[0], Node):
            node = node.args[1]
        elif kind in ("mul", "div", "masked_fill", "cast", "float"):
            node = node.args[0]
        else:
            return False
    return False


def match(node: Node) -> Found | None:
    """Attention that ends in this product."""
    if kind_of(node) != "matmul" or len(node.args) != 2:
        return None
    walk = Walk()
    scores = walk.to_scores(walk.to_softmax(node.args[0]))
    if scores is None or len(scores.args) != 2:
        return None
    found = Found((*reversed(walk.nodes), node), walk.scale, tuple(reversed(walk.masks)), tuple(walk.dtypes), is_put_back(node))
    return None if writes_between(scores, node, frozenset(found.nodes)) else found


def writes_between(first: Node, last: Node, own: frozenset[Node]) -> bool:
    """Whether something is changed in place between the scores and the result: the fused call reads its operands at the end."""
    node = first
    while node is not last:
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        changes = (name.endswith("_") and not name.endswith("__")) or name.lstrip("_").startswith(("setitem", *IN_PLACE))
        if changes and node not in own:
            return True
        node = node.next
    return False


def is_put_back(node: Node) -> bool:
    """Heads go back behind positions by a copy: only then nobody sees that the fused kernel lays its result out that way at once."""
    user = next(iter(node.users), None)
    if user is None or len(node.users) != 1 or user.target not in ("transpose", torch.transpose) or user.args[1:] not in ((1, 2), (2, 1)):
        return False
    return all(u.target in ("contiguous", "reshape", torch.reshape) for u in user.users)


class Attention:
    """The fused call, or the captured ones. Called with the operands of the calls."""

    def __init__(self, found: Found, operands: Sequence[Node]) -> None:
        self.__name__ = self.__qualname__ = "attention"
        self.found = found
        self.at = {node: i for i, node in enumerate(operands)}

    def __call__(self, *operands: Tensor) -> Tensor:
        scores, result = self.found.nodes[0], self.found.nodes[-1]
        q, kt, v = (operands[self.at[node]] for node in (*scores.args[:2], result.args[1]))  # type: ignore[index]  # operands of matrix products are nodes
        masks = [self.mask(kind, operands[self.at[node]], value, q) for kind, node, value in self.found.masks]
        if not self.fits(q, kt, v, masks) or not decide("passes", f"attention {result.name}"):
            return self.as_captured(operands)
        total: Tensor | None = None
        for mask in masks:
            total = mask if total is None else total + mask
        if total is not None:
            total = total.reshape((1,) * (4 - total.dim()) + tuple(total.shape))
        out = F.scaled_dot_product_attention(q, kt.transpose(-2, -1), v, total, scale=self.found.scale)
        return out if self.found.is_put_back else out.contiguous()

    def mask(self, kind: str, given: Tensor, value: Any, q: Tensor) -> Tensor:
        if kind == "add":
            return given
        return torch.zeros((), dtype=q.dtype, device=q.device).expand(given.shape).masked_fill(given, value)

    def fits(self, q: Tensor, kt: Tensor, v: Tensor, masks: Sequence[Tensor]) -> bool:
        """The flash kernel takes it: one dtype and batch, one head size, a mask without gradient that broadcasts to the scores."""
        if any(t.dim() != 4 or t.dtype != torch.float32 or t.device.type != "cpu" or t.numel() == 0 for t in (q, kt, v)):
            return False
        if torch.is_autocast_enabled("cpu") or any(dtype != q.dtype for dtype in self.found.dtypes):
            return False
        if not q.shape[:2] == kt.shape[:2] == v.shape[:2] or not q.shape[3] == kt.shape[2] == v.shape[3] or kt.shape[3] != v.shape[2]:
            return False
        scores = (*q.shape[:3], kt.shape[3])
        return all(m.dtype == q.dtype and not m.requires_grad and broadcasts(m.shape, scores) for m in masks)

    def as_captured(self, operands: Sequence[Tensor]) -> Tensor:
        known: dict[Node, Any] = {node: operands[i] for node, i in self.at.items()}
        for node in self.found.nodes:
            args = torch.fx.node.map_arg(node.args, known.__getitem__)
            kwargs = torch.fx.node.map_arg(node.kwargs, known.__getitem__)
            target: Any = node.target
            known[node] = target(*args, **kwargs) if callable(target) else getattr(args[0], target)(*args[1:], **kwargs)
        result: Tensor = known[self.found.nodes[-1]]
        return result


def broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    return len(shape) <= len(to) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False))


def fuse_attention(gm: GraphModule) -> GraphModule:
    """The graph with every written-out attention as one node; the graph itself where there is none."""
    found: list[Found] = []
    for node in gm.graph.nodes:
        new = match(node)
        if new is not None and not any(set(new.nodes) & set(f.nodes) for f in found):
            found.append(new)
    if not found:
        return gm
    graph = Graph()
    copies: dict[Node, Node] = {}
    last = {f.nodes[-1]: f for f in found}
    inside = {n for f in found for n in f.nodes[:-1]}
    for node in gm.graph.nodes:
        if node in inside:
            continue
        if node not in last:
            copies[node] = graph.node_copy(node, copies.__getitem__)
            continue
        operands = operands_of(last[node])
        copies[node] = graph.call_function(Attention(last[node], operands), tuple(copies[n] for n in operands))
        copies[node].meta = dict(node.meta)
    return _LazyGraphModule(gm, graph)


def operands_of(found: Found) -> list[Node]:
    """Everything the calls read that they do not make themselves."""
    inside = set(found.nodes)
    return list(dict.fromkeys(n for node in found.nodes for n in node.all_input_nodes if n not in inside))
