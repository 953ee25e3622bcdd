"""Our reduction of graphs beside torch's `fx_minifier`, under one structural oracle: calls, what is left, and time.

    python -m tests.benchmarks.minifying [--seconds N]

The oracle asks whether the marked operations are there and alive; nothing is compiled, so the time is the minifier's own. A peer that takes
longer than the limit is stopped; its row says what it had asked until then.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
from dataclasses import dataclass

import torch
from torch import fx
from torch._functorch.fx_minifier import minifier as peer_minifier

from minifier.graph.fx import to_fx
from tests.minifier.graphs import chain, dag, inputs_for, marks_alive, reduced

CASES = [(make, count) for make, counts in ((chain, (100, 300, 1000)), (dag, (100, 300))) for count in counts]
MARKS = (1, 2, 5, 10)


class OutOfTime(Exception):
    """The peer took longer than it may."""


@dataclass
class Row:
    """What one minifier did: oracle calls, operations left, seconds, and whether it got to its end."""

    calls: int
    left: int
    seconds: float
    ended: bool = True


def ours(module: fx.GraphModule, marks: int) -> Row:
    began = time.perf_counter()
    result = reduced(module, lambda graph: marks_alive(to_fx(graph), marks))
    assert result.certificate is not None
    return Row(result.calls, len(result.state.nodes), time.perf_counter() - began)


def peer(module: fx.GraphModule, marks: int, limit: float) -> Row:
    began = time.perf_counter()
    calls, left = 0, len(module.graph.nodes)

    def fails(graph: fx.GraphModule, inputs: list[torch.Tensor]) -> bool:
        nonlocal calls, left
        if time.perf_counter() - began > limit:
            raise OutOfTime
        calls += 1
        found = marks_alive(graph, marks)
        if found:
            left = min(left, sum(n.op.startswith("call") for n in graph.graph.nodes))
        return found

    ended = True
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            peer_minifier(module, inputs_for(module), fails, dump_state=lambda *a: None)
        except OutOfTime:
            ended = False
    return Row(calls, left, time.perf_counter() - began, ended)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of the peer per case")
    seconds = parser.parse_args().seconds
    print(f"{'graph':<11} {'marks':>5}   {'ours: calls left':>17} {'s':>6}   {'peer: calls left':>17} {'s':>6}")
    totals = [0, 0]
    for make, count in CASES:
        for marks in MARKS:
            a, b = ours(make(count, marks), marks), peer(make(count, marks), marks, seconds)
            totals = [totals[0] + a.calls, totals[1] + b.calls]
            more = "" if b.ended else ">"
            print(
                f"{make.__name__ + ' ' + str(count):<11} {marks:>5}   {a.calls:>12} {a.left:>4} {a.seconds:>6.2f}"
                f"   {more + str(b.calls):>12} {b.left:>4} {b.seconds:>6.1f}",
                flush=True,
            )
    print(f"total calls {totals[0]} and {totals[1]}: 1/{totals[1] / totals[0]:.1f}")


if __name__ == "__main__":
    main()
