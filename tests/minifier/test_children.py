"""Processes that a script starts: their graphs are those of the script, and a program that fails is named with the way to look at it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dynamo.peer.children import PLACE
from minifier.isolation.leftover import marked
from minifier.ladder import recorded_run, run_compiled, run_in_eager
from tests.cli.command import COMMAND, environment, run, write

SPAWNED = """
import multiprocessing
import torch

def child(x):
    print(torch.compile(lambda y: torch.cos(y) * 2)(x))

if __name__ == "__main__":
    torch.compile(lambda y: y + 1)(torch.ones(2))
    process = multiprocessing.get_context("spawn").Process(target=child, args=(torch.ones(3),))
    process.start()
    process.join()
    raise SystemExit(process.exitcode)
"""
LOADED = """
import torch
from torch.utils.data import DataLoader

turned = torch.compile(lambda y: torch.cos(y))

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, at):
        return turned(torch.ones(3) * at)

if __name__ == "__main__":
    for rows in DataLoader(Rows(), batch_size=2, num_workers=1, multiprocessing_context="spawn"):
        print(rows.shape)
"""
LAUNCHING = """
import os, subprocess, sys
worker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")
for rank in ("0", "1"):
    subprocess.run([sys.executable, "-u", worker, "--rank", rank], check=True, env={**os.environ, "RANK": rank})
"""
WORKER = """
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--rank", type=int)
rank = parser.parse_args().rank
print(torch.compile(lambda y: torch.cos(y) + rank)(torch.ones(3)))
"""
CASES = [
    (SPAWNED, ["0/0", "SpawnProcess-1.0/0"]),
    (LOADED, ["SpawnProcess-1.0/0"]),
    (LAUNCHING, ["r0.0/0", "r1.0/0"]),
]


def script_of(folder: Path, text: str) -> str:
    write(folder, WORKER, "worker.py")
    return str(folder / write(folder, text))


@pytest.mark.parametrize("engine", ["dynamo", pytest.param("torch", marks=pytest.mark.slow)])
@pytest.mark.parametrize("text, names", CASES, ids=["spawn", "loader", "launcher"])
def test_graphs_of_children_are_recorded_under_names_of_their_own(tmp_path: Path, text: str, names: list[str], engine: str) -> None:
    ended, graphs = recorded_run(tmp_path / "out", script_of(tmp_path, text), (), engine, "dynamo", "", 300.0)

    assert ended.is_well, ended.said
    assert [(g.name, g.problem) for g in sorted(graphs, key=lambda g: g.name)] == [(name, "") for name in names]


@pytest.mark.parametrize("text", [SPAWNED, LOADED, LAUNCHING], ids=["spawn", "loader", "launcher"])
def test_children_run_under_the_compiler_of_the_script_and_without_where_that_has_none(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DYNAMO_FAULT", "lower-error:op=cos")
    script = script_of(tmp_path, text)

    compiled, eager = run_compiled(script, (), "dynamo", "", 300.0), run_in_eager(script, (), "dynamo", 300.0)

    assert (compiled.code, eager.code) == (1, 0), compiled.said + eager.said
    assert "cos_default is broken" in compiled.said


def test_a_program_that_fails_is_named_with_the_command_that_looks_at_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMO_FAULT", "capture-internal:op=cos")

    done = run("minify", Path(script_of(tmp_path, LAUNCHING)).name, cwd=tmp_path, timeout=300)

    assert (done.returncode, done.stdout) == (4, "not looked at\n"), done.stderr
    assert "a program that the script starts fails: " in done.stderr
    assert f"`dynamo-debug minify {tmp_path}/worker.py --rank 0` in {tmp_path} looks at it alone" in done.stderr


HEEDLESS = """
import subprocess, sys
if len(sys.argv) > 1:
    import torch
    print(torch.compile(torch.cos)(torch.ones(3)))
else:
    subprocess.run([sys.executable, __file__, "child"])
    print("done")
