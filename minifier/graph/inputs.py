"""Edits of inputs and literals. After each, shapes are propagated on fakes; what can't run is no candidate.

Sizes go by class: the dims and literals that must change together are found by trying which changes propagate.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch

from dynamo.fake import FakeError, FakeMode
from minifier.engine import Choices, Lower, Pass
from minifier.graph.fx import execute
from minifier.graph.ir import Graph, Input, Named, Node, Recipe, Tensor, leaves, mapped
from minifier.graph.values import dtype_of, spec_of

_CANT_RUN = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, FakeError)
RECIPE_RANK = {"zeros": 0, "ones": 1, "arange": 2, "rand": 3, "randint": 3, "randn": 3, "stored": 9}


def propagated(graph: Graph) -> Graph | None:
    """The graph with what its values look like computed anew, or None where an operation does not take what it is given."""
    seen: dict[int, Node] = {}

    def see(node: Node, value: Any) -> None:
        seen[node.id] = replace(node, spec=spec_of(value))

    try:
        with FakeMode(), torch.no_grad():
            values = {i.id: _fake(i) for i in graph.inputs}
            execute(graph, values, see)
    except _CANT_RUN:
        return None
    nodes = tuple(seen[n.id] for n in graph.nodes)
    outputs = tuple(n.id for n in nodes if n.id in graph.outputs and isinstance(n.spec, Tensor))
    return Graph(graph.inputs, nodes, outputs) if outputs else None


def _fake(i: Input) -> torch.Tensor:
    return torch.empty_strided(i.spec.shape, i.spec.stride, dtype=dtype_of(i.spec), device=i.spec.device)


@dataclass(frozen=True)
class Dim:
    """Dim `at` of an input."""

    input: int
    at: int


@dataclass(frozen=True)
class Literal:
    """The whole number at place `at` among those of a node's arguments."""

    node: int
    at: int


Member = Dim | Literal


def whole_numbers(node: Node) -> list[int]:
    """Whole numbers among the arguments of a node, in order; `Literal.at` counts them."""
    return [n for n in leaves((node.args, tuple(v for _, v in node.kwargs))) if type(n) is int]


def resized(graph: Graph, members: Sequence[Member], value: int) -> Graph | None:
    """The graph with these dims and literals changed to a value, propagated; None where it can't be run."""
    dims: dict[int, dict[int, int]] = {}
    literals: dict[int, set[int]] = {}
    for member in members:
        if isinstance(member, Dim):
            dims.setdefault(member.input, {})[member.at] = value
        else:
            literals.setdefault(member.node, set()).add(member.at)
    inputs = tuple(_resized_input(i, dims[i.id], value) if i.id in dims else i for i in graph.inputs)
    nodes = tuple(with_literals(n, dict.fromkeys(literals[n.id], value)) if n.id in literals else n for n in graph.nodes)
    return propagated(Graph(inputs, nodes, graph.outputs))


def together(graph: Graph, dim: Dim, value: int) -> Graph | None:
    """The graph with a dim changed, and with it the fewest others that have to."""
    alone = resized(graph, [dim], value)
    if alone is not None:
        return alone
    members = _equals(graph, dim)
    found = resized(graph, members, value)
    if found is None:
        return None
    for other in members[1:]:
        rest = [m for m in members if m != other]
        smaller = resized(graph, rest, value)
        if smaller is not None:
            members, found = rest, smaller
    return found


def _equals(graph: Graph, dim: Dim) -> list[Member]:
    """The dim, then all dims and literals of the same size."""
    size = _size(graph, dim)
    dims: list[Member] = [Dim(i.id, at) for i in graph.inputs for at, n in enumerate(i.spec.shape) if n == size]
    literals: list[Member] = [Literal(n.id, at) for n in graph.nodes for at, number in enumerate(whole_numbers(n)) if number == size]
    return [dim, *(m for m in dims if m != dim), *literals]


def _size(graph: Graph, dim: Dim) -> int:
    return next(i.spec.shape[dim.at] for i in graph.inputs if i.id == dim.input)


