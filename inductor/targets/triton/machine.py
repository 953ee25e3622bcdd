"""What kernels are cut for: the device, and the shape of each class of kernel by what it does. Nothing here is measured at run time.

The shapes are those that were the fastest of a sweep on an H200 (rows of softmax, norms, sums, transposes and others, 1 to 800 MB).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["flat", "transpose", "row", "looped row", "column", "short reduction", "scan", "walk"]

WARP = 32  # threads that run together
REGISTERS = 256  # a warp gets a multiple of so many
VECTOR = 16  # bytes that one thread moves at once
HEAVY = 24  # additions per element from which on a thread needs more independent work
MUCH = 6  # buffers that are read for an element, from which on the same holds
TILE = 2048  # elements of a tile of short rows
BLOCK_WARPS = 8  # of a tile of rows that one warp each reads at once
FEW_SHARE = 1024  # elements of a row from which on warps share it where there are few rows: so many have
SHARE = 256  # elements each
WHOLE_ROW = 16384  # elements of a row that stay in registers between passes
SHARING = 8192  # the same where a pass reads several rows, or what belongs to all rows
ODD = 512  # elements of a row of an odd length from which on a program has one
PER_WARP = 1024  # elements of such a row that one warp holds
READ_ONCE = 32768  # the same where there is one pass
LONG = 4096  # elements of a row from which on its length, and what is done along it, count
FINDING = LONG - 1  # elements of a row that stay in registers where a position is looked for
COLUMN_STAGES = 3  # steps of a walk down columns whose loads are under way together
LANE = 8  # neighbours that one thread loads at once
SHORT = 16  # elements of a reduction that one thread does alone
DRAWN = 4096  # elements of a program that draws a number for each
TABLE_BLOCK = 512  # elements of a program that works on one of many buffers
AHEAD = 65536  # bytes that programs of one processor have on their way
HELD = 8192  # elements of a tile of which a program keeps sums per element
SECTOR = 32  # bytes that memory sends at once
NARROW = SECTOR // 4  # results side by side of which a program holds everything below, where more would leave few programs
HELD_BELOW = 32768  # elements of such a program, of each of up to
HELD_READS = 4  # tensors; fewer of more
ON_ITS_WAY = 163840  # bytes of shared memory that the steps of one program may have
MANY = 2048  # programs from which on each of them needs less in flight
TOGETHER = 2  # steps of a loop that keeps sums of powers, which are under way at once
STREAM = 8192  # elements that a program has in flight while it reads what it needs once


@dataclass(frozen=True)
class Device:
    """Limits of a GPU."""

    processors: int = 132


@dataclass(frozen=True)
class Processor:
    """What the blocks that one processor of a GPU runs at a time have together. `shared`: bytes; of each block 1 KiB is the system's."""

    threads: int
    shared: int
    blocks: int
    registers: int = 65536


PROCESSORS = {  # by capability: those of the CUDA programming guide
    70: Processor(2048, 96 << 10, 32),
    75: Processor(1024, 64 << 10, 16),
    80: Processor(2048, 164 << 10, 32),
    86: Processor(1536, 100 << 10, 16),
    89: Processor(1536, 100 << 10, 24),
    90: Processor(2048, 228 << 10, 32),
    120: Processor(1536, 100 << 10, 24),
}


