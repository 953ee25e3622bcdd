"""A group as a Triton kernel: its loops as rows and columns, and the tile that one program works on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from inductor.ir.affine import Axis, Index, Mod
from inductor.ir.dims import Dim, hint, numel
from inductor.ir.expr import cost
from inductor.ir.nest import Batch, Buffer, Nest, Program
from inductor.ir.types import TYPES
from inductor.schedule.group import Group
from inductor.schedule.kernel import Kernel
from inductor.schedule.stages import Stager, contiguity
from inductor.targets.triton.body import ATOMIC, FIRST
from inductor.targets.triton.granules import Granule, granule_of
from inductor.targets.triton.machine import TABLE_BLOCK, Device, Facts, Shape, choose, in_pieces
from inductor.targets.triton.reductions import reduction
from inductor.targets.triton.space import (
    Space,
    Unprintable,
    space_of,
    walking_space,
    with_moments_apart,
    with_online_sums,
    without_one_hots,
)
from inductor.targets.triton.table import Table, table_of

LEAST_CROSSING = 8  # iterations of a loop that is worth a side of a tile: filters of 3 x 3 are laid out channels last in every call


@dataclass(kw_only=True)
class TritonKernel(Kernel):
    """`refusal` says why there is no Triton form (''): then the group runs as ATen calls."""

    members: tuple[Nest, ...]
    space: Space | None = None
    shape: Shape | None = None
    granule: Granule | None = None
    refusal: str = ""
    rows: tuple[tuple[str, ...], ...] = ()  # of a batch: the buffers of every run of the kernel
    lengths: tuple[Dim, ...] = ()  # and the length of its only loop
    table: Table | None = None  # of a batch that is one launch

    @property
    def keeps_order(self) -> bool:
        """A program reads all before it stores over anything."""
        if self.space is None or self.shape is None or self.shape.is_looped or self.granule is not None or self.space.through:
            return False
        return super().keeps_order

    def how(self) -> list[str]:
        if self.shape is None:
            return [f"as ATen calls: {self.refusal}"]
        columns = f" x {self.shape.columns}" if self.shape.columns else ""
        if self.shape.stages:
            columns += f", {self.shape.stages} stages"
        return [f"{self.shape.kind}, {self.shape.rows}{columns}{' looped' if self.shape.is_looped else ''}, {self.shape.warps} warps"]


def kernel_of(name: str, group: Group, program: Program, needed: frozenset[str], device: Device) -> TritonKernel:
    """The steps: the group as rows and columns, the facts of its loops, the shape that suits them, the stores that are left."""
    stages = Stager(group, program.mutated).run()
    writes = frozenset().union(*(m.writes() for m in group.members))
    kernel = TritonKernel(
        name=name,
        outer=group.outer,
        stages=stages,
        reads=tuple(sorted(frozenset().union(*(m.reads() for m in group.members)) - writes)),
        writes=tuple(sorted(writes)),
        work=sum(hint(m.points) * sum(cost(s.value) + 1 for s in m.stores) for m in group.members),
        origins=tuple(dict.fromkeys(o for m in group.members for o in m.origins)),
        members=tuple(group.members),
    )
    try:
        check_printable(group)
        crossing = crossing_axis(group)
        inner = Group(tuple(a for a in group.outer if a is not crossing), group.members)
        space = space_of(inner, program, needed) if group.walk is None else walking_space(group, program, needed)
        space = without_one_hots(space)
        facts = facts_of(space, program, crossing is not None)
        shape = choose(facts, device)
        if shape.kind == "looped row":
            online = with_online_sums(space)
            shape = choose(facts_of(online, program, crosses=False), device)
            space = online if shape.kind == "looped row" else space
        if not shape.is_looped:
            space = with_moments_apart(space)
        if shape.kind == "looped row" and space.part is None:
            kernel.granule = granule_of(space, program)
        if (pieces := in_pieces(shape, facts)) is not None and (granule := granule_of(space, program)) is not None:
            kernel.granule, shape = granule, pieces
    except Unprintable as why:
        kernel.refusal = str(why)
        kernel.writes = tuple(sorted(writes))
        return kernel
    kernel.space, kernel.shape = space, shape
    stored = frozenset(r.store.buffer for r in space.roots)
    loaded = frozenset(e.attr[0] for e in space.exprs() if e.op == "load")
    kernel.reads, kernel.writes = tuple(sorted(loaded - stored)), tuple(sorted(stored))
    return kernel


def batch_kernel(name: str, batch: Batch, program: Program, device: Device) -> TritonKernel:
    """The kernel of a batch: that of its first row, with the length of its loop as a parameter."""
    nest = batch.nest
    kernel = kernel_of(name, Group(nest.axes, [nest]), program, nest.writes(), device)
    kernel.is_batch = True
    kernel.rows, kernel.lengths = batch.rows, batch.extents
    kernel.reads = tuple(sorted(batch.reads() - batch.writes()))
    kernel.writes = tuple(sorted(batch.writes()))
    if kernel.shape is not None:
        kernel.shape = replace(kernel.shape, rows=TABLE_BLOCK, warps=4) if nest.axes else kernel.shape
        kernel.table = table_of(f"{name}_table", batch.rows, batch.extents, kernel.shape.rows)
    if kernel.table is not None:
        program.buffers[kernel.table.buffer] = Buffer(kernel.table.buffer, torch.int64, (kernel.table.size,), (1,), "temp", program.device)
        kernel.writes = (*kernel.writes, kernel.table.buffer)
    return kernel


def check_printable(group: Group) -> None:
    for nest in group.members:
        if not nest.points:
            raise Unprintable("a loop without iterations")
        for store in nest.stores:
            if store.mode == "add" and store.value.type not in ATOMIC:
                raise Unprintable(f"no atomic addition of {TYPES[store.value.type].torch}")


def crossing_axis(group: Group) -> Axis | None:
    """The loop that becomes the columns of a pointwise group of which some accesses are contiguous along it, and some along another."""
    members = group.members
    if any(not m.is_pointwise or not m.has_plain_stores or group.inner(m) for m in members):
        return None
    long = [a for a in group.outer if hint(a.extent) >= LEAST_CROSSING]
    unit = {a: sum(contiguity(m, a)[0] for m in members) for a in long}
    large = [a for a in long if unit[a] >= numel([b.extent for b in group.outer])]
    if len(large) < 2:
        return None
    return max(large, key=lambda a: unit[a])


def facts_of(space: Space, program: Program, crosses: bool) -> Facts:
    """What the choice of a shape looks at."""
    nodes = space.exprs()
    used = {e.attr[0] for e in nodes if e.op == "load"} | {r.store.buffer for r in space.roots}
    whole = space.n_rows * max((hint(a.extent) for a in space.columns), default=1)
    wide = {b: TYPES[program.buffers[b].type].size for b in used if program.buffers[b].size * 2 >= whole}
    return Facts(
        rows=space.n_rows,
        columns=max((hint(a.extent) for a in space.columns), default=0),
        itemsize=max(wide.values(), default=4),
        cost=sum(cost(r.store.value) for r in space.roots),
        passes=1 + space.depth if any(r.level and r.store.index.axes & set(space.columns) for r in space.roots) else max(space.depth, 1),
        streams=len({e.attr[0] for e in nodes if e.op == "load" and e.attr[0] in wide and len(e.axes) > 1}),
        finds=any(e.op == "reduce" and e.attr[0] in FIRST for e in nodes),
        has_scan=any(e.op == "scan" for e in nodes),
        rows_contiguous=walks_rows(space),
        crosses=crosses,
        stays=space.part is not None,
        streamed=streamed(space, program),
        writes=any(r.store.index.axes & {*space.columns} for r in space.roots),
        draws=any(e.op == "philox" for e in nodes),
        buffers=len({e.attr[0] for e in nodes if e.op == "load"}),
        shares=space.rows is not None and any(e.op == "load" and e.axes & {*space.columns} and space.rows not in e.axes for e in nodes),
        states=sum(len(reduction(kind, e.type).carried) for kind, e in {(e.attr[0], e.args[0]) for e in nodes if e.op == "reduce"}),
    )


def streamed(space: Space, program: Program) -> int:
    """Bytes of memory that are read at every point of rows and columns."""
    found = {e for e in space.exprs() if e.op == "load" and space.rows in e.attr[1].axes and e.attr[1].axes & set(space.columns)}
    return sum(TYPES[program.buffers[e.attr[0]].type].size for e in found)


def walks_rows(space: Space) -> bool:
    """Most of what varies along both rows and columns is contiguous along rows."""
    if space.rows is None or not space.columns:
        return False
    across = along = 0
    for index in [e.attr[1] for e in space.exprs() if e.op == "load"] + [r.store.index for r in space.roots]:
        column = next((c for c in space.columns if c in index.axes), None)
        if column is not None and space.rows in index.axes:
            low, high = index.bounds
            across += contiguous_steps(index, space.rows) * hint(high - low + 1)
            along += contiguous_steps(index, column) * hint(high - low + 1)
    return across > along


def contiguous_steps(index: Index, axis: Axis) -> Dim:
    """Whether neighbours along the axis are neighbours in memory: as a plain step of one, or as one below a remainder."""
    for atom, coef in index.terms:
        if coef == 1 and (atom is axis or (isinstance(atom, Mod) and atom.of.coef(axis) == 1 and atom.by >= 8)):
            return 1
    return 0
