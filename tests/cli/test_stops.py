"""Commands that are ended from outside: whatever they have started ends with them, and the exit code says by what."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, environment

MARK = "A_TEST_OF_STOPS"
PATIENCE = 60  # seconds; on a busy machine what was ended is not gone at once
SCRIPT = f"""
import os, time
import torch, dynamo

dynamo.compile(torch.sin)(torch.ones(3))
open(os.environ["{MARK}"], "w").close()
time.sleep(600)
"""


def marked(mark: str) -> list[str]:
    """Command lines of the processes that inherited the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it has ended, or is somebody else's
    return found


def heard() -> None:
    """The tests may run under nohup, and what is ignored stays so in every process that they start."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


TERM, HANGUP, KILL = signal.SIGTERM, signal.SIGHUP, signal.SIGKILL


@pytest.mark.parametrize("command", ["explain", "profile", "minify"])
def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path, command: str) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    ready, temporary = tmp_path / "ready", tmp_path / "tmp"
    temporary.mkdir()
    given = {"cwd": tmp_path, "env": {**environment(), MARK: str(ready), "TMPDIR": str(temporary)}}
    with (tmp_path / "said").open("w+") as said:
        process = subprocess.Popen([*COMMAND, command, "script.py"], stdout=said, stderr=said, **given)
        while not ready.exists():
            assert process.poll() is None, (tmp_path / "said").read_text()
            time.sleep(0.05)
        process.kill()
        process.wait()
    left = sorted(temporary.glob("dynamo-*"))
    assert left
    for folder in left:
        for file in folder.iterdir():
            os.utime(file, (0, 0))  # young ones may be about to be used
    (tmp_path / "script.py").write_text("pass\n")
    subprocess.run([*COMMAND, "explain", "script.py"], check=True, capture_output=True, timeout=120, **given)

    assert [p for p in left if p.exists()] == []


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        *((f"{command} script.py", number) for command in ("minify", "bisect", "explain") for number in (TERM, KILL)),
        *((f"{command} script.py", KILL) for command in ("profile", "record", "trace -o rec", "sanitize", "breaks")),
        ("fuzz --time 10m", KILL),
        ("minify script.py", HANGUP),
        ("corpus run lower_hang", TERM),
        ("corpus run lower_hang", KILL),
    ],
)
def test_nothing_is_left(tmp_path: Path, arguments: str, number: signal.Signals) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    ready = tmp_path / "ready"
    with (tmp_path / "said").open("w+") as said:
        process = subprocess.Popen(
            [*COMMAND, *arguments.split()],
            cwd=tmp_path,
            env={**environment(), MARK: str(ready)},
            stdout=said,
            stderr=said,
            preexec_fn=heard,
        )
        try:
            has_none = arguments.startswith(("corpus", "fuzz"))  # no script of ours that says when it is under way
            while not ready.exists() and not (has_none and len(marked(str(ready))) > 1):
                assert process.poll() is None, (tmp_path / "said").read_text()
                time.sleep(0.05)
            process.send_signal(number)
            code = process.wait(30)
            deadline = time.monotonic() + PATIENCE
            while marked(str(ready)) and time.monotonic() < deadline:
                time.sleep(0.1)
            assert not marked(str(ready))
            assert code == (-number if number == KILL else 128 + number)
        finally:
            process.kill()
            process.wait()


@pytest.mark.parametrize("arguments", ["minify script.py", "bisect script.py", "corpus run lower_hang"])
def test_what_is_still_being_loaded_is_ended_too(tmp_path: Path, arguments: str) -> None:
    """A process can't see to its own end before it has loaded what does that."""
    ready = tmp_path / "ready"
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "sitecustomize.py").write_text(
        f"import os, time\nif os.environ['{MARK}'] in os.environ.get('SLOW', ''):\n    time.sleep(600)\nos.environ['SLOW'] = '{ready}'\n"
    )
    path = os.pathsep.join([str(tmp_path), environment().get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [*COMMAND, *arguments.split()],
        cwd=tmp_path,
        env={**environment(), MARK: str(ready), "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while len(marked(str(ready))) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
        process.wait(30)
        deadline = time.monotonic() + PATIENCE
        while marked(str(ready)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not marked(str(ready))
    finally:
        process.kill()
        process.wait()
