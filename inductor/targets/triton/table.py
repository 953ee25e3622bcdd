"""Many small buffers in one launch: their addresses in memory of the device, and which program works on which of them.

A launch takes 4 KB of parameters, so the addresses come in a few launches of the same kernel that write them down, and a CUDA graph that
replays those needs nothing of the host. Rows of a batch are sorted by length: a program finds its row by a few comparisons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inductor.ir.dims import Dim, is_known, number

ADDRESSES = 480  # that one launch writes down
FEWEST = 8  # rows that are worth a table
LENGTHS = 256  # different ones that a program tells apart, by three choices each

Launch = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # positions of the buffers, numbers after them, grid


@dataclass(frozen=True)
class Table:
    """`buffer` holds the addresses of all rows, one row after another; rows are taken in pieces of `block` elements."""

    buffer: str
    rows: tuple[tuple[str, ...], ...]
    lengths: tuple[int, ...]
    block: int

    @property
    def size(self) -> int:
        return len(self.rows) * len(self.rows[0])

    @property
    def parameters(self) -> list[str]:
        return [f"a{k}" for k in range(min(ADDRESSES, self.size))]

    @property
    def pieces(self) -> list[int]:
        return [-(-n // self.block) for n in self.lengths]

    def launches(self, at: Mapping[str, int]) -> list[Launch]:
        """Those that write the addresses down, from the number of the first on, then the one that works (-1)."""
        flat = [at[b] for row in self.rows for b in row]
        most, own = len(self.parameters), at[self.buffer]
        starts = [min(start, len(flat) - most) for start in range(0, len(flat), most)]
        writing: list[Launch] = [((*flat[start : start + most], own), (start,), (1,)) for start in starts]
        return [*writing, ((*flat[:most], own), (-1,), (sum(self.pieces),))]

    def writes(self, numbers: Sequence[int]) -> bool:
        """Whether a launch with these numbers writes addresses down."""
        return numbers[0] >= 0

    def writing(self) -> list[str]:
        """Statements that write addresses down."""
        return [f"tl.store(table + first + {k}, {name}.to(tl.int64))" for k, name in enumerate(self.parameters)]

    def finding(self) -> list[str]:
        """Statements that find the row of a program, its length `n`, and which piece of it is meant (`piece`)."""
        lines = ["at = tl.program_id(0)"]
        starts: dict[int, tuple[int, int]] = {}  # of each length, its first program and row
        first = 0
        for row, (length, pieces) in enumerate(zip(self.lengths, self.pieces, strict=True)):
            starts.setdefault(length, (first, row))
            first += pieces
        for length, (first, row) in starts.items():
            here = {"first_program": first, "first_row": row, "n": length}
            lines += [
                f"{name} = tl.where(at >= {first}, {value}, {name})" if first else f"{name} = {value}" for name, value in here.items()
            ]
        lines += [f"pieces = (n + {self.block - 1}) // {self.block}", "row = first_row + (at - first_program) // pieces"]
        return [*lines, "piece = (at - first_program) % pieces"]

    def taking(self, types: Sequence[str]) -> list[str]:
        """Statements that read the addresses of the row's buffers: as pointers p0, p1, ..., and whether all are multiples of 16."""
        count = len(self.rows[0])
        lines = [f"i{k} = tl.load(table + row * {count} + {k})" for k in range(count)]
        lines += [f"p{k} = i{k}.to(tl.pointer_type({kind}))" for k, kind in enumerate(types)]
        return [*lines, f"is_aligned = ({' | '.join(f'i{k}' for k in range(count))}) % 16 == 0"]


def table_of(buffer: str, rows: Sequence[tuple[str, ...]], lengths: Sequence[Dim], block: int) -> Table | None:
    """The table of a batch, or None where its rows are launched one by one."""
    if not all(map(is_known, lengths)):
        return None
    pairs = sorted(((number(n), row) for n, row in zip(lengths, rows, strict=True) if number(n)), key=lambda pair: -pair[0])
    if len(pairs) < FEWEST or len({n for n, _ in pairs}) > LENGTHS:
        return None
    return Table(buffer, tuple(row for _, row in pairs), tuple(n for n, _ in pairs), block)
