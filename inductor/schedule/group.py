"""Nests that share their outer loops: what fusion makes, and what a target makes a kernel of."""

from __future__ import annotations

from dataclasses import dataclass, replace

from inductor.ir.affine import Axis
from inductor.ir.dims import Dim
from inductor.ir.nest import Nest
from inductor.schedule.domain import simplify


@dataclass
class Group:
    """Nests that share the loops `outer`. Members keep their remaining axes as inner loops. `walk`: see `persistent.py`."""

    outer: tuple[Axis, ...]
    members: list[Nest]
    alive: bool = True
    walk: Axis | None = None

    @classmethod
    def alone(cls, nest: Nest) -> Group:
        """One nest. An axis that it scans is walked in order, so never shared out."""
        return cls(tuple(a for a in nest.axes if a not in nest.scanned), [nest])

    @property
    def has_reduction(self) -> bool:
        return any(not m.is_pointwise for m in self.members)

    @property
    def points(self) -> Dim:
        return max(m.points for m in self.members)

    def inner(self, nest: Nest) -> tuple[Axis, ...]:
        return tuple(a for a in nest.axes if a not in self.outer)

    def __post_init__(self) -> None:
        self._reads: frozenset[str] = frozenset().union(*(m.reads() for m in self.members))
        self._writes: frozenset[str] = frozenset().union(*(m.writes() for m in self.members))

    def take(self, merged: Group) -> None:
        """Become the merged group, so that references to this one stay good."""
        self.outer, self.members, self.walk = merged.outer, merged.members, merged.walk
        self.__post_init__()

    def reads(self) -> frozenset[str]:
        return self._reads

    def writes(self) -> frozenset[str]:
        return self._writes

    @property
    def name(self) -> str:
        return "+".join(m.name for m in self.members)


def with_fewer_loops(kernel_group: Group) -> Group:
    """Merge inner loops of every member once the shared loops are fixed."""
    if kernel_group.walk is not None:
        return kernel_group
    fixed = set(kernel_group.outer)
    return replace(kernel_group, members=[simplify_inner(m, fixed) for m in kernel_group.members])


def simplify_inner(nest: Nest, fixed: set[Axis]) -> Nest:
    hidden = tuple(a for a in nest.axes if a in fixed)
    rest = replace(nest, axes=tuple(a for a in nest.axes if a not in fixed))
    merged = simplify(rest)
    return replace(merged, axes=hidden + merged.axes)
