"""`bisect_graph`: from one graph with its inputs to the stage, node and decision that make its numbers wrong, as a list of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from minifier.bisect.checking import DRAWS, Backend, compare
from minifier.bisect.fuel import Search
from minifier.bisect.ladder import DECIDED, FULL, RUNGS, Rung, TooLarge, Watch
from minifier.bisect.nodes import Place, aten_backend, first_diverging
from minifier.bisect.pieces import wrong_piece
from minifier.bisect.report import FAILED, FLAKY, GONE, Report, of_verdict, with_decision
from minifier.bisect.subject import AFTERWARDS, Subject
from minifier.compare.verdict import Verdict

REPEATS = 4  # compiles that must all show a finding; fewer, and it is flaky
OWN = "inductor"
ELSEWHERE = "an error has no numbers to follow; `dynamo-debug minify` finds the least program that has it, and the stage"


@dataclass
class Case:
    """A finding on its way: the subject, the draw that shows it, notes for the report."""

    subject: Subject
    verdict: Verdict
    name: str
    backend: Backend
    notes: list[str] = field(default_factory=list)
    compiles: int = 0

    def wrong(self, backend: Backend) -> Verdict:
        """The verdict on a compiler, on the draw that showed the finding and on those before it: some faults need an earlier call."""
        self.compiles += 1
        return compare(self.subject, backend, range(self.verdict.draw + 1))


def bisect_graph(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], name: str, backend: Backend, *, graph: str = "", draws: int = DRAWS
) -> Report:
    """The report on one graph under the backend called `name`. Raises what eager raises on these inputs."""
    compiler = FULL.backend() if name == OWN else backend
    subject = Subject(gm, inputs)
    subject.drawn(0)
    try:
        verdict = compare(subject, compiler, range(draws))
    except Exception as e:  # noqa: BLE001  # whatever a compiler raises is told
        return Report(FAILED, 1.0, graph, text=f"{type(e).__name__}: {e}".splitlines()[0][:300], notes=(ELSEWHERE,))
    report = of_verdict(verdict, graph)
    problem = subject.problem()
    notes = [f"no float64 run: {problem}"] if problem else []
    if not verdict.is_finding:
        return replace(report, notes=tuple(notes))
    case = Case(subject, verdict, name, compiler, notes)
    hits = sum(case.wrong(compiler).is_finding for _ in range(REPEATS))
    if hits < REPEATS:
        rate = (1 + hits) / (1 + REPEATS)
        return replace(report, verdict=FLAKY if hits else GONE, rate=rate, confidence=1.0, notes=tuple(case.notes))
    report = replace(report, rate=1.0)
    return localised(case, report) if name == OWN else at_node(case, replace(report, stage="backend"), None)


def localised(case: Case, report: Report) -> Report:
    """Stage, then decision, then node."""
    rung = first_wrong_rung(case)
    culprit = Search(lambda: case.wrong(FULL.backend()).is_finding).run()
    if culprit is not None:
        report = with_decision(report, culprit)
    else:
        case.notes.append("numbers are wrong whatever is decided: no optional step makes them so")
    stage = rung.stage if rung is not None else ""
    if culprit is not None and culprit.verified:
        stage = DECIDED.get(culprit.stage, culprit.stage)
    return at_node(case, replace(report, stage=stage), rung)


def first_wrong_rung(case: Case) -> Rung | None:
    """The first stage after which numbers are wrong."""
    for rung in RUNGS:
        try:
            if case.wrong(rung.backend()).is_finding:
                return rung
        except TooLarge as e:
            case.notes.append(f"{rung.stage}: {e}")
        except Exception as e:  # noqa: BLE001  # the interpreter of loops reports what kernels do unseen
            case.notes.append(f"{rung.stage}: {type(e).__name__}: {e}".splitlines()[0][:300])
            return rung
    return None


def at_node(case: Case, report: Report, rung: Rung | None) -> Report:
    """The report with the first wrong node, in the ATen graph where that is wrong, else in the captured one."""
    place = in_aten_graph(case, rung) if rung is not None and rung.graphs is not None and rung.stage != "aot" else None
    drawn = case.subject.drawn(case.verdict.draw)
    if place is None and drawn is not None:
        backend = case.backend if rung is None else rung.backend()
        looks = [
            lambda: first_diverging(case.subject.gm, drawn.inputs, backend),
            lambda: wrong_piece(case.subject.gm, drawn.inputs, case.subject.grads, backend),
        ]
        if _is_written(case):  # probes of what is written later show that, too
            looks.reverse()
        for look in looks:
            place = place or _probed(case, look)
    notes = tuple(case.notes)
    if place is None:
        return replace(report, notes=notes, compiles=report.compiles + case.compiles)
    found = replace(report, node=place.node, op=place.op, file=place.file, line=place.line, notes=notes)
    return replace(found, compiles=report.compiles + case.compiles)


def _is_written(case: Case) -> bool:
    """Whether what is wrong is what the graph leaves in an input or a buffer."""
    return case.verdict.worst is not None and case.verdict.worst.output.endswith(AFTERWARDS)


def in_aten_graph(case: Case, rung: Rung) -> Place | None:
    assert rung.graphs is not None
    watch = Watch()
    if not compare(case.subject, rung.backend(watch), (case.verdict.draw,)).is_finding:
        return None
    compiler = rung.graphs
    for part in watch.called():
        assert part.inputs is not None
        given, one = part.inputs, aten_backend(compiler, part.is_backward)
        place = _probed(case, lambda: first_diverging(part.gm, given, one))  # noqa: B023  # called at once
        if place is not None:
            return place
    return None


def _probed(case: Case, look: Callable[[], Place | None]) -> Place | None:
    try:
        return look()
    except Exception as e:  # noqa: BLE001  # a graph with probes is another graph; what fails in it is no part of the answer
        case.notes.append(f"probes: {type(e).__name__}: {e}".splitlines()[0][:300])
        return None
