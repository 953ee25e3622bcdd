"""The stages of a group: which of its members walk the same inner loops together, and in which order.

In: a group. Out: stages. Within one iteration of the shared loops a stage begins when the one before has ended; what a member reads from
the group was made in an earlier stage, or at this very point of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from inductor.ir.affine import Axis, of_atom
from inductor.ir.dims import Dim, volume
from inductor.ir.nest import Nest
from inductor.schedule.group import Group


@dataclass
class Stage:
    """Members that walk the loops `axes` together."""

    axes: tuple[Axis, ...]
    members: list[Nest] = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        """Every point runs the members as they stand."""
        return True

    def how(self) -> str:
        """A word for the record on how the target runs it."""
        return ""


def contiguity(nest: Nest, axis: Axis) -> tuple[int, int]:
    """(elements of accesses that step by one along the axis, elements of accesses that step by more)."""
    unit = far = 0
    for index in [e.attr[1] for e in nest.loads()] + [s.index for s in nest.stores]:
        step, reach = index.coef(axis), volume(a.extent for a in index.axes)
        if step == 1:
            unit += reach
        elif step != 0 or axis in index.axes:
            far += reach
    return unit, far


class Stager:
    """`writer` is what makes each value of the group, in the loops of its stage."""

    def __init__(self, group: Group, mutated: set[str]) -> None:
        self.group, self.mutated = group, mutated
        self.writer = {b: m for m in group.members for b in m.writes() if b not in mutated}

    def run(self) -> list[Stage]:
        """Assign every member the first stage after everything it needs, joining loops that are the same."""
        level: dict[str, int] = {}
        stages: dict[tuple[int, tuple[Dim, ...]], Stage] = {}
        filled: dict[str, int] = {}  # the last level at which a buffer was written
        readers: dict[str, list[tuple[str, int]]] = {}  # of inputs that the group overwrites: members, and how many inner loops each has
        for original in self.group.members:
            nest = original
            signature, axes = self.signature(nest)
            lowest = 0
            for buffer in nest.writes() & self.mutated:  # of one level, stages of fewer loops come first
                lowest = max([lowest, *(level[name] + (len(signature) < loops) for name, loops in readers.get(buffer, ()))])
            for buffer in nest.reads() & self.mutated:
                readers.setdefault(buffer, []).append((nest.name, len(signature)))
            for buffer in (nest.reads() & nest.writes() & filled.keys()) - self.mutated:  # it is stored onto what is there
                lowest = max(lowest, filled[buffer] + 1)
            for buffer in nest.reads():
                source = self.writer.get(buffer)
                if source is not None and source.name != nest.name:
                    lowest = max(lowest, level[source.name])
            at = lowest
            while True:
                stage = stages.setdefault((at, signature), Stage(axes))
                joined = self.join(stage, nest, axes)
                if joined is not None and self.walks_alike(stage, joined) and self.satisfied(stage, joined, level, at, stages):
                    stage.members.append(joined)
                    level[nest.name] = at
                    filled.update(dict.fromkeys(joined.writes(), at))
                    self.writer.update(dict.fromkeys(joined.writes() - self.mutated, joined))
                    break
                at += 1
        ordered = sorted((k for k in stages if stages[k].members), key=lambda k: (k[0], len(k[1])))
        return [stages[k] for k in ordered]

    def signature(self, nest: Nest) -> tuple[tuple[Dim, ...], tuple[Axis, ...]]:
        axes = self.group.inner(nest) + nest.reduced
        return tuple(a.extent for a in axes), axes

    def join(self, stage: Stage, nest: Nest, axes: tuple[Axis, ...]) -> Nest | None:
        """The nest rewritten to the stage's own loop axes."""
        if stage.axes == axes:
            return nest
        mapping = {mine: of_atom(theirs) for mine, theirs in zip(axes, stage.axes, strict=True)}
        back = dict(zip(axes, stage.axes, strict=True))
        return nest.substitute(mapping, tuple(back.get(a, a) for a in nest.axes))

    def walks_alike(self, stage: Stage, nest: Nest) -> bool:
        """The nest and the stage's members have their neighbouring elements along the same loop."""
        if len(stage.axes) < 2 or not stage.members:
            return True

        def contiguous(n: Nest) -> Axis:
            return max(stage.axes, key=lambda a: (lambda c: 2 * c[0] - c[1])(contiguity(n, a)))

        return contiguous(stage.members[0]) is contiguous(nest)

    def satisfied(
        self, stage: Stage, nest: Nest, level: Mapping[str, int], at: int, stages: Mapping[tuple[int, tuple[Dim, ...]], Stage]
    ) -> bool:
        """Everything the nest reads from the group is ready: made in an earlier level, or at this very point of this loop."""
        for load in nest.loads():
            buffer, index = load.attr
            source = self.writer.get(buffer)
            if source is None or source.name == nest.name or level[source.name] < at:
                continue
            if level[source.name] > at or not any(m.name == source.name for m in stage.members):
                return False
            target = next(s.index for s in source.stores if s.buffer == buffer)
            if not self.same_point(source, stage) or target is not index:
                return False
        return True

    def same_point(self, source: Nest, stage: Stage) -> bool:
        """The value exists inside the loop body, not only after a reduction over one of its axes."""
        return not source.reduced and not source.scanned
