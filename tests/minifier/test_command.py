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
    assert_gone(children)
    return answers(folder)


def assert_gone(pids: list[int]) -> None:
    end = time.monotonic() + 60  # they see that the command is gone, on a busy machine not at once
    while (left := [p for p in pids if is_alive(p)]) and time.monotonic() < end:
        time.sleep(SOONEST)
    assert left == []


def is_alive(pid: int) -> bool:
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


PROGRAM = """
a = 1
def f(x):
    y = x + 1
    return y * 2
c = [1, 2, 3]
for i in range(4):
    c.append(i)
    if i > 2:
        c.pop()
d = {k: v for k, v in zip(c, c)}
print(a, c, d, f(3))
"""
# Notes which candidates it is asked about. Once it was asked `held` times, it is a run that does not end.
ORACLE = """
sum=$(cksum < "$1")
cd "$(dirname "$0")"
echo "$sum" >> asked
if [ -e held ] && [ "$(wc -l < asked)" -ge "$(cat held)" ]; then sleep 600; fi
grep -q 'c.pop' "$1" && grep -q 'f(' "$1"
"""


def under_command(folder: Path, *more: str) -> subprocess.Popen[str]:
    main = "import sys; from tui.main import main; sys.exit(main())"
    words = ["minify", "program.py", "--oracle", "sh oracle.sh", "--jobs", "1", "--json", "-o", "out", *more]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(
        [sys.executable, "-c", main, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def reported(process: subprocess.Popen[str], folder: Path) -> dict[str, Any]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == Exit.FINDING, err
    report: dict[str, Any] = json.loads(out)
    assert report["status"] == "reproduced" and report["one_minimal"], report
    return {**report, "text": (folder / report["repro"]).read_text().partition("\n")[2]}  # the first line names the folder


def asked(folder: Path) -> list[str]:
    """Sums of the candidates that the command of this folder was asked about, in order."""
    return (folder / "asked").read_text().splitlines() if (folder / "asked").exists() else []


def test_killed_reduction_under_a_command_goes_on_to_the_same_script(tmp_path: Path) -> None:
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "program.py").write_text(PROGRAM)
        (tmp_path / name / "oracle.sh").write_text(ORACLE)
    whole = reported(under_command(tmp_path / "whole"), tmp_path / "whole")
    folder = tmp_path / "killed"
    (folder / "held").write_text("9")
    process = under_command(folder)
    while len(asked(folder)) < 9:
        assert process.poll() is None, process.communicate()
        time.sleep(SOONEST)
    children = below(process.pid)
    assert children
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert_gone(children)
    (folder / "held").unlink()
    before = asked(folder)[:-1]  # the last was under way
    rest = reported(under_command(folder, "--resume"), folder)

    assert kept(rest) == kept(whole)
    assert set(asked(folder)) == set(asked(tmp_path / "whole"))
    again = set(before) & set(asked(folder)[len(before) + 1 :])
    assert len(again) <= 2 < len(set(before)), again  # the start, and the best so far, which is confirmed


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
