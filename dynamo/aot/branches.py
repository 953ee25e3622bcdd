"""Conditionals in ATen graphs: one operator that runs one of two graphs, and the graphs that it runs.

`torch.cond` stays a call: `dynamo_regions::run_branch(predicate, number, inputs)` looks up the pair of graphs with that number and runs
the one that the predicate chooses. Forward and backward are pairs of their own. As in `torch.cond`, the backward computes the values
of the branch again, and gives zeros for what the branch taken doesn't read.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
import torch.library
from torch.fx import GraphModule, Node

from dynamo.aot.trace import Tracer
from dynamo.fake import FakeTensor
from dynamo.fake.convert import modes_off

Tensor = torch.Tensor
Compiled = Callable[[list[Any]], Sequence[Any]]


class Branch:
    """One graph of a pair: `graph` takes the operator's inputs, then `held`; `run` is what was compiled from it."""

    __slots__ = ("graph", "held", "run")

    def __init__(self, graph: GraphModule, held: Sequence[Tensor]) -> None:
        self.graph = graph
        self.held = list(held)
        self.run: Compiled = lambda flat: graph(*flat)


class Called:
    """Graphs that an operator calls, found by its number. Whoever holds a graph with that operator holds them."""

    __slots__ = ("__weakref__", "number")

    def __init__(self) -> None:
        self.number = next(_numbers)
        _called[self.number] = self

    @classmethod
    def of(cls, number: int) -> Self:
        """What a node names."""
        found = _called[number]
        assert isinstance(found, cls)
        return found

    def branches(self) -> Iterator[tuple[str, Branch]]:
        """The graphs that are compiled alone, with what reports call them."""
        return iter(())


_numbers = itertools.count()
_called: weakref.WeakValueDictionary[int, Called] = weakref.WeakValueDictionary()


