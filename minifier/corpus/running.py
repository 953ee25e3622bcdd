"""A case through `minify`, the function that users call, and what came of it beside what is known."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from dynamo.surroundings.parent import parent
from minifier.corpus.manifest import Case
from minifier.isolation.leftover import end_with_this_process
from minifier.isolation.linux import cpu_seconds, end

LONGEST = 1800.0  # seconds of CPU that the processes of one case may use, however long they wait for a core
IDLE = 300.0  # seconds after which a case that uses none is over
LOOK = 0.5  # seconds between looks at them
PATIENCE, LONGER = 20.0, 120.0  # seconds of the first run of an oracle: of what never ends, of anything else
WAITING = 4  # runs at a time of what mostly waits: hangs
MEMORY = 768 << 20  # bytes that a run of an oracle may take
OUT_OF_TIME = -1000
SOURCE_SLACK = 1.5  # times the known minimum that a source case may have

# stage of the fault -> what `minify` calls it: the rung of its ladder
RUNGS = {
    "capture": "capture",
    "guards": "capture",
    "aot": "aot",
    "partition": "aot",
    "passes": "codegen",
    "lower": "codegen",
    "schedule": "codegen",
    "kernels": "codegen",
    "build": "codegen",
    "run": "codegen",
    "backend": "backend",
}


@dataclass(frozen=True)
class Verdict:
    """`problems` says in what the result is not what the manifest expects; none: the case is met."""

    case: str
    kind: str
    status: str
    problems: tuple[str, ...] = ()
    size: int = 0
    known: int = 0
    unit: str = "operations"
    stage: str = ""
    shown: str = ""
    others: tuple[str, ...] = ()
    calls: int = 0
    seconds: float = 0.0
    rate: float = 0.0
    repro: str = ""
    culprit: str = ""
    detail: str = field(default="", repr=False)

    @property
    def is_met(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "met": self.is_met}


def run_cases(cases: Sequence[Case], folder: Path, jobs: int = 1, engine: str = "dynamo", backend: str = "") -> Iterator[Verdict]:
    """Verdicts in the order of the cases, as they come. Files are made below `folder`, a folder per case. Nothing that
    they start outlives this process."""
    end_with_this_process()
    over = threading.Event()
    with ThreadPoolExecutor(jobs, thread_name_prefix="case") as pool:
        try:
            yield from pool.map(lambda case: run_case(case, folder / case.name, engine, backend, over), cases)
        except BaseException:
            over.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def run_case(case: Case, folder: Path, engine: str = "dynamo", backend: str = "", over: threading.Event | None = None) -> Verdict:
    """Minify one case in a process of its own, with its fault on, and judge the result. That process is ended once `over` is set."""
    folder.mkdir(parents=True, exist_ok=True)
    request = {"script": str(case.script), "after": case.after, "accuracy": case.accuracy, "engine": engine, "backend": backend}
    request |= {"memory": MEMORY, "timeout": PATIENCE if case.waits else LONGER, "jobs": WAITING if case.waits else 1}
    answer = folder / "report.json"
    answer.unlink(missing_ok=True)
    command = [sys.executable, "-m", "minifier.corpus.one", json.dumps(request), str(folder.absolute()), str(answer.absolute())]
    path = os.pathsep.join(p or os.getcwd() for p in sys.path)
    environment = {**os.environ, **parent(), "PYTHONPATH": path, **case.environment}
    began = time.monotonic()
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True)
        try:
            code = _waited(process, over)
        finally:
            end(process)
    seconds = round(time.monotonic() - began, 1)
    said = (folder / "log.txt").read_text(errors="replace")[-2000:]
    if code or not answer.exists():
        what = "out of time" if code == OUT_OF_TIME else f"the tool itself ended with {code}"
        return Verdict(case.name, case.kind, "failed", (what,), seconds=seconds, known=_known(case), detail=said)
    verdict = judged(case, json.loads(answer.read_text()), seconds)
    return verdict if verdict.is_met else replace(verdict, detail=said)


def _waited(process: subprocess.Popen[bytes], over: threading.Event | None) -> int:
    """The exit code, or OUT_OF_TIME of one that went on for too long."""
    used, moved = 0.0, time.monotonic()
    while used < LONGEST and time.monotonic() - moved < IDLE and (over is None or not over.is_set()):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(LOOK)
        now = cpu_seconds(process.pid)
        if now > used:
            used, moved = now, time.monotonic()
    return OUT_OF_TIME


def _known(case: Case) -> int:
    return case.expected.op_nodes or case.expected.source_lines


def judged(case: Case, report: dict[str, Any], seconds: float) -> Verdict:
    """The verdict on what `minify` reported, with what `minifier.corpus.one` measured."""
    expected = case.expected
    problems = [f"{report['left']} processes were left behind"] if report["left"] else []
    is_source = expected.source_lines > 0
    size = report["source_lines"] if is_source else report["op_nodes"]
    good = ("reproduced", "flaky") if expected.flaky else ("reproduced",)
    if report["status"] not in good:
        problems.append(f"{report['status']}")
    else:
        problems += _differences(case, report, size)
    signature = report["signature"] or {}
    return Verdict(
        case.name,
        case.kind,
        report["status"],
        tuple(problems),
        size,
        _known(case),
        "lines" if is_source else "operations",
        report["stage"],
        report["shown"] or str(signature.get("kind", "")),
        tuple(report["other_failures"]),
        report["oracle_calls"],
        seconds,
        report["reproduction_rate"],
        report["repro"],
        report.get("culprit", ""),
    )


def _differences(case: Case, report: dict[str, Any], size: int) -> Iterator[str]:
    expected, signature = case.expected, report["signature"] or {}
    most = _known(case) * SOURCE_SLACK if expected.source_lines and not case.report else _known(case)
    if size > most:
        yield f"{size} instead of {_known(case)} {'lines' if expected.source_lines else 'operations'}"
    if case.report and report["culprit"].partition(",")[0] != case.decision:
        yield f"culprit {report['culprit']} instead of {case.decision}"
    rung = expected.rung or RUNGS[case.stage]
    if report["stage"] != rung:
        yield f"stage {report['stage']} instead of {rung}"
    for key, wanted in expected.signature.items():
        found = signature.get(key)
        if found != wanted and not (isinstance(wanted, list) and list(found or ())[: len(wanted)] == wanted):
            yield f"{key} {found} instead of {wanted}"
    if expected.elements and report["elements"] != expected.elements:
        yield f"{report['elements']} elements instead of {expected.elements}"
    for other in expected.others:
        if not any(found.startswith(other) for found in report["other_failures"]):
            yield f"{other} is not listed beside it"
    if not report["one_minimal"]:
        yield "no certificate"
