"""Wrong before a backend sees a graph: the script ends well without a compiler, and otherwise with its graphs in eager's own kernels.

Then capture or guards are to blame. Fuel finds the decision, with whole runs of the script in the place of compiles of a graph; the graphs
and guards with and without it say which node of which line it changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dynamo.peer.children import unfollowed
from dynamo.surroundings.parent import parent
from dynamo.trace.events import Decided
from minifier.bisect.fuel import Attempt, Culprit, Search
from minifier.bisect.report import CAPTURE, Report, with_decision
from minifier.programs import standard_input
from minifier.stands import OFF

OR = " or, in another process, "
Fact = tuple[str, str, str, str, int]  # graph or compile, name, what it is, file, line
Take = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Seen:
    """One run of the script: how it ended, decisions, nodes of captured graphs, guards. Each of its processes counts its own decisions, and
    fuel is for all of them: those of one number are one."""

    code: int
    decided: tuple[Decided, ...] = ()
    nodes: tuple[Fact, ...] = ()
    guards: tuple[Fact, ...] = ()


def run_script(script: str, args: Sequence[str], request: dict[str, Any], env: dict[str, str], take: Take) -> int:
    """Run it in `minifier.bisect.script`; `take` gets what that tells, line by line. Returns the exit code; output goes to stderr."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "minifier.bisect.script", json.dumps({**request, "pipe": writing}), script, *args]
    path = os.pathsep.join(p or os.getcwd() for p in sys.path)
    try:
        with standard_input() as given:
            process = subprocess.Popen(
                command,
                pass_fds=(writing,),
                stdin=given,
                stdout=sys.stderr.fileno(),
                env={**unfollowed({**os.environ, "PYTHONPATH": path}), **parent(), **env},
            )
    finally:
        os.close(writing)
    try:
        with os.fdopen(reading) as lines:
            for line in lines:
                take(json.loads(line))
        return process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise


class Runs(Search):
    """The search with runs of a script: numbers are wrong where it does not end well."""

    def __init__(self, script: str, args: Sequence[str]) -> None:
        super().__init__(lambda: False)
        self.script, self.args = script, args
        self.seen: dict[str, Seen] = {}

    def again(self, fuel: str) -> Attempt:
        told: list[dict[str, Any]] = []
        code = run_script(self.script, self.args, {"captures": True}, {"DYNAMO_FUEL": fuel}, told.append)
        self.seen[fuel] = seen = _seen(code, told)
        return Attempt(code != 0, seen.decided, ())

    def ends_well_without(self) -> bool:
        """With every compiler switched off."""
        return run_script(self.script, self.args, {"captures": True}, OFF, lambda data: None) == 0


def _seen(code: int, told: Sequence[dict[str, Any]]) -> Seen:
    """`told` has one row per process; the script ends last."""
    decided: dict[int, Decided] = {}
    for number, stage, what, taken in [row for data in reversed(told) for row in data["decided"]]:
        known = decided.get(number)
        if known is None:
            decided[number] = Decided("", number, stage, what, taken, "")
        elif what not in known.what.split(OR):
            decided[number] = replace(known, what=f"{known.what}{OR}{what}")
    nodes, guards = ([tuple(fact) for data in reversed(told) for fact in data[kind]] for kind in ("nodes", "guards"))
    return Seen(code, tuple(decided[n] for n in sorted(decided)), tuple(nodes), tuple(guards))


def bisect_capture(script: str, args: Sequence[str]) -> Report | None:
    """The report on a script that does not end well though no graph of it is wrong; None where capture has no part in that."""
    runs = Runs(script, args)
    if not runs.attempt("all").is_wrong or not runs.ends_well_without():
        return None
    text = "the script fails with its graphs in eager's kernels, and ends well without capture"
    report = Report(CAPTURE, 1.0, stage="capture", text=text, rate=1.0, reference="eager")
    culprit = runs.run()
    if culprit is None:
        return replace(report, notes=("numbers are wrong whatever is decided: no optional step makes them so",))
    return _placed(with_decision(replace(report, stage=culprit.stage), culprit), culprit, runs)


def _placed(report: Report, culprit: Culprit, runs: Runs) -> Report:
    """With the first node, or guard, that the decision changes."""
    taken, refused = runs.seen["all"], runs.seen.get(culprit.switch)
    if refused is None:
        return report
    for one, other in ((taken.nodes, refused.nodes), (refused.guards, taken.guards)):
        known = set(other)
        changed = next((fact for fact in one if fact not in known), None)
        if changed is not None:
            graph, name, what, file, line = changed
            return replace(report, graph=graph, node=name, op=what, file=file, line=line)
    return report
