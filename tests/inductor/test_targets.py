"""The boundary to a kind of device: what every target has to say about the loop IR, and that nothing above it knows one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import dynamo
from dynamo import config
from dynamo.trace import session
from dynamo.trace.events import CodeGenerated, Note
from inductor.ir.ops import OPS, REDUCTIONS
from inductor.ir.philox import philox
from inductor.ir.types import TYPES
from inductor.runtime import devices
from inductor.targets import registry
from inductor.targets.cpu.c.ops import C_OPS, C_TYPES
from inductor.targets.cpu.c.reductions import accumulator
from minifier.fuzz.draw.tensor_programs import Program, programs
from tests.generator.running import run_programs
from tests.inductor import test_golden, test_programs, toy_target
from tests.inductor.helpers import assert_same, compiled
from tests.inductor.program_check import check_program


def test_c_has_a_row_for_every_operation_type_and_reduction() -> None:
    assert C_OPS.keys() == OPS.keys()
    assert C_TYPES.keys() == TYPES.keys()
    assert all(len(accumulator(kind, "f32").results) == outputs for kind, outputs in REDUCTIONS.items())


def test_so_have_flat_lists() -> None:
    assert toy_target.PYTHON.keys() == OPS.keys()
    assert toy_target.REDUCTIONS.keys() == REDUCTIONS.keys()


def test_so_draw_flat_lists() -> None:
    names: dict[str, Any] = {}
    exec(toy_target.PRELUDE, names)
    given = [(s, c, t, lane) for s in (0, 7, 2**62 + 5) for c in (0, 3, 2**33) for t in (0, 2**31, 2**40 + 1) for lane in range(4)]
    drawn = philox(*map(torch.tensor, zip(*given, strict=True)))
    assert [names["philox"](*row) for row in given] == drawn.tolist()


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Graphs on the CPU go to the target of flat lists."""
    target, runtime = toy_target.ListTarget(), toy_target.ListRuntime()
    monkeypatch.setattr(registry, "target", lambda device: target)
    monkeypatch.setattr(devices, "runtime", lambda device: runtime)
    with config.patch(graph_cache=False):
        yield


GOLDEN = {name: (fn, test_golden.inputs_of(shapes)) for name, (fn, shapes) in test_golden.PROGRAMS.items()}
GRAPHS = {name: (row[0], [torch.randn(shape) for shape in row[1]]) for name, row in test_programs.GRAPHS.items()}
LONG = ("row_sum", "gather_rows", "softmax_long")  # half a million elements take Python seconds


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("name", [n for n in (*GOLDEN, *GRAPHS) if n not in LONG])
def test_programs_on_flat_lists(name: str) -> None:
    fn, given = {**GOLDEN, **GRAPHS}[name]
    with session() as store:
        run = compiled(fn, given)
        found = run(*given)
    assert_same(found, fn(*given), rtol=1e-5, atol=1e-4)
    assert [e.language for e in store.of(CodeGenerated) if e.stage == "kernels"] == ["python"]
    assert store.of(Note) == []


@pytest.mark.usefixtures("toy")
def test_a_scatter_on_flat_lists_comes_behind_what_fills_its_target() -> None:
    x = torch.randn(2, 2, requires_grad=True)
    with config.patch(suppress_errors=False):
        dynamo.compile(lambda x: x[..., torch.arange(1) % 2])(x).sum().backward()
    assert torch.equal(x.grad, torch.tensor([[1.0, 0.0], [1.0, 0.0]]))


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("part", range(2))
def test_random_programs_on_flat_lists(part: int) -> None:
    def check(program: Program) -> None:
        check_program(program, ["compiled"])

    run_programs(programs(), check, part, 40)
