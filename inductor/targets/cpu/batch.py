"""The kernel of a batch: built from the nest of its first row, run over all of them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from inductor.ir.dims import Dim, hint
from inductor.ir.expr import cost
from inductor.ir.nest import Batch, Program
from inductor.schedule.group import Group
from inductor.targets.cpu.kernel import Builder, LoopKernel


@dataclass(kw_only=True)
class BatchKernel(LoopKernel):
    """A pointwise kernel over one loop or none. `rows` name the buffers of each run, `extents` give its loop's length."""

    rows: tuple[tuple[str, ...], ...] = ()
    extents: tuple[Dim, ...] = ()


def batch_kernel(name: str, step: Batch, program: Program) -> BatchKernel:
    nest = step.nest
    first = Builder(name, Group(nest.axes, [nest]), program, nest.writes()).build()
    kernel = BatchKernel(**{f.name: getattr(first, f.name) for f in fields(first)}, rows=step.rows, extents=step.extents)
    kernel.is_batch = True
    kernel.reads = tuple(sorted(step.reads() - step.writes()))
    kernel.writes = tuple(sorted(step.writes()))
    kernel.work = sum(map(hint, step.extents)) * sum(cost(s.value) for s in nest.stores)
    return kernel
