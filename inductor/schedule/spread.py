"""Ends of split reductions where they are read: every piece of what follows puts the parts together for itself.

In: nests after splitting, among them those that make results of parts. Out: such a nest makes its results once for each of as many pieces
as there are parts, and a nest over whole rows that reads them is cut into these pieces. So fusion finds loops that both share, and a
kernel between the two, which would take longer to start than to run, is gone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from dynamo.decisions import decide
from inductor.ir.affine import Axis, Index, of_atom
from inductor.ir.dims import Dim, at_least, contiguous_strides, divides, hint, is_known, quotient, volume
from inductor.ir.expr import kept, load
from inductor.ir.nest import Nest, Program, views_of
from inductor.schedule.domain import simplify
from inductor.schedule.limits import Limits

RANGE = 8  # the longest piece beside the shortest that is worth reading all parts for


@dataclass(frozen=True)
class Reader:
    """A nest that reads results, and its loop that is cut."""

    nest: Nest
    axis: Axis


def spread(program: Program, ends: Collection[str], limits: Limits) -> None:
    """`ends`: names of the nests that make results of parts."""
    for end in [s for s in program.steps if isinstance(s, Nest) and s.name in ends]:
        (part,) = end.reduced
        readers = readers_of(program, end, part.extent, limits)
        what = f"{end.name}: its {volume(a.extent for a in end.axes)} results"
        if not readers or not decide("split", what, "made again where they are read"):
            continue
        piece = Axis(f"piece{end.name}", part.extent)
        new: dict[str, Nest] = {r.nest.name: in_pieces(r, end.writes(), part.extent) for r in readers}
        stores = [replace(s, index=pieces_of(s.index, piece)) for s in end.stores]
        new[end.name] = replace(end, axes=(*end.axes, piece), stores=tuple(stores))
        for name in end.writes():
            buffer = program.buffers[name]
            shape = (buffer.size, piece.extent)
            program.buffers[name] = replace(buffer, shape=shape, strides=contiguous_strides(shape))
        program.steps = [new.get(s.name, s) if isinstance(s, Nest) else s for s in program.steps]


def readers_of(program: Program, end: Nest, parts: Dim, limits: Limits) -> list[Reader]:
    """What reads the results: empty where something else than long pointwise nests does."""
    made = end.writes()
    if not is_known(parts) or not end.has_plain_stores or any(program.buffers[b].kind != "temp" for b in made):
        return []
    if made & {v.buffer for v in views_of(program.outputs)} or any(s is not end and s.writes() & made for s in program.steps):
        return []
    found = []
    for step in program.steps:
        if not step.reads() & made:
            continue
        reader = reader_of(step, made, parts, limits) if isinstance(step, Nest) else None
        if reader is None:
            return []
        found.append(reader)
    return found


def reader_of(nest: Nest, made: Collection[str], parts: Dim, limits: Limits) -> Reader | None:
    """The nest as one that is cut: along its longest loop that the results do not vary with."""
    simple = simplify(nest)
    reads = [e for e in simple.loads() if e.attr[0] in made]
    rows = {a for e in reads for a in e.attr[1].axes}
    free = [a for a in simple.axes if a not in rows and divides(parts, a.extent)]
    if not simple.is_pointwise or not simple.has_plain_stores or any(e.args for e in reads) or not free:
        return None
    axis = max(free, key=lambda a: hint(a.extent))
    rest = volume(a.extent for a in simple.axes if a not in rows)
    length = quotient(rest, parts)
    return Reader(simple, axis) if at_least(length * RANGE, limits.spread) and at_least(limits.spread, length) else None


def in_pieces(reader: Reader, made: Collection[str], parts: Dim) -> Nest:
    """The nest with a loop over pieces, each of which reads results of its own."""
    nest, axis = reader.nest, reader.axis
    piece, inside = Axis(f"piece{nest.name}", parts), Axis(f"inside{nest.name}", quotient(axis.extent, parts))
    axes = tuple(b for a in nest.axes for b in ((piece, inside) if a is axis else (a,)))
    cut = nest.substitute({axis: of_atom(piece) * inside.extent + of_atom(inside)}, axes)
    own = {e: load(e.attr[0], e.type, pieces_of(e.attr[1], piece)) for e in cut.loads() if e.attr[0] in made}
    return cut.rewrite(kept, dict(own))


def pieces_of(index: Index, piece: Axis) -> Index:
    """Where the result at `index` is kept for a piece."""
    return index * piece.extent + of_atom(piece)
