"""What a bisection found, as data and as text."""

from __future__ import annotations

import linecache
from dataclasses import asdict, dataclass, replace
from typing import Any

from minifier.bisect.fuel import Culprit
from minifier.compare.verdict import Verdict, Worst

FLAKY, GONE = "flaky", "not reproduced"
FAILED = "compile error"
CAPTURE = "capture differs from eager"


@dataclass(frozen=True)
class Report:
    """One graph. `verdict` is a kind of `Verdict`, or one of the words above. `decision` is what the compiler decided, `switch` the
    value of DYNAMO_FUEL that refuses it alone; `verified`: with that numbers are right, and wrong again without."""

    verdict: str
    confidence: float
    graph: str = ""
    stage: str = ""
    node: str = ""
    op: str = ""
    file: str = ""
    line: int = 0
    decision: str = ""
    verified: bool = False
    switch: str = ""
    text: str = ""
    times: float = 0.0
    worst: Worst | None = None
    outputs: tuple[dict[str, Any], ...] = ()
    reference: str = "float64"
    change: str = ""
    decisions: tuple[str, ...] = ()
    rate: float = 0.0
    compiles: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_finding(self) -> bool:
        return self.verdict != "within rounding"

    def to_json(self) -> dict[str, Any]:
        found = asdict(self)
        found["times"] = None if self.times == float("inf") else self.times
        return found


def from_json(data: dict[str, Any]) -> Report:
    """What `to_json` wrote."""
    worst = data["worst"] and Worst(**(data["worst"] | {"index": tuple(data["worst"]["index"])}))
    tuples = {key: tuple(data[key]) for key in ("outputs", "decisions", "notes")}
    times = float("inf") if data["times"] is None else data["times"]
    return Report(**(data | tuples | {"worst": worst, "times": times}))


def with_decision(report: Report, culprit: Culprit) -> Report:
    return replace(
        report,
        decision=culprit.names[0],
        decisions=culprit.names,
        switch=culprit.switch,
        verified=culprit.verified,
        change=culprit.difference,
        compiles=culprit.compiles,
    )


def of_verdict(verdict: Verdict, graph: str) -> Report:
    """A report that says where nothing yet."""
    return Report(
        verdict.kind.value,
        round(verdict.confidence, 6),
        graph,
        text=verdict.text,
        times=verdict.times,
        worst=verdict.worst,
        outputs=tuple(asdict(o) for o in verdict.outputs),
        reference=verdict.reference,
    )


def as_text(report: Report) -> str:
    """For people: the verdict, where, the worst element, and what the decision changes."""
    where = f"graph {report.graph}: " if report.graph else ""
    lines = [f"{where}{report.verdict} (confidence {report.confidence:.4g})"]
    if report.text:
        lines.append(f"  {report.text}")
    for o in [o for o in report.outputs if report.is_finding and o["compiled_ulps"] > o["eager_ulps"]]:  # of NaN there is no distance
        lines.append(f"  {o['output']}: eager is off by {o['eager_ulps']:.3g} ulp, compiled by {o['compiled_ulps']:.3g} ulp")
    if report.worst is not None:
        w = report.worst
        lines.append(f"  worst element {w.output}{list(w.index)}: eager {w.eager}, compiled {w.compiled}, float64 {w.exact or 'unknown'}")
    if report.stage:
        lines.append(f"  stage: {report.stage}")
    if report.node:
        lines.append(f"  first wrong node: {report.node} ({report.op})")
    if report.file:
        lines.append(f"  at {report.file}:{report.line}")
        source = linecache.getline(report.file, report.line).strip()
        if source:
            lines.append(f"    {source}")
    if report.decision:
        state = "verified: off is right, on is wrong" if report.verified else "not verified"
        lines.append(f"  decision: {report.decision} ({state})")
        lines.append(f"  to switch it off: DYNAMO_FUEL='{report.switch}'")
    lines += [f"  note: {note}" for note in report.notes]
    if report.change:
        lines += ["  what it changes:", *(f"    {line}" for line in report.change.splitlines())]
    return "\n".join(lines) + "\n"
