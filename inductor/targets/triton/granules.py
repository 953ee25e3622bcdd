"""Rows whose length is an odd number, in pieces of 16 bytes: the tile of a row begins at the piece that its first element is in.

A mask that ends anywhere, or a row that begins anywhere, takes the vectors out of every access. So whole pieces are read, elements of
neighbouring rows are replaced in registers, only pieces that are wholly inside are stored as such, and both edges are stored on their own.
"""

from __future__ import annotations

from dataclasses import dataclass

from inductor.ir.affine import Axis, Index, of_atom
from inductor.ir.dims import at_least, divides, is_known, number, numel
from inductor.ir.expr import Expr, walk
from inductor.ir.nest import Program
from inductor.ir.types import TYPES
from inductor.targets.triton.space import Space

PIECE = 16  # bytes
SHORTEST = 512  # elements of a row; of shorter ones several share a tile


@dataclass(frozen=True)
class Part:
    """Of the columns: the conditions of loads and stores there, as endings of a column's name."""

    load: str = ""
    store: str = ""


INNER = Part()
FIRST_PART = Part("", "whole")  # the first piece may begin before the row
LAST_PART = Part("near", "whole")  # and the last end behind it
EDGES = Part("in", "in")


@dataclass(frozen=True)
class Granule:
    """Accesses at `index` go in pieces of `size` elements. In a kernel `edge` is where in memory the first piece of its row begins, `low`
    is how far the row is from there, and `r0_at` how far a column is."""

    column: Axis
    index: Index
    length: int
    size: int

    @property
    def at(self) -> str:
        return f"{self.column.name}_at"

    def row(self, *, is_wide: bool) -> list[str]:
        """Where the row begins. Of a conjunction LLVM knows the bounds, and so which lanes are never behind the end."""
        start = f"x * {self.length}"
        low = f"{start} & {self.size - 1}"
        return [f"edge = {start} // {self.size} * {self.size}", f"low = {f'({low}).to(tl.int32)' if is_wide else low}"]

    def lanes(self, at: str, part: Part) -> list[str]:
        """The columns of a part, and the conditions that it needs."""
        name, size = self.column.name, self.size
        lines = [f"{self.at} = {at}", f"{name} = {self.at} - low"]
        texts = {
            "in": f"({name} >= 0) & ({name} < {self.length})",
            "near": f"{self.at} < (low + {self.length + size - 1}) // {size} * {size}",
            "whole": f"({self.at} // {size} * {size} >= low) & ({self.at} // {size} * {size} + {size} <= low + {self.length})",
        }
        wanted = dict.fromkeys(["in", part.load, part.store]) if part is not INNER else {}
        return lines + [f"{name}_{key} = {texts[key]}" for key in wanted if key]

    def edges(self) -> list[str]:
        """The columns of pieces that are shared with other rows, of the first and of the last."""
        size, name = self.size, self.column.name
        return [
            f"k = tl.arange(0, {2 * size})[None, :]",
            f"{self.at} = tl.where(k < {size}, k, (low + {self.length}) // {size} * {size} + k - {size})",
            f"{name} = {self.at} - low",
            f"{name}_in = tl.where(k < {size}, ({name} >= 0) & (low > 0), {name} < {self.length})",
        ]


def granule_of(space: Space, program: Program) -> Granule | None:
    """How rows are cut, or None where they need not be or cannot."""
    if space.rows is None or len(space.columns) != 1 or space.through:
        return None
    rows, (column,) = space.rows, space.columns
    if not is_known(column.extent) or not is_known(rows.extent) or not at_least(column.extent, SHORTEST):
        return None
    length = number(column.extent)
    index = of_atom(rows) * length + of_atom(column)
    nodes = space.exprs()
    accesses = [(e.attr[0], e.attr[1]) for e in nodes if e.op == "load"] + [(r.store.buffer, r.store.index) for r in space.roots]
    walked = {b: i for b, i in accesses if rows in i.axes and column in i.axes}
    if not walked or any(i is not index for b, i in accesses if rows in i.axes and column in i.axes):
        return None
    if any(column in e.axes and (e.op in ("masked", "check", "scan") or (e.op == "load" and e.args)) for e in nodes):
        return None
    if any(r.is_update or r.store.indirect or r.store.mode != "set" for r in space.roots):
        return None
    if any(e.op == "reduce" and not reads_along(e.args[0], column) for e in nodes):
        return None  # Triton makes it anew in the layout of the edges, where one thread has hundreds of elements
    size = PIECE // min(TYPES[program.buffers[b].type].size for b in walked)
    whole = divides(size, numel([rows.extent, length]))  # the last piece ends where the buffer does
    return Granule(column, index, length, size) if whole and not divides(size, length) else None


def reads_along(value: Expr, column: Axis) -> bool:
    """Whether a value is made of memory that is walked along the columns."""
    return any(e.op == "load" and column in e.axes for e in walk(value))
