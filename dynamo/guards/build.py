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
from dynamo.lifetimes import Lifetime
from dynamo.source import Source

if TYPE_CHECKING:
    from dynamo.symbolic.definitions import Definitions, Hold
    from dynamo.symbolic.tracer import GuardRecord


@dataclass
class _Node:
    kind: str
    arg: Any
    leaves: list[tuple[int, str, Any]] = field(default_factory=list)
    children: dict[Source, _Node] = field(default_factory=dict)

    def freeze(self, hold: Hold) -> _C.Node:
        leaves = sorted(self.leaves, key=lambda leaf: _COST.get(leaf[1], 5))
        held = tuple((gid, kind, hold(arg) if kind in _IDENTITIES else arg) for gid, kind, arg in leaves)
        arg = hold(self.arg) if self.kind == "const" else self.arg
        return (self.kind, arg, held, tuple(c.freeze(hold) for c in self.children.values()))


_IDENTITIES = frozenset({"type", "is", "is_not", "code"})
_COST = {
    **dict.fromkeys(("type", "is", "code", "same"), 0),
    **dict.fromkeys(("state", "len"), 1),
    **dict.fromkeys(("eq", "tensor"), 2),
    **dict.fromkeys(("no_key", "has_key"), 3),
    "dict_keys": 4,
    "defined": 2,
    "pred": 9,
}


@dataclass
class BuiltGuards:
    """The tree, the records by guard id, and the texts for the record."""

    tree: _C.GuardTree
    records: list[GuardRecord]

    def texts(self) -> list[tuple[str, str]]:
        """(source, check) of each guard, as people read them."""
        return [guard_text(r) for r in self.records]


def build(
    records: Sequence[GuardRecord],
    distinct: Sequence[Source],
    state: _C.GlobalState,
    definitions: Definitions | None = None,
    lifetime: Lifetime | None = None,
) -> BuiltGuards:
    """Compile guard records. `distinct` sources must be pairwise different objects; `state` is the global state at entry.

    What the guards name is held through `lifetime`.
    """
    from dynamo.symbolic.tracer import GuardRecord

    root = _Node("root", None)
    kept: list[GuardRecord] = [GuardRecord(None, "state", state)]
    root.leaves.append((0, "state", state))
    lifetime = lifetime or Lifetime()
    defined = definitions.freeze(lifetime.hold) if definitions is not None else None
    if defined is not None:
        root.leaves.append((1, "defined", defined))
        kept.append(GuardRecord(None, "defined", defined))
    nodes: dict[Source, _Node] = {}
    groups: dict[Source, int] = {}  # source of an object -> number of the group of those that lead to it as well
    for record in records:
        gid = len(kept)
        kept.append(record)
        node, kind, arg = _leaf(root, nodes, record)
        if kind == "same":
            if arg not in groups:
                groups[arg] = len(groups)
                _find(root, nodes, arg).leaves.append((gid, kind, groups[arg]))
            arg = groups[arg]
        node.leaves.append((gid, kind, arg))
    if len(distinct) > 1:
        for source in distinct:
            _find(root, nodes, source).leaves.append((len(kept), "distinct", None))
        kept.append(GuardRecord(None, "distinct", tuple(s.name for s in distinct)))
    tree = _C.GuardTree(root.freeze(lifetime.hold))
    for record in kept:
        if record.kind in _IDENTITIES:
            record.arg = lifetime.hold(record.arg)
        origin = record.source.root if record.source is not None else None
        if origin is not None and origin.kind == "const":
            origin.arg = lifetime.hold(origin.arg)  # only its name is asked for from here on
    return BuiltGuards(tree, kept)


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
    if kind in _PREDICATES:
        return _find(root, nodes, source), "pred", _PREDICATES[kind](arg)
    return _find(root, nodes, source), kind, arg


def _length(n: int) -> Callable[[Any], bool]:
    return lambda obj: len(obj) == n


def _set_items(items: frozenset[Any]) -> Callable[[Any], bool]:
    return lambda obj: frozenset(obj) == items


_PREDICATES: dict[str, Callable[[Any], Callable[[Any], bool]]] = {"pred_len": _length, "set_items": _set_items}
