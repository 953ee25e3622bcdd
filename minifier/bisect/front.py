"""`bisect`: a script's graphs, each checked in a process that runs the script, and the report on the first that is wrong."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from minifier.bisect.capture import bisect_capture, run_script
from minifier.bisect.report import FAILED, Report, from_json
from minifier.isolation.leftover import end_with_this_process


class ScriptFailed(RuntimeError):
    """The script ended with an error of its own; the message is the end of what it said."""


@dataclass(frozen=True)
class Wish:
    """What the user asks for. `backend` '' keeps the script's; `graph` '' checks all; `draws` is how many sets of inputs are tried;
    `device` '' checks graphs where the script has them."""

    script: str
    args: tuple[str, ...] = ()
    backend: str = ""
    draws: int = 3
    graph: str = ""
    device: str = ""


@dataclass
class Found:
    """The report on every graph, in the order in which they ran first, and then on capture, why some could not be looked at, and those not
    asked for."""

    reports: list[Report] = field(default_factory=list)
    graphs: int = 0
    problems: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    @property
    def first(self) -> Report:
        """The first finding; without one the report that is nearest to being one."""
        findings = [r for r in self.reports if r.is_finding]
        if findings:
            return findings[0]
        return max(self.reports, key=lambda r: r.times, default=Report("within rounding", 0.0, text="the script compiled no graph"))

    def to_json(self) -> dict[str, Any]:
        others = [r.graph for r in self.reports[: self.graphs] if r.is_finding and r is not self.first]
        return {**self.first.to_json(), "graphs": self.graphs, "other_findings": others, "problems": self.problems}


_NOT_CAPTURED = "the compiler fails on a function, which then runs in eager: {}; `dynamo-debug minify` looks at that"


def bisect(wish: Wish, tell: Callable[[str], None]) -> Found:
    """Run the script, check its graphs, follow the first wrong one to its cause; failing that, look at capture. Raises ScriptFailed."""
    end_with_this_process()
    found, started, failures = Found(), [""], list[str]()

    def take(data: dict[str, Any]) -> None:
        started[0] = data.get("started", "")
        if "failures" in data:
            failures.extend(data["failures"])
        elif "other" in data:
            found.others.append(data["other"])
        elif "problem" in data:
            found.problems.append(f"graph {data['graph']}: {data['problem']}")
        elif "report" in data:
            found.reports.append(from_json(data["report"]))
            found.graphs += 1
            tell(f"graph {data['graph']}: {found.reports[-1].verdict}")

    request = {"backend": wish.backend, "draws": wish.draws, "graph": wish.graph, "device": wish.device}
    code = run_script(wish.script, wish.args, request, {}, take)
    if code < 0 and started[0]:
        name = signal.Signals(-code).name
        found.problems.append(f"graph {started[0]}: its compiled code ended the process with {name}; try `minify`")
    elif code and not any(r.is_finding for r in found.reports):
        tell("no graph is wrong, and the script fails: looking at capture")
        report = bisect_capture(wish.script, wish.args)
        if report is None and not found.reports:
            raise ScriptFailed(f"the script ended with {code}")
        if report is None:
            tell(f"the script ends with {code} for reasons of its own")
        else:
            found.reports.append(report)
    if failures and not any(r.is_finding for r in found.reports):
        found.reports.append(Report(FAILED, 1.0, stage="capture", text=_NOT_CAPTURED.format("; ".join(failures))))
    return found
