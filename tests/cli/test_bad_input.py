"""Whatever a script does, the command answers with a clear line, its documented exit code, and a whole record or none."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dynamo.trace import events as ev
from dynamo.trace import load
from tests.cli.command import COMMAND, EMITTING, environment, run, write
from tests.special import SPECIAL


def left_behind(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name not in ("script.py", "__pycache__"))


@pytest.mark.parametrize("command", [["explain"], ["tui"], ["trace", "-o", "rec"], ["explain", "--json"]])
@pytest.mark.parametrize(
    "prepare, script, line",
    [
        (lambda p: None, "scrip.py", "error[CL001]: scrip.py: no such file; did you mean script.py?"),
        (lambda p: None, "a/b/c.py", "error[CL001]: a/b/c.py: no such file"),
        (lambda p: None, "script.py/", "error[CL001]: script.py/: no such file; did you mean script.py?"),
        (lambda p: (p / "script.py").unlink() or (p / "script.py").mkdir(), "script.py", "error[CL002]: script.py: is a folder"),
        (lambda p: write(p, "x = 1\ny = (\n"), "script.py", "error[CL004]: script.py:2: '(' was never closed"),
        (lambda p: (p / "script.py").write_bytes(b"# coding: utf-8\nx = '\xff'\n"), "script.py", "error[CL004]: script.py"),
        (lambda p: (p / "script.py").write_bytes(b"\x00"), "script.py", "error[CL00"),
    ],
    ids=["missing", "far", "slash", "folder", "syntax", "encoding", "binary"],
)
def test_scripts_that_cannot_run(tmp_path: Path, command: list[str], prepare: object, script: str, line: str) -> None:
    write(tmp_path, "pass\n")
    prepare(tmp_path)  # type: ignore[operator]
    done = run(*command, script, cwd=tmp_path)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"dynamo-debug: {line}")
    assert "Traceback" not in done.stderr
    assert left_behind(tmp_path) == []


# What each of them makes of a file is asked in one process: loading them takes longer than that.
_OPENING = """
import sys
from tests.special import bound_memory
from tui.main import main
import torch
bound_memory()
for words in sys.argv[2:]:
    print(words, file=sys.stderr, flush=True)
    try:
        main([*words.split(), sys.argv[1]])
    except SystemExit as e:
        print("exit", e.code, file=sys.stderr, flush=True)
