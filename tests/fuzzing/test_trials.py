"""Programs in isolated children, under planted faults: what counts as a failure, and which failures are one bug."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from minifier.engine import Candidate, Kind, Outcome, Verdict
from minifier.fuzz.clusters import cluster_of, staged
from minifier.fuzz.draw.scripts import script_of
from minifier.fuzz.fuzzing import failed
from minifier.fuzz.trial import Question, spec_for
from minifier.fuzz.types import Cluster, Drawn, Target
from minifier.isolation import Limits, LocalTransport

TARGET = Target()
FAULTS = "wrong-lowering:op=sin,as=tan;scaled:op=sqrt;lower-segfault:op=tanh;lower-error:op=exp"


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalTransport]:
    with mock.patch.dict(os.environ, {"DYNAMO_FAULT": FAULTS}):
        transport = LocalTransport(spec_for(TARGET), tmp_path_factory.mktemp("runner"), 1, Limits(timeout=120.0))
    yield transport
    transport.close()


def script(expression: str) -> str:
    return script_of(
        f"def f(x): return {expression}\n\ndef program(compile): return compile(f)(make((3, 5), torch.float32))", TARGET.engine
    )


def asked(runner: LocalTransport, expression: str) -> Outcome:
    return runner.submit(Candidate("a program", Question(script(expression), TARGET.backend).encode())).result()


@pytest.mark.parametrize(
    ("expression", "kind", "accuracy"),
    [
        ("x.cos() + torch.softmax(x, 0).sum(-1, keepdim=True)", None, ""),
        ("x.view(7)", None, ""),  # refused by both
        ("x.cos().sin()", Kind.ACCURACY, "value"),
        ("x.exp() + 1", Kind.EXCEPTION, ""),
        ("x.tanh() + 1", Kind.SIGNAL, ""),
    ],
)
def test_what_counts_as_a_failure(runner: LocalTransport, expression: str, kind: Kind | None, accuracy: str) -> None:
    outcome = asked(runner, expression)

    if kind is None:
        assert (outcome.verdict, outcome.signature) == (Verdict.BORING, None)
    else:
        assert outcome.verdict is Verdict.INTERESTING
        assert outcome.signature is not None
        assert (outcome.signature.kind, outcome.signature.accuracy) == (kind, accuracy)


def test_a_run_does_not_see_the_filters_of_warnings_that_another_left(runner: LocalTransport) -> None:
    function = "def f(x):\n    warnings.warn('said')\n    warnings.simplefilter('error')\n    return x + 1\n"
    text = script_of(f"import warnings\n\n{function}\ndef program(compile): return compile(f)(make((3, 5), torch.float32))", TARGET.engine)
    outcome = runner.submit(Candidate("a program", Question(text, TARGET.backend).encode())).result()

    assert (outcome.verdict, outcome.detail) == (Verdict.BORING, "")


def test_failures_are_told_apart_by_the_decision_to_blame(runner: LocalTransport) -> None:
    clusters: list[Cluster] = []
    for number, expression in enumerate(("x.sin() * 2", "x.cos() - x.sin()", "x.abs().sqrt()")):
        drawn = Drawn(number, "tensors", script(expression))
        failure = staged(failed(drawn, asked(runner, expression)), TARGET, runner)
        failure, known = cluster_of(failure, clusters, TARGET, runner)
        if known is None:
            clusters.append(Cluster(failure))
            known = clusters[-1]
        known.programs.append(number)

    assert [c.programs for c in clusters] == [[0, 1], [2]]
    assert [c.first.culprit for c in clusters] == ["lower: wrong-lowering sin_default", "lower: scaled sqrt_default"]
    assert {c.first.stage for c in clusters} == {"codegen"}


def test_nothing_is_left_behind(runner: LocalTransport) -> None:
    asked(runner, "x + 1")

    assert list(Path(runner.folder, "queries").iterdir()) == []
