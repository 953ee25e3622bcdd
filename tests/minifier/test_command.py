"""`dynamo-debug minify` as a process: killed and resumed, and with several jobs, it hands over the same repro."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from minifier.corpus import Case, load_all
from minifier.isolation.linux import below
from tui.exits import Exit

CASES = {c.name: c for c in load_all()}
SOONEST = 0.02  # seconds between looks at a journal
# case -> answers in its journal after which the command is killed, one kill after the other
KILLS = {"error_of_pair": (2, 9), "capture_segfault": (10, 80), "stale_guard": (40, 120)}


def start(case: Case, folder: Path, *more: str) -> subprocess.Popen[str]:
    main = "import sys; from tui.main import main; sys.exit(main())"
    command = [sys.executable, "-c", main, "minify", str(case.script), "--after", case.after, "--json", "-o", str(folder), *more]
    environment = {**os.environ, **case.environment, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)


def ended(case: Case, folder: Path, *more: str) -> dict[str, Any]:
    """The report of a run that goes to its end, with the text of its repro."""
    process = start(case, folder, *more)
    out, err = process.communicate()
    assert process.returncode == Exit.FINDING, err
    report: dict[str, Any] = json.loads(out)
    assert report["status"] == "reproduced" and report["one_minimal"], report
    return {**report, "text": Path(report["repro"]).read_text()}


def kept(report: dict[str, Any]) -> dict[str, Any]:
    """What must not depend on how the repro was reached."""
    return {k: report[k] for k in ("stage", "graph", "op_nodes", "inputs", "signature", "reproduction_rate", "other_failures", "text")}


def answers(folder: Path) -> int:
    """How many candidates are decided in the journal of a reduction, 0 before there is one."""
    for path in folder.glob("*/journal.sqlite"):
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as journal:
            return int(journal.execute("select count(*) from answers").fetchone()[0])
    return 0


def killed_at(case: Case, folder: Path, count: int, *more: str) -> int:
    """Run until so many candidates are decided, then kill the command; how many were decided. Nothing below it may stay."""
    process = start(case, folder, *more)
    while process.poll() is None and answers(folder) < count:
        time.sleep(SOONEST)
    children = below(process.pid)
    process.send_signal(signal.SIGKILL)
    out, err = process.communicate()
    assert process.returncode == -signal.SIGKILL, f"it ended before {count} answers: {out}{err}"
    end = time.monotonic() + 60  # they see that the command is gone, on a busy machine not at once
    while (left := [p for p in children if is_alive(p)]) and time.monotonic() < end:
        time.sleep(SOONEST)
    assert left == []
    return answers(folder)


def is_alive(pid: int) -> bool:
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", KILLS)
def test_killed_command_goes_on_to_the_same_repro(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    whole = ended(case, tmp_path / "whole", "--jobs", "1")
    folder, more = tmp_path / "killed", ["--jobs", "1"]
    for count in KILLS[name]:
        decided = killed_at(case, folder, count, *more)
        more = ["--jobs", "1", "--resume"]
    rest = ended(case, folder, *more)

    assert kept(rest) == kept(whole)
    assert rest["distinct_calls"] <= whole["distinct_calls"] - decided + 1  # the run under way at the kill is made again


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", KILLS)
def test_four_jobs_end_at_the_same_repro(tmp_path: Path, name: str) -> None:
    one, four = (ended(CASES[name], tmp_path / jobs, "--jobs", jobs) for jobs in ("1", "4"))

    assert kept(four) == kept(one)
