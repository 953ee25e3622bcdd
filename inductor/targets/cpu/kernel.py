"""Turn a group into a kernel: loop stages, register, tile or memory for every value, and which loop is vectorised.

A kernel runs its outer loops in parallel. Each outer iteration runs the stages in order; a stage is one loop nest whose
members walk the same inner loops. A value read only in the stage that makes it stays in a register; one read by later
stages goes to a tile in L1; what the rest of the program needs goes to memory.

Two forms: `row` kernels vectorise an inner loop of each stage; `block` kernels vectorise one of the outer loops, which
is then walked in blocks (pure pointwise work and reductions over a strided dim).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from inductor.ir.affine import Axis, Index, const, of_atom
from inductor.ir.dims import SIZES, Dim, at_least, hint, in_order, is_known, quotient, volume
from inductor.ir.expr import cost
from inductor.ir.nest import Nest, Origin, Program
from inductor.ir.types import TYPES
from inductor.schedule.domain import covers, loops_apart
from inductor.schedule.group import Group
from inductor.schedule.kernel import Kernel
from inductor.schedule.stages import Stage, Stager, contiguity
from inductor.targets.cpu.interior import Interior, interior
from inductor.targets.cpu.machine import SERIAL_WORK, machine

BLOCK = 4096  # least elements per block of a block kernel that only does pointwise work
MANY_BLOCKS = 64  # outer iterations that share evenly among any number of threads
MIN_BLOCK = 16
NEAR = 32  # elements of a scattered row that are worth a pass over the indices
CROSSING_BLOCK = 64


@dataclass(frozen=True)
class Tile:
    """A buffer that lives on the stack for one outer iteration: `size` elements (times the block in block kernels)."""

    buffer: str
    type: str
    size: Dim


@dataclass
class LoopStage(Stage):
    """A stage as loops: `vector` is the innermost one (None: straight-line code), `interior` where it runs without tests on its index."""

    vector: Axis | None = None
    interior: Interior | None = None

    @property
    def is_plain(self) -> bool:
        return self.interior is None

    def how(self) -> str:
        return f"vector {self.vector.name}" if self.vector is not None else ""


@dataclass(kw_only=True)
class LoopKernel(Kernel):
    stages: list[LoopStage]
    block: Axis | None  # the vectorised outer loop of a block kernel
    block_size: Dim
    tiles: dict[str, Tile]
    registers: frozenset[str]
    tile_index: dict[tuple[str, Index], Index]
    is_serial: bool = False
    updates: frozenset[str] = frozenset()  # inputs it reads and then overwrites
    crossing: Axis | None = None  # the loop inside a block along which other accesses than the block's are contiguous
    skip: dict[str, int] = field(default_factory=dict)  # buffer -> elements at its start that no access of the kernel reaches

    @property
    def keeps_order(self) -> bool:
        return super().keeps_order and not self.is_serial and self.crossing is None

    def how(self) -> list[str]:
        blocks = [f"in blocks of {self.block_size} along {self.block.name}"] if self.block is not None else []
        return blocks + (["serial"] if self.is_serial else [])

    def private(self) -> list[tuple[str, str]]:
        return [("tile", b) for b in self.tiles] + [("register", b) for b in sorted(self.registers)]

    def home(self, buffer: str) -> str:
        """The buffer whose pointer reaches this one in the kernel."""
        new = next((new for new, old in self.over.items() if old == buffer), None)
        return buffer if new is None else self.home(new)

    def find_skips(self) -> None:
        """Move the constant that all indices into a buffer have to its pointer: then kernels that differ in it alone have one text."""
        least: dict[str, int] = {}
        nests = [m for s in self.stages for m in (*s.members, *(s.interior.members if s.interior is not None else ()))]
        for nest in nests:
            accesses = [e.attr for e in nest.loads()] + [(s.buffer, s.index) for s in nest.stores]
            for buffer, index in accesses:
                home = self.home(buffer)
                least[home] = min(least.get(home, index.const), index.const)
        self.skip = {buffer: constant for buffer, constant in least.items() if constant > 0}

    def beyond_skip(self, buffer: str, index: Index) -> Index:
        """An index counted from where the kernel's pointer to the buffer points."""
        skipped = self.skip.get(self.home(buffer), 0)
        return index + const(-skipped) if skipped else index


