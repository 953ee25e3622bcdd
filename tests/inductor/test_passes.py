"""Graph rewrites, fuel, and the generated list of operators."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import inductor
from dynamo import decisions
from dynamo.trace import session
from dynamo.trace.events import Decided
from inductor.lowering.report import report
from inductor.passes.rewrite import rewrite
from tests.inductor.helpers import check, compiled, trace

X = torch.randn(4, 6)


def targets(fn, *args):
    return [str(n.target) for n in rewrite(trace(fn, args)).graph.nodes if n.op == "call_function"]


@pytest.mark.parametrize(
    "fn, kept",
    [
        (lambda x: x.clone().exp(), ["aten.exp.default"]),
        (lambda x: x.view(4, 6).exp(), ["aten.exp.default"]),
        (lambda x: x.view(24).view(2, 12).exp(), ["aten.view.default", "aten.exp.default"]),
        (lambda x: x.exp() + x.exp(), ["aten.exp.default", "aten.add.Tensor"]),
        (lambda x: (x.exp(), x.sin())[0], ["aten.exp.default"]),
        (lambda x: x.clone(), ["aten.clone.default"]),
        (lambda x: torch.rand_like(x) + torch.rand_like(x), ["aten.rand_like.default", "aten.rand_like.default", "aten.add.Tensor"]),
        (lambda x: x * 3 + x * 3.0, ["aten.mul.Tensor", "aten.mul.Tensor", "aten.add.Tensor"]),
    ],
)
def test_rows(fn, kept):
    assert targets(fn, X) == kept


def test_the_original_graph_stays():
    gm = trace(lambda x: x.clone().exp(), [X])
    before = gm.code
    rewrite(gm)
    assert gm.code == before


def test_equal_outputs_stay_apart():
    first, second = compiled(lambda x: (x.exp(), x.exp()), [X])(X)
    assert first.data_ptr() != second.data_ptr()


def test_decisions_are_recorded_and_can_be_refused():
    def fn(x):
        return (x.clone().exp() + 1).sum(1)

    with session() as store:
        compiled(fn, [X])
    stages = {d.stage for d in store.of(Decided)}
    assert {"passes", "inline"} <= stages
    with decisions.limited("-passes"), session() as store:
        compiled(fn, [X])
    assert not any(d.taken for d in store.of(Decided) if d.stage == "passes")


def test_fuel_that_cannot_be_read_names_the_entry():
    with pytest.raises(decisions.FuelError, match="'fuse:x'"):
        decisions.parse("3,fuse:x")


def test_fuel_limits():
    with decisions.limited("3,#2,-b"):
        assert [decisions.decide("a", "") for _ in range(4)] == [True, False, True, False]
    with decisions.limited("a:1"):
        assert [decisions.decide(s, "") for s in "aab"] == [True, False, True]


def test_rewritten_graphs_compute_the_same():
    check(lambda x: (x.clone().view(24).view(3, 8) + x.reshape(3, 8).exp(), x.exp().sum()), X)


def test_list_of_operators_is_current():
    path = Path(inductor.__file__).with_name("ops.md")
    assert path.read_text() == report(), "run: python -m inductor.lowering.report > inductor/ops.md"
