"""Graphs to reduce: chains and windowed random graphs of torch functions, with marked operations in them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from minifier.engine import FunctionTransport, Options, Pass, Result, minimise
from minifier.graph.fx import from_fx
from minifier.graph.ir import Graph, load
from minifier.graph.problem import STRUCTURE, GraphProblem

UNARY = (torch.sin, torch.cos, torch.tanh, torch.relu)
BINARY = (torch.add, torch.mul, torch.maximum)
MARKS = (torch.sigmoid, torch.erf, torch.expm1, torch.atan, torch.asinh, torch.log1p, torch.exp2, torch.neg, torch.abs, torch.square)
SHAPE = (2, 3)


def spread(count: int, marks: int) -> list[int]:
    """Places of marks, far apart."""
    return [(2 * i + 1) * count // (2 * marks) for i in range(marks)]


def chain(count: int, marks: int) -> fx.GraphModule:
    """One operation after the other."""
    graph = fx.Graph()
    value = graph.placeholder("x")
    marked = dict(zip(spread(count, marks), MARKS))
    for i in range(count):
        value = graph.call_function(marked.get(i, UNARY[i % len(UNARY)]), (value,))
    graph.output((value,))
    return fx.GraphModule(torch.nn.Module(), graph)


def dag(count: int, marks: int, window: int = 8) -> fx.GraphModule:
    """Operations on values of the last few."""
    draw = random.Random(count)
    graph = fx.Graph()
    values = [graph.placeholder("x"), graph.placeholder("y")]
    marked = dict(zip(spread(count, marks), MARKS))
    for i in range(count):
        recent = values[-window:]
        if i in marked or draw.random() < 0.4:
            values.append(graph.call_function(marked.get(i, draw.choice(UNARY)), (draw.choice(recent),)))
        else:
            values.append(graph.call_function(draw.choice(BINARY), (draw.choice(recent), draw.choice(recent))))
    graph.output(tuple(v for v in values if not v.users))
    return fx.GraphModule(torch.nn.Module(), graph)


def inputs_for(module: fx.GraphModule) -> list[torch.Tensor]:
    return [torch.randn(SHAPE) for n in module.graph.nodes if n.op == "placeholder"]


def marks_alive(module: fx.GraphModule, marks: int) -> bool:
    """Whether that many marked operations are there, and something depends on each."""
    alive: set[fx.Node] = set()
    for node in reversed(module.graph.nodes):
        if node.op == "output" or node in alive:
            alive.update(node.all_input_nodes)
    return len({n.target for n in alive if n.target in MARKS}) == marks


def reduced(
    module: fx.GraphModule | Graph, holds: Callable[[Graph], bool], passes: Sequence[Pass[Graph]] | None = None, **options: Any
) -> Result[Graph]:
    """A graph reduced while `holds`; without `passes`, by its nodes, results and number of inputs."""
    start = module if isinstance(module, Graph) else from_fx(module, inputs_for(module))
    transport = FunctionTransport(lambda data: holds(load(data)))
    return minimise(GraphProblem([make() for make in STRUCTURE] if passes is None else passes), start, transport, Options(**options))
