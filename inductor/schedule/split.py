"""Split reductions that have too few results to keep threads and vector lanes busy: partial results first, then those.

In: nests after inlining. Out: a long reduction over few outputs becomes two nests, and sums get more accurate on the way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dynamo.decisions import decide
from inductor.ir.affine import Axis, Index, of_atom
from inductor.ir.dims import Dim, at_least, contiguous_strides, divides, hint, known_equal, quotient, volume
from inductor.ir.expr import Expr, call, cast, const, kept, load, reduce, walk
from inductor.ir.nest import Buffer, Nest, Program, Step, Store
from inductor.ir.ops import REDUCTIONS
from inductor.ir.types import TYPES
from inductor.schedule.domain import simplify
from inductor.schedule.limits import Limits
from inductor.schedule.moments import in_one_pass
from inductor.schedule.persistent import parts_to_stay
from inductor.schedule.spread import spread

FEWEST = 4  # parts of a row that pay for a second kernel on devices with thousands of lanes
LARGER = 64  # times as many elements go into a row's result as into the sum over rows


def again(kind: str, parts: Sequence[Expr], part: Axis, items: int) -> list[Expr]:
    """The same reduction once more."""
    return [reduce(kind, parts[0], (part,))]


def of_moments(kind: str, parts: Sequence[Expr], part: Axis, items: int) -> list[Expr]:
    """Mean and sum of squared deviations of everything, from those of parts of so many values each (Chan, Golub, LeVeque 1983)."""
    means, squares = parts
    between = call("mul", reduce(kind, means, (part,), 1), const(items, means.type))
    return [reduce(kind, means, (part,), 0), call("add", reduce("sum", squares, (part,)), between)]


def of_powers(kind: str, parts: Sequence[Expr], part: Axis, items: int) -> list[Expr]:
    """Maximum and sum of powers of everything. The sum of a part that has nothing but -inf is NaN, and adds nothing to those of others."""
    tops, sums = parts
    top = reduce("max", tops, (part,))
    scaled = call("mul", sums, call("exp", call("sub", tops, top)))
    others = call("where", call("eq", tops, const(-math.inf, tops.type)), const(0, sums.type), scaled)
    return [top, reduce("sum", call("where", call("eq", tops, top), sums, others), (part,))]


# how results of parts are put together
SPLIT = dict.fromkeys(("sum", "prod", "max", "min", "any", "all"), again) | {"welford": of_moments, "online_softmax": of_powers}
EXACT = frozenset({"sum", "prod", "welford"})


def parts_of(extent: Dim) -> Dim | None:
    """Into how many equal parts to cut a loop: near 32, an exact divisor."""
    for parts in (32, 64, 16, 24, 48, 8, 28, 20, 12, 25, 49, 7, 5, 6, 10, 9):
        if divides(parts, extent) and at_least(extent, 8 * parts):
            return parts
    return None


def parts_near(extent: Dim, wanted: int) -> Dim | None:
    """Into how many equal parts to cut a loop for a device that wants so many: None where it wants one, or has to take far fewer."""
    if wanted < 2:
        return None
    candidates = sorted(range(wanted // 2, 2 * wanted + 1), key=lambda n: abs(n - wanted))
    return next((n for n in candidates if n > 1 and divides(n, extent) and at_least(extent, 8 * n)), None)


def split_reductions(program: Program, limits: Limits) -> None:
    if limits.programs:
        in_one_pass(program, limits, lambda nest: is_cut(simplify(nest), limits))
        program.steps = [new for step in program.steps for new in (made_by_rows(program, step) if isinstance(step, Nest) else [step])]
    steps: list[Step] = []
    ends: list[str] = []
    for step in program.steps:
        made = split(program, step, limits) if isinstance(step, Nest) else [step]
        steps += made
        ends += [made[1].name] if len(made) == 2 else []
    program.steps = steps
    if limits.spread:
        spread(program, ends, limits)


def made_by_rows(program: Program, nest: Nest) -> list[Nest]:
    """What a sum over rows adds for each of them as a step of its own, where it needs a result of the row: as the loss of every token of a
    batch, which the program that reduces the row's logits can make on the way."""
    nodes = [e for e in nest.exprs() if e.op == "reduce"]
    if not is_one_reduction(nest) or nodes[0].attr[0] == "welford" or not nest.has_plain_stores:
        return [nest]
    (operand,), axes = nodes[0].args, (*nest.axes, *nodes[0].attr[1])
    if operand.op == "load":
        return [nest]
    results = {e.attr[0] for e in walk(operand) if e.op == "load" and not e.args}
    rows = [s for s in program.steps if isinstance(s, Nest) and s.reduced and s.writes() & results]
    many = [r for r in rows if hint(r.points) >= LARGER * hint(nest.points)]
    if not any(known_equal(volume(a.extent for a in r.axes), volume(a.extent for a in axes)) for r in many):
        return [nest]
    if not decide("split", f"{nest.name}: what it adds", "made where its rows are"):
        return [nest]
    shape = tuple(a.extent for a in axes)
    strides, name = contiguous_strides(shape), f"{nest.stores[0].buffer}_rows"
    where = Index(0)
    for a, stride in zip(axes, strides, strict=True):
        where = where + of_atom(a) * stride
    program.buffers[name] = Buffer(name, TYPES[operand.type].torch, shape, strides, "temp", program.device)
    first = Nest(f"{nest.name}_rows", axes, (Store(name, where, operand),), nest.origins)
    whole = load(name, operand.type, where)
    final = {node: reduce(node.attr[0], whole, node.attr[1], node.attr[2]) for node in nodes}
    return [first, nest.rewrite(kept, dict(final))]


