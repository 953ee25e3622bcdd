"""`CompileProfiler`, the classic recompilation profiler, and `debug_function`, which lets the compiler look at chosen code only."""

from __future__ import annotations

import gc
import re
from typing import Any

import pytest
import torch

import dynamo
from dynamo.trace import current, events, session
from dynamo.utils import CompileProfiler


def test_report_has_the_classic_tables() -> None:
    dynamo.reset()
    prof = CompileProfiler()

    def model(x: torch.Tensor) -> torch.Tensor:
        print(end="")
        return x * 2

    compiled = dynamo.compile(model, backend=prof)
    for size in range(1, 4):
        compiled(torch.ones(size))

    report = prof.report()
    assert report.splitlines()[0] == "Torchdynamo Profiler Report"
    lines = report.splitlines()
    assert any(line.split() == ["Graph", "Break", "Reason", "Count"] for line in lines)
    row = next(line for line in lines if "model__resume_at" in line)
    place = re.escape(__file__)
    assert re.fullmatch(rf"'.*model__resume_at_\d+' \({place}:\d+\)  2 +\d+/0: tensor L.*size at dim 0: .*got 2", row.strip())
    assert "No cache-limited recompilations detected." in report
    (name,) = prof.get_metrics()["guard_failures"]
    assert len(prof.get_metrics()["guard_failures"][name]) == 2


def test_limit_is_lifted_for_the_profiler_and_named() -> None:
    dynamo.reset()
    prof = CompileProfiler()
    compiled = dynamo.compile(lambda x: x + 1, backend=prof)
    with dynamo.config.patch(recompile_limit=2):
        for size in range(1, 6):
            compiled(torch.ones(size))

        assert prof.frame_count == 5
        assert "Set dynamo.config.recompile_limit to 5 to avoid being cache limited." in prof.report()


def test_healthy_program_and_end_of_a_profiler() -> None:
    dynamo.reset()
    listeners = len(current().listeners)
    with CompileProfiler() as prof:
        compiled = dynamo.compile(lambda x: x + 1, backend=prof)
        compiled(torch.ones(2))
    assert "No graph breaks detected." in prof.report()
    assert "No recompilation detected." in prof.report()

    compiled(torch.ones(3))
    assert "No recompilation detected." in prof.report()

    other = CompileProfiler()
    assert len(current().listeners) == listeners + 1
    del other
    gc.collect()
    assert len(current().listeners) == listeners


def helper(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = helper(x * 2)
        print(end="")
        return helper(y) - y


def compiled_names(pattern: str) -> list[str]:
    dynamo.reset()
    fn: Any = dynamo.compile(Net.forward, backend="eager")
    with dynamo.config.patch(debug_function=pattern), session() as store:
        fn(Net(), torch.ones(2))
    return [e.name.replace("Net.", "").partition("__resume")[0] + "+" * e.is_resume for e in store.of(events.CompileStarted)]


HELPER, FORWARD = helper.__code__.co_firstlineno + 1, Net.forward.__code__.co_firstlineno
BOTH = ["forward", "forward+"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("", BOTH),
        ("forward", BOTH),
        ("Net.forward", BOTH),
        ("Net.*", BOTH),
        ("for*", BOTH),
        ("helper", ["helper"]),
        ("nothing, helper", ["helper"]),
        ("help", []),
        (f"test_compile_profiler.py:{HELPER}", ["helper"]),
        (f"{__file__}:{FORWARD + 3}", BOTH),
        (f"tests/*.py:{FORWARD}", BOTH),
        (f"profiler.py:{HELPER}", []),
        (f"test_compile_profiler.py:{HELPER + 1}", []),
    ],
)
def test_debug_function_takes_names_globs_and_lines(pattern: str, names: list[str]) -> None:
    assert compiled_names(pattern) == names
