"""From where on something pays, as the shared schedule asks: a target gives the numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    members: int  # nests of one kernel: its compile time grows faster than linearly
    few_iterations: int  # shared loops shorter than this starve the device
    small_work: int  # points below which parallelism does not matter
    piece: int  # points that stay near between filling and scattering to them
    few_results: int  # of a long reduction that is worth being split
    long_reduction: int  # elements one result may take before it is worth a second kernel
    programs: int  # iterations that the first of two such kernels should have (0: a few parts will do)
    columns: int  # results side by side in memory that one iteration makes
    large: int  # bytes of a temporary that is allocated alone
    large_program: int  # bytes of all temporaries from which on each is allocated alone
    align: int  # bytes that temporaries in one arena begin at multiples of
    again: int = 0  # arithmetic over given values that is done at every point rather than once in a kernel of its own
    alone: int = 0  # elements side by side that one iteration reduces in less time than it takes to start a second kernel
    staying: int = 0  # iterations that run beside each other from begin to end, where that pays (0: nowhere)
    staying_columns: int = 0  # elements of the longest row that such an iteration holds; of less than half of that, twice as many run
    spread: int = 0  # elements beside each other for which all parts of a reduction are put together once more (0: never)
    moments: int = 0  # iterations, of half as many columns, whose loads are as much as memory sends in the time that one takes
    row: int = 0  # elements of a row that one iteration keeps of a buffer (0: never)
    below: int = 0  # the same of everything below a few results side by side
    narrow: int = 8  # those results: as many as memory sends at once
    kept_buffers: int = 4  # of which it keeps as much; less of more
