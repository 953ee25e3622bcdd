"""Graphs of 50 to 1000 operations and structural oracles on them, for minifiers: an oracle looks at a graph and compiles nothing."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import fx

from tests.minifier.graphs import BINARY, UNARY, chain, dag, marks_alive

Oracle = Callable[[fx.GraphModule, Sequence[torch.Tensor]], bool]


@dataclass(frozen=True)
class Case:
    """A graph that fails by `fails`. `known` is the least number of operations that does."""

    name: str
    make: Callable[[], fx.GraphModule]
    fails: Oracle
    known: int


def marked() -> list[Case]:
    """Marked operations that must be there and alive, few or many of them, in chains and in random graphs."""
    found = []
    for make, counts in ((chain, (100, 300, 1000)), (dag, (100, 300))):
        for count in counts:
            for marks in (1, 2, 5, 10):

                def fails(module: fx.GraphModule, inputs: Sequence[torch.Tensor], marks: int = marks) -> bool:
                    return marks_alive(module, marks)

                found.append(Case(f"{make.__name__} {count}, {marks} marks", partial(make, count, marks), fails, marks))
    return found


def shaped() -> list[Case]:
    """Faults of other kinds: which values meet, what an operation reads, dtypes, tuples."""
    return [
        Case("dag 200, two values into one operation", partial(_dag, 200, {150: _meeting}), _two_into_one, 1),
        Case("chain 500, a pair near its end", partial(_chain, 500, {449: torch.log1p, 450: torch.erf}), _pair, 2),
        Case(
            "chain 150, three far apart on one path", partial(_chain, 150, {10: torch.expm1, 75: torch.erf, 140: torch.sigmoid}), _path, 3
        ),
        Case("chain 80, an operation on float64", partial(_chain, 80, {20: _to_double, 40: torch.sigmoid, 60: _to_float}), _of_double, 1),
        Case("dag 60, two results of one tuple", partial(_dag, 60, {30: _extremes}), _both_of_tuple, 3),
    ]


Add = Callable[..., fx.Node]
Make = Callable[[Add, list[fx.Node]], list[fx.Node]]


def _chain(count: int, special: dict[int, Callable[..., torch.Tensor]]) -> fx.GraphModule:
    graph = fx.Graph()
    value = graph.placeholder("x")
    for i in range(count):
        value = graph.call_function(special.get(i, UNARY[i % len(UNARY)]), (value,))
    graph.output((value,))
    return fx.GraphModule(torch.nn.Module(), graph)


def _dag(count: int, special: dict[int, Make], window: int = 8) -> fx.GraphModule:
    draw = random.Random(count)
    graph = fx.Graph()
    values = [graph.placeholder("x"), graph.placeholder("y")]
    for i in range(count):
        recent = values[-window:]
        if i in special:
            values += special[i](lambda target, *args: graph.call_function(target, args), recent)
        elif draw.random() < 0.4:
            values.append(graph.call_function(draw.choice(UNARY), (draw.choice(recent),)))
        else:
            values.append(graph.call_function(draw.choice(BINARY), (draw.choice(recent), draw.choice(recent))))
    graph.output(tuple(v for v in values if not v.users))
    return fx.GraphModule(torch.nn.Module(), graph)


def _meeting(add: Add, recent: list[fx.Node]) -> list[fx.Node]:
    return [add(torch.atan2, recent[0], recent[-1])]


def _extremes(add: Add, recent: list[fx.Node]) -> list[fx.Node]:
    pair = add(torch.aminmax, recent[0])
    return [add(torch.add, recent[-1], add(operator.getitem, pair, 0)), add(torch.mul, recent[-2], add(operator.getitem, pair, 1))]


def _to_double(value: torch.Tensor) -> torch.Tensor:
    return value.double()


def _to_float(value: torch.Tensor) -> torch.Tensor:
    return value.float()


def _alive(module: fx.GraphModule) -> list[fx.Node]:
    """The operations that a result depends on, in order."""
    alive: set[fx.Node] = set()
    for node in reversed(module.graph.nodes):
        if node.op == "output" or node in alive:
            alive.update(node.all_input_nodes)
    return [n for n in module.graph.nodes if n in alive and n.op.startswith("call")]


def _reads(node: fx.Node, target: object) -> bool:
    return any(read.target is target for read in node.all_input_nodes)


def _two_into_one(module: fx.GraphModule, inputs: Sequence[torch.Tensor]) -> bool:
    return any(n.target is torch.atan2 and len(n.all_input_nodes) == 2 for n in _alive(module))


def _pair(module: fx.GraphModule, inputs: Sequence[torch.Tensor]) -> bool:
    return any(n.target is torch.erf and _reads(n, torch.log1p) for n in _alive(module))


def _path(module: fx.GraphModule, inputs: Sequence[torch.Tensor]) -> bool:
    """`sigmoid` of something computed from an `erf` of something computed from an `expm1`."""
    order = (torch.expm1, torch.erf, torch.sigmoid)
    reached: dict[fx.Node, int] = {}
    for n in _alive(module):
        so_far = max((reached.get(read, 0) for read in n.all_input_nodes), default=0)
        reached[n] = so_far + (so_far < len(order) and n.target is order[so_far])
    return len(order) in reached.values()


def _of_double(module: fx.GraphModule, inputs: Sequence[torch.Tensor]) -> bool:
    return _Dtypes(module).reads_double(torch.sigmoid, inputs)


class _Dtypes(fx.Interpreter):
    """Runs a graph to see what its operations read."""

    def reads_double(self, target: object, inputs: Sequence[torch.Tensor]) -> bool:
        alive, self.seen = set(_alive(self.module)), False  # type: ignore[arg-type]  # an Interpreter's module is the graph's
        self.wanted = {n for n in alive if n.target is target}
        self.run(*inputs)
        return self.seen

    def run_node(self, n: fx.Node) -> object:
        self.seen |= n in self.wanted and any(self.env[read].dtype is torch.float64 for read in n.all_input_nodes)
        return super().run_node(n)


def _both_of_tuple(module: fx.GraphModule, inputs: Sequence[torch.Tensor]) -> bool:
    taken = [n for n in _alive(module) if n.target is operator.getitem and _reads(n, torch.aminmax)]
    return len({n.args[1] for n in taken}) == 2 and len({n.args[0] for n in taken}) == 1


ALL = (*marked(), *shaped())
