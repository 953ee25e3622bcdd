"""Split reductions that have too few results to keep threads and vector lanes busy: partial results first, then those.

In: nests after inlining. Out: a long reduction over few outputs becomes two nests, and sums get more accurate on the way.
"""

from __future__ import annotations

from dynamo.decisions import decide
from inductor.ir.affine import Axis, Index, of_atom
from inductor.ir.dims import Dim, at_least, contiguous_strides, divides, hint, quotient, volume
from inductor.ir.expr import Expr, cast, kept, load, reduce
from inductor.ir.nest import Buffer, Nest, Program, Step, Store
from inductor.ir.types import TYPES
from inductor.schedule.domain import simplify
from inductor.schedule.limits import Limits

FEWEST = 4  # parts that pay for a second kernel on devices with thousands of lanes
ASSOCIATIVE = frozenset({"sum", "prod", "max", "min", "any", "all"})


def parts_of(extent: Dim) -> Dim | None:
    """Into how many equal parts to cut a loop: near 32, an exact divisor."""
    for parts in (32, 64, 16, 24, 48, 8, 28, 20, 12, 25, 49, 7, 5, 6, 10, 9):
        if divides(parts, extent) and at_least(extent, 8 * parts):
            return parts
    return None


def parts_near(extent: Dim, wanted: int) -> Dim | None:
    """Into how many equal parts to cut a loop for a device that wants so many: None where it wants few, or has to take far fewer."""
    if wanted < FEWEST:
        return None
    candidates = sorted(range(wanted // 2, 2 * wanted + 1), key=lambda n: abs(n - wanted))
    return next((n for n in candidates if divides(n, extent) and at_least(extent, 8 * n)), None)


def split_reductions(program: Program, limits: Limits) -> None:
    steps: list[Step] = []
    for step in program.steps:
        steps.extend(split(program, step, limits) if isinstance(step, Nest) else [step])
    program.steps = steps


def split(program: Program, original: Nest, limits: Limits) -> list[Step]:
    reduces = [e for e in original.exprs() if e.op == "reduce"]
    if len(reduces) != 1 or reduces[0].attr[0] not in ASSOCIATIVE:
        return [original]
    nest = simplify(original)
    node = next((e for e in nest.exprs() if e.op == "reduce"), None)
    if node is None:  # it ran over axes of size 1 only
        return [original]
    kind, axes, _ = node.attr
    results = volume(a.extent for a in nest.axes)
    length = volume(a.extent for a in axes)
    if length < limits.long_reduction:
        return [original]
    axis = max(axes, key=lambda a: hint(a.extent))
    if limits.programs:
        iterations = -(-results // limits.columns) if is_column(nest, node) else results
        parts = parts_near(axis.extent, limits.programs // iterations)
    elif results > limits.few_results and not (is_column(nest, node) and results <= 256):
        return [original]
    else:
        parts = parts_of(axis.extent)
    if parts is None or not decide("split", f"{original.name}: {kind} of {length} into {parts} parts", f"only {results} results"):
        return [original]
    return list(in_two(program, nest, node, axis, parts))


def is_column(nest: Nest, node: Expr) -> bool:
    """The reduction walks memory with a stride, the results lie side by side."""
    walked = [e.attr[1] for e in nest.exprs() if e.op == "load" and e.attr[1].axes & set(node.attr[1])]
    return any(index.coef(a) == 1 for index in walked for a in nest.axes)


def in_two(program: Program, nest: Nest, node: Expr, axis: Axis, parts: Dim) -> tuple[Nest, Nest]:
    kind, axes, _ = node.attr
    part, rest = Axis(f"part{nest.name}", parts), Axis(f"rest{nest.name}", quotient(axis.extent, parts))
    name = f"{nest.stores[0].buffer}_part"
    shape = (parts, *(a.extent for a in nest.axes))
    strides = contiguous_strides(shape)
    program.buffers[name] = Buffer(name, TYPES[node.type].torch, shape, strides, "temp", program.device)
    where = Index(0)
    for a, stride in zip((part, *nest.axes), strides, strict=True):
        where = where + of_atom(a) * stride
    whole = of_atom(part) * rest.extent + of_atom(rest)
    partial = Nest(f"{nest.name}_part", (*nest.axes, axis), (Store(name, Index(0), node.args[0]),), nest.origins)
    body = partial.substitute({axis: whole}, nest.axes).stores[0].value
    inner = tuple(rest if a is axis else a for a in axes)
    first = Nest(f"{nest.name}_part", (part, *nest.axes), (Store(name, where, reduce(kind, body, inner)),), nest.origins)
    total = "f64" if kind in ("sum", "prod") and node.type == "f32" else node.type  # few values: exact sums cost nothing
    final = cast(reduce(kind, cast(load(name, node.type, where), total), (part,)), node.type)
    return first, nest.rewrite(kept, {node: final})
