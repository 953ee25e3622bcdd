"""Kernels whose programs stay: rows are reduced, and of the same rows the columns, while they are read once.

The gradient of a normalisation is such a step: every row has sums of its own, and weights have sums over all rows. The rows are cut into
as many parts as programs run at once. A program walks the rows of its part, does what is to be done for each, and keeps the sums of
columns as it goes. What the parts made is put together by a second kernel, as of any long reduction.

In the schedule this is a group over the parts, with `Group.walk` for the loop over the rows of a part: members have it as a loop, or
reduce over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inductor.ir.affine import Axis, Index, of_atom
from inductor.ir.dims import Dim, divides, hint, known_equal, quotient, volume
from inductor.ir.expr import Expr
from inductor.ir.nest import Nest, Program
from inductor.schedule.domain import fresh_axis
from inductor.schedule.group import Group
from inductor.schedule.limits import Limits

LEAST = 8  # rows of a part


def parts_to_stay(program: Program, nest: Nest, node: Expr, limits: Limits) -> Dim | None:
    """Into how many parts the rows of a sum of columns are cut, where other steps reduce the rows that it reads."""
    columns, rows = volume(a.extent for a in nest.axes), volume(a.extent for a in node.attr[1])
    if node.attr[0] != "sum" or len(node.attr[1]) != 1 or not 1 < columns <= limits.staying_columns:
        return None
    wide = wide_loads(nest, rows * columns)
    wide |= frozenset().union(*(wide_loads(s, rows * columns) for s in program.steps if isinstance(s, Nest) and s.writes() & wide))
    if not any(reduces_rows(step, wide, rows, columns) for step in program.steps if isinstance(step, Nest)):
        return None
    most = limits.staying * (1 if 2 * columns >= limits.staying_columns else 2)
    fitting = (n for n in range(most, limits.staying // 2, -1) if divides(n, rows) and rows >= LEAST * n)
    return next(fitting, None)


def wide_loads(nest: Nest, points: int) -> frozenset[str]:
    """Buffers of which a nest reads another element at every point."""
    return frozenset(e.attr[0] for e in nest.loads() if volume(a.extent for a in e.attr[1].axes) >= points)


def reduces_rows(nest: Nest, wide: frozenset[str], rows: int, columns: int) -> bool:
    """Whether a nest has one result for each of so many rows."""
    lengths = [volume(a.extent for a in e.attr[1]) for e in nest.exprs() if e.op == "reduce"]
    return bool(lengths) and set(lengths) == {columns} and volume(a.extent for a in nest.axes) == rows and bool(nest.reads() & wide)


def staying(first: Group, second: Group, limits: Limits) -> Group | None:
    """Both groups as one over parts of rows, where one has the sums of columns and the other the rows; None where they are no such two."""
    loops = loops_of(first) or loops_of(second)
    if loops is None:
        return None
    part, walk = fresh_axis(loops[0].extent, "p"), fresh_axis(loops[1].extent, "w")
    members = [m for group in (first, second) for m in over_parts(group, part, walk) or ()]
    if len(members) < len(first.members) + len(second.members):
        return None
    lengths = {m: volume(a.extent for a in (*m.axes, *m.reduced) if a not in (part, walk)) for m in members}
    columns = {*lengths.values()} - {1}
    if len(columns) != 1 or max(columns) > limits.staying_columns or not all(m.has_plain_stores and not m.scanned for m in members):
        return None
    sums = [m for m in members if walk in m.reduced]
    if not sums or any(lengths[m] == 1 for m in sums) or not reads_alike(members, walk):
        return None
    if not all(reduces_whole_rows(m, lengths[m]) for m in members if walk not in m.reduced):
        return None
    return Group((part,), members, walk=walk)


def reduces_whole_rows(nest: Nest, length: Dim) -> bool:
    """Whether no reduction leaves a loop over elements of the row out: a program has one result for each of its rows."""
    return all(known_equal(volume(a.extent for a in e.attr[1]), length) for e in nest.exprs() if e.op == "reduce")


def loops_of(group: Group) -> tuple[Axis, Axis] | None:
    """The loops over parts, and over the rows of a part, of a group that sums columns."""
    if group.walk is not None:
        return group.outer[0], group.walk
    found = [parted(m) for m in group.members]
    first = found[0]
    if first is None or any(f is None or [a.extent for a in f] != [a.extent for a in first] for f in found):
        return None
    return first


def parted(nest: Nest) -> tuple[Axis, Axis] | None:
    """Of a nest of partial sums the loop over parts, and the reduced one: everywhere the two walk as one."""
    kinds = {e.attr for e in nest.exprs() if e.op == "reduce"}
    if len(nest.reduced) != 1 or len(kinds) != 1 or next(iter(kinds))[0] != "sum":
        return None
    (rest,) = nest.reduced
    indices = [e.attr[1] for e in nest.loads() if rest in e.attr[1].axes]
    for axis in nest.axes:
        if indices and all(i.is_affine and known_equal(i.coef(axis), i.coef(rest) * rest.extent) for i in indices):
            return axis, rest
    return None


def over_parts(group: Group, part: Axis, walk: Axis) -> list[Nest] | None:
    """The members in loops over the parts and their rows."""
    loops = loops_of(group)
    if loops is not None:
        if [a.extent for a in loops] != [part.extent, walk.extent]:
            return None
        inside = [loops if group.walk is not None else parted(m) for m in group.members]
        return [m for nest, own in zip(group.members, inside, strict=True) for m in put(nest, own, part, walk)]
    whole = of_atom(part) * walk.extent + of_atom(walk)
    for row in group.outer:
        if known_equal(row.extent, part.extent * walk.extent):
            return [m.substitute({row: whole}, (part, walk, *(a for a in m.axes if a is not row))) for m in group.members]
    if len(group.outer) != 1 or group.has_reduction or not divides(part.extent * walk.extent, group.outer[0].extent):
        return None
    (flat,) = group.outer
    column = fresh_axis(quotient(flat.extent, part.extent * walk.extent), "c")
    every = whole * column.extent + of_atom(column)
    return [m.substitute({flat: every}, (part, walk, column)) for m in group.members]


def put(nest: Nest, own: tuple[Axis, Axis] | None, part: Axis, walk: Axis) -> Iterable[Nest]:
    if own is not None:
        mapping = {own[0]: of_atom(part), own[1]: of_atom(walk)}
        names = {own[0]: part, own[1]: walk}
        axes = [names.get(a, a) for a in nest.axes]
        yield nest.substitute(mapping, (part, *(a for a in axes if a is not part)))


def reads_alike(members: Sequence[Nest], walk: Axis) -> bool:
    """The sums of columns and the rows read some buffer in the same steps, and no row waits for a sum of columns."""
    sums = [m for m in members if walk in m.reduced]
    rows = [m for m in members if walk not in m.reduced]
    made = frozenset().union(*(m.writes() for m in sums))
    if any(m.reads() & made for m in members):
        return False
    return any(steps_of(s, walk) & steps_of(r, walk) for s in sums for r in rows)


def steps_of(nest: Nest, walk: Axis) -> set[tuple[str, Dim, int]]:
    indices: list[tuple[str, Index]] = [(e.attr[0], e.attr[1]) for e in nest.loads()] + [(s.buffer, s.index) for s in nest.stores]
    return {(buffer, index.coef(walk), hint(index.bounds[1])) for buffer, index in indices if index.is_affine and index.coef(walk)}
