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
LENGTHS = 64  # different ones that a program tells apart

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
        first = row = 0
        pieces = self.pieces
        while row < len(self.rows):
            length, many = self.lengths[row], self.lengths.count(self.lengths[row])
            since = f"(at - {first})" if row else "at"
            here = f"{since} // {pieces[row]}{f' + {row}' if row else ''}", f"{since} % {pieces[row]}", str(length)
            for name, text in zip(("row", "piece", "n"), here, strict=True):
                lines.append(f"{name} = tl.where(at >= {first}, {text}, {name})" if row else f"{name} = {text}")
            first, row = first + many * pieces[row], row + many
        return lines

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
