"""Edges of autograd around one graph, from each result to what it was computed from, and to nothing else.

A compiled graph is one node of autograd, so a pass from `y` of `y = u * 2; z = v * 3` would go on to what `v` was computed from: it
would run a checkpoint there again, free what is saved, and raise what only a pass from `z` raises. Here the graph's node has edges to
leaves, and to those primals that all results were computed from. Others have a node before it (`_Entry`), together with those behind the
same results; and results behind which such primals are have a node behind it (`_Exit`), with edges to these and to the graph's.

In a backward pass the exits hand in the gradients of their results, the compiled backward runs once with all of them, and the entries give
what it has computed for their primals. Mostly the graph's own node runs it: it was made after the entries, and autograd takes the latest
node first. It is not met by a pass that is asked for primals of an entry alone, and may be late where results are on several devices; then
an entry does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dynamo.aot.facts import Facts
from dynamo.fake.convert import modes_off

Tensor = torch.Tensor
Run = Callable[[list[Any]], Any]
Differentiate = Callable[[Any, Sequence[Any]], Sequence[Any]]  # the graph's node, gradients of results -> of primals
_GRAPH = -1  # among the numbers of entries, the graph's own node


@dataclass(frozen=True, slots=True)
class Edges:
    """`entries`: primals that have a node together. `exits`: results that have one, and the entries behind it.

    `is_alone`: every primal with a gradient has an entry, so that the graph's node would have no edges. `nothing`: on their device, without
    elements or a history.
    """

    entries: tuple[tuple[int, ...], ...]
    exits: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    is_alone: bool
    nothing: Tensor

    def entry_of(self, primal: int) -> int | None:
        return next((n for n, primals in enumerate(self.entries) if primal in primals), None)


def partial_primals(facts: Facts) -> dict[int, list[int]]:
    """The primals that not all results were computed from, by the results that were: their differentiable ones, a bit for each."""
    everything = (1 << sum(facts.differentiable)) - 1
    found: dict[int, list[int]] = {}
    for p, mask in zip(facts.wanted, facts.met, strict=True):
        if mask != everything:
            found.setdefault(mask, []).append(p)
    return found


def edges_of(facts: Facts, masks: Sequence[int], primals: Sequence[list[int]], device: torch.device) -> Edges:
    """The nodes around a graph, if those primals have entries, with the masks of `partial_primals`."""
    behind: dict[tuple[int, ...], list[int]] = {}
    for bit, i in enumerate(i for i, d in enumerate(facts.differentiable) if d):
        if entries := tuple(n for n, mask in enumerate(masks) if mask >> bit & 1):
            behind.setdefault(entries, []).append(i)
    return Edges(
        tuple(tuple(each) for each in primals),
        tuple((tuple(each), entries) for entries, each in behind.items()),
        sum(map(len, primals)) == len(facts.wanted),
        torch.empty(0, device=device),
    )


class Exchange:
    """What the nodes around one call exchange in a backward pass. Threads may run several at a time."""

    __slots__ = ("edges", "passes")

    def __init__(self, edges: Edges) -> None:
        self.edges = edges
        self.passes: dict[int, _Pass] = {}

    def now(self) -> _Pass:
        """About the pass that runs now."""
        task = torch._C._current_graph_task_id()
        now = self.passes.get(task)
        if now is None:
            now = self.passes[task] = _Pass()
        return now

    def of_graph(self, graph: Any, grads: Sequence[Any], run: Differentiate) -> list[Any]:
        """What the graph's own node gives: the gradients of the primals that it has edges to."""
        self.compute(graph, list(grads), run)
        return self.taken(_GRAPH)

    def compute(self, graph: Any, grads: list[Any], run: Differentiate) -> None:
        """Run the backward with gradients of results, and those that were handed in."""
        now = self.now()
        for i, grad in now.given.items():
            grads[i] = grad
        now.given = {}
        found = list(run(graph, grads))
        for n, primals in enumerate(self.edges.entries):
            if n in now.awaited:
                now.add(n, [found[p] for p in primals])
            for p in primals:
                found[p] = None
        now.add(_GRAPH, found)

    def taken(self, n: int) -> list[Any]:
        """What was found for an entry, or for the graph's own node; nothing if no gradient came to it."""
        task = torch._C._current_graph_task_id()
        now = self.passes[task]
        found = now.found.pop(n, [])
        if not now.found and not now.given:
            del self.passes[task]
        return found


class _Pass:
    __slots__ = ("awaited", "found", "given")

    def __init__(self) -> None:
        self.given: dict[int, Any] = {}  # gradients of results that no backward has run with
        self.awaited: set[int] = set()  # entries that this pass gets to
        self.found: dict[int, list[Any]] = {}  # per entry the gradients of its primals

    def add(self, n: int, new: list[Any]) -> None:
        old = self.found.get(n)
        self.found[n] = new if old is None else [b if a is None else a if b is None else a + b for a, b in zip(old, new, strict=True)]


