"""Results of one graph that are computed from other results of it, linked as autograd links them in eager.

A compiled graph is one node of autograd, so `y` and `z` of `y = x.sin(); z = y * 2` would be two results that know nothing of each other:
a hook or `retain_grad` on `y`, or `autograd.grad(z, y)`, would miss what comes back through `z`. Here `z` gets a node of its own
behind the graph's, with an edge to `y`. As long as nobody looks at gradients of such a `y`, it hands `z`'s gradient to the one compiled
backward and nothing to `y`: what is compiled stays whole. When somebody looks, the captured graph runs again in eager (`again`), cut at
these results: each node hands on what it owes to the results it was computed from, and the graph's own node does the rest.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from typing import Any

import torch

from dynamo.aot.again import Again, Pieces
from dynamo.aot.edges import graph_of
from dynamo.aot.errors import UNSEEN_GRADIENT
from dynamo.aot.outputs import output, outputs_of
from dynamo.aot.plan import Plan
from dynamo.graph.hooks import own_hooks

Tensor = torch.Tensor

_ENGINE = torch.autograd.graph._engine_run_backward.__code__
_INPUTS = 3  # its arguments after the roots: gradients, retain_graph, create_graph, inputs
_MOST_VIEWS = 8  # nodes that are followed from a view of a result back to the graph's; a longer chain counts as the caller's own


class Watched:
    """The results of one call that others were computed from: who looks at their gradients in the backward pass that runs now?"""

    __slots__ = ("direct", "hooks", "pieces", "task", "tensors")

    def __init__(self) -> None:
        self.tensors: list[weakref.ref[Tensor]] = []
        self.hooks: list[dict[int, Any]] = []
        self.task = -1  # the backward pass that the rest is about
        self.pieces: Pieces | None = None
        self.direct: list[Any] = []  # gradients of the primals that don't come through other results

    def add(self, tensor: Tensor) -> None:
        self.hooks.append(own_hooks(tensor))  # which outlive the tensor
        self.tensors.append(weakref.ref(tensor))

    def seen(self, graph: Any, again: Again, plan: Plan) -> Pieces | None:
        """The graph in pieces, if somebody looks; one answer for all nodes of a backward pass."""
        task = torch._C._current_graph_task_id()
        if task != self.task:
            self.task, self.pieces, self.direct = task, None, []
            if any(self.hooks) or any(t is not None and t.retains_grad for t in self._alive()) or self._asked(graph):
                if reason := again.obstacle(graph):
                    if not again.reason:
                        _ = graph.saved_tensors  # raises what autograd says about what was freed
                    raise RuntimeError(UNSEEN_GRADIENT.format(reason))
                self.pieces = again.in_pieces(graph, plan)
        return self.pieces

    def _alive(self) -> list[Tensor | None]:
        return [t() for t in self.tensors]

    def _asked(self, graph: Any) -> bool:
        """Is the gradient of one of these what the pass is run for?"""
        alive = self._alive()
        for asked in _inputs_of_pass():
            if isinstance(asked, Tensor):
                if any(asked is t for t in alive) or _is_of(asked.grad_fn, graph):
                    return True
            elif _is_of(asked[0], graph):
                return True
        return False


def _is_of(node: Any, graph: Any) -> bool:
    """Is a node of autograd the graph's, one linked to it, or a view of a result?"""
    for _ in range(_MOST_VIEWS):
        if node is None or node is graph or getattr(node, "graph", None) is graph:
            return node is not None
        if len(node.next_functions) != 1:
            return False
        node = node.next_functions[0][0]
    return False


def _inputs_of_pass() -> Sequence[Any]:
    """The `inputs` of the backward pass that calls us. The engine doesn't tell; on a thread of its own, its caller waits in another."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code is not _ENGINE:
        frame = frame.f_back
    if frame is not None:
        return tuple(frame.f_locals["args"][_INPUTS] or ())
    found: list[Any] = []
    for other in sys._current_frames().values():
        if other.f_code is _ENGINE:
            found += other.f_locals["args"][_INPUTS] or ()
    return found


class _Link(torch.autograd.Function):
    """Takes results as the graph's node made them, then what they were computed from; gives the former, on a node of their own."""

    @staticmethod
    def forward(ctx: Any, graph: Any, again: Any, plan: Any, level: int, *tensors: Any) -> Any:
        ctx.graph, ctx.again, ctx.plan, ctx.level = graph, again, plan, level
        ctx.set_materialize_grads(False)
        return tuple(t.detach() for t in tensors[: len(plan.levels[level][0])])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        watched: Watched = ctx.graph.watched
        outputs = ctx.plan.levels[ctx.level][1]
        pieces = watched.seen(ctx.graph, ctx.again, ctx.plan)
        if pieces is None:
            return (None, None, None, None, *grads, *[None] * len(outputs))
        owed, direct = pieces.behind(ctx.plan.levels[ctx.level][0], grads, outputs)
        watched.direct.append(direct)
        return (None, None, None, None, *[None] * len(grads), *owed)


_apply = super(torch.autograd.Function, _Link).apply


def rest(graph: Any, grads: Sequence[Any], plan: Plan) -> list[Any] | None:
    """The gradients of the primals, where some of them were found by the nodes behind the graph's. None: nobody looks."""
    watched: Watched | None = graph.watched
    if watched is None or watched.task != torch._C._current_graph_task_id() or watched.pieces is None:
        return None
    first = [r for r in range(len(grads)) if r not in plan.linked]
    _, total = watched.pieces.behind(first, [grads[r] for r in first], ())
    for direct in watched.direct:
        total = [b if a is None else a if b is None else a + b for a, b in zip(total, direct, strict=True)]
    watched.pieces, watched.direct = None, []
    return total


def connect(results: Sequence[Any], args: Any, builders: Sequence[Any], again: Again, plan: Plan) -> list[Any]:
    """The outputs for the caller, each behind those that it was computed from. The last builders are for `plan.returned`."""
    made: dict[int, Any] = {}
    graph = graph_of(results[plan.first])
    if graph is None:
        return outputs_of(builders[: plan.count], args, results, made)
    results = list(results)
    watched = graph.watched = Watched()
    seen: set[int] = set()
    for level, (linked, outputs) in enumerate(plan.levels):
        for p in outputs:
            if p not in seen:
                seen.add(p)
                if output(p, builders, args, results, made).requires_grad:
                    watched.add(made[p])
        given = _apply(graph, again, plan, level, *[results[r] for r in linked], *[made[p] for p in outputs])
        for r, result in zip(linked, given, strict=True):
            results[r] = result
            if len(given) > 1:
                own_hooks(result)
    return outputs_of(builders[: plan.count], args, results, made)
