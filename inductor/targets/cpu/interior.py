"""Border and interior: the longest stretch of a vectorised loop in which tests and clamps on its index are settled.

Padding makes conditions such as `2*i + 1 < 56` and `max(2*i - 1, 0)`, which cost a gather or a blend per element although
they matter for the first and last few elements only. In the stretch between them every condition folds to a constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dynamo.decisions import decide
from inductor.ir.affine import Axis, Index, of_atom
from inductor.ir.dims import number
from inductor.ir.expr import Expr, const, const_value, kept, load
from inductor.ir.nest import Nest
from inductor.ir.types import TYPES
from inductor.schedule.domain import fresh_axis

MAX_BORDER = 8  # elements outside the stretch: they run one by one
COMPARISONS = frozenset({"lt", "le", "gt", "ge"})


@dataclass(frozen=True)
class Interior:
    """Iterations `start <= i < stop` of a loop, as a loop of their own over `axis` with simpler members."""

    start: int
    stop: int
    axis: Axis
    members: tuple[Nest, ...]


def interior(axis: Axis, members: Sequence[Nest], name: str) -> Interior | None:
    """The stretch worth printing apart, if there is one."""
    length = number(axis.extent)
    cuts = {0, length}
    for nest in members:
        for node in nest.exprs():
            cuts.update(c for c in breaks(node, axis) if 0 < c < length)
    edges = sorted(cuts)
    start, stop = max(pairwise(edges), key=lambda p: p[1] - p[0], default=(0, 0))
    border = length - (stop - start)
    if not 0 < border <= min(MAX_BORDER, (stop - start) // 2):
        return None
    if not decide("interior", f"{name}: {start} to {stop} of {length}"):
        return None
    inner = fresh_axis(stop - start, "w")
    return Interior(start, stop, inner, tuple(_moved(m, {axis: of_atom(inner) + start}) for m in members))


def breaks(node: Expr, axis: Axis) -> Iterable[int]:
    """Values of the axis at which a test or clamp on nothing but this axis changes its answer."""
    if node.op not in COMPARISONS | {"max", "min"} or node.args[0].op != "index":
        return
    index, bound = node.args[0].attr, const_value(node.args[1])
    if bound is None or index.axes != {axis} or not index.is_affine:
        return
    step, first = index.coef(axis), int(bound) - index.const
    # Where `step * i` passes `first`; the neighbours are cuts too, so that strict and weak tests need no cases.
    middle = first // step
    yield from (c for c in (middle, middle + 1) if _answer(node.op, step * (c - 1), first) != _answer(node.op, step * c, first))


def _answer(op: str, value: int, bound: int) -> bool:
    strictly = {"lt": value < bound, "le": value <= bound, "gt": value > bound, "ge": value >= bound}
    return strictly.get(op, value > bound if op == "min" else value >= bound)


def _moved(nest: Nest, mapping: dict[Axis, Index]) -> Nest:
    axes = tuple(next(iter(mapping[a].axes)) if a in mapping else a for a in nest.axes)
    return nest.substitute(mapping, axes).rewrite(settle)


def settle(node: Expr, args: tuple[Expr, ...]) -> Expr:
    """Fold what the ranges of indices decide."""
    return _settled(node, args) or kept(node, args)


def _bounds(node: Expr) -> tuple[int, int] | None:
    if node.op == "index":
        low, high = node.attr.bounds
        return low, high
    value = const_value(node)
    return (int(value), int(value)) if value is not None and node.type == "i64" else None


def _settled(node: Expr, args: tuple[Expr, ...]) -> Expr | None:
    if node.op == "load" and args:
        return _direct(node, args)
    if node.op in ("and", "or") and node.type == "bool":
        for mine, other in (args, args[::-1]):
            value = const_value(mine)
            if value is not None:
                return other if bool(value) == (node.op == "and") else mine
    if node.op in ("add", "sub", "mul") and TYPES[node.type].kind == "int":
        return _arithmetic(node, args)
    if node.op not in COMPARISONS | {"max", "min"}:
        return None
    left, right = _bounds(args[0]), _bounds(args[1])
    if left is None or right is None:
        return None
    above, below = left[0] >= right[1], left[1] <= right[0]  # left is never smaller, never larger
    if node.op in ("max", "min"):
        return args[0 if above == (node.op == "max") else 1] if above or below else None
    strictly_above, strictly_below = left[0] > right[1], left[1] < right[0]
    yes, no = {
        "lt": (strictly_below, above),
        "le": (below, strictly_above),
        "gt": (strictly_above, below),
        "ge": (above, strictly_below),
    }[node.op]
    return const(yes, "bool") if yes or no else None


def _arithmetic(node: Expr, args: tuple[Expr, ...]) -> Expr | None:
    left, right = (const_value(a) for a in args)
    if left is not None and right is not None:
        return const({"add": left + right, "sub": left - right, "mul": left * right}[node.op], node.type)
    if right == 0 and node.op != "mul":
        return args[0]
    if left == 0 and node.op == "add":
        return args[1]
    return const(0, node.type) if 0 in (left, right) and node.op == "mul" else None


def _direct(node: Expr, args: tuple[Expr, ...]) -> Expr:
    """An indirect load some of whose indices turned out to be plain index expressions."""
    buffer, index = node.attr
    mapping: dict[Axis, Index] = {}
    left: list[Expr] = []
    for axis in sorted((a for a in index.axes if a.name.startswith("$")), key=lambda a: int(a.name[1:])):
        arg = args[int(axis.name[1:])]
        value = const_value(arg)
        if arg.op == "index":
            mapping[axis] = arg.attr
        elif value is not None:
            mapping[axis] = Index(int(value))
        else:
            mapping[axis] = of_atom(Axis(f"${len(left)}", axis.extent))
            left.append(arg)
    return load(buffer, node.type, index.substitute(mapping), tuple(left))