def split(program: Program, original: Nest, limits: Limits) -> list[Nest]:
    if not is_one_reduction(original):
        return [original]
    nest = simplify(original)
    nodes = [e for e in nest.exprs() if e.op == "reduce"]
    if not nodes:  # it ran over axes of size 1 only
        return [original]
    stays = parts_to_stay(program, nest, nodes[0], limits) if limits.staying and is_column(nest, nodes[0]) else None
    cut = (nodes[0].attr[1][0], stays) if stays is not None else cut_of(nest, nodes[0], limits)
    if cut is None:
        return [original]
    axis, parts = cut
    what = f"{original.name}: {nodes[0].attr[0]} of {volume(a.extent for a in nodes[0].attr[1])} into {parts} parts"
    if not decide("split", what, f"only {volume(a.extent for a in nest.axes)} results"):
        return [original]
    return list(in_two(program, nest, nodes, axis, parts, limits))


def is_one_reduction(nest: Nest) -> bool:
    """All reductions of the nest are results of one, which can be put together from parts."""
    found = {(e.attr[0], e.attr[1], e.args[0]) for e in nest.exprs() if e.op == "reduce"}
    return len(found) == 1 and next(iter(found))[0] in SPLIT


def is_cut(nest: Nest, limits: Limits) -> bool:
    return any(cut_of(nest, e, limits) is not None for e in nest.exprs() if e.op == "reduce")


def cut_of(nest: Nest, node: Expr, limits: Limits) -> tuple[Axis, Dim] | None:
    """Which loop of a reduction to cut, and into how many parts: None where enough of it runs at once."""
    axes = node.attr[1]
    results = volume(a.extent for a in nest.axes)
    length = volume(a.extent for a in axes)
    if length < limits.long_reduction or (length <= limits.alone and not is_column(nest, node)):
        return None
    axis = max(axes, key=lambda a: hint(a.extent))
    if limits.programs:
        is_down = is_column(nest, node)
        wanted = wanted_parts(results, length, limits, is_column=is_down)
        outer = None if is_down else outermost(nest, axes)
        if outer is not None and parts_near(outer.extent, wanted) == wanted:
            axis = outer
        has_moments = is_down and node.attr[0] == "welford" and length > limits.alone
        parts = (parts_near(axis.extent, parts_of_moments(results, limits)) if has_moments else None) or parts_near(axis.extent, wanted)
    elif results > limits.few_results and not (is_column(nest, node) and results <= 256):
        return None
    else:
        parts = parts_of(axis.extent)
    return None if parts is None else (axis, parts)


