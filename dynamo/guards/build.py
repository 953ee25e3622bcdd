"""Guard records -> the tree that C evaluates.

Sources that share a prefix share its nodes. Leaves of one node are ordered cheap first, and children follow in the order in
which tracing first read them, so a failing call fails early.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynamo import _C
from dynamo.guards.words import KeptFacts, describe_tensor, guard_text
from dynamo.source import Source

if TYPE_CHECKING:
    from dynamo.symbolic.tracer import GuardRecord


@dataclass
class _Node:
    kind: str
    arg: Any
    leaves: list[tuple[int, str, Any]] = field(default_factory=list)
    children: dict[Source, _Node] = field(default_factory=dict)

    def freeze(self) -> _C.Node:
        leaves = tuple(sorted(self.leaves, key=lambda leaf: _COST.get(leaf[1], 5)))
        return (self.kind, self.arg, leaves, tuple(c.freeze() for c in self.children.values()))


_COST = {"type": 0, "is": 0, "code": 0, "state": 1, "len": 1, "eq": 2, "tensor": 2, "no_key": 3, "has_key": 3, "dict_keys": 4, "pred": 9}


@dataclass
class BuiltGuards:
    """The tree, the records by guard id, and the texts for the record."""

    tree: _C.GuardTree
    records: list[GuardRecord]

    def texts(self) -> list[tuple[str, str]]:
        """(source, check) of each guard, as people read them."""
        return [guard_text(r) for r in self.records]


def build(records: Sequence[GuardRecord], distinct: Sequence[Source], state: _C.GlobalState) -> BuiltGuards:
    """Compile guard records. `distinct` sources must be pairwise different objects; `state` is the global state at entry."""
    from dynamo.symbolic.tracer import GuardRecord

    root = _Node("root", None)
    kept: list[GuardRecord] = [GuardRecord(None, "state", state)]
    root.leaves.append((0, "state", state))
    nodes: dict[Source, _Node] = {}
    for record in records:
        gid = len(kept)
        kept.append(record)
        node, kind, arg = _leaf(root, nodes, record)
        node.leaves.append((gid, kind, arg))
    if len(distinct) > 1:
        for source in distinct:
            _find(root, nodes, source).leaves.append((len(kept), "distinct", None))
        kept.append(GuardRecord(None, "distinct", tuple(s.name for s in distinct)))
    return BuiltGuards(_C.GuardTree(root.freeze()), kept)


def _find(root: _Node, nodes: dict[Source, _Node], source: Source) -> _Node:
    node = nodes.get(source)
    if node is None:
        parent = root if source.base is None else _find(root, nodes, source.base)
        node = nodes[source] = parent.children[source] = _Node(source.kind, source.arg)
    return node


def _leaf(root: _Node, nodes: dict[Source, _Node], record: GuardRecord) -> tuple[_Node, str, Any]:
    """Where a record's leaf goes and what it is in C; kinds that C doesn't know become predicates."""
    source, kind, arg = record.source, record.kind, record.arg
    if source is None:
        return root, kind, arg
    if kind == "tensor":
        # The record must not keep the caller's tensor alive.
        record.arg = KeptFacts(_C.TensorFacts(arg), describe_tensor(arg))
        return _find(root, nodes, source), kind, record.arg.facts
    if kind == "same":
        return root, "pred", _same(source, arg)
    if kind in _PREDICATES:
        return _find(root, nodes, source), "pred", _PREDICATES[kind](arg)
    return _find(root, nodes, source), kind, arg


def _same(a: Source, b: Source) -> Callable[[Any], bool]:
    """A predicate over the frame inputs: two paths lead to one object."""
    from dynamo.codegen import path_function

    read_a, read_b = path_function(a), path_function(b)

    def same(inputs: tuple[Any, ...]) -> bool:
        return read_a(*inputs) is read_b(*inputs)

    return same


def _length(n: int) -> Callable[[Any], bool]:
    return lambda obj: len(obj) == n


def _set_items(items: frozenset[Any]) -> Callable[[Any], bool]:
    return lambda obj: frozenset(obj) == items


_PREDICATES: dict[str, Callable[[Any], Callable[[Any], bool]]] = {"pred_len": _length, "set_items": _set_items}
