"""Two results of long rows in one pass: mean and squared deviations, or the maximum and the sum of powers.

In: a nest that makes a mean, and nests that sum deviations from it over the same values. Kept apart, each reads everything again. Out:
one nest with both moments of the values (a reduction `welford`). What was summed to correct the mean is zero then. In the same way a
maximum and the sum of `exp(value - maximum)`, as softmax has them, become one reduction `online_softmax`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import permutations

from dynamo.decisions import decide
from inductor.ir.affine import Axis, of_atom
from inductor.ir.dims import is_empty, is_one, known_equal, volume
from inductor.ir.expr import Expr, call, cast, const, const_value, kept, load, reduce, walk
from inductor.ir.nest import Nest, Program, Step
from inductor.schedule.inline import inline, invert
from inductor.schedule.limits import Limits

NEAR = 1e-6  # how far a factor may be from one over the number of values


def in_one_pass(program: Program, limits: Limits, is_long: Callable[[Nest], bool]) -> None:
    """Join the nests of every mean and every maximum whose reduction `is_long`."""
    steps: dict[int, Step] = dict(enumerate(program.steps))
    has_powers = False
    for at, step in enumerate(program.steps):
        if isinstance(step, Nest) and steps.get(at) is step:
            total, most = summed(step), maximum(step)
            if total is not None and is_long(step):
                steps = joined(steps, at, step, total)
            elif most is not None and is_long(step):
                before, steps = steps, with_powers(steps, at, step, most)
                has_powers |= steps is not before
    program.steps = list(steps.values())
    if has_powers:
        inline(program, limits)  # powers that were kept for two readers have one now


def maximum(nest: Nest) -> Expr | None:
    """The maximum, of a nest that stores nothing else."""
    if len(nest.stores) != 1 or not nest.has_plain_stores:
        return None
    value = nest.stores[0].value
    return value if value.op == "reduce" and value.attr[0] == "max" and value.type in ("f32", "f64") else None


def with_powers(steps: dict[int, Step], at: int, top: Nest, most: Expr) -> dict[int, Step]:
    """The steps with the sum of powers beside the maximum; as they were where nothing sums powers of what differs from it."""
    (store,), (value,), axes = top.stores, most.args, most.attr[1]
    power = call("exp", call("sub", value, load(store.buffer, most.type, store.index)))
    makers = {s.stores[0].buffer: s for s in steps.values() if isinstance(s, Nest) and s.is_pointwise and len(s.stores) == 1}
    for k, later in steps.items():
        if k <= at or not isinstance(later, Nest) or only_reduction(later) is None:
            continue
        moved = in_loops_of(top, most, with_operand(later, makers))
        node = only_reduction(moved) if moved is not None else None
        if moved is None or node is None or node.args[0] is not power or not moved.reads() - {store.buffer} <= top.reads():
            continue
        if not decide("split", f"{top.name} + {later.name}", "both in one pass"):
            continue
        first = store.rewrite(kept, {most: reduce("online_softmax", value, axes)})
        rest = [s.rewrite(kept, {node: reduce("online_softmax", value, axes, 1)}) for s in moved.stores]
        both = replace(top, stores=(first, *rest), origins=tuple(dict.fromkeys(top.origins + later.origins)))
        return {n: both if n == at else s for n, s in steps.items() if n != k}
    return steps


def with_operand(nest: Nest, makers: Mapping[str, Nest]) -> Nest:
    """The nest, a sum, with what makes its terms in place of reading them."""
    node = only_reduction(nest)
    term = node.args[0] if node is not None else None
    maker = makers.get(term.attr[0]) if term is not None and term.op == "load" and not term.args else None
    mapping = invert(maker, term.attr[1]) if maker is not None and term is not None and maker.has_plain_stores else None
    if maker is None or mapping is None or term is None or maker.checks or maker.stores[0].value.type != term.type:
        return nest
    return nest.rewrite(kept, {term: maker.stores[0].substitute(mapping, {}).value})


def joined(steps: dict[int, Step], at: int, mean: Nest, total: Expr) -> dict[int, Step]:
    """The steps with the moments in place of the mean; as they were where nothing squares deviations from it."""
    (store,) = mean.stores
    quotient, value, axes = store.value, single(total.args[0]), total.attr[1]
    new = dict(steps)
    stores = [store.rewrite(kept, {quotient: cast(reduce("welford", value, axes), quotient.type)})]
    origins = dict.fromkeys(mean.origins)
    for k, later in steps.items():
        if k <= at or not isinstance(later, Nest) or store.buffer not in later.reads():
            continue
        moved = in_loops_of(mean, total, later)
        node = summed_deviation(moved, total.args[0], store.buffer) if moved is not None else None
        if moved is None or node is None:
            continue
        if node.args[0].op == "sub":
            new[k] = moved.rewrite(kept, {node: const(0, node.type)})
        elif moved.reads() - {store.buffer} <= mean.reads() and decide("split", f"{mean.name} + {later.name}", "both in one pass"):
            stores += [s.rewrite(kept, {node: cast(reduce("welford", value, axes, 1), node.type)}) for s in moved.stores]
            origins.update(dict.fromkeys(later.origins))
            del new[k]
    if len(stores) == 1:
        return steps
    new[at] = replace(mean, stores=tuple(stores), origins=tuple(origins))
    return new


def only_reduction(nest: Nest) -> Expr | None:
    """The sum in a nest that has no other reduction."""
    reduces = [e for e in nest.exprs() if e.op == "reduce"]
    return reduces[0] if len(reduces) == 1 and reduces[0].attr[0] == "sum" and nest.has_plain_stores else None


def summed(nest: Nest) -> Expr | None:
    """The sum, of a nest that stores it divided by the number of its values."""
    total = only_reduction(nest)
    if total is None or len(nest.stores) != 1 or nest.stores[0].value.op not in ("div", "mul"):
        return None
    quotient = nest.stores[0].value
    items = const_value(quotient.args[1])
    if quotient.args[0] is not total or items is None:
        return None
    length = volume(a.extent for a in total.attr[1])
    if is_empty(length):
        return None
    share = items / length if quotient.op == "div" else items * length
    return total if abs(share - 1) < NEAR else None


def summed_deviation(nest: Nest, value: Expr, mean: str) -> Expr | None:
    """The sum of `value - mean`, or of its square, in a nest."""
    node = only_reduction(nest)
    if node is None:
        return None
    (term,) = node.args
    is_square = term.op in ("mul", "fma") and term.args[0] is term.args[1] and (term.op == "mul" or const_value(term.args[2]) == 0)
    deviation = term.args[0] if is_square else term
    if deviation.op != "sub" or deviation.args[0] is not value or deviation.args[1].op != "load" or deviation.args[1].attr[0] != mean:
        return None
    return node


def in_loops_of(mean: Nest, total: Expr, other: Nest) -> Nest | None:
    """The other nest in the loops of the mean, if it has the same and reads the mean that belongs to them."""
    node, (store,) = only_reduction(other), mean.stores
    if node is None:
        return None
    outer, inner = walked(mean.axes), walked(total.attr[1])
    for order in permutations(walked(node.attr[1])):
        pairs = [*zip(outer, walked(other.axes), strict=False), *zip(inner, order, strict=False)]
        if len(pairs) != len(outer) + len(inner) or not all(known_equal(a.extent, b.extent) for a, b in pairs):
            continue
        moved = other.substitute({b: of_atom(a) for a, b in pairs}, mean.axes)
        if {e.attr[1] for e in moved.loads() if e.attr[0] == store.buffer} == {store.index} and reads_of(total) <= set(moved.exprs()):
            return moved
    return None


def reads_of(node: Expr) -> set[Expr]:
    return {e for e in walk(node) if e.op == "load"}


def walked(axes: tuple[Axis, ...]) -> list[Axis]:
    return [a for a in axes if not is_one(a.extent)]


def single(value: Expr) -> Expr:
    """The values in float32 where they have no more digits: what differs is taken off before it is squared."""
    if value.type == "f64" and value.op == "cast" and value.args[0].type in ("f32", "bf16", "f16"):
        return cast(value.args[0], "f32")
    return value
