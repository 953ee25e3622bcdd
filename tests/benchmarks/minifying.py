"""Our reduction of graphs beside torch's `fx_minifier`, under one structural oracle: calls, what is left, and CPU time.

    python -m tests.benchmarks.minifying [--seconds N] [-k TEXT]

An oracle looks at a graph and compiles nothing, so the time is the minifier's own. A peer that takes longer than the limit is stopped; its
row says what it had asked and what was left until then. Exit code 1 if in some case ours asks more or leaves more.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import fx
from torch._functorch.fx_minifier import minifier as peer_minifier

from minifier.graph.fx import bind, to_fx
from minifier.graph.ir import Graph
from minifier.graph.values import inputs_of
from tests.benchmarks.structural import Case, marked, shaped
from tests.minifier.graphs import inputs_for, reduced


class OutOfTime(Exception):
    """The peer took longer than it may."""


@dataclass
class Row:
    """What one minifier did: oracle calls, operations left, seconds of CPU, and whether it got to its end."""

    calls: int
    left: int
    seconds: float
    ended: bool = True


def ours(case: Case) -> Row:
    began = time.process_time()

    def holds(graph: Graph) -> bool:
        module = to_fx(graph)
        return case.fails(module, bind(module, graph, inputs_of(graph, None)))

    result = reduced(case.make(), holds)
    assert result.certificate is not None
    return Row(result.calls, len(result.state.nodes), time.process_time() - began)


def peer(case: Case, limit: float) -> Row:
    began = time.process_time()
    module = case.make()
    calls, left = 0, len(module.graph.nodes)

    def fails(graph: fx.GraphModule, inputs: Sequence[torch.Tensor]) -> bool:
        nonlocal calls, left
        if time.process_time() - began > limit:
            raise OutOfTime
        calls += 1
        found = case.fails(graph, inputs)
        if found:
            left = min(left, sum(n.op.startswith("call") for n in graph.graph.nodes))
        return found

    ended = True
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            peer_minifier(module, inputs_for(module), fails, dump_state=lambda *a: None)
        except OutOfTime:
            ended = False
    return Row(calls, left, time.process_time() - began, ended)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU time of the peer per case")
    parser.add_argument("-k", default="", help="only cases whose name contains this")
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(f"{'case':<40} {'least':>5}   {'ours: calls left':>16} {'s':>6}   {'peer: calls left':>16} {'s':>6}")
    totals, missed = [0, 0], []
    for case in [c for c in (*marked(), *shaped()) if given.k in c.name]:
        a, b = ours(case), peer(case, given.seconds)
        totals = [totals[0] + a.calls, totals[1] + b.calls]
        asked = f"{'' if b.ended else '>'}{b.calls}"
        print(
            f"{case.name:<40} {case.known:>5}   {a.calls:>11} {a.left:>4} {a.seconds:>6.2f}   {asked:>11} {b.left:>4} {b.seconds:>6.1f}",
            flush=True,
        )
        if a.calls >= b.calls or a.left > b.left:
            missed.append(case.name)
    print(f"total calls {totals[0]} and {totals[1]}: 1/{totals[1] / totals[0]:.1f}")
    print(f"more calls or a larger result than the peer: {', '.join(missed) or 'none'}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
