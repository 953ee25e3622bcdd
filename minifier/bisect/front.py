"""`bisect`: a script's graphs, each checked in a process that runs the script, and the report on the first that is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from minifier.bisect.report import Report, from_json


class ScriptFailed(RuntimeError):
    """The script ended with an error of its own; the message is the end of what it said."""


@dataclass(frozen=True)
class Wish:
    """What the user asks for. `backend` '' keeps the script's; `graph` '' checks all; `draws` is how many sets of inputs are tried."""

    script: str
    args: tuple[str, ...] = ()
    backend: str = ""
    draws: int = 3
    graph: str = ""


@dataclass
class Found:
    """The report on every graph, in the order in which they ran first, and why some could not be looked at."""

    reports: list[Report] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def first(self) -> Report:
        """The first finding; without one the report that is nearest to being one."""
        findings = [r for r in self.reports if r.is_finding]
        if findings:
            return findings[0]
        return max(self.reports, key=lambda r: r.times, default=Report("within rounding", 0.0, text="the script compiled no graph"))

    def to_json(self) -> dict[str, Any]:
        others = [r.graph for r in self.reports if r.is_finding and r is not self.first]
        return {**self.first.to_json(), "graphs": len(self.reports), "other_findings": others, "problems": self.problems}


def bisect(wish: Wish, tell: Callable[[str], None]) -> Found:
    """Run the script, check its graphs, follow the first wrong one to its cause. Raises ScriptFailed."""
    reading, writing = os.pipe()
    request = {"pipe": writing, "backend": wish.backend, "draws": wish.draws, "graph": wish.graph}
    command = [sys.executable, "-m", "minifier.bisect.script", json.dumps(request), wish.script, *wish.args]
    path = os.pathsep.join(p or os.getcwd() for p in sys.path)
    try:
        process = subprocess.Popen(
            command, pass_fds=(writing,), stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno(), env={**os.environ, "PYTHONPATH": path}
        )
    finally:
        os.close(writing)
    found, current = Found(), ""
    try:
        with os.fdopen(reading) as lines:
            for line in lines:
                data = json.loads(line)
                if "started" in data:
                    current = data["started"]
                    continue
                current = ""
                if "problem" in data:
                    found.problems.append(f"graph {data['graph']}: {data['problem']}")
                else:
                    found.reports.append(from_json(data["report"]))
                    tell(f"graph {data['graph']}: {found.reports[-1].verdict}")
        code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    if code < 0 and current:
        found.problems.append(f"graph {current}: its compiled code ended the process with {signal.Signals(-code).name}; try `minify`")
    elif code and not any(r.is_finding for r in found.reports):
        raise ScriptFailed(f"the script ended with {code}")
    return found