"""
_OPENERS = {
    "CL003": ["explain", "trace -o rec", "tui", "breaks", "minify", "bisect", "sanitize", "profile", "record", "replay --show", "run"],
    "CL007": ["export", "compare script.py"],
}


@pytest.mark.parametrize("says", SPECIAL)
def test_what_never_ends_is_opened_by_no_command(tmp_path: Path, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    SPECIAL[says](tmp_path / "script.py")
    commands = [(command, error_id) for error_id, some in _OPENERS.items() for command in some]
    done = subprocess.run(
        [sys.executable, "-c", _OPENING, "script.py", *(command for command, _ in commands)],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    said = done.stderr.splitlines()

    assert done.stdout == ""
    assert [p.name for p in tmp_path.iterdir()] == ["script.py"]
    for number, (command, error_id) in enumerate(commands):
        named, line, end = said[3 * number : 3 * number + 3]
        assert (named, end) == (command, "exit 2"), done.stderr
        assert line.startswith(f"dynamo-debug: error[{error_id}]: script.py: ")
        assert error_id != "CL003" or line.endswith(f"cannot be read: {says}")


@pytest.mark.parametrize("behind", [["other.py"], ["--full", "other.py"], ["--graph", "0/0", "other.py", "--json"]])
def test_nothing_is_run_that_stands_behind_a_record(behind: list[str], tmp_path: Path) -> None:
    write(tmp_path, EMITTING)
    (tmp_path / "other.py").write_text("print('was run')\n")
    assert run("trace", "script.py", "-o", "rec", cwd=tmp_path).returncode == 0
    done = run("explain", "rec", *behind, cwd=tmp_path)

    line = "dynamo-debug: error[CL008]: other.py: a record takes no arguments; leave it out, or name it alone to run it\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)
    assert run("explain", "rec", "--graph", "0/0", cwd=tmp_path).returncode == 0


def test_a_script_that_raises_shows_its_own_traceback(tmp_path: Path) -> None:
    write(tmp_path, "def f():\n    raise ValueError('boom')\n\nf()\n")
    done = run("explain", "script.py", cwd=tmp_path)

    assert done.returncode == 1
    assert done.stderr.count("  File ") == 2
    assert done.stderr.count("script.py") >= 2
    assert "runner.py" not in done.stderr
    assert "ValueError: boom\ndynamo-debug: script failed: ValueError: boom (exit code 1)\n" in done.stderr
    assert done.stdout.startswith("script.py  failed, exit 1\nthe script failed: ValueError: boom at script.py:2\n")


@pytest.mark.parametrize(
    "program, said",
    [
        ("e = ValueError('first\\nsecond')\ne.add_note('a note')\nraise e\n", "ValueError: first"),
        ("exec('a = (')\n", "SyntaxError: '(' was never closed"),
        ("raise KeyError\n", "KeyError"),
    ],
)
def test_the_reason_of_a_failure_is_one_line(program: str, said: str, tmp_path: Path) -> None:
    write(tmp_path, program)
    done = run("explain", "script.py", cwd=tmp_path)

    assert done.stderr.endswith(f"\ndynamo-debug: script failed: {said} (exit code 1)\n")
    assert done.stdout.splitlines()[1].startswith(f"the script failed: {said} at ")


def test_a_script_that_ends_itself_with_a_text_failed_of_that(tmp_path: Path) -> None:
    write(tmp_path, "import sys\nsys.exit('no checkpoint\\nlook in runs/')\n")
    done = run("explain", "script.py", cwd=tmp_path)

    assert done.returncode == 1
    assert done.stderr.startswith("no checkpoint\nlook in runs/\n")
    assert done.stdout.startswith("script.py  failed, exit 1\nthe script failed: SystemExit: no checkpoint at script.py:2\n")


def test_internals_shows_our_frames(tmp_path: Path) -> None:
    write(tmp_path, "raise ValueError('boom')\n")

    assert "runner.py" in run("explain", "--internals", "script.py", cwd=tmp_path).stderr


def test_an_excepthook_of_the_script_is_kept(tmp_path: Path) -> None:
    write(tmp_path, "import sys\nsys.excepthook = lambda t, e, tb: print('mine', e, file=sys.stderr)\nraise ValueError('boom')\n")
    done = run("explain", "script.py", cwd=tmp_path)

    assert "mine boom\n" in done.stderr
    assert "Traceback" not in done.stderr


ENDS = {
    "a hook that raises": "def hook(*error): raise ValueError('broke')\nsys.excepthook = hook\n1 / 0\n",
    "a hook that leaves": "sys.excepthook = lambda *error: sys.exit(9)\n1 / 0\n",
    "a hook that looks": "sys.excepthook = lambda *error: print(sys.exc_info(), sys.last_value, error[1].__context__)\n1 / 0\n",
    "no hook": "del sys.excepthook\n1 / 0\n",
    "no stderr": "sys.stderr = None\n1 / 0\n",
    "a number that is too large": "sys.exit(2**63)",
    "a number below zero": "sys.exit(-2)",
    "a number above a byte": "sys.exit(300)",
    "no text": "class Odd:\n    def __str__(self): raise ValueError\nsys.exit(Odd())",
    "a tuple": "raise SystemExit((1,))",
    "two values": "raise SystemExit(1, 2)",
    "a code that is set": "e = SystemExit()\ne.code = 9\nraise e",
    "an attribute that is freed": "class Freed:\n    def __del__(self): print('freed')\ndef f():\n    x = Freed()\n    sys.exit(3)\nf()",
}


@pytest.mark.parametrize("text", ENDS.values(), ids=list(ENDS))
def test_what_nothing_catches_ends_a_script_as_under_python(text: str, tmp_path: Path) -> None:
    # Where the interpreter could not make an exit code of an object, it says more about the end of threads if their module is loaded.
    write(tmp_path, "import atexit, sys, threading\natexit.register(lambda: print(getattr(sys, 'last_type', None)))\n" + text)
    plain = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False)
    done = run("trace", "-o", "rec", str(tmp_path / "script.py"), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (plain.returncode, plain.stdout)
    assert [line for line in done.stderr.splitlines() if not line.startswith("dynamo-debug: ")] == plain.stderr.splitlines()


@pytest.mark.parametrize(
    "program, code, stderr",
    [
        ("import sys; sys.exit(7)", 7, "script ended with exit code 7"),
        ("import sys; sys.exit()", 0, "nothing was compiled"),
        ("import sys; sys.exit('a message')", 1, "a message\n"),
        ("import os; os._exit(5)", 5, "script ended with exit code 5"),
        ("import os; os.kill(os.getpid(), 9)", 137, "script failed: killed by SIGKILL (exit code 137)"),
        ("import os; os.abort()", 134, "script failed: killed by SIGABRT (exit code 134)"),
        ("raise KeyboardInterrupt", 130, "\nKeyboardInterrupt\ndynamo-debug: interrupted (exit code 130)"),
        ("raise BaseException('x')", 1, "script failed: BaseException: x"),
        ("x = 1", 0, "nothing was compiled: script.py never called a compiled function"),
    ],
)
@pytest.mark.parametrize("kept", [False, True])
def test_endings(tmp_path: Path, program: str, code: int, stderr: str, kept: bool) -> None:
    write(tmp_path, program)
    done = run(*(["trace", "-o", "rec"] if kept else ["explain"]), "script.py", cwd=tmp_path)

    assert done.returncode == code
    assert stderr in done.stderr
    assert left_behind(tmp_path) == (["rec"] if kept else [])
    if kept:
        record = load(tmp_path / "rec")
        assert record.problems == []
        assert [e.exit for e in record.events if isinstance(e, ev.RunEnded)][-1] == code


def test_script_output_stays_out_of_json(tmp_path: Path) -> None:
    write(tmp_path, EMITTING + "import os\nos.system('echo from a grandchild')\nos.write(1, b'raw')\n")
    done = run("explain", "--json", "script.py", "one", "--two", cwd=tmp_path)
    value = json.loads(done.stdout)

    assert done.returncode == 0
    assert value["graphs"][0]["id"] == "0/0"
    assert "script says one --two\n" in done.stderr
    assert "from a grandchild" in done.stderr
    assert "raw" in done.stderr


def test_trace_passes_output_through_but_not_under_json(tmp_path: Path) -> None:
    write(tmp_path, EMITTING)
    plain = run("trace", "script.py", "-o", "a", cwd=tmp_path)
    as_json = run("trace", "script.py", "-o", "b", "--json", cwd=tmp_path)

    assert plain.stdout == "script says\n"
    assert json.loads(as_json.stdout)["record"] == "b"
    assert "script says\n" in as_json.stderr


def test_taken_places_are_refused_before_the_script_runs(tmp_path: Path) -> None:
    write(tmp_path, EMITTING)
    (tmp_path / "rec").mkdir()
    (tmp_path / "rec" / "thesis.txt").write_text("")
    done = run("trace", "script.py", "-o", "rec", "--force", cwd=tmp_path)

    assert done.returncode == 2
    assert done.stderr == "dynamo-debug: error[CL007]: rec: folder is not empty and holds no record; choose another name\n"
    assert done.stdout == ""


def test_a_second_record_needs_force(tmp_path: Path) -> None:
    write(tmp_path, EMITTING)

    assert [run("trace", "script.py", "-o", "rec", *more, cwd=tmp_path).returncode for more in ([], [], ["--force"])] == [0, 2, 0]


WAITING = EMITTING + "import sys, time\nprint('ready', file=sys.stderr, flush=True)\ntime.sleep(600)\n"
STUBBORN = (
    EMITTING
    + """
import signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print('ready', file=sys.stderr, flush=True)
time.sleep(600)
"""
)


@contextlib.contextmanager
def children_hear_interrupts() -> Iterator[None]:
    """A background job of a shell ignores SIGINT, and so would its children; a signal that has a handler is theirs again."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """The command in a process group of its own, as a shell starts it; returns once the script is under way."""
    with children_hear_interrupts():
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=cwd,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    assert process.stderr is not None
    while "ready" not in process.stderr.readline():
        assert process.poll() is None
    return process


def group_is_empty(group: int) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("whole_group", [True, False])
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("script", [WAITING, STUBBORN], ids=["waiting", "stubborn"])
def test_interrupts_leave_a_whole_record_and_no_child(tmp_path: Path, script: str, whole_group: bool, number: int, code: int) -> None:
    write(tmp_path, script)
    process = start("trace", "script.py", "-o", "rec", cwd=tmp_path)
    os.killpg(process.pid, number) if whole_group else process.send_signal(number)
    _, stderr = process.communicate(timeout=60)

    assert process.returncode == code
    assert ("Traceback" in stderr) == (number == signal.SIGINT and script == WAITING)  # Python's own, of the script
    assert "tui/" not in stderr
    assert f"exit code {code}" in stderr
    assert group_is_empty(process.pid)
    record = load(tmp_path / "rec")
    assert record.problems == []
    assert [e.exit for e in record.events if isinstance(e, ev.RunEnded)][-1] == code
    assert [e for e in record.events if isinstance(e, ev.GraphBroke)]


def test_an_interrupted_explain_reports_what_it_saw(tmp_path: Path) -> None:
    write(tmp_path, WAITING)
    process = start("explain", "--json", "script.py", cwd=tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    stdout, _ = process.communicate(timeout=60)
    value = json.loads(stdout)

    assert process.returncode == 130
    assert (value["exit"], value["error"]) == (130, "interrupted")
    assert len(value["breaks"]) == 1


@pytest.mark.parametrize(
    "arguments, code", [("explain script.py", 0), ("explain --json script.py", 0), ("doctor", 0), ("explain no.py", 2)]
)
def test_streams_may_be_closed(tmp_path: Path, arguments: str, code: int) -> None:
    write(tmp_path, EMITTING)
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"]

    assert subprocess.run([*closed, *COMMAND, *arguments.split()], cwd=tmp_path, env=environment(), timeout=120).returncode == code


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    write(tmp_path, EMITTING)
    with open("/dev/full", "w") as full:
        given = {"cwd": tmp_path, "env": environment(), "stdout": full, "stderr": subprocess.PIPE, "text": True}
        done = subprocess.run([*COMMAND, "explain", "script.py"], **given)

    assert done.returncode == 2
    assert done.stderr.endswith("dynamo-debug: error[CL032]: standard output: cannot be written: No space left on device\n")
    assert "Traceback" not in done.stderr


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    write(tmp_path, EMITTING)
    command = " ".join(f"'{part}'" for part in COMMAND)
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} explain script.py | true"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_a_defect_of_the_tool_is_no_finding(tmp_path: Path) -> None:
    spoiled = "from tui.commands import doctor\ndef broken(as_json=False):\n    raise KeyError('lost')\ndoctor.doctor = broken\n"
    command = [sys.executable, "-c", f"{spoiled}from tui.main import main\nmain()", "doctor"]

    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("dynamo-debug: error[CL036]: KeyError: 'lost' (at tui/main.py:")
