"""The table of lowerings: ATen overload -> row. Family files fill it at import."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch.fx import Graph

from dynamo.ops.facts import overload

Lower = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """`kind` is what `ops.md` says: native (one nest), decomposed (several), view, extern. `any_dtype` rows only move indices."""

    target: Any
    lower: Lower
    kind: str
    family: str
    any_dtype: bool = False


ROWS: dict[Any, Row] = {}
MISSING: list[str] = []  # names of rows that this torch has no operator for: an older or a newer one may


def add(names: str, lower: Lower, kind: str, family: str, any_dtype: bool = False) -> None:
    """Register one lowering for every overload in a space-separated list."""
    for name in names.split():
        target = overload(name)
        if target is None:
            MISSING.append(name)
            continue
        if target in ROWS:
            raise ValueError(f"{name} has two lowerings: {ROWS[target].family} and {family}")
        ROWS[target] = Row(target, lower, kind, family, any_dtype)


def lowers(names: str, kind: str = "native", *, any_dtype: bool = False) -> Callable[[Lower], Lower]:
    """Decorator form of `add`; the family is the file the row is in."""

    def register(lower: Lower) -> Lower:
        add(names, lower, kind, lower.__module__.rsplit(".", 1)[-1], any_dtype)
        return lower

    return register


_LEAST = ("view", "native", "decomposed", "extern")


def summary(graph: Graph, how: Mapping[str, str]) -> dict[str, str]:
    """How every operator of a graph was lowered; of its nodes the one that got the least."""
    out: dict[str, str] = {}
    for node in graph.nodes:
        if node.name in how:
            name = str(node.target)
            out[name] = max(out.get(name, "view"), how[node.name], key=_LEAST.index)
    return out
