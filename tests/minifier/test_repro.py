"""Written repros: they compute what the graph does, and show the failure when they are run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import fx

from dynamo import config
from dynamo.faults.planting import planted
from minifier.engine import Kind, Signature
from minifier.graph.fx import execute, from_fx
from minifier.graph.ir import Graph
from minifier.graph.oracle import Setting
from minifier.graph.repro import repro_text, write_repro
from minifier.graph.values import inputs_of
from minifier.state import FLAGS, Flag, State, applied, captured
from tests.minifier.test_graph import program

FAILURE = Signature(Kind.EXCEPTION, ("dynamo.backends.testing.ReluCompileError",), "relu found", "testing.py:relu_compile_error")
OTHER = Signature(Kind.EXCEPTION, ("dynamo.backends.testing.ReluCompileError",), "no kernel for it", "lowering.py:lower")


def loaded(text: str, path: Path) -> ModuleType:
    module = ModuleType("repro")
    module.__file__ = str(path)
    exec(compile(text, str(path), "exec"), module.__dict__)
    return module


def strided(x: torch.Tensor, i: torch.Tensor, half: torch.Tensor, view: torch.Tensor) -> tuple[torch.Tensor, ...]:
    picked = x[i].to(torch.float64) ** 2
    return picked, half.sum(dim=-1, dtype=torch.float32), torch.cat([view, view])[1:], x.t() / 2.0


def strided_inputs() -> list[torch.Tensor]:
    x = torch.randn(6, 4)
    return [x.t().contiguous().t(), torch.randint(0, 6, (3,)), torch.randn(2, 3, dtype=torch.float16), torch.randn(5)[1:4]]


PROGRAMS: list[tuple[Callable[..., object], Callable[[], list[torch.Tensor]]]] = [
    (program, lambda: [torch.randn(4, 3), torch.randn(3, 4)]),
    (strided, strided_inputs),
]


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("function, inputs", PROGRAMS)
def test_repro_computes_what_the_graph_does(
    tmp_path: Path, function: Callable[..., object], inputs: Callable[[], list[torch.Tensor]], is_stored: bool
) -> None:
    store = tmp_path / "store"
    graph = from_fx(fx.symbolic_trace(function), inputs(), store if is_stored else None)
    written = write_repro(graph, Setting(store=str(store)), FAILURE, tmp_path / "out")
    module = loaded(written.text, written.path)
    found = module.Repro()(*module.inputs())

    for one, two in zip(found, execute(graph, inputs_of(graph, store)), strict=True):
        assert torch.equal(one, two)
        assert one.stride() == two.stride()
    assert written.path.read_text() == written.text
    assert not list((tmp_path / "out").glob(".*"))


def relu_graph() -> Graph:
    return from_fx(fx.symbolic_trace(lambda x: torch.relu(x) + 1), [torch.randn(3)])


@pytest.mark.parametrize(
    "backend, signature, code, says",
    [
        ("relu_compile_error_TESTING_ONLY", FAILURE, 1, "ReluCompileError: relu found"),
        ("relu_compile_error_TESTING_ONLY", OTHER, 4, "ReluCompileError: relu found"),
        ("relu_accuracy_error_TESTING_ONLY", Signature(Kind.ACCURACY, accuracy="value"), 1, "value: result 0: "),
        ("eager", FAILURE, 0, "ok"),
    ],
)
def test_repro_says_what_it_saw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], backend: str, signature: Signature, code: int, says: str
) -> None:
    written = write_repro(relu_graph(), Setting(backend, accuracy=True), signature, tmp_path)

    assert loaded(written.text, written.path).main() == code
    assert capsys.readouterr().out.startswith(says)


def test_repro_runs_under_the_state_of_the_script(tmp_path: Path) -> None:
    state = State(grad=False, autocast=(("cpu", "bfloat16"),), seed=7, flags={"default_dtype": "float64", "deterministic": 2})
    text = repro_text(relu_graph(), Setting("eager", state=state, options={"freezing": True}), FAILURE)

    assert "    torch.set_deterministic_debug_mode(2)\n" in text
    assert "    torch.set_default_dtype(getattr(torch, 'float64'))\n" in text
    assert '    with torch.set_grad_enabled(False), torch.autocast("cpu", dtype=torch.bfloat16):\n        return check()\n' in text
    assert "torch.manual_seed(7)" in text
    assert "options={'freezing': True}" in text
    before = captured()
    with applied(state):
        assert captured() == replace(state, threads=torch.get_num_threads())
    assert captured() == replace(before, seed=7)


OTHERWISE = {"default_dtype": "float64", "matmul_precision": "high", "deterministic": 1}


@pytest.mark.parametrize("flag", FLAGS, ids=lambda flag: flag.name)
def test_flag_is_set_read_and_written_down(flag: Flag, monkeypatch: pytest.MonkeyPatch) -> None:
    value = OTHERWISE.get(flag.name, not flag.plain)
    for may_assign in (False, True):  # torch's own test utilities forbid it for the rest of the process
        # `torch.backends` stands for the module that keeps it.
        monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", may_assign)
        with applied(State(flags={flag.name: value})):
            assert captured().flags[flag.name] == value
        assert flag.read() == flag.plain
    try:
        exec(flag.line.format(value=repr(value)), {"torch": torch})
        assert flag.read() == value
    finally:
        flag.write(flag.plain)


def test_repro_for_torch_needs_torch_alone(tmp_path: Path) -> None:
    store = tmp_path / "store"
    graph = from_fx(fx.symbolic_trace(lambda x: torch.relu(x) + 1), [torch.randn(3, dtype=torch.float16)], store)
    option = "torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY"
    setting = Setting("eager", engine="torch", accuracy=True, backward=True, store=str(store), options={option: "accuracy"})
    written = write_repro(graph, setting, FAILURE, tmp_path / "out")
    module = loaded(written.text, written.path)

    assert {line.split()[1] for line in written.text.splitlines() if line.startswith(("import ", "from "))} == {
        "json", "re", "sys", "traceback", "pathlib", "torch", "torch._inductor.config",
    }  # fmt: skip
    assert f"    {option} = 'accuracy'\n" in written.text
    assert torch.equal(module.inputs()[0], inputs_of(graph, store)[graph.inputs[0].id])
    expected = [torch.ones(2), torch.ones(2, dtype=torch.int64), None]
    assert module.difference(expected, expected) is None
    assert module.difference([torch.ones(2) + 1e-2, *expected[1:]], expected)[0] == "value"
    assert module.difference([expected[0], expected[1] + 1, None], expected)[0] == "value"
    assert module.difference([expected[0] * torch.nan, *expected[1:]], expected)[0] == "nan"


def test_repro_is_short() -> None:
    text = repro_text(relu_graph(), Setting("inductor", accuracy=True), FAILURE)

    assert "        relu = torch.relu(x)\n        add = relu + 1\n        return (add,)\n" in text
    assert "    x = torch.randn(3, generator=seeded(0))\n" in text
    assert "SETTING = oracle.Setting()\n" in text
    assert len(text.splitlines()) < 90


def test_repro_shows_what_fails_at_the_first_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kernels are built while the program goes on, and one that can't be built would run in eager."""
    graph = from_fx(fx.symbolic_trace(lambda x: (torch.ops.aten.sqrt.default(x),)), [torch.rand(3)])
    failure = Signature(Kind.EXCEPTION, ("inductor.errors.BuildError",), "the C compiler failed", "build.py:checked")
    written = write_repro(graph, Setting("inductor", after="aot"), failure, tmp_path)

    with planted("bad-text:op=sqrt"), config.patch(suppress_errors=True, graph_cache=False):
        assert loaded(written.text, written.path).main() == 1
    assert capsys.readouterr().out.startswith("BuildError: the C compiler failed")
