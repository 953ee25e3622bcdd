"""What the tools find, measured on a machine with many cores in a few minutes: corpus, bisector, fuzzing, torch's own faults.

    python -m tests.benchmarks.evidence FOLDER [--jobs 14] [--seconds 480] [--parts corpus,bisector,fuzz,reported] [--known FILE]

Work of the first part comes first, long cases before short ones, and what is run several times last. Every result is a line of JSON in
`FOLDER/evidence.jsonl` as soon as it is known, and `summary.txt` and `table.md` beside it are written anew; standard output has the
summary at the end, at the limit, or on SIGTERM. Nothing is left running.
With `--known` what an earlier file of lines has is not run again, and counts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from minifier.corpus import Case, load_all, run_case
from minifier.corpus.table import table
from minifier.isolation.linux import become_subreaper, end_all_below
from tests.benchmarks import fuzzing

LINES, SUMMARY, TABLE = "evidence.jsonl", "summary.txt", "table.md"
PARTS = ("corpus", "bisector", "fuzz", "reported")
SHARES = 14  # processes that each set of the bisector is spread over
LOOK = 0.2
LATEST = 8.0  # seconds that are kept for ending what runs and for the summary

Line = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """Something to run on `cores` cores, 0 of what mostly waits. `lines` gives its results, each with a `name`."""

    part: str
    name: str
    lines: Callable[[], Iterator[Line]]
    cores: int = 1


@dataclass
class Evidence:
    """The lines so far, and their file."""

    path: Path
    lines: list[Line] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_closed: bool = False

    def add(self, line: Line) -> None:
        with self.lock:
            if self.is_closed:  # what is ended by force says nothing
                return
            self.lines.append(line)
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            self.write("not at its end")

    def write(self, remark: str) -> None:
        """Put what is known into files for reading; each is complete at any time."""
        rows = sorted((f for part in ("corpus", "reported") for f in self.of(part) if "case" in f), key=lambda f: (f["part"], f["name"]))
        texts = {SUMMARY: f"{summary(self)}\n{remark}\n", TABLE: table([{**f, "case": f["name"]} for f in rows])}
        for name, text in texts.items():
            partial = self.path.with_name(f".{name}.partial")
            partial.write_text(text)
            partial.rename(self.path.with_name(name))

    def of(self, part: str) -> list[Line]:
        return [line for line in self.lines if line["part"] == part]

    def has(self, part: str, name: str) -> bool:
        return any(line["part"] == part and line["name"] == name for line in self.lines)


class Cut(Exception):
    """Someone wants the summary now."""


def corpus_tasks(part: str, engine: str, scratch: Path, times: int = 1) -> Iterator[Task]:
    """Those that fail now and then are run so many `times`."""

    def lines(case: Case, name: str) -> Iterator[Line]:
        verdict = run_case(case, scratch / part / name, engine)
        shutil.rmtree(scratch / part / name, ignore_errors=True)
        yield {**verdict.to_json(), "name": name}

    cases = sorted(load_all(engine=engine), key=lambda case: (_is_short(case), -len(case.script.read_text())))
    flaky = [case for case in cases if case.expected.flaky]
    more = [(case, f"{case.name} {i}") for i in range(2, times + 1) for case in flaky]
    for case, name in [*((case, case.name) for case in cases), *more]:
        yield Task(part, name, lambda case=case, name=name: lines(case, name), int(not case.waits))  # type: ignore[misc]  # mypy has no type for a default that binds a loop variable


def _is_short(case: Case) -> int:
    """What takes longest comes first: what has to run out of time, scripts; what comes and goes has time last."""
    if case.waits:
        return 0
    return 1 if case.expected.source_lines else 2 + case.expected.flaky


def bisector_tasks() -> Iterator[Task]:
    def lines(name: str, share: int) -> Iterator[Line]:
        command = [sys.executable, "-m", "tests.benchmarks.bisecting", "--json", "--set", name, "--share", f"{share}/{SHARES}"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for text in process.stdout:
                yield {**json.loads(text), "set": name}

    for name in ("second", "first"):
        for share in range(SHARES):
            yield Task("bisector", f"{name} {share}", lambda name=name, share=share: lines(name, share))  # type: ignore[misc]  # mypy has no type for a default that binds a loop variable


def fuzz_tasks(seconds: float, scratch: Path) -> Iterator[Task]:
    def lines(number: int, fault: str) -> Iterator[Line]:
        folder = scratch / "fuzz" / str(number)
        folder.parent.mkdir(parents=True, exist_ok=True)
        row = fuzzing.run(fault, folder, f"{seconds:g}s", seconds / 3, 2, 0)
        yield {"name": fault, **asdict(row), "log": Path(f"{folder}.log").read_text(errors="replace")[-500:]}

    for number, fault in enumerate((*fuzzing.USERS, *fuzzing.OURS)):
        yield Task("fuzz", fault, lambda number=number, fault=fault: lines(number, fault), 2)  # type: ignore[misc]  # mypy has no type for a default that binds a loop variable


def tasks(parts: list[str], fuzz_seconds: float, times: int, scratch: Path) -> list[Task]:
    """All work, in the order in which it is begun."""
    made = {
        "corpus": lambda: corpus_tasks("corpus", "dynamo", scratch, times),
        "bisector": bisector_tasks,
        "fuzz": lambda: fuzz_tasks(fuzz_seconds, scratch),
        "reported": lambda: corpus_tasks("reported", "torch", scratch),
    }
    return [task for part in parts for task in made[part]()]


def run_all(todo: list[Task], evidence: Evidence, jobs: int, until: float) -> list[str]:
    """Run tasks in their order, as many at a time as there are cores for; the names of those that did not finish. Raises Cut."""
    running: dict[threading.Thread, Task] = {}
    waiting = list(todo)
    while (waiting or running) and time.monotonic() < until:
        for thread in [t for t in running if not t.is_alive()]:
            running.pop(thread)
        free = jobs - sum(t.cores for t in running.values())
        while waiting and waiting[0].cores <= free:
            task = waiting.pop(0)
            thread = threading.Thread(target=_run, args=(task, evidence), daemon=True)
            thread.start()
            running[thread] = task
            free -= task.cores
        time.sleep(LOOK)
    return [f"{t.part} {t.name}" for t in (*running.values(), *waiting)]


def _run(task: Task, evidence: Evidence) -> None:
    began = time.monotonic()
    try:
        for line in task.lines():
            evidence.add({"part": task.part, **line})
    except Exception as e:  # noqa: BLE001  # one task's trouble is a line, and the others go on
        evidence.add({"part": task.part, "name": task.name, "trouble": f"{type(e).__name__}: {e}"[:500]})
    print(f"{task.part} {task.name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def summary(evidence: Evidence) -> str:
    """The figures of all parts that have lines."""
    texts = []
    for part in ("corpus", "reported"):
        if found := evidence.of(part):
            texts += _of_corpus(part, found)
    if found := evidence.of("bisector"):
        texts += [text for name in ("first", "second") for text in _of_bisector(name, [f for f in found if f.get("set") == name])]
    if found := evidence.of("fuzz"):
        texts += _of_fuzz(found)
    return "\n".join(texts)


def _of_corpus(part: str, found: list[Line]) -> Iterator[str]:
    good = [f for f in found if f.get("met")]
    seconds = [f["seconds"] for f in found if "seconds" in f]
    yield f"{part}: {len(good)} of {len(found)} cases end as known"
    if seconds:
        yield f"  seconds of a case: median {statistics.median(seconds):.0f}, longest {max(seconds):.0f}"
    counted = Counter(f["case"] for f in found if "case" in f)
    for case in sorted(case for case, count in counted.items() if count > 1):
        yield f"  {case}: {sum(f['case'] == case for f in good)} of {counted[case]} times"
    for f in found:
        if not f.get("met"):
            told = "; ".join(f.get("problems", ())) or f.get("trouble", "")
            yield f"  {f['name']}: {told} ({f.get('stage')}, {f.get('shown', '')[:60]}, size {f.get('size')} of {f.get('known')})"
            yield f"    {f.get('detail', '')[-200:]!r}" if f.get("detail") else ""


def _of_bisector(name: str, found: list[Line]) -> Iterator[str]:
    if not found:
        return
    planted, legitimate = [f for f in found if f["culprit"]], [f for f in found if not f["culprit"]]
    hits, alarms = sum(f["finding"] for f in planted), sum(f["finding"] for f in legitimate)
    named = sum(f["right"] for f in planted)
    yield f"bisector, {name} set: {len(legitimate)} legitimate, {len(planted)} planted"
    yield (
        f"  precision {hits / max(hits + alarms, 1):.3f}, recall {hits / max(len(planted), 1):.3f}, "
        f"culprit {named} of {len(planted)} ({named / max(len(planted), 1):.3f})"
    )
    yield from (f"  wrong: {f['line'][:200]}" for f in found if not f["right"])


def _of_fuzz(found: list[Line]) -> Iterator[str]:
    for title, names in (("our compiler", fuzzing.OURS), ("a user backend", fuzzing.USERS)):
        rows = [f for f in found if f["name"] in names]
        good = sum(bool(f.get("found")) for f in rows)
        yield f"fuzz, {title}: {good} of {len(rows)} faults end at a certified repro ({len(names)} in all)"
        for f in rows:
            told = f.get("trouble") or f"{f['status']} at {f['stage'] or '-'} after {f['programs']} programs, {f['seconds']:.0f} s"
            yield f"  {f['name']}: {told}, {f.get('op_nodes', 0)} operations, reducing {f.get('reducing', 0):.0f} s"


def _stop(signum: int, frame: FrameType | None) -> None:
    raise Cut


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.evidence", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=max(1, len(os.sched_getaffinity(0)) - 2))
    parser.add_argument("--seconds", type=float, default=480.0)
    parser.add_argument("--fuzz-seconds", type=float, default=200.0, help="of searching for one fault, on two cores")
    parser.add_argument("--times", type=int, default=1, help="how often cases of the corpus are run that fail now and then")
    parser.add_argument("--parts", default=",".join(PARTS), help="in this order")
    parser.add_argument("--known", type=Path, help="lines of an earlier run")
    parser.add_argument("--only", default="", help="only tasks with this in their names")
    options = parser.parse_args()
    began = time.monotonic()
    become_subreaper()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    # one thread per process, no GPU: these are figures of many small programs
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
    options.folder.mkdir(parents=True, exist_ok=True)
    evidence = Evidence(options.folder / LINES)
    if options.known is not None:
        for text in options.known.read_text().splitlines():
            evidence.add(json.loads(text))
    scratch = Path(tempfile.mkdtemp(prefix="evidence-"))
    left = ["unknown: cut off"]
    try:
        todo = [t for t in tasks(options.parts.split(","), options.fuzz_seconds, options.times, scratch) if options.only in t.name]
        todo = [t for t in todo if not evidence.has(t.part, t.name)]
        left = run_all(todo, evidence, options.jobs, began + options.seconds - LATEST)
    except Cut:
        pass
    evidence.is_closed = True
    evidence.write(f"{time.monotonic() - began:.0f} s, {options.jobs} jobs; not finished: {', '.join(left) or 'nothing'}")
    print((options.folder / SUMMARY).read_text(), flush=True)
    end_all_below()
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)  # threads that wait for what was ended are of no more use


if __name__ == "__main__":
    main()
