"""The programs of the frequently asked questions. `CompileProfiler` belongs to the profiler and is tested with it."""

from __future__ import annotations

import pytest
import torch

import dynamo
from dynamo.trace.events import FrozenMiss
from tests.seeds.running import equal_to_eager, ran

TOY = """
import torch
import torch._dynamo as dynamo

def toy_example(a, b):
    x = a / (torch.abs(a) + 1)
    print("woo")
    if b.sum() < 0:
        b = b * -1
    return x * b
"""


def test_explain_counts_two_breaks() -> None:
    program = TOY + "result = dynamo.explain(toy_example, torch.randn(10), -torch.ones(10))\n"
    with ran(program) as done:
        explanation, out_guards, graphs, ops_per_graph, break_reasons, _ = done.names["result"]

    assert explanation.startswith("Dynamo produced 3 graphs with 2 graph breaks and 7 ops")
    assert [len(ops) for ops in ops_per_graph] == [3, 2, 2]
    assert len(break_reasons) == 2
    assert len(graphs) == 3
    assert out_guards


def test_fullgraph_raises() -> None:
    with ran(TOY + "strict = torch.compile(toy_example, fullgraph=True, backend='eager')\n") as done:
        with pytest.raises(dynamo.GraphBreakError):
            done.names["strict"](torch.randn(10), torch.randn(10))


def test_each_backend_by_name() -> None:
    program = TOY + "opt = torch.compile(toy_example, backend='eager')\n"
    with ran(program) as done:
        equal_to_eager(done.names["toy_example"], done.names["opt"], torch.randn(10), torch.ones(10))
        equal_to_eager(done.names["toy_example"], done.names["opt"], torch.randn(10), -torch.ones(10))


def test_frozen_run_compiles_nothing_new() -> None:
    program = """
    import torch
    import torch._dynamo as dynamo

    def toy_example(a, b):
        return a / (torch.abs(a) + 1) * b

    compiled = torch.compile(toy_example, backend="eager")
    compiled(torch.randn(10), torch.randn(10))
    frozen_toy_example = dynamo.run(compiled)
    frozen_toy_example(torch.randn(10), torch.randn(10))
    """
    with ran(program) as done:
        assert len(done.graphs) == 1
        equal_to_eager(done.names["toy_example"], done.names["frozen_toy_example"], torch.randn(7), torch.randn(7))

        assert len(done.graphs) == 1
        assert len(done.store.of(FrozenMiss)) == 1


def test_compile_times() -> None:
    program = TOY + "torch.compile(toy_example, backend='eager')(torch.randn(3), torch.randn(3))\ntimes = dynamo.utils.compile_times()\n"
    with ran(program) as done:
        assert "compilation metrics:" in done.names["times"].splitlines()[0]


def test_recompilation_profiler() -> None:
    program = """
    import torch
    from torch._dynamo.utils import CompileProfiler

    prof = CompileProfiler()

    def my_model(x):
        print("tracing ends here")
        return x.sin() * 2

    profiler_model = torch.compile(my_model, backend=prof)
    """
    with ran(program) as done:
        equal_to_eager(done.names["my_model"], done.names["profiler_model"], torch.randn(3))
        equal_to_eager(done.names["my_model"], done.names["profiler_model"], torch.randn(4))
        report = done.names["prof"].report()

    assert "print" in report
    assert "my_model__resume_at_" in report
    assert "expected 3, got 4" in report
