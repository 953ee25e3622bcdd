"""Iteration spaces: merging loops that are contiguous everywhere, and lining up the loops of two nests.

Nothing here decides; `align` only proposes how the loops of a nest correspond to the shared loops of a group, and
`is_local` says whether an access under that correspondence stays within one iteration of the shared loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

from inductor.ir.affine import Axis, Index, digits, of_atom
from inductor.ir.dims import Dim, at_least, divides, in_order, is_empty, is_known, is_one, known_equal, quotient
from inductor.ir.nest import Nest

_names = count()


def fresh_axis(extent: Dim, prefix: str = "x") -> Axis:
    """An axis with a name no other nest uses."""
    return Axis(f"{prefix}{next(_names)}", extent)


def restart_names() -> None:
    """Same names for the same graph: called once per graph."""
    global _names
    _names = count()


def indices_of(nest: Nest) -> list[Index]:
    """Every index expression of a nest."""
    found = [s.index for s in nest.stores]
    for node in nest.exprs():
        if node.op == "load":
            found.append(node.attr[1])
        elif node.op == "index":
            found.append(node.attr)
    return found


def _mergeable(outer: Axis, inner: Axis, indices: Sequence[Index]) -> bool:
    if not (is_known(outer.extent) and is_known(inner.extent)):
        return False
    for index in indices:
        if not known_equal(index.coef(outer), index.coef(inner) * inner.extent):
            return False
        if not index.is_affine and any(not isinstance(a, Axis) and {outer, inner} & a.of.axes for a, _ in index.terms):
            return False
    return True


def _merge_pair(nest: Nest, among: Sequence[Axis], indices: Sequence[Index]) -> tuple[Axis, Axis] | None:
    fixed = nest.scanned
    for outer in among:
        for inner in among:
            if outer is not inner and not {outer, inner} & fixed and _mergeable(outer, inner, indices):
                return outer, inner
    return None


def simplify(nest: Nest) -> Nest:
    """Merge loops that every access walks as one. Reduced loops merge among themselves (only neighbours, to keep positions)."""
    if any(is_empty(a.extent) for a in nest.axes + nest.reduced):
        return nest
    while True:
        indices = indices_of(nest)
        pair = _merge_pair(nest, nest.axes, indices)
        if pair is None:
            reduced = nest.reduced
            for outer, inner in pairwise(reduced):
                if _same_reductions(nest, outer, inner) and _mergeable(outer, inner, indices):
                    pair = (outer, inner)
                    break
        if pair is None:
            return nest
        outer, inner = pair
        merged = fresh_axis(outer.extent * inner.extent)
        high, low = digits(of_atom(merged), inner.extent)
        axes = tuple(merged if a is outer else a for a in nest.axes if a is not inner)
        nest = nest.substitute({outer: high, inner: low}, axes)


def _same_reductions(nest: Nest, outer: Axis, inner: Axis) -> bool:
    return all((outer in e.attr[1]) == (inner in e.attr[1]) for e in nest.exprs() if e.op == "reduce")


@dataclass(frozen=True)
class Alignment:
    """New shared axes, and both sides' old axes in terms of them (and of `inner`, the nest's left-over axes)."""

    shared: tuple[Axis, ...]
    outer_map: Mapping[Axis, Index]
    nest_map: Mapping[Axis, Index]


@dataclass
class _Part:
    """A piece of an axis: `extent` values, each worth `coef` in the access, standing for `scale` steps of `axis`."""

    coef: Dim
    extent: Dim
    axis: Axis
    scale: Dim


def _split(part: _Part, low: Dim) -> tuple[_Part, _Part] | None:
    if not divides(low, part.extent):
        return None
    high = _Part(part.coef * low, quotient(part.extent, low), part.axis, part.scale * low)
    return high, _Part(part.coef, low, part.axis, part.scale)


def _holds(coef: Dim, extent: Dim, step: Dim) -> bool:
    """Does a loop with this coefficient make the step on its way?"""
    return divides(coef, step) and at_least(step, coef) and at_least(extent, quotient(step, coef) + 1)


def align(outer: Sequence[Axis], outer_access: Index, nest_axes: Sequence[Axis], nest_access: Index) -> Alignment | None:
    """Pair the shared loops with loops of a nest by the step they make in one buffer both access."""
    if not outer_access.is_affine or not nest_access.is_affine:
        return None
    todo = [_Part(outer_access.coef(o), o.extent, o, 1) for o in outer]
    free = [_Part(nest_access.coef(a), a.extent, a, 1) for a in nest_axes if nest_access.coef(a) > 0]
    if any(p.coef <= 0 for p in todo) or any(is_empty(a.extent) for a in (*outer, *nest_axes)):
        return None
    pairs: list[tuple[_Part, _Part]] = []
    while todo:
        todo.sort(key=lambda p: p.coef)
        want = todo.pop()
        have = next((p for p in free if _holds(p.coef, p.extent, want.coef)), None)
        if have is None:
            return None
        free.remove(have)
        step = quotient(want.coef, have.coef)
        if is_one(step) and known_equal(have.extent, want.extent):
            pairs.append((want, have))
        elif not is_one(step) or at_least(have.extent, want.extent):
            pieces = _split(have, want.extent if is_one(step) else step)
            if pieces is None:
                return None
            free.extend(pieces)
            todo.append(want)
        else:
            pieces = _split(want, have.extent)
            if pieces is None:
                return None
            todo.extend(pieces)
            free.append(have)
    return _build(outer, nest_axes, pairs)


def _build(outer: Sequence[Axis], nest_axes: Sequence[Axis], pairs: list[tuple[_Part, _Part]]) -> Alignment:
    """Turn matched pieces into substitutions. Axes that were matched whole keep the group's own axis."""
    shared: list[Axis] = []
    outer_map: dict[Axis, Index] = {}
    used: dict[Axis, list[_Part]] = {}
    nest_parts: dict[Axis, list[tuple[Dim, Axis]]] = {}
    for want, have in pairs:
        whole = known_equal(want.extent, want.axis.extent)
        axis = want.axis if whole else fresh_axis(want.extent, "o")
        shared.append(axis)
        if not whole:
            outer_map[want.axis] = outer_map.get(want.axis, Index(0)) + of_atom(axis) * want.scale
        nest_parts.setdefault(have.axis, []).append((have.scale, axis))
        used.setdefault(have.axis, []).append(have)
    nest_map: dict[Axis, Index] = {}
    for axis in nest_axes:
        matched = nest_parts.get(axis, [])
        total = Index(0)
        for scale, part in matched:
            total = total + of_atom(part) * scale
        for scale, extent in _gaps(axis.extent, [(p.scale, p.extent) for p in used.get(axis, [])]):
            total = total + of_atom(fresh_axis(extent)) * scale
        nest_map[axis] = total
    return Alignment(tuple(shared), outer_map, nest_map)