def occupancy(capability: int, threads: int, registers: int, shared: int) -> float:
    """The share of a processor's threads that blocks of a kernel fill. `registers`: of each thread, `shared`: bytes of each block."""
    processor = PROCESSORS[max((c for c in PROCESSORS if c <= capability), default=min(PROCESSORS))]
    warps = -(-threads // WARP)
    by_registers = processor.registers // (warps * -(-max(registers, 1) * WARP // REGISTERS) * REGISTERS)
    by_shared = processor.shared // (-(-(shared + 1024) // 128) * 128)
    blocks = min(processor.blocks, processor.threads // (warps * WARP), by_registers, by_shared)
    return blocks * warps * WARP / processor.threads


@dataclass(frozen=True)
class Shape:
    """A tile of `rows` x `columns` elements and the warps that work on it. `is_looped`: columns are walked, not held.

    `stages`: of how many steps a program that stays, or one that walks down columns, has memory in flight or in use.
    """

    kind: Kind
    rows: int
    columns: int
    warps: int
    is_looped: bool = False
    stages: int = 0


@dataclass(frozen=True)
class Facts:
    """What the choice looks at: points of the loops, bytes of the widest element, additions per element, and how memory is walked."""

    rows: int
    columns: int  # 0: no inner loops
    itemsize: int
    cost: int
    passes: int  # over the columns
    streams: int  # rows that a pass reads
    finds: bool  # the position of an extreme value
    has_scan: bool
    rows_contiguous: bool  # neighbouring elements of memory are in neighbouring rows
    crosses: bool  # pointwise, and memory is walked both ways
    states: int = 1  # values that a lane keeps for all reductions together
    stays: bool = False  # programs walk rows
    streamed: int = 0  # bytes that are read at every point
    draws: bool = False  # random numbers, four at once
    writes: bool = True  # elements of rows
    buffers: int = 1  # that are read
    shares: bool = False  # every row reads the same elements of something else, as weights


def power(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << max(n - 1, 0).bit_length()


def choose(facts: Facts, device: Device = Device()) -> Shape:
    """The shape of a kernel."""
    if facts.crosses:
        return transpose(facts)
    if facts.stays:
        return walk(facts)
    if not facts.columns:
        return flat(facts, device)
    if facts.columns <= SHORT and not facts.has_scan and facts.rows >= 4 * facts.columns:
        block = 256
        while block > 32 and facts.rows <= block * device.processors:
            block //= 2
        return Shape("short reduction", min(power(facts.rows), block), 1, max(1, block // 64), is_looped=True)
    if facts.rows_contiguous and facts.rows > 1 and not facts.has_scan:
        return column(facts, device)
    return row(facts, device)


def flat(facts: Facts, device: Device) -> Shape:
    """16 bytes a thread and load; twice that where arithmetic has to hide, or much that is read, and where nothing is read."""
    block = 128 * max(VECTOR // facts.itemsize, 4)
    if (facts.cost >= HEAVY or facts.buffers >= MUCH or not facts.buffers) and facts.itemsize <= 4:
        block *= 2
    if facts.draws:
        block = DRAWN
    while block > 128 and facts.rows <= block * device.processors // 2:
        block //= 2
    return Shape("flat", min(block, power(facts.rows)), 0, max(1, min(4, block // 32)))


def transpose(facts: Facts) -> Shape:
    """Tiles that are read along one loop and written along the other."""
    if facts.itemsize >= 4:
        return Shape("transpose", 64, 64, 8)
    if facts.rows * facts.columns >= 1 << 25:
        return Shape("transpose", 128, 128, 8)
    return Shape("transpose", 32, 128, 4)


def column(facts: Facts, device: Device) -> Shape:
    """Results side by side, each the sum of what lies below. Few steps of wide elements are unrolled: all are in flight at once."""
    side, steps, warps = 64, 64, 8
    if facts.rows < side * device.processors:
        side, steps, warps = 16, 128, 4
        wide = power(facts.columns)
        if wide > steps and NARROW * wide * max(facts.streams, HELD_READS) <= HELD_BELOW * HELD_READS:
            side = max(NARROW, min(SECTOR // facts.itemsize, HELD_BELOW // 2 // wide))
            steps, warps = wide, max(4, min(16, side * wide // 1024))
    elif facts.states > 1:
        side, steps, warps = 32, 32, 2
    elif facts.itemsize >= 4 and facts.columns <= SHORT * SHORT:
        steps, warps = SHORT, 4
    rows, columns = min(side, power(facts.rows)), min(steps, power(facts.columns))
    warps = warps if rows * columns >= 128 * warps else 4
    stages = COLUMN_STAGES + (facts.states > 1 and facts.streams < 2)
    stages = max(1, min(stages, ON_ITS_WAY // (max(facts.streams, 1) * rows * columns * facts.itemsize)))
    return Shape("column", rows, columns, warps, is_looped=facts.columns > columns, stages=stages if facts.columns > columns else 0)


def walk(facts: Facts) -> Shape:
    """Programs that stay, one or two for each processor: what is on its way while they work is what counts."""
    wide = power(facts.columns)
    beside = 1 if facts.columns >= 4096 else 2
    rows = max(1, min(HELD, AHEAD // 2 // facts.streamed) // (beside * wide))
    rows = min(power(rows + 1) // 2, power(facts.rows))
    while facts.rows % rows and not facts.rows % (rows // 2):
        rows //= 2
    ahead = -(-AHEAD // (beside * rows * facts.columns * facts.streamed))
    return Shape("walk", rows, wide, 8 if rows * wide > 4096 else 4, stages=min(max(ahead, 2), 5) + 1)


def row(facts: Facts, device: Device) -> Shape:
    wide = power(facts.columns)
    kind: Kind = "scan" if facts.has_scan else "row"
    if facts.columns <= TILE:
        if facts.writes:
            return short_row(facts, device, kind)
        rows = min(max(1, TILE // wide), power(facts.rows))
        return Shape(kind, rows, wide, 4 if rows * wide >= 512 else 1)
    if facts.passes < 2:
        if facts.columns <= (FINDING if facts.finds else READ_ONCE):
            if facts.rows == 1 and facts.columns >= TILE and not facts.has_scan and not facts.finds:
                return Shape(kind, 1, wide, min(32, wide // 256))  # a program that has the device for itself
            few = facts.columns < LONG or (facts.columns == LONG and not facts.has_scan)
            return Shape(kind, 1, wide, 4 if few else 8 if facts.columns <= 16384 else 16)
        warps = 4 if facts.finds else 8
    elif stays_whole(facts):
        return Shape(kind, 1, wide, whole_warps(facts))
    else:
        warps = 8 if facts.columns < 8192 and facts.itemsize <= 2 else 16 if facts.columns <= 16384 else 32
        if facts.shares and facts.columns > 8192:
            return Shape("looped row", 1, 16 * 32 * 16, 16, is_looped=True)
    if facts.has_scan:
        return Shape("scan", 1, 4096, 8, is_looped=True)
    if facts.passes < 2 and not facts.finds and facts.rows <= MANY:
        return Shape("looped row", 1, STREAM if facts.states == 1 else STREAM // 4, 8, is_looped=True)
    return Shape("looped row", 1, 8 * 32 * warps * (2 if facts.finds and facts.passes < 2 else 1), warps, is_looped=True)


def short_row(facts: Facts, device: Device, kind: Kind) -> Shape:
    """No warp shares a row where it can hold one: sums of warps meet in shared memory. Rows that a warp reads at once fill a block, one
    load a thread; of longer ones, and of elements that are converted once they are there, a warp holds 64 bytes a thread, and fewer where
    that left processors without work."""
    wide, is_whole = power(facts.columns), facts.columns % 4 == 0
    at_once = WARP * min(VECTOR // facts.itemsize, 8)
    if wide <= at_once and is_whole and facts.itemsize >= 4:
        rows = min(BLOCK_WARPS * at_once // wide, power(facts.rows))
        return Shape(kind, rows, wide, max(1, rows * wide // at_once))
    held = WARP * (min(4 * VECTOR // facts.itemsize, 32) if is_whole else 16)
    rows = min(max(1, held // wide), power(facts.rows))
    while rows > 1 and facts.rows <= 2 * rows * device.processors:
        rows //= 2
    if facts.rows <= device.processors and wide >= FEW_SHARE:
        held = min(held, SHARE)
    return Shape(kind, rows, wide, max(1, wide // held))


def in_pieces(shape: Shape, facts: Facts) -> Shape | None:
    """The tile for a row of an odd length that is held and written, with room for the pieces of 16 bytes at both ends; None where it would
    have to be twice as large, or where what rows share would be read from anywhere."""
    wide = power(facts.columns + 2 * (VECTOR // facts.itemsize - 1))
    is_apart = facts.columns < ODD or wide > LONG or wide != power(facts.columns)
    return None if shape.kind != "row" or not facts.writes or facts.shares or is_apart else Shape("row", 1, wide, max(1, wide // PER_WARP))


def stays_whole(facts: Facts) -> bool:
    """Whether a row is kept in registers between passes. Long rows of odd lengths are read in whole pieces by loops."""
    if facts.columns < LONG:
        return True
    if facts.has_scan:
        return False
    if facts.streams > 1:
        return facts.columns <= SHARING
    is_full = facts.columns % LANE == 0 and 4 * facts.columns >= 3 * power(facts.columns)
    return is_full and facts.columns <= (SHARING if facts.shares else WHOLE_ROW)


def whole_warps(facts: Facts) -> int:
    """16 to 32 elements a thread; fewer where several rows are read at once, more where no row is written."""
    if facts.columns < LONG:
        return 4
    if facts.streams > 1:
        return 16
    return 8 if facts.columns <= 4096 or facts.shares or not facts.writes else 16
