"""Split reductions that have too few results to keep threads and vector lanes busy: partial results first, then those.

In: nests after inlining. Out: a long reduction over few outputs becomes two nests, and sums get more accurate on the way.
"""

from __future__ import annotations

from dataclasses import replace

from dynamo.decisions import decide
from inductor.ir.affine import Axis, Index, of_atom
from inductor.ir.dims import Dim, contiguous_strides, hint, numel
from inductor.ir.expr import Expr, cast, load, rebuild, reduce
from inductor.ir.nest import Buffer, Nest, Program, Step, Store
from inductor.ir.types import TYPES
from inductor.schedule.domain import simplify
from inductor.schedule.limits import Limits

ASSOCIATIVE = frozenset({"sum", "prod", "max", "min", "any", "all"})


def parts_of(extent: Dim) -> Dim | None:
    """Into how many equal parts to cut a loop: near 32, an exact divisor."""
    for parts in (32, 64, 16, 24, 48, 8, 28, 20, 12, 25, 49, 7, 5, 6, 10, 9):
        if extent % parts == 0 and extent // parts >= 8:
            return parts
    return None


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
    results = hint(numel([a.extent for a in nest.axes]))
    length = hint(numel([a.extent for a in axes]))
    if (results > limits.few_results and not (is_column(nest, node) and results <= 256)) or length < limits.long_reduction:
        return [original]
    axis = max(axes, key=lambda a: hint(a.extent))
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
    part, rest = Axis(f"part{nest.name}", parts), Axis(f"rest{nest.name}", axis.extent // parts)
    name = f"{nest.stores[0].buffer}_part"
    shape = (parts, *(a.extent for a in nest.axes))
    strides = contiguous_strides(shape)
    program.buffers[name] = Buffer(name, TYPES[node.type].torch, shape, strides, "temp")
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
    memo = {node: final}
    second = replace(nest, stores=tuple(replace(s, value=_swap(s.value, memo)) for s in nest.stores))
    return first, second


def _swap(node: Expr, memo: dict[Expr, Expr]) -> Expr:
    if node not in memo:
        memo[node] = rebuild(node, tuple(_swap(a, memo) for a in node.args), node.attr)
    return memo[node]
