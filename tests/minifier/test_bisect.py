"""The accuracy bisector: verdicts that rounding does not change, and culprits by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import dynamo
from dynamo.backends.registry import lookup_backend
from dynamo.faults.planting import planted
from minifier.bisect.bisecting import bisect_graph
from minifier.bisect.checking import check
from minifier.bisect.elsewhere import moved
from minifier.bisect.nodes import place_of
from minifier.bisect.report import Report, as_text, from_json
from minifier.compare.evidence import Evidence
from minifier.compare.modes import Draws, EagerMode, Exact, Noisy, Recorded
from minifier.compare.verdict import Kind, Sample, Verdict, judge
from tests.minifier.labelled.asking import Answer, ask, cases, score

# A selection that runs everywhere: one row of each kind. `test_whole_labelled_set` has all.
LEGITIMATE = (
    "sum of long rows, in chunks", "softmax of bf16", "layer norm of bf16", "product and difference, cancelling", "exp of large numbers",
    "bf16 chain kept in float32", "convolution as a product", "attention", "scatter with sums", "dropout", "argmax after sums",
)  # fmt: skip
PLANTED = (
    "sin as cos, long chain", "NaN hidden by a mask", "mask dropped", "gradient of sin", "inlined without exp", "sin printed as cos",
    "first result kept", "one draw more", "variance by a difference", "dropout of another mask",
    "infinity saturated", "argmax of ties",
)  # fmt: skip


def captured(fn: Callable[..., Any], *inputs: Any) -> tuple[Any, list[Any]]:
    taken: list[tuple[Any, list[Any]]] = []

    def take(gm: Any, examples: Any) -> Callable[..., Any]:
        taken.append((gm, list(examples)))
        return gm.forward

    dynamo.reset()
    dynamo.compile(fn, backend=take, fullgraph=True)(*inputs)
    return taken[0]


def test_a_graph_is_moved_with_all_that_it_holds() -> None:
    layer = torch.nn.Linear(4, 4)

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return layer(x) + torch.ones(4, device="cpu"), x.cpu() + torch.zeros_like(x, device=x.device)

    gm, inputs = captured(fn, torch.randn(2, 4, requires_grad=True))
    module, given = moved(gm, inputs, "meta")
    assert all(r.device.type == "meta" for r in module(*given))
    assert given[0].requires_grad and all(p.requires_grad for p in module.parameters())
    assert [p.shape for p in module.parameters()] == [p.shape for p in gm.parameters()]
    assert all(p.device.type == "cpu" for p in gm.parameters()) and inputs[0].device.type == "cpu"


def bisected(fault: str, fn: Callable[..., Any], *inputs: Any) -> Report:
    gm, examples = captured(fn, *inputs)
    with planted(fault):
        return bisect_graph(gm, examples, "inductor", lookup_backend("inductor")[1])


def of_row(file: str, name: str) -> Answer:
    return ask(next(c for c in cases(file) if c.name == name))


@pytest.mark.parametrize("name", LEGITIMATE)
def test_rounding_is_no_finding(name: str) -> None:
    answer = of_row("legitimate.txt", name)

    assert answer.report.verdict == "within rounding", answer.line()


@pytest.mark.parametrize("name", PLANTED)
def test_planted_error_is_found_and_named(name: str) -> None:
    answer = of_row("planted.txt", name)

    assert answer.report.is_finding, answer.line()
    assert answer.is_named, answer.line()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_whole_labelled_set() -> None:
    legitimate, wrong = ([ask(c) for c in cases(file)] for file in ("legitimate.txt", "planted.txt"))
    found = score(legitimate, wrong)

    shown = "\n".join(a.line() for a in (*legitimate, *wrong))
    assert found.legitimate >= 60 and found.planted >= 60
    assert found.precision >= 0.98 and found.recall >= 0.98, shown
    assert found.named_rate >= 0.95, shown


def test_first_wrong_node_inside_a_fused_kernel() -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(6):
            x = torch.sigmoid(x) * 2 - x
        x = torch.sin(x)
        for _ in range(6):
            x = torch.sigmoid(x) * 2 - x
        return x

    report = bisected("scaled", chain, torch.randn(8, 32))

    assert (report.stage, report.op, report.verified) == ("lower", "sin.default", True)
    assert report.file == __file__
    assert "torch.sin(x)" in as_text(report)


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("fault", ["ignored-strides", "second-call"])
def test_a_fault_shows_though_all_elements_of_the_input_are_equal(value: float, fault: str) -> None:
    gm, inputs = captured(lambda x: x.t().sin(), torch.full((3, 4), value))

    with planted(fault):
        assert check(gm, inputs, lookup_backend("inductor")[1]).verdict.is_finding
    assert not check(gm, inputs, lookup_backend("inductor")[1]).verdict.is_finding


def test_two_wrong_decisions_are_both_switched_off() -> None:
    report = bisected("scaled", lambda x, y: torch.sin(x) + torch.sin(y).exp(), torch.randn(8, 32), torch.randn(8, 32))

    assert report.verified
    assert sorted(d.split()[-1] for d in report.decisions) == ["sin_default", "sin_default_1"]
    assert report.switch.count("#") == 2


def test_wrong_gradient_is_found_where_results_are_right() -> None:
    x = torch.randn(8, 32, requires_grad=True)
    report = bisected("wrong-operator", lambda x: torch.sin(x) * 2, x)

    assert report.worst is not None
    assert report.worst.output.startswith("gradient of")
    assert (report.stage, report.verified) == ("aot", True)


def test_dropout_does_not_hide_a_wrong_result() -> None:
    gm, inputs = captured(lambda x, y: torch.relu(x) + F.dropout(y), torch.randn(8, 32), torch.randn(8, 32))
    report = bisect_graph(gm, inputs, "relu", lookup_backend("relu_accuracy_error_TESTING_ONLY")[1])

    assert report.verdict == Kind.WORSE.value
    assert report.node == "relu"


def test_graph_inputs_parameters_and_generator_stay_as_they_are() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Dropout(0.5))
    x = torch.randn(4, 6)
    gm, inputs = captured(net, x)
    before = [v.clone() for v in (*net.state_dict().values(), x, torch.get_rng_state())]

    checked = check(gm, inputs, lookup_backend("inductor")[1])

    assert checked.verdict.kind is Kind.ROUNDING
    after = [*net.state_dict().values(), x, torch.get_rng_state()]
    assert all(torch.equal(b, a) for b, a in zip(before, after, strict=True))


def test_flaky_compiler_is_called_flaky() -> None:
    compiles = iter(range(100))

    def sometimes(gm: Any, inputs: Any) -> Callable[..., Any]:
        wrong = next(compiles) % 2 == 0
        return lambda *values: [r + wrong for r in gm.forward(*values)]

    gm, inputs = captured(torch.sin, torch.randn(30))
    report = bisect_graph(gm, inputs, "sometimes", sometimes)

    assert report.verdict == "flaky"
    assert 0 < report.rate < 1


def test_what_a_backend_raises_is_told() -> None:
    gm, inputs = captured(torch.relu, torch.randn(30))
    report = bisect_graph(gm, inputs, "relu", lookup_backend("relu_compile_error_TESTING_ONLY")[1])

    assert (report.verdict, report.text) == ("compile error", "ReluCompileError: relu found")


def test_report_survives_json() -> None:
    report = bisected("nan", lambda x: torch.sin(x) * 2, torch.randn(8, 32))

    assert report.verdict == "NaN or Inf class changed"
    assert from_json(report.to_json()) == report


def test_float64_run_uses_the_draws_of_eager() -> None:
    x = torch.randn(50, 50)
    with Recorded() as recorded:
        eager = F.dropout(x, 0.5) + torch.rand_like(x)
    with Exact(recorded.draws):
        exact = F.dropout(x.double(), 0.5) + torch.rand_like(x.double())

    assert exact.dtype == torch.float64
    assert torch.allclose(exact.float(), eager)


@pytest.mark.parametrize("mode", [Recorded, lambda: Exact(Draws()), lambda: Noisy(Draws(), 0)])
def test_gradients_without_memory_are_zeros(mode: Callable[[], EagerMode]) -> None:
    """In a process of its own torch would crash: below a mode a number times such a gradient reads its memory."""
    x = torch.randn(9, dtype=torch.float64).requires_grad_()
    with mode():
        zeros = torch.autograd.grad(torch.sgn(x.var()), x)[0]
        zero = torch._efficientzerotensor((2,), dtype=torch.float64)
        sums = [torch.ops.aten.add.Scalar(zero, 3.0), torch.ops.aten.mul.Scalar(zero, math.inf)]
    assert not zeros.any()
    assert [s.clone().tolist() for s in sums] == [[3.0, 3.0], [0.0, 0.0]]


def test_noise_has_the_size_of_rounding() -> None:
    x = torch.randn(1000)
    with Recorded() as recorded:
        eager = torch.exp(x) + 1
    with Noisy(recorded.draws, 0):
        noisy = torch.exp(x) + 1

    relative = ((noisy - eager) / eager).abs().max()
    assert 0 < relative < 10 * torch.finfo(torch.float32).eps


def test_noise_takes_both_loops_of_an_element_wise_operator_on_nan() -> None:
    x, grad = torch.full((3,), math.nan), torch.ones(3)
    found = []
    for seed in (0, 1):
        with Noisy(Draws(), seed):
            found.append(torch.ops.aten.elu_backward(grad, 1.0, 1.0, 1.0, False, x))

    assert [bool(f.isnan().all()) for f in found] == [True, False]


def test_verdicts_have_the_kind_of_the_difference() -> None:
    mask = of_row("planted.txt", "one draw more").report
    number = of_row("planted.txt", "truncated sin").report

    assert (mask.verdict, number.verdict) == (Kind.MASK.value, Kind.WORSE.value)


def test_of_two_faults_the_first_is_told_of() -> None:
    value = torch.linspace(0.1, 1.0, 8)
    nan, off = value.clone(), value * 1.5
    nan[3] = math.nan

    def told(first: torch.Tensor, second: torch.Tensor) -> str:
        exact = [value.double(), value.double()]
        return judge([Sample(("a", "b"), (value, value), (first, second), lambda: exact, lambda seed, amplitude: exact)]).text

    assert (told(nan, off)[:2], told(off, nan)[:2], told(value, nan)[:2]) == ("a:", "a:", "b:")


@pytest.mark.parametrize(
    "target, name",
    [
        (F.leaky_relu, "torch.nn.functional.leaky_relu"),
        (torch.softmax, "torch.softmax"),
        (torch.ops.aten.sin.default, "sin.default"),
        (lambda a: a, "<lambda>"),
    ],
)
def test_a_node_is_named_without_addresses(target: Any, name: str) -> None:
    graph = torch.fx.Graph()
    said = place_of(graph.call_function(target, (graph.placeholder("x"),)), Verdict(Kind.WORSE, 1.0)).op

    assert said.endswith(name) and " at 0x" not in said


def test_only_results_that_are_further_off_are_listed() -> None:
    rows = [
        dict(output=n, eager_ulps=1.0, compiled_ulps=c, eager_relative=0.0, compiled_relative=0.0) for n, c in (("nan", 0.0), ("off", 9.0))
    ]
    said = as_text(Report(Kind.CLASS, 1.0, graph="0/0", outputs=tuple(rows)))

    assert "off: eager is off by 1 ulp, compiled by 9 ulp" in said
    assert "  nan: " not in said


def test_no_draw_is_looked_at_after_a_sure_finding() -> None:
    value, wrong = torch.linspace(1, 2, 64), torch.linspace(3, 4, 64)
    looked: list[int] = []

    def drawn(number: int, compiled: torch.Tensor) -> Sample:
        def exact() -> list[torch.Tensor]:
            looked.append(number)
            return [value.double()]

        return Sample(("a",), (value,), (compiled,), exact, lambda seed, amplitude: [value * (1 + 1e-7 * seed)])

    verdict = judge([drawn(0, value * (1 + 1e-7)), drawn(1, wrong), drawn(2, wrong)])

    assert (verdict.is_finding, verdict.draw) == (True, 1)
    assert looked == [0, 1]


@pytest.mark.parametrize(
    "fn, units",
    [(F.relu, 6), (lambda x: x + x.flip(0), 8), (lambda x: torch.softmax(x, -1), 8), (lambda x: x.sum(-1), 8)],
    ids=["relu", "add", "softmax", "sum"],
)
def test_results_of_halves_that_are_some_units_off_are_found(fn: Callable[..., Any], units: int) -> None:
    def sample(off: int) -> Sample:
        x = torch.randn(32, 65).to(torch.bfloat16)

        def run(change: Callable[[Any], Any], mode: Any) -> list[Any]:
            given = change(x.clone())
            with mode:
                return [fn(given)]

        eager = [fn(x)]
        return Evidence(run, eager).sample([(eager[0].float() * (1 + off / 256)).to(torch.bfloat16)])

    torch.manual_seed(0)
    assert judge([sample(units) for _ in range(3)]).is_finding
    assert not judge([sample(1) for _ in range(3)]).is_finding