"""
OWN = "import torch\ntry:\n    torch.compile(torch.cos)(torch.ones(3))\nexcept Exception:\n    pass\n"


def test_a_failure_in_a_process_that_the_script_does_not_heed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMO_FAULT", "capture-internal:op=cos")

    done = run("minify", Path(script_of(tmp_path, HEEDLESS)).name, cwd=tmp_path, timeout=300)

    assert (done.returncode, done.stdout) == (4, "not looked at\n"), done.stderr
    assert "capture fails in a process that the script starts and whose end it does not heed: AssertionError at " in done.stderr


@pytest.mark.parametrize("text", [OWN, HEEDLESS], ids=["own", "child"])
def test_bisect_tells_of_what_could_not_be_captured(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMO_FAULT", "capture-internal:op=cos")

    done = run("bisect", Path(script_of(tmp_path, text)).name, "--json", cwd=tmp_path, timeout=300)
    found = json.loads(done.stdout)

    assert (done.returncode, found["verdict"], found["stage"]) == (1, "compile error", "capture")
    assert "the compiler fails on a function, which then runs in eager: AssertionError at " in found["text"]


def test_the_error_of_a_program_is_one_line(tmp_path: Path) -> None:
    write(
        tmp_path,
        WORKER.replace("torch.compile(", "torch.compile(fullgraph=True, model=").replace("torch.cos(y) + rank", "y.tolist()"),
        "worker.py",
    )
    write(tmp_path, LAUNCHING)

    done = run("minify", "script.py", cwd=tmp_path, timeout=300)

    (said,) = [line for line in done.stderr.splitlines() if "a program that the script starts fails" in line]
    assert done.returncode == 4 and said.endswith("looks at it alone") and "Unsupported: graph break under fullgraph=True" in said, said


@pytest.mark.slow
def test_a_program_that_fails_without_a_compiler_too_says_nothing(tmp_path: Path) -> None:
    write(tmp_path, "import torch\nraise KeyError('no data')\n", "worker.py")
    write(tmp_path, LAUNCHING.replace("check=True", "check=False"))

    done = run("minify", "script.py", cwd=tmp_path, timeout=300)

    assert (done.returncode, done.stdout) == (0, "nothing fails\n"), done.stderr
    assert "a program that" not in done.stderr


def test_bisect_checks_graphs_of_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMO_FAULT", "scaled:op=cos")
    script = script_of(tmp_path, LAUNCHING)

    done = run("bisect", "--json", Path(script).name, cwd=tmp_path, timeout=300)

    found = json.loads(done.stdout)
    assert (done.returncode, found["graph"], found["other_findings"]) == (1, "r0.0/0", ["r1.0/0"]), done.stderr
    assert (found["verified"], Path(found["file"]).name, found["line"]) == (True, "worker.py", 8)


def test_a_run_inside_of_another_follows_its_own_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{PLACE}:{Path(PLACE).parents[2]}")
    monkeypatch.setenv("DYNAMO_DEBUG_FOLLOW", json.dumps({"begin": "no.such:module", "root": str(Path(PLACE).parents[2]), "pid": 0}))

    ended, graphs = recorded_run(tmp_path / "out", script_of(tmp_path, SPAWNED), (), "dynamo", "dynamo", "", 300.0)

    assert (ended.code, len(graphs)) == (0, 2), ended.said


SLEEPING = """
import multiprocessing, os, subprocess, sys, time

def child():
    import torch
    os.setsid()
    time.sleep(600)

if __name__ == "__main__":
    multiprocessing.get_context("spawn").Process(target=child).start()
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    if not os.fork():
        os.setsid()
    open("begun", "w").close()
    time.sleep(600)
"""


@pytest.mark.parametrize("command", ["minify", "bisect"])
def test_nothing_is_left_of_a_tool_that_is_killed(tmp_path: Path, command: str) -> None:
    script = write(tmp_path, SLEEPING)
    tool = subprocess.Popen([*COMMAND, command, script], cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL)
    try:
        _until(lambda: (tmp_path / "begun").exists())
        own = [pid for pid in _of(tool.pid) if pid != tool.pid]
        assert len(own) >= 4
    finally:
        tool.kill()
        tool.wait()

    _until(lambda: not _of(tool.pid))


def _of(tool: int) -> list[int]:
    """Processes that a tool has started, directly or not."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if f"DYNAMO_DEBUG_RUN={tool}-" in _environment(pid)]


def _environment(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path("/proc", str(pid), "environ").read_text(errors="replace")
    return ""


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_tool_that_ends_has_its_leftovers_ended(tmp_path: Path) -> None:
    leaving = "import subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid)\nimport torch"

    done = run("bisect", write(tmp_path, leaving), cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    pid = int(done.stderr.split()[0])
    _until(lambda: not _environment(pid))
    assert marked("no such run") == []
