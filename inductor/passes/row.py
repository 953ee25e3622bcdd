"""What rewrite rows are written with.

A row is a name, the operators it looks at (none: all), and a function. The function gets one node and returns what may stand for it:
an earlier node, a `Call` still to be made, a constant tensor, or None. It changes nothing itself: the driver asks for fuel, then acts.
Rows never change what aliases what among the outputs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from dynamo.ops.facts import is_view

aten = torch.ops.aten


@dataclass(frozen=True)
class Call:
    """An operator call with the facts of the node it stands for."""

    target: Any
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()


@dataclass
class Seen:
    """What the pass has met so far: the first node of every distinct computation, whose memory the caller gets to see, and constants."""

    first: dict[Hashable, Node]
    shown: set[Node] = field(default_factory=set)
    constants: dict[Node, torch.Tensor] = field(default_factory=dict)

    def show(self, node: Node) -> None:
        """The caller gets this node's memory: the node's own, or that of what it is a view or an item of."""
        while node not in self.shown:
            self.shown.add(node)
            source = node.args[0] if node.args else None
            if not isinstance(source, Node) or not (node.target is operator.getitem or is_view(node.target)):
                return
            node = source


Replacement = Node | Call | torch.Tensor | None
Function = Callable[[Node, Seen], Replacement]


@dataclass(frozen=True)
class Row:
    name: str
    function: Function
    targets: frozenset[Any] | None = None


def row(name: str, function: Function, *targets: Any) -> Row:
    return Row(name, function, frozenset(targets) or None)


def by_target(rows: Iterable[Row]) -> Callable[[Any], tuple[Row, ...]]:
    """The rows that look at an operator, in the order of the table."""
    listed = tuple(rows)
    found: dict[Any, tuple[Row, ...]] = {}

    def look(target: Any) -> tuple[Row, ...]:
        if target not in found:
            found[target] = tuple(r for r in listed if r.targets is None or target in r.targets)
        return found[target]

    return look


def is_shown(node: Node) -> bool:
    return node.graph.output_node() in node.users


def same_facts(a: Node, b: Node) -> bool:
    """Equal shape, strides and dtype, and the same reading of the memory: a conjugate view and its copy are not one value in memory."""
    x, y = a.meta.get("val"), b.meta.get("val")
    if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
        return False
    if (x.is_conj(), x.is_neg()) != (y.is_conj(), y.is_neg()):
        return False
    return x.shape == y.shape and x.dtype == y.dtype and x.stride() == y.stride() and x.device == y.device


def operand(node: Node, position: int = 0) -> Node | None:
    """An argument that is a node."""
    found = node.args[position] if len(node.args) > position else None
    return found if isinstance(found, Node) else None


def called(node: Any, *targets: Any) -> bool:
    return isinstance(node, Node) and node.op == "call_function" and node.target in targets


def stands_for(node: Node, source: Node | None, seen: Seen) -> Node | None:
    """`source`, if a fresh value with its facts may be replaced by it: the caller must not get the memory of both."""
    if source is None or not same_facts(node, source) or node in seen.shown:
        return None
    return source