def gets_to(node: Any) -> bool:
    """Whether the pass that runs now gets to this node of autograd."""
    try:
        return torch._C._will_engine_execute_node(node)
    except RuntimeError:  # a leaf that `autograd.grad` was asked for, which has no other answer
        return True


def reaching(graph: Any) -> Callable[[int], bool]:
    """Tells whether the pass that runs now gets from the graph's node, or by an entry, to what a primal was computed from."""
    nodes, exchange = graph.next_functions, graph.exchange

    def reaches(primal: int) -> bool:
        if exchange is not None and (entry := exchange.edges.entry_of(primal)) is not None:
            return entry in exchange.now().awaited
        node = nodes[primal][0]
        return node is not None and gets_to(node)

    return reaches


class _Entry(torch.autograd.Function):
    """Takes primals, gives what has an edge to them."""

    @staticmethod
    def forward(ctx: Any, exchange: Exchange, run: Differentiate, number: int, *primals: Tensor) -> Any:
        ctx.exchange, ctx.run, ctx.number = exchange, run, number
        ctx.set_materialize_grads(False)
        return exchange.edges.nothing.detach()

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        exchange, graph = ctx.exchange, ctx.graph
        if exchange.now().given:
            graph.goes_on = goes_on = gets_to(graph)
            try:
                exchange.compute(graph, [None] * graph.results, ctx.run)
            finally:
                graph.goes_on = False
            if not goes_on:
                exchange.taken(_GRAPH)
                graph.maybe_clear_saved_tensors()
        found = exchange.taken(ctx.number)
        return (None, None, None, *(found or [None] * len(exchange.edges.entries[ctx.number])))


class _Exit(torch.autograd.Function):
    """Takes results as the graph's node made them, then what has edges to the primals behind them; gives the former."""

    @staticmethod
    def forward(ctx: Any, graph: Any, exchange: Exchange, number: int, *tensors: Tensor) -> Any:
        ctx.graph, ctx.exchange, ctx.number = graph, exchange, number
        ctx.set_materialize_grads(False)
        return tuple(t.detach() for t in tensors[: len(exchange.edges.exits[number][0])])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        now, (results, entries) = ctx.exchange.now(), ctx.exchange.edges.exits[ctx.number]
        now.given.update(zip(results, grads, strict=True))
        if torch.autograd._is_checkpoint_valid():  # the pass gets to all that is behind
            now.awaited.update(entries)
        else:
            now.awaited.update(n for n, (node, _) in zip(entries, ctx.next_functions[-len(entries) :], strict=True) if gets_to(node))
        return (None,) * (3 + len(results) + len(entries))


# What `Function` adds in Python around both directions, see `runtime.pair`, is left out: there are no levels of transforms here.
_enter = super(torch.autograd.Function, _Entry).apply
_leave = super(torch.autograd.Function, _Exit).apply
for _kind in (_Entry, _Exit):
    _kind._backward_cls.apply = _kind.backward  # type: ignore[attr-defined]  # made by the metaclass of Function


def graph_of(result: Tensor) -> Any:
    """The node of the graph that has this result."""
    node: Any = result.grad_fn
    return getattr(node, "graph", node)


def with_edges(apply: Run, facts: Facts, run: Differentiate) -> Run:
    """The call of a graph, with nodes around that of the graph. `run`: its backward.

    Leaves do without an entry: a pass that gets to one without a gradient does nothing there. What is applied gets a list of all primals
    behind those that its node is to have edges to.
    """
    partial = partial_primals(facts)
    if not partial:
        return apply
    masks, groups = list(partial), list(partial.values())
    known: dict[tuple[int, ...], Edges] = {}
    has_levels = torch._C._are_functorch_transforms_active

    def call(flat: list[Any]) -> Any:
        inner = tuple(n for n, primals in enumerate(groups) if not all(flat[p].is_leaf for p in primals))
        if not inner or not torch.is_grad_enabled() or has_levels():
            return apply(flat)
        if inner not in known:
            primals = [groups[n] for n in inner]
            known[inner] = edges_of(facts, [masks[n] for n in inner], primals, flat[primals[0][0]].device)
        return _between(apply, flat, known[inner], run)

    return call


def _between(apply: Run, flat: list[Any], edges: Edges, run: Differentiate) -> list[Any]:
    given, exchange = [*flat, flat], Exchange(edges)
    with modes_off():
        entries = [_enter(exchange, run, n, *[flat[p] for p in primals]) for n, primals in enumerate(edges.entries)]
        for p in (p for primals in edges.entries for p in primals):
            given[p] = edges.nothing
        if edges.is_alone:
            given[edges.entries[0][0]] = edges.nothing.detach().requires_grad_()
    results = list(apply(given))
    graph: Any = results[edges.exits[0][0][0]].grad_fn
    graph.exchange = exchange
    for entry in entries:
        entry.grad_fn.graph = graph
    with modes_off():
        for n, (those, behind) in enumerate(edges.exits):
            made = _leave(graph, exchange, n, *[results[i] for i in those], *[entries[e] for e in behind])
            for i, result in zip(those, made, strict=True):
                results[i] = result
    return results