def _gaps(extent: Dim, taken: list[tuple[Dim, Dim]]) -> Iterable[tuple[Dim, Dim]]:
    """Digits of the mixed-radix split of an axis that no pair took, as (scale, extent)."""
    if any(known_equal(size, extent) for _, size in taken):
        return
    at = 1
    for scale, size in in_order(taken):
        if scale > at:
            yield at, scale // at
        at = scale * size
    if not at_least(at, extent):
        yield at, quotient(extent, at)


Residue = list[tuple[Dim, Dim]]


def residue(index: Index, shared: Iterable[Axis]) -> Residue | None:
    """(coef, extent) of the terms that the shared loops do not fix, merged and sorted; None when not affine."""
    if not index.is_affine:
        return None
    fixed = set(shared)
    terms = in_order((coef, atom.extent) for atom, coef in index.terms if isinstance(atom, Axis) and atom not in fixed)
    merged: Residue = []
    for coef, extent in terms:
        if merged and is_known(extent) and is_known(merged[-1][1]) and known_equal(coef, merged[-1][0] * merged[-1][1]):
            merged[-1] = (merged[-1][0], merged[-1][1] * extent)
        else:
            merged.append((coef, extent))
    return merged


def covers(home: tuple[Dim, Dim], term: tuple[Dim, Dim]) -> bool:
    """Is every value of the term one of the home's? Both are (coef, extent)."""
    if not is_known(term[1]):
        return home == term
    return divides(home[0], term[0]) and at_least(home[1], quotient(term[0], home[0]) * (term[1] - 1) + 1)


def is_local(write: Index, read: Index, shared: Sequence[Axis]) -> bool:
    """Every element that `read` touches in one iteration of the shared loops was written by `write` in that iteration."""
    written, wanted = residue(write, shared), residue(read, shared)
    if written is None or wanted is None or write.const != read.const:
        return False
    if any(write.coef(a) != read.coef(a) for a in shared):
        return False
    return all(any(covers(home, term) for home in written) for term in wanted) and _distinct(wanted, written)


def _distinct(wanted: Residue, written: Residue) -> bool:
    """Two wanted terms never share one written term: their sum could then leave its range."""
    homes = [next((i for i, home in enumerate(written) if covers(home, term)), -1) for term in wanted]
    return len(set(homes)) == len(homes)


def loops_apart(nest: Nest) -> tuple[Axis, ...]:
    """Loops of a scatter whose iterations never store to the same element, whatever the indices are."""
    return tuple(a for a in nest.axes if all(_keeps_apart(s.index, a) for s in nest.stores))


def _keeps_apart(index: Index, axis: Axis) -> bool:
    """Different values of the axis never store to the same element, whatever the other terms are."""
    if not index.is_affine or index.coef(axis) == 0:
        return False
    step = abs(index.coef(axis))
    below = [c for a, c in index.terms if a is not axis and abs(c) < step]
    smaller = sum(abs(c) * (a.extent - 1) for a, c in index.terms if isinstance(a, Axis) and a is not axis and abs(c) < step)
    larger = all(at_least(abs(c), step * axis.extent) for a, c in index.terms if a is not axis and abs(c) >= step)
    return larger and (not below or at_least(step, smaller + 1))
