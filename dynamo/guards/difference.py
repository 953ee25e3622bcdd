"""All that keeps a call from a compiled entry: every guard that fails, where `GuardTree.explain` names the first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from dynamo import _C
from dynamo.guards.build import BuiltGuards
from dynamo.guards.kinds import KINDS, GuardRecord, KeptFacts, failure
from dynamo.inspection import given, is_a, written
from dynamo.source import Source
from dynamo.trace.events import Change

_ALONE = frozenset(KINDS) - {"same", "distinct", "state", "defined"}  # checked without what other leaves collect
_GONE = "gone"


def changes(guards: BuiltGuards, inputs: tuple[Any, ...]) -> list[Change]:
    """One row per guard that fails for these inputs, in the order of the records; below a failing one nothing is said."""
    first = guards.tree.explain(inputs)
    if first is None:
        return []
    found: dict[int, Change] = {}
    failed: set[Source] = set()
    for gid, record in enumerate(guards.records):
        if gid == first[0]:
            found[gid] = _change(gid, record, first[1])
        elif record.source is not None and record.kind in _ALONE and not failed.intersection(record.source.path()):
            seen = _alone(gid, record).explain(inputs)
            if seen is not None:
                found[gid] = _change(gid, record, seen[1])
        if gid in found and record.source is not None:
            failed.add(record.source)
    return [found[gid] for gid in sorted(found)]


def gone(guards: BuiltGuards) -> list[Change]:
    """The objects that guards name and that have died, those nearest to the inputs only."""
    dead = [(gid, r) for gid, r in enumerate(guards.records) if r.source is not None and KINDS[r.kind].names and given(r.arg) is None]
    if not dead:
        return []
    nearest = min(len(r.source.path()) for _, r in dead if r.source is not None)
    rows = []
    for gid, r in dead:
        if r.source is not None and len(r.source.path()) == nearest:
            at, root = place(r.source)
            rows.append(Change(gid, _GONE, "", -1, r.source.name, at, root, "the object of the call before", "another one", r.file, r.line))
    return rows


def _alone(gid: int, record: GuardRecord) -> _C.GuardTree:
    """A tree of one leaf."""
    assert record.source is not None
    arg = record.arg.facts if is_a(record.arg, KeptFacts) else record.arg
    node: _C.Node | None = None
    for step in reversed(record.source.path()):
        node = (step.kind, step.arg, () if node else ((gid, record.kind, arg),), (node,) if node else ())
    assert node is not None
    return _C.GuardTree(("root", None, (), (node,)))


def _change(gid: int, record: GuardRecord, seen: Any) -> Change:
    source = record.source
    at, root = place(source) if source is not None else ("", "mode" if record.kind == "state" else "object")
    aspect, dim, was, now = _facts(record, seen)
    return Change(gid, record.kind, aspect, dim, source.name if source is not None else "", at, root, was, now, record.file, record.line)


def _facts(record: GuardRecord, seen: Any) -> tuple[str, int, str, str]:
    """(aspect, dim, expected, seen)."""
    if record.kind == "tensor" and is_a(seen, torch.Tensor):
        return _stated(record.arg.facts.why(seen))
    if record.kind == "state":
        return _stated(record.arg.why())
    _, _, was, now = _stated(failure(record, seen))
    return "", -1, was, now


def _stated(text: str) -> tuple[str, int, str, str]:
    """The parts of `size at dim 0: expected 3, got 4`, as `TensorFacts.why`, `GlobalState.why` and `failure` put it."""
    what, _, rest = text.partition(": expected ")
    was, _, now = rest.rpartition(", got ")
    name, _, dim = what.partition(" at dim ")
    return name, int(dim) if dim.isdigit() else -1, was or rest, now


# ---- places as users write them -----------------------------------------------------------------------------


def place(source: Source) -> tuple[str, str]:
    """(`self.layers[0].scale`, where it begins): steps that only the implementation takes are left out."""
    steps = source.path()
    text, root = _root(steps[0])
    if root == "argument" and len(steps) > 1 and steps[1].kind == "cell":
        root = "closure"
    for part in _parts(steps[1:]):
        if root == "global" and not text:
            text = part.removeprefix("[").removesuffix("]").strip("'") if part.startswith("[") else part.removeprefix(".")
        else:
            text += part
    return text or source.name, root


def _root(step: Source) -> tuple[str, str]:
    name = step.name
    if step.kind == "input":
        return name.removeprefix("L['").removesuffix("']"), "argument"
    return ("", "global") if name == "G" else (name, "object")


def _parts(steps: list[Source]) -> Iterator[str]:
    own = table = False
    for step in steps:
        if step.kind == "inst_dict":
            own = True
        elif own and step.kind == "dict_item" and step.arg in ("_modules", "_parameters", "_buffers"):
            own, table = False, True
        elif step.kind == "attr" or (step.kind == "dict_item" and (own or table)):
            yield f"[{step.arg}]" if str(step.arg).isdigit() else f".{step.arg}"
            own = table = False
        elif step.kind in ("dict_item", "list_item", "tuple_item"):
            yield f"[{written(step.arg)}]"
        elif step.kind not in ("cell", "call", "type"):
            yield f".<{step.kind}>"
