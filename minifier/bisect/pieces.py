"""The operation whose gradient is wrong under a compiler that shows no backward graph: pieces of the graph are compiled alone, on the
values that eager has there, and halved while one of the halves is wrong."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Interpreter, Node
from torch.utils._pytree import tree_leaves

from dynamo.graph.lazy import lazy_module
from minifier.bisect.checking import Backend, compare
from minifier.bisect.nodes import Place, place_of
from minifier.bisect.subject import Subject, copied
from minifier.compare.verdict import Verdict


@dataclass(frozen=True)
class Unit:
    """A call with the reads of its results, where it has several."""

    nodes: tuple[Node, ...]


def wrong_piece(gm: GraphModule, inputs: Sequence[Any], grads: Sequence[bool], backend: Backend) -> Place | None:
    """The single call that is wrong when it is compiled alone, gradients included; None where a piece isn't wrong without the others.

    `grads` says which inputs need gradients.
    """
    units = _units(gm)
    if not units or any(not _gives_tensors(u) for u in units):
        return None
    values = _Values(gm)
    values.run(*(v.requires_grad_() if g else v for v, g in zip(copied(inputs), grads, strict=True)))

    def verdict(low: int, high: int) -> Verdict | None:
        piece = _piece(gm, units[low:high])
        given = [values.seen[n] for n in piece.reads]
        found = compare(Subject(piece.gm, given), backend, (0,))
        return found if found.is_finding else None

    low, high, found = 0, len(units), None
    while high - low > 1 or found is None:
        middle = (low + high) // 2
        for one, two in ((low, middle), (middle, high)) if high - low > 1 else ((low, high),):
            found = verdict(one, two)
            if found is not None:
                low, high = one, two
                break
        if found is None:
            return None
    return place_of(units[low].nodes[0], found)


def _units(gm: GraphModule) -> list[Unit]:
    units: list[list[Node]] = []
    home: dict[Node, list[Node]] = {}
    for node in gm.graph.nodes:
        if not node.op.startswith("call_"):
            continue
        parent = node.args[0] if node.target is operator.getitem and isinstance(node.args[0], Node) else None
        if parent in home and not isinstance(parent.meta.get("val"), torch.Tensor):
            home[parent].append(node)
            home[node] = home[parent]
        else:
            units.append([node])
            home[node] = units[-1]
    return [Unit(tuple(u)) for u in units]


def _gives_tensors(unit: Unit) -> bool:
    """What switches a mode of the program belongs to everything behind it: such graphs can't be cut."""
    return any(isinstance(v, torch.Tensor) for v in tree_leaves(unit.nodes[0].meta.get("val")))


class _Values(Interpreter):
    """Runs a graph in eager; `seen` has what each node gave, at that time, needing gradients as there."""

    def __init__(self, gm: GraphModule) -> None:
        super().__init__(gm)
        self.seen: dict[Node, Any] = {}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, torch.Tensor):
            self.seen[n] = copied([value])[0].requires_grad_(value.requires_grad)
        else:
            self.seen[n] = value
        return value


@dataclass(frozen=True)
class _Piece:
    gm: GraphModule
    reads: tuple[Node, ...]


def _piece(gm: GraphModule, units: Sequence[Unit]) -> _Piece:
    """These calls as a graph: what they read from elsewhere are its inputs, what others read of them its results."""
    inside = [n for u in units for n in u.nodes]
    known = set(inside)
    graph, copies = Graph(), {}
    reads = tuple(dict.fromkeys(r for r in _read(inside) if r not in known and r.op != "get_attr"))
    for node in reads:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in dict.fromkeys(r for r in _read(inside) if r.op == "get_attr"):
        copies[node] = graph.node_copy(node)
    for node in inside:
        copies[node] = graph.node_copy(node, lambda n: copies[n])
    results = [n for n in inside if isinstance(n.meta.get("val"), torch.Tensor) and any(u not in known for u in n.users)]
    graph.output(tuple(copies[n] for n in results))
    return _Piece(lazy_module(gm, graph), reads)


def _read(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        yield from node.all_input_nodes
