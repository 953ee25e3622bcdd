"""The schedule of a program: kernels and extern calls in order, and where every buffer lives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from inductor.ir.dims import Dim, hint, is_empty
from inductor.ir.nest import Batch, Extern, Opaque, Program, views_of
from inductor.schedule.domain import restart_names
from inductor.schedule.fuse import Fuser
from inductor.schedule.group import Group, with_fewer_loops
from inductor.schedule.inline import inline
from inductor.schedule.kernel import Kernel
from inductor.schedule.limits import Limits
from inductor.schedule.reuse import touched, write_in_place
from inductor.schedule.split import split_reductions


@dataclass
class Plan:
    """What codegen prints and the host program runs. Slot 0 of the pointer table is the flag for indices out of range."""

    program: Program
    steps: list[Kernel | Extern]
    slots: dict[str, int]
    arena: dict[str, Dim] = field(default_factory=dict)
    arena_bytes: Dim = 0
    reasons: list[tuple[str, str, str]] = field(default_factory=list)
    tunes: bool = False  # how kernels are cut is to be measured, where the target can

    @property
    def kernels(self) -> list[Kernel]:
        return [s for s in self.steps if isinstance(s, Kernel)]


def needed_outside(steps: list[Group | Opaque], program: Program) -> dict[int, frozenset[str]]:
    """For every group, the buffers it writes that something else reads."""
    readers: dict[str, set[int]] = {}
    for i, step in enumerate(steps):
        for buffer in step.reads():
            readers.setdefault(buffer, set()).add(i)
    outputs = {v.buffer for v in views_of(program.outputs)}
    return {
        i: frozenset(b for b in step.writes() if b in outputs or readers.get(b, set()) - {i})
        for i, step in enumerate(steps)
        if isinstance(step, Group)
    }


class Maker(Protocol):
    """The part of a target that the schedule needs: see `inductor.targets.protocol.Target`."""

    limits: Limits

    def kernel(self, name: str, group: Group, program: Program, needed: frozenset[str]) -> Kernel: ...

    def batch(self, name: str, batch: Batch, program: Program) -> Kernel: ...

    def extern(self, name: str, step: Extern, program: Program) -> Sequence[Kernel]: ...


def schedule(program: Program, target: Maker) -> Plan:
    """Inline, split long reductions, fuse, order, make kernels, plan memory."""
    restart_names()
    inline(program, target.limits)
    split_reductions(program, target.limits)
    fuser = Fuser(program, target.limits)
    order = fuser.run()
    needed = needed_outside(order, program)
    steps: list[Kernel | Extern] = []
    for i, step in enumerate(order):
        if isinstance(step, Extern):
            steps += target.extern(f"k{i}", step, program) or [step]
        elif isinstance(step, Batch):
            steps += [target.batch(f"k{i}", step, program)] if not all(map(is_empty, step.extents)) else []
        elif all(m.points for m in step.members):
            steps.append(target.kernel(f"k{i}", with_fewer_loops(step), program, needed[i]))
        else:
            steps.extend(_empty(step, f"k{i}", program, needed[i], target))
    used = {b for s in steps for b in touched(s)}
    outputs = {v.buffer for v in views_of(program.outputs)}
    names = [b for b in program.buffers if b in used or b in outputs or b in program.inputs or b in program.constants]
    plan = Plan(program, steps, {b: i for i, b in enumerate(names, 1)}, reasons=fuser.reasons)
    place(plan, target.limits)
    return plan


def _empty(group: Group, name: str, program: Program, needed: frozenset[str], target: Maker) -> list[Kernel]:
    """Members without points do nothing, but a reduction over nothing still stores its start value."""
    live = [m for m in group.members if not any(is_empty(a.extent) for a in m.axes)]
    return [target.kernel(f"{name}_{j}", with_fewer_loops(Group.alone(m)), program, needed | m.writes()) for j, m in enumerate(live)]


def place(plan: Plan, limits: Limits) -> None:
    """Say where temporaries live: over a value that is no longer needed, together in one arena, or alone.

    Those that are alone are allocated and freed as the program runs. That costs little beside what fills them, and an arena is as large
    for the whole program as its fullest moment needs: a training step is fullest elsewhere. So only small ones of small programs share.
    """
    program, buffers = plan.program, plan.program.buffers
    write_in_place(plan.steps, program)
    first: dict[str, str] = {}  # the buffer that had the memory first
    for new, old in ((new, old) for kernel in plan.kernels for new, old in kernel.over.items()):
        first[new] = first.get(old, old)
        if buffers[new].is_laid_out_as(buffers[old]):
            plan.slots[new] = plan.slots[old]
    life: dict[str, tuple[int, int]] = {}
    for i, step in enumerate(plan.steps):
        for buffer in (first.get(b, b) for b in touched(step)):
            life[buffer] = (life.get(buffer, (i, i))[0], i)
    outputs = {first.get(b, b) for b in program.output_buffers()}
    temps = [b for b in life if buffers[b].kind == "temp"]
    limit = limits.large if sum(hint(buffers[b].nbytes) for b in temps) < limits.large_program else 0
    plan_arena(plan, {b: life[b] for b in temps if b not in outputs and hint(buffers[b].nbytes) < limit}, limits.align)
    plan.arena.update({new: plan.arena[old] for new, old in first.items() if old in plan.arena})


def plan_arena(plan: Plan, life: dict[str, tuple[int, int]], align: int) -> None:
    """Give temporaries an offset in one arena; two share bytes when their lives, as first and last step, do not overlap."""
    program = plan.program
    placed: list[tuple[Dim, Dim, int, int]] = []
    for buffer, (first, last) in sorted(life.items(), key=lambda kv: -hint(program.buffers[kv[0]].nbytes)):
        size = max(-(-program.buffers[buffer].nbytes // align) * align, align)
        busy = sorted((start, end) for start, end, f, last_use in placed if not (last_use < first or last < f))
        at = 0
        for start, end in busy:
            if start - at >= size:
                break
            at = max(at, end)
        placed.append((at, at + size, first, last))
        plan.arena[buffer] = at
        plan.arena_bytes = max(plan.arena_bytes, at + size)