def _resized_input(i: Input, dims: dict[int, int], value: int) -> Input:
    shape = tuple(dims.get(at, n) for at, n in enumerate(i.spec.shape))
    recipe = i.recipe
    if recipe.kind == "randint" and recipe.high > value:  # whole numbers are indices, more often than not
        recipe = replace(recipe, low=min(recipe.low, value - 1), high=value)
    return replace(i, spec=replace(i.spec, shape=shape, stride=strides_like(i.spec, shape)), recipe=recipe)


def strides_like(spec: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides for another shape in the same order, with the same gaps between rows."""
    made = [0] * len(shape)
    old_span = new_span = 1
    for at in sorted(range(len(shape)), key=lambda d: (spec.stride[d], spec.shape[d] != 1, -d)):
        stride = spec.stride[at]
        if stride:
            gap = stride // old_span if stride % old_span == 0 else 1
            made[at] = new_span * max(gap, 1)
            old_span, new_span = max(stride * spec.shape[at], 1), made[at] * max(shape[at], 1)
    return tuple(made)


def with_literals(node: Node, values: dict[int, Any]) -> Node:
    """The node with some of its whole numbers changed."""
    count = -1

    def change(value: Any) -> Any:
        nonlocal count
        if type(value) is not int:
            return value
        count += 1
        return values.get(count, value)

    args = mapped(node.args, change)
    return replace(node, args=args, kwargs=tuple((k, mapped(v, change)) for k, v in node.kwargs))


def size_pass() -> Pass[Graph]:
    """All dims and literals of one size together: the coarse way."""
    return Lower("sizes", _dims, _dim_value, lambda g, d: 1, lambda g, d, n: resized(g, _equals(g, _as_dim(d)), n))


def dim_pass() -> Pass[Graph]:
    """One dim, with only those that have to change with it."""
    return Lower("dims", _dims, _dim_value, lambda g, d: 1, lambda g, d, n: together(g, _as_dim(d), n))


def _dims(graph: Graph) -> Sequence[Hashable]:
    return [Dim(i.id, at) for i in graph.inputs for at in range(len(i.spec.shape))]


def _dim_value(graph: Graph, site: Hashable) -> int:
    return _size(graph, _as_dim(site))


def _as_dim(site: Hashable) -> Dim:
    assert isinstance(site, Dim)
    return site


def number_pass() -> Pass[Graph]:
    """Whole numbers among arguments, towards zero."""

    def sites(graph: Graph) -> Sequence[Hashable]:
        return [Literal(n.id, at) for n in graph.nodes for at in range(len(whole_numbers(n)))]

    def value(graph: Graph, site: Hashable) -> int:
        assert isinstance(site, Literal)
        return whole_numbers(graph.by_id[site.node])[site.at]

    def put(graph: Graph, site: Hashable, number: int) -> Graph | None:
        assert isinstance(site, Literal)
        return resized(graph, [site], number)

    return Lower("numbers", sites, value, lambda g, s: 0, put)


Inputs = tuple[Input, ...]


def layout_pass() -> Pass[Graph]:
    """Per input: plain values, no gradient, no shared memory, no attribute, contiguous, float32, fewer dims. First for all at once."""

    def sites(graph: Graph) -> Sequence[Hashable]:
        return [-1, *(i.id for i in graph.inputs)] if len(graph.inputs) > 1 else [i.id for i in graph.inputs]

    def options(graph: Graph, site: Hashable) -> Sequence[tuple[str, Graph]]:
        found = []
        for label, edit in EDITS:
            inputs = tuple(edit(i) if site in (-1, i.id) else i for i in graph.inputs)
            if inputs != graph.inputs:
                made = propagated(_with_dtypes(graph, inputs) if label == "float32" else replace(graph, inputs=inputs))
                if made is not None:
                    found.append((label, made))
        return found

    return Choices("inputs", sites, options)


def _with_dtypes(graph: Graph, inputs: Inputs) -> Graph:
    """Arguments that name a dtype that no input has any more name float32."""
    old = {i.spec.dtype for i in graph.inputs} - {i.spec.dtype for i in inputs}

    def change(value: Any) -> Any:
        is_old = isinstance(value, Named) and value.kind == "dtype" and value.text.removeprefix("torch.") in old
        return Named("dtype", "torch.float32") if is_old else value

    nodes = tuple(replace(n, args=mapped(n.args, change), kwargs=mapped(n.kwargs, change)) for n in graph.nodes)
    return Graph(inputs, nodes, graph.outputs)


def _recipe(kind: str) -> Any:
    def edit(i: Input) -> Input:
        return replace(i, recipe=Recipe(kind)) if RECIPE_RANK[kind] < RECIPE_RANK.get(i.recipe.kind, 9) else i

    return edit


def _drawn(i: Input) -> Input:
    """Random numbers in the place of stored ones."""
    if i.recipe.kind != "stored":
        return i
    is_float = i.spec.dtype.startswith(("float", "bfloat", "complex"))
    return replace(i, recipe=Recipe("randn") if is_float else Recipe("randint", 0, 2))


def _contiguous(i: Input) -> Input:
    return replace(i, spec=replace(i.spec, stride=dense(i.spec.shape)))


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a contiguous tensor."""
    made, span = [], 1
    for n in reversed(shape):
        made.append(span)
        span *= max(n, 1)
    return tuple(reversed(made))


def _float32(i: Input) -> Input:
    is_float = i.spec.dtype.startswith(("float", "bfloat"))
    return replace(i, spec=replace(i.spec, dtype="float32"), recipe=_drawn(i).recipe) if is_float and i.spec.dtype != "float32" else i


def _first_dim_gone(i: Input) -> Input:
    return _without_dim(i, 0)


def _last_dim_gone(i: Input) -> Input:
    return _without_dim(i, len(i.spec.shape) - 1)


def _without_dim(i: Input, at: int) -> Input:
    shape, stride = i.spec.shape, i.spec.stride
    if not shape or shape[at] != 1:
        return i
    return replace(i, spec=replace(i.spec, shape=shape[:at] + shape[at + 1 :], stride=stride[:at] + stride[at + 1 :]))


def _flat(i: Input) -> Input:
    shape = (prod(i.spec.shape),)
    return replace(i, spec=replace(i.spec, shape=shape, stride=(1,))) if len(i.spec.shape) > 1 else i


EDITS: tuple[tuple[str, Any], ...] = (
    ("no gradient", lambda i: replace(i, requires_grad=False)),
    ("memory of its own", lambda i: replace(i, base=None, offset=0)),
    ("at the start of the memory", lambda i: replace(i, offset=0)),
    ("an argument", lambda i: replace(i, is_attribute=False)),
    ("contiguous", _contiguous),
    ("float32", _float32),
    ("first dim gone", _first_dim_gone),
    ("last dim gone", _last_dim_gone),
    ("one dim", _flat),
    ("zeros", _recipe("zeros")),
    ("ones", _recipe("ones")),
    ("arange", _recipe("arange")),
    ("random", _drawn),
)


def plain_pass() -> Pass[Graph]:
    """All inputs become a zero without dims, at once: what most failures to compile end at."""

    def options(graph: Graph, site: Hashable) -> Sequence[tuple[str, Graph]]:
        inputs = tuple(
            Input(i.id, i.name, replace(i.spec, shape=(), stride=(), dtype=_float32(i).spec.dtype), recipe=Recipe("zeros"))
            for i in graph.inputs
        )
        made = propagated(_with_dtypes(graph, inputs)) if inputs != graph.inputs else None
        return [] if made is None else [("a zero each", made)]

    return Choices("plain inputs", lambda graph: [-1] if graph.inputs else [], options)


def cost(graph: Graph) -> tuple[int, ...]:
    """How far inputs are from plain ones: smaller is plainer."""
    inputs = graph.inputs
    return (
        sum(i.spec.dtype not in ("float32",) for i in inputs),
        sum(i.base is not None for i in inputs),
        sum(i.offset for i in inputs),
        sum(i.requires_grad for i in inputs),
        sum(i.is_attribute for i in inputs),
        sum(i.spec.stride != dense(i.spec.shape) for i in inputs),
        sum(RECIPE_RANK.get(i.recipe.kind, 9) for i in inputs),
    )