def choose_block(group: Group) -> Axis | None:
    """The outer loop to vectorise, or None when the inner loops of the members are the contiguous ones."""
    if not group.outer:
        return None
    scores: dict[Axis, int] = {}
    for axis in group.outer:
        total = 0
        for nest in group.members:
            unit, far = contiguity(nest, axis)
            total += unit * 2 - far
        scores[axis] = total
    best = max(group.outer, key=lambda a: (scores[a], hint(a.extent)))
    inner = [a for m in group.members for a in group.inner(m) + m.reduced]
    if not inner:
        return best
    inner_score = sum(_inner_score(group, m) for m in group.members)
    if any(m.scanned for m in group.members) and hint(best.extent) >= 8:
        return best if scores[best] > 0 else None
    return best if scores[best] > inner_score and hint(best.extent) >= 8 else None


def _inner_score(group: Group, nest: Nest) -> int:
    axes = group.inner(nest) + nest.reduced
    if not axes:
        return 0
    return max(2 * u - f for u, f in (contiguity(nest, a) for a in axes))


class Builder:
    """Builds one kernel from one group."""

    def __init__(self, name: str, group: Group, program: Program, needed: frozenset[str]) -> None:
        self.name, self.group, self.program, self.needed = name, group, program, needed
        self.outer = group.outer
        self.members = group.members
        self.block = choose_block(group)
        self.crossing = self.crossing_axis()
        if self.crossing is not None:
            self.outer = tuple(a for a in self.outer if a is not self.crossing)
            self.group = Group(self.outer, self.members)
        self.mutated = program.mutated
        self.writer: dict[str, Nest] = {}

    def crossing_axis(self) -> Axis | None:
        """The loop along which some large accesses of a pointwise group are contiguous while others are along `block`.

        Walked inside blocks, accesses of the second kind go through transposed patches (see codegen).
        """
        if self.block is None or not all(m.is_pointwise and m.has_plain_stores and not self.group.inner(m) for m in self.members):
            return None
        others = [a for a in self.outer if a is not self.block and hint(a.extent) >= MIN_BLOCK]
        unit = {a: sum(contiguity(m, a)[0] for m in self.members) for a in others}
        best = max(others, key=lambda a: unit[a], default=None)
        return best if best is not None and unit[best] >= max(m.points for m in self.members) else None

    def build(self) -> LoopKernel:
        if not self.members[-1].has_plain_stores:
            return self.scatter()
        stager = Stager(self.group, self.mutated)
        stages = [LoopStage(s.axes, s.members) for s in stager.run()]
        self.writer = stager.writer
        registers, tiles, tile_index = self.placement(stages)
        private = registers | frozenset(tiles)
        reads = {b for s in stages for m in s.members for b in m.reads()} - private
        writes = {b for s in stages for m in s.members for b in m.writes()} - private
        block_size = self.block_size(tiles)
        told = {SIZES} if any(not is_known(a.extent) for m in self.members for a in m.axes + m.reduced) else set()
        for stage in stages:
            self.choose_vector(stage)
            if self.block is None or at_least(block_size, self.block.extent):
                stage.interior = self.interior(stage, frozenset(tiles))
        return LoopKernel(
            name=self.name,
            outer=self.outer,
            stages=stages,
            block=self.block,
            block_size=block_size,
            tiles=tiles,
            registers=registers,
            tile_index=tile_index,
            reads=tuple(sorted((reads | told) - writes)),
            writes=tuple(sorted(writes)),
            work=self.work(),
            origins=self.origins(),
            updates=frozenset(writes & self.mutated),
            crossing=self.crossing,
        )

    def scatter(self) -> LoopKernel:
        """Scattered stores may meet, so their loops run in order; only loops that the targets keep apart may be shared out.

        What fills the target comes first, a piece per iteration of those.
        """
        nest = self.members[-1]
        apart = loops_apart(nest)
        stages = [LoopStage(tuple(a for a in m.axes if a not in apart), [m]) for m in self.members]
        for stage in stages[:-1]:
            self.choose_vector(stage)
        block = next((a for a in apart if all(s.index.coef(a) == 1 for s in nest.stores)), None)
        width = 1
        if block is not None:
            pieces = min(machine().cpus, max(2, hint(block.extent) // NEAR))
            width = max(MIN_BLOCK, min(256, hint(block.extent) // pieces))
        return LoopKernel(
            name=self.name,
            outer=apart,
            stages=stages,
            block=block,
            block_size=width,
            tiles={},
            registers=frozenset(),
            tile_index={},
            reads=tuple(sorted({b for m in self.members for b in m.reads()} - nest.writes())),
            writes=tuple(sorted(nest.writes())),
            work=self.work(),
            origins=self.origins(),
            is_serial=not apart,
        )

    def origins(self) -> tuple[Origin, ...]:
        return tuple(dict.fromkeys(o for m in self.members for o in m.origins))

    def work(self) -> Dim:
        total = 0
        for m in self.members:
            total += hint(m.points) * sum(cost(s.value) + 1 for s in m.stores)
        return total

    # ---- where values live ----

    def placement(self, stages: Sequence[LoopStage]) -> tuple[frozenset[str], dict[str, Tile], dict[tuple[str, Index], Index]]:
        registers: set[str] = set()
        tiles: dict[str, Tile] = {}
        tile_index: dict[tuple[str, Index], Index] = {}
        home = {m.name: i for i, s in enumerate(stages) for m in s.members}
        for buffer, source in self.writer.items():
            if buffer in self.needed or self.program.buffers[buffer].kind != "temp":
                continue
            uses = [(m, e) for s in stages for m in s.members for e in m.loads() if e.attr[0] == buffer]
            store = next(s for s in source.stores if s.buffer == buffer)
            if all(home[m.name] == home[source.name] and e.attr[1] is store.index for m, e in uses) and not source.reduced:
                registers.add(buffer)
                continue
            found = self.tile_map(store.index, [e.attr[1] for _, e in uses])
            if found is not None:
                size, indices = found
                type_name = store.value.type
                if size * TYPES[type_name].size * (MIN_BLOCK if self.block else 1) <= machine().tile_bytes:
                    tiles[buffer] = Tile(buffer, type_name, size)
                    tile_index.update({(buffer, old): new for old, new in indices.items()})
        return frozenset(registers), tiles, tile_index

    def tile_map(self, write: Index, reads: Sequence[Index]) -> tuple[Dim, dict[Index, Index]] | None:
        """Dense positions inside the tile for the store and every load, or None when the terms do not correspond."""
        fixed = set(self.outer)
        if not write.is_affine or not all(r.is_affine for r in reads):
            return None
        inner = in_order((c, a.extent) for a, c in write.terms if isinstance(a, Axis) and a not in fixed)
        dense: list[tuple[Dim, Dim, Dim]] = []  # coef in the buffer, extent, stride in the tile
        running = 1
        for coef, extent in inner:
            dense.append((coef, extent, running))
            running *= extent
        indices: dict[Index, Index] = {}
        for index in [write, *reads]:
            total = const(0)
            for atom, coef in index.terms:
                assert isinstance(atom, Axis)
                if atom in fixed:
                    continue
                home = next(((c, s) for c, n, s in dense if covers((c, n), (coef, atom.extent))), None)
                if home is None:
                    return None
                total = total + of_atom(atom) * (home[1] * quotient(coef, home[0]))
            indices[index] = total
        return running, indices

    # ---- loops ----

    def choose_vector(self, stage: LoopStage) -> None:
        """The vectorised loop goes innermost."""
        stage.vector = self.vector_axis(stage)
        stage.axes = tuple(a for a in stage.axes if a is not stage.vector) + ((stage.vector,) if stage.vector else ())

    def vector_axis(self, stage: LoopStage) -> Axis | None:
        if self.block is not None:
            return None
        scanned = {a for m in stage.members for a in m.scanned}
        candidates = [a for a in stage.axes if a not in scanned]
        if not candidates:
            return None

        def score(axis: Axis) -> tuple[int, int]:
            total = 0
            for m in stage.members:
                unit, far = contiguity(m, axis)
                total += 2 * unit - far
            return (total, hint(axis.extent))

        return max(candidates, key=score)

    def interior(self, stage: LoopStage, tiles: frozenset[str]) -> Interior | None:
        """Where the vectorised loop of a stage without reductions runs free of tests on its index."""
        axis = self.block or stage.vector
        if axis is None or self.crossing is not None:
            return None
        if not all(m.is_pointwise and m.has_plain_stores and not (m.reads() | m.writes()) & tiles for m in stage.members):
            return None
        return interior(axis, stage.members, self.name)

    def block_size(self, tiles: Mapping[str, Tile]) -> Dim:
        if self.block is None:
            return 1
        length = hint(self.block.extent)
        if self.crossing is not None:
            return min(CROSSING_BLOCK, length)
        inner = any(self.group.inner(m) or m.reduced for m in self.members)
        if not inner:
            blocks = MANY_BLOCKS // volume(a.extent for a in self.outer if a is not self.block)
            if blocks < 2 or self.work() < SERIAL_WORK:
                return length
            return min(max(-(-length // (blocks * MIN_BLOCK)) * MIN_BLOCK, BLOCK), length)
        per_lane = sum(t.size * TYPES[t.type].size for t in tiles.values()) or 16
        size, others = 512, volume(a.extent for a in self.outer)
        while size > MIN_BLOCK and (size * per_lane > machine().tile_bytes or others // size < machine().least_blocks):
            size //= 2
        return min(size, length)
