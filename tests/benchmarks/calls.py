"""What a call of a compiled function costs when everything is compiled: dispatch and guards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import dynamo
from tests.benchmarks.measuring import Result, per_call, slope

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]
COUNTS = (1, 25, 50, 75, 100)


def no_op(graph_module: torch.fx.GraphModule, example_inputs: object) -> Callable[..., Any]:
    """A backend whose code does nothing, so that only the cost of getting there is left."""
    outputs = (torch.zeros(10, 10),)
    return lambda *args: outputs


def eager(graph_module: torch.fx.GraphModule, example_inputs: object) -> Callable[..., Any]:
    return graph_module.forward


def compilers(backend: Callable[..., Any]) -> tuple[Compile, Compile]:
    """This compiler and the peer with one backend."""
    torch._dynamo.config.recompile_limit = 200
    return (
        lambda fn: dynamo.compile(fn, backend=backend, fullgraph=True),
        lambda fn: torch.compile(fn, backend=backend, fullgraph=True, dynamic=False),
    )


def overhead(rounds: int) -> list[Result]:
    """A call of `sin(x) + cos(y)`."""

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + torch.cos(y)

    x, y = torch.randn(10, 10), torch.randn(10, 10)
    results = []
    for name, backend, limit in (("no-op backend", no_op, 0.2), ("eager backend", eager, None)):
        ours, peer = (compile(f) for compile in compilers(backend))
        times = per_call([lambda: ours(x, y), lambda: peer(x, y), lambda: f(x, y)], rounds, 2000)
        results.append(Result(f"call of sin(x) + cos(y), {name}", times[0] * 1e6, times[1] * 1e6, "us", limit))
    results.append(Result("call of sin(x) + cos(y), not compiled", times[2] * 1e6, None, "us"))
    return results


def guards_per_tensor(rounds: int) -> list[Result]:
    """Slope of the call time over the number of guarded tensors; the graph takes one tensor whatever the number."""

    def f(xs: list[torch.Tensor]) -> torch.Tensor:
        total = 0
        for x in xs:
            total += x.shape[0]
        return xs[0] * total

    inputs = [[torch.randn(3, 4) for _ in range(count)] for count in COUNTS]
    fns = [compile(f) for compile in compilers(no_op)]
    calls: list[Callable[[], object]] = [lambda fn=fn, xs=xs: fn(xs) for fn in fns for xs in inputs]
    times = per_call(calls, rounds, 500)
    slopes = [slope(COUNTS, times[: len(COUNTS)]), slope(COUNTS, times[len(COUNTS) :])]
    return [Result("guards of one tensor", slopes[0] * 1e9, slopes[1] * 1e9, "ns", 100, of_peer=False)]


def guards_of_module(rounds: int) -> list[Result]:
    """A call of a module of 50 layers, less a call of a function without a module."""
    module = torch.nn.Sequential(*[torch.nn.Linear(10, 10) for _ in range(50)])
    x = torch.randn(10, 10)

    def base(x: torch.Tensor) -> torch.Tensor:
        return x.sin()

    def call(x: torch.Tensor) -> torch.Tensor:
        return module(x)

    ours, peer = compilers(no_op)
    fns = [ours(call), ours(base), peer(call), peer(base)]
    with torch.no_grad():
        a, b, c, d = per_call([lambda fn=fn: fn(x) for fn in fns], rounds, 1000)
    return [Result("guards of a module of 50 layers", (a - b) * 1e6, (c - d) * 1e6, "us", 0.1)]
