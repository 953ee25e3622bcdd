"""Guard records -> the tree that C evaluates.

Sources that share a prefix share its nodes. Leaves of one node are ordered cheap first, and children follow in the order in
which tracing first read them, so a failing call fails early.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynamo import _C
from dynamo.faults import through
from dynamo.guards.kinds import KINDS, GuardRecord, KeptFacts, describe_tensor, guard_text
from dynamo.guards.lifetimes import Lifetime
from dynamo.source import Source

if TYPE_CHECKING:
    from dynamo.guards.definitions import Definitions, Hold


@dataclass
class _Node:
    kind: _C.GuardAccessor
    arg: Any
    leaves: list[tuple[int, _C.GuardKind, Any]] = field(default_factory=list)
    children: dict[Source, _Node] = field(default_factory=dict)

    def freeze(self, hold: Hold) -> _C.Node:
        leaves = sorted(self.leaves, key=lambda leaf: KINDS[leaf[1]].cost)
        held = tuple((gid, kind, hold(arg) if KINDS[kind].names else arg) for gid, kind, arg in leaves)
        arg = hold(self.arg) if self.kind == "const" else self.arg
        return (self.kind, arg, held, tuple(c.freeze(hold) for c in self.children.values()))


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
        if not through("guard", True, record):
            continue
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
        if KINDS[record.kind].names:
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


def _leaf(root: _Node, nodes: dict[Source, _Node], record: GuardRecord) -> tuple[_Node, _C.GuardKind, Any]:
    """Where a record's leaf goes and what it is in C."""
    source, kind, arg = record.source, record.kind, record.arg
    if source is None:
        return root, kind, arg
    if kind == "tensor":
        # The record must not keep the caller's tensor alive.
        record.arg = KeptFacts(_C.TensorFacts(arg), describe_tensor(arg))
        arg = record.arg.facts
    return _find(root, nodes, source), kind, arg
