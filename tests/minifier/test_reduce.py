"""Graphs that a compiler fails on, reduced by the real oracle in real children."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx

from dynamo.faults.planting import planted
from minifier.compare.modes import Exact, Recorded
from minifier.engine import Kind, Result, Signature, Status, Verdict
from minifier.graph.compare import difference
from minifier.graph.fx import from_fx
from minifier.graph.ir import Graph
from minifier.graph.oracle import Setting, judge
from minifier.graph.reduce import Plan, reduce_graph, verified
from minifier.isolation import Limits

FAULTS = "tests.minifier.backends:"


def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = torch.tanh(x @ w).sqrt().nan_to_num()
    for _ in range(4):
        y = torch.sin(y) + torch.cos(y) * 0.5
    z = torch.relu((x @ w).t() - 0.3).t()
    return torch.erf(z).sum(0) + y.mean()


def aten_model(x: torch.Tensor) -> torch.Tensor:
    aten = torch.ops.aten
    return aten.sum.dim_IntList(aten.mul.Tensor(aten.sin.default(aten.exp.default(x)), x), [1])


def graph_of(program: Callable[..., object], *inputs: torch.Tensor) -> Graph:
    return from_fx(fx.symbolic_trace(program), inputs)


def reduced(setting: Setting, folder: Path, program: Callable[..., object] = model, jobs: int = 2) -> Result[Graph]:
    inputs = [torch.randn(40, 48)] if program is aten_model else [torch.randn(40, 48), torch.randn(48, 64)]
    plan = Plan(folder, jobs=jobs, limits=Limits(timeout=60.0), calibration=2)
    result = reduce_graph(graph_of(program, *inputs), setting, plan)
    if result.status is Status.MINIMAL:
        assert result.certificate is not None
        assert verified(result.state, setting, plan, result, runs=1) == 1
    return result


def operations(result: Result[Graph]) -> list[str]:
    return [n.target.removeprefix("torch.ops.aten.").removeprefix("torch.").partition(".")[0] for n in result.state.nodes]


def test_compile_error_ends_at_the_two_operations(tmp_path: Path) -> None:
    result = reduced(Setting(FAULTS + "refuses_erf_and_tanh"), tmp_path)

    assert sorted(n.target.rpartition(".")[2] for n in result.state.nodes) == ["erf", "tanh"]
    assert [i.spec.shape for i in result.state.inputs] == [()]
    assert result.signature is not None
    assert result.signature.exceptions == ("tests.minifier.backends.LoweringError",)
    assert [s.exceptions for s in result.others] == [("NotImplementedError",)]


def test_a_folder_that_was_moved_is_gone_on_with(tmp_path: Path) -> None:
    graph = graph_of(model, torch.randn(40, 48), torch.randn(48, 64))

    def ended(place: Path, resume: bool) -> Result[Graph]:
        setting = Setting(FAULTS + "refuses_erf_and_tanh", store=str(place / "recorded" / "val\u00fces"))
        return reduce_graph(graph, setting, Plan(place / "graph", limits=Limits(timeout=60.0), resume=resume))

    first = ended(tmp_path / "one", resume=False)
    (tmp_path / "one").rename(tmp_path / "tw\u00f6")
    again = ended(tmp_path / "tw\u00f6", resume=True)

    assert (again.status, again.state, again.signature) == (first.status, first.state, first.signature)
    assert again.distinct == 0 < first.distinct


def test_crash_ends_at_the_threshold(tmp_path: Path) -> None:
    result = reduced(Setting(FAULTS + "crashes_on_large"), tmp_path)

    assert operations(result) == ["relu"]
    assert [i.spec.shape for i in result.state.inputs] == [(1025,)]
    assert result.signature is not None
    assert (result.signature.kind, result.signature.code) == (Kind.SIGNAL, 11)


def test_wrong_numbers_end_at_the_operation(tmp_path: Path) -> None:
    result = reduced(Setting(FAULTS + "wrong_relu", accuracy=True), tmp_path)

    assert operations(result) == ["relu"]
    assert result.signature == Signature(Kind.ACCURACY, accuracy="value")


def test_backend_of_ours_with_a_known_bug(tmp_path: Path) -> None:
    result = reduced(Setting("relu_runtime_error_TESTING_ONLY"), tmp_path)

    assert operations(result) == ["relu"]
    assert result.signature is not None
    assert result.signature.frame == "testing.py:_raise"


def test_aten_graphs_go_to_their_compiler(tmp_path: Path) -> None:
    result = reduced(Setting(FAULTS + "aten_without_sin", after="aot"), tmp_path, aten_model)

    assert operations(result) == ["sin"]


@pytest.mark.parametrize("setting", [Setting("inductor", accuracy=True), Setting("inductor", after="aot", accuracy=True)])
def test_healthy_graph_is_not_reduced(tmp_path: Path, setting: Setting) -> None:
    program = aten_model if setting.after == "aot" else model
    result = reduced(setting, tmp_path, program)

    assert (result.status, result.signature) == (Status.NOT_REPRODUCED, None)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Linear(6, 5)
        self.register_buffer("seen", torch.zeros(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(torch.nn.functional.linear(x, self.a.weight, self.a.bias))
        self.seen.add_(1)
        return (y + self.seen).sum(0)


class _Leaf(fx.Tracer):
    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return False


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("needs_grad", [False, True])
def test_modules_with_gradients_are_healthy(tmp_path: Path, backend: str, needs_grad: bool) -> None:
    net = Net()
    module = fx.GraphModule(net, _Leaf().trace(net))
    graph = from_fx(module, [torch.randn(3, 6, requires_grad=needs_grad)], tmp_path)
    found = judge(graph, Setting(backend, accuracy=True, backward=True, store=str(tmp_path)))

    assert [i.is_attribute for i in graph.inputs].count(True) == 3
    assert found.verdict is Verdict.BORING, found


@pytest.mark.parametrize("backend", ["no_such_backend", "__main__:no_such_function", "tests.minifier.backends:nothing"])
def test_backend_that_can_t_be_found_is_no_failure(backend: str) -> None:
    found = judge(graph_of(lambda x: x + 1, torch.ones(2)), Setting(backend))

    assert found.verdict is Verdict.INVALID
    assert "no" in found.detail


def test_what_rounding_explains_is_no_difference() -> None:
    x = torch.linspace(0.1, 3, 50)

    def program(x: torch.Tensor) -> torch.Tensor:
        return x.exp() / 3 - 0.25

    def run(change: Callable[[Any], Any], mode: AbstractContextManager[Any]) -> list[Any]:
        given = change(x)
        with mode:
            return [program(given)]

    eager = [program(x)]
    near, wrong = [torch.special.expm1(x) / 3 + 1 / 12], [eager[0] * (1 + 1e-4)]
    assert not torch.equal(near[0], eager[0])

    assert difference(near, eager, run) is None
    assert (d := difference(wrong, eager, run)) is not None
    assert d.kind == "value"


@pytest.mark.parametrize(
    "found, kind",
    [
        ([torch.ones(2)], ""),
        ([], "count"),
        ([torch.ones(3)], "shape"),
        ([torch.ones(2, dtype=torch.float64)], "dtype"),
        ([torch.tensor([1.0, torch.nan])], "nan"),
        ([torch.tensor([1.0, 2.0])], "value"),
        ([1.0], "type"),
    ],
)
def test_classes_of_wrong_results(found: list[object], kind: str) -> None:
    wrong = difference(found, [torch.ones(2)], lambda change, mode: [torch.ones(2)])

    assert ("" if wrong is None else wrong.kind) == kind


def test_what_the_c_compiler_refuses_is_a_failure() -> None:
    graph = graph_of(lambda x: torch.sin(x) * 2, torch.ones(3))
    with planted("bad-text"):
        found = judge(graph, Setting("inductor"))

    assert found.verdict is Verdict.INTERESTING
    assert found.signature is not None and found.signature.exceptions == ("inductor.errors.BuildError",)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_exact_run_draws_the_same_numbers(dtype: torch.dtype) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        dropped = torch.nn.functional.dropout(x.exp(), 0.5)
        return dropped + torch.rand_like(x) + torch.empty_like(x).normal_()

    x = torch.ones(64, dtype=dtype)
    with Recorded() as recorded:
        eager = program(x)
    with Exact(recorded.draws):
        exact = program(x.double())

    assert exact.dtype is torch.float64
    torch.testing.assert_close(exact.to(dtype), eager, atol=0.04 if dtype is torch.bfloat16 else 1e-6, rtol=0.02)


def test_what_cannot_be_called_is_a_failure_of_the_backend() -> None:
    found = judge(graph_of(lambda x: x + 1, torch.ones(2)), Setting(f"{FAULTS}gives_nothing"))

    assert found.signature is not None
    assert (found.signature.exceptions, found.signature.message) == (("TypeError",), "returned NoneType, which can't be called")