class Pair(Called):
    """Two branches with the same inputs and results."""

    __slots__ = ("results", "strides", "when_false", "when_true")

    def __init__(self, when_true: Branch, when_false: Branch, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> None:
        super().__init__()
        self.when_true, self.when_false = when_true, when_false
        self.strides = [t.stride() for t in inputs]
        self.results = [(tuple(t.shape), t.stride(), t.dtype) for t in results]

    def branches(self) -> Iterator[tuple[str, Branch]]:
        return iter((("true", self.when_true), ("false", self.when_false)))


def _run(predicate: Tensor, number: int, inputs: list[Tensor]) -> list[Tensor]:
    pair = Pair.of(number)
    branch = pair.when_true if predicate.item() else pair.when_false
    given = [t if t.stride() == strides else _strided(t, strides) for t, strides in zip(inputs, pair.strides, strict=True)]
    return list(branch.run([*given, *branch.held]))


def _strided(t: Tensor, strides: tuple[int, ...]) -> Tensor:
    return torch.empty_strided(t.shape, strides, dtype=t.dtype, device=t.device).copy_(t)


def _like(predicate: Tensor, number: int, inputs: list[Tensor]) -> list[Tensor]:
    return [torch.empty_strided(shape, strides, dtype=dtype, device="meta") for shape, strides, dtype in Pair.of(number).results]


_library = torch.library.Library("dynamo_regions", "DEF")
_library.define("run_branch(Tensor predicate, int pair, Tensor[] inputs) -> Tensor[]")
_library.impl("run_branch", _run, "CompositeExplicitAutograd")
_library.impl("run_branch", _like, "Meta")
RUN_BRANCH = torch.ops.dynamo_regions.run_branch.default


class Builder(Protocol):
    """What traces the graph around a conditional: see `dynamo.aot.joint`."""

    tracer: Tracer
    pairs: list[Called]

    def inside(self, body: GraphModule) -> Builder: ...

    def interpret(self, gm: GraphModule, args: Sequence[Any]) -> Any: ...

    def result_node(self, fake: FakeTensor, taken: set[Node], view_is_fine: bool = False) -> Node: ...


@dataclass(frozen=True, slots=True)
class _Site:
    """A conditional of the captured graph. The history of the fakes holds it, and must not hold the builder, which holds the fakes."""

    builder: weakref.ref[Builder]
    when_true: GraphModule
    when_false: GraphModule
    number: int


class _Conditional(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, site: _Site, predicate: Tensor, *given: Tensor) -> Any:
        ctx.site = site
        ctx.save_for_backward(predicate, *given)
        return tuple(RUN_BRANCH(predicate, site.number, list(given)))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        site: _Site = ctx.site
        builder = site.builder()
        assert builder is not None  # it is who runs this
        predicate, *given = ctx.saved_tensors
        wanted = [i for i, needs in enumerate(ctx.needs_input_grad[2:]) if needs]
        tangents = [g if g.is_floating_point() or g.is_complex() else None for g in grads]
        behind = _backward_pair(builder, site.when_true, site.when_false, given, wanted, tangents)
        found = RUN_BRANCH(predicate, behind.number, [*given, *(t for t in tangents if t is not None)])
        out: list[Any] = [None] * (len(given) + 2)
        for i, grad in zip(wanted, found, strict=True):
            out[i + 2] = grad
        return tuple(out)


def conditional(builder: Builder, predicate: Tensor, when_true: GraphModule, when_false: GraphModule, operands: Sequence[Tensor]) -> Any:
    """Record the call of a pair made of two captured bodies. Returns fakes, with history where operands need gradients."""
    pair = _forward_pair(builder, when_true, when_false, operands)
    if torch.is_grad_enabled() and any(t.requires_grad for t in operands):
        return _Conditional.apply(_Site(weakref.ref(builder), when_true, when_false, pair.number), predicate, *operands)
    return tuple(RUN_BRANCH(predicate, pair.number, list(operands)))


def _forward_pair(builder: Builder, when_true: GraphModule, when_false: GraphModule, operands: Sequence[Tensor]) -> Pair:
    return _pair(builder, operands, [traced(builder, body, operands) for body in (when_true, when_false)])


def _backward_pair(
    builder: Builder,
    when_true: GraphModule,
    when_false: GraphModule,
    operands: Sequence[Tensor],
    wanted: Sequence[int],
    tangents: Sequence[Tensor | None],
) -> Pair:
    both = [traced(builder, body, operands, wanted, tangents) for body in (when_true, when_false)]
    return _pair(builder, [*operands, *(t for t in tangents if t is not None)], both)


def _pair(builder: Builder, inputs: Sequence[Tensor], traced: Sequence[tuple[Branch, list[FakeTensor]]]) -> Pair:
    (when_true, results), (when_false, _) = traced
    pair = Pair(when_true, when_false, inputs, results)
    builder.pairs.append(pair)
    return pair


def traced(
    builder: Builder, body: GraphModule, operands: Sequence[Tensor], wanted: Sequence[int] = (), tangents: Sequence[Tensor | None] = ()
) -> tuple[Branch, list[FakeTensor]]:
    """The ATen graph of a body, or of its gradients if there are tangents, and what it returns on fakes."""
    with modes_off(), torch.inference_mode(False):  # a body that needs gradients was not captured in that mode
        inner = builder.inside(body)
        tracer = inner.tracer
        given = [_fresh(inner, t, f"operand_{i}", i in wanted) for i, t in enumerate(operands)]
        behind = [None if t is None else _fresh(inner, t, f"tangent_{i}") for i, t in enumerate(tangents)]
        with tracer, torch.set_grad_enabled(bool(wanted)):
            results = list(inner.interpret(body, given))
            if wanted:
                results = _gradients(tracer, results, [given[i] for i in wanted], behind)
            taken: set[Node] = set()
            nodes = [inner.result_node(t, taken, view_is_fine=True) for t in results]
        tracer.graph.output(tuple(nodes))
        graph = GraphModule(tracer.root, tracer.graph)
        return Branch(graph, [real for real, _ in tracer.lifted]), results


def _gradients(tracer: Tracer, results: Sequence[Any], leaves: Sequence[FakeTensor], tangents: Sequence[Any]) -> list[Any]:
    tracer.phase = "backward"
    ends = [(r, t) for r, t in zip(results, tangents, strict=True) if t is not None and r.requires_grad]
    found: Sequence[Tensor | None] = [None] * len(leaves)
    if ends:
        found = torch.autograd.grad([r for r, _ in ends], leaves, [t for _, t in ends], allow_unused=True)
    with torch.no_grad():
        return [_laid_out(g, leaf) for g, leaf in zip(found, leaves, strict=True)]


def _laid_out(grad: Tensor | None, leaf: FakeTensor) -> Tensor:
    """Both branches give gradients in one layout: that of the operand, if it is dense, else rows in order."""
    with modes_off():  # it is no operation of the graph
        strides = torch.empty_like(leaf.meta).stride()
    if grad is None:
        return torch.empty_strided(leaf.shape, strides, dtype=leaf.dtype, device=leaf.device).zero_()
    if grad.stride() == strides:
        return grad
    return torch.empty_strided(leaf.shape, strides, dtype=leaf.dtype, device=leaf.device).copy_(grad)


def _fresh(inner: Builder, like: Tensor, name: str, wanted: bool = False) -> FakeTensor:
    """An input of a branch: like a fake of the graph around it, and without its history."""
    assert isinstance(like, FakeTensor)
    meta = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device="meta")
    fake = FakeTensor(meta, like.fake_device, wanted)
    inner.tracer.placeholder(name, fake, fake)
    return fake