def wanted_parts(results: int, length: int, limits: Limits, *, is_column: bool) -> int:
    """Of rows none is shorter than what is worth a kernel of its own, as what follows puts all parts together."""
    if is_column:
        return limits.programs // -(-results // limits.columns)
    return max(min(limits.programs // results, hint(length) // limits.long_reduction), FEWEST) if results < limits.programs else 1


def parts_of_moments(results: int, limits: Limits) -> int:
    """Of columns so long that beginnings of walks hardly count. Such kernels have half as many columns: each keeps two values."""
    return round(limits.moments / -(-results * 2 // limits.columns))


def outermost(nest: Nest, axes: Sequence[Axis]) -> Axis | None:
    """The loop of a reduction whose steps in memory are the longest: parts of it are whole pieces of memory."""
    steps = dict.fromkeys(axes, 0)
    for e in nest.exprs():
        if e.op == "load":
            for a in axes:
                steps[a] = max(steps[a], hint(e.attr[1].coef(a)))
    return max(axes, key=lambda a: steps[a]) if len(axes) > 1 and all(steps.values()) else None


def is_column(nest: Nest, node: Expr) -> bool:
    """The reduction walks memory with a stride, the results lie side by side."""
    walked = [e.attr[1] for e in nest.exprs() if e.op == "load" and e.attr[1].axes & set(node.attr[1])]
    return any(index.coef(a) == 1 for index in walked for a in nest.axes)


def in_two(program: Program, nest: Nest, nodes: Sequence[Expr], axis: Axis, parts: Dim, limits: Limits) -> tuple[Nest, Nest]:
    """The reduction of each part, then that of the parts. `nodes` are the results of one reduction."""
    kind, axes, _ = nodes[0].attr
    (operand,) = nodes[0].args
    part, rest = Axis(f"part{nest.name}", parts), Axis(f"rest{nest.name}", quotient(axis.extent, parts))
    shape = (parts, *(a.extent for a in nest.axes))
    strides = contiguous_strides(shape)
    where = Index(0)
    for a, stride in zip((part, *nest.axes), strides, strict=True):
        where = where + of_atom(a) * stride
    whole = of_atom(part) * rest.extent + of_atom(rest)
    scratch = nest.stores[0].buffer
    partial = Nest(f"{nest.name}_part", (*nest.axes, axis), (Store(scratch, Index(0), operand),), nest.origins)
    body = partial.substitute({axis: whole}, nest.axes).stores[0].value
    inner = tuple(rest if a is axis else a for a in axes)
    names = [f"{scratch}_part{k or ''}" for k in range(REDUCTIONS[kind])]
    for name in names:
        program.buffers[name] = Buffer(name, TYPES[nodes[0].type].torch, shape, strides, "temp", program.device)
    stores = tuple(Store(name, where, reduce(kind, body, inner, k)) for k, name in enumerate(names))
    first = Nest(f"{nest.name}_part", (part, *nest.axes), stores, nest.origins)
    is_exact = kind in EXACT and operand.type == "f32" and not limits.programs  # few values: where nothing is started, that costs nothing
    total = "f64" if is_exact else nodes[0].type
    parted = [cast(load(name, nodes[0].type, where), total) for name in names]
    items = volume(a.extent for a in inner)
    final = {node: cast(SPLIT[kind](kind, parted, part, items)[node.attr[2]], node.type) for node in nodes}
    return first, nest.rewrite(kept, dict(final))
