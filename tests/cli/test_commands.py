"""The commands on scripts that behave, and on records."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dynamo.breaks import REASONS
from dynamo.peer.names import NOTES
from dynamo.trace.record import EVENTS
from tests.cli.command import COMMAND, EMITTING, ROOT, environment, run, write
from tui.errors import ERRORS


def test_explain_prints_the_report(tmp_path: Path) -> None:
    write(tmp_path, EMITTING)
    done = run("explain", "script.py", "--lr", "0.1", cwd=tmp_path)

    assert done.returncode == 0
    assert done.stdout.startswith("script.py  finished\na graph break at script.py:2: branch on a tensor\n")
    assert "    2 | import sys\n" in done.stdout
    assert "^^^^^^" in done.stdout
    assert "  dynamo-debug explain --code DD001 " in done.stdout
    assert done.stderr == "script says --lr 0.1\n"


def test_options_after_two_dashes_belong_to_the_script(tmp_path: Path) -> None:
    write(tmp_path, EMITTING)

    assert "script says --json -x\n" in run("explain", "script.py", "--", "--json", "-x", cwd=tmp_path).stderr


def test_fail_on_break(tmp_path: Path) -> None:
    write(tmp_path, EMITTING)

    assert run("explain", "--fail-on-break", "script.py", cwd=tmp_path).returncode == 1
    assert run("trace", "--fail-on-break", "script.py", "-o", "rec", cwd=tmp_path).returncode == 1
    assert run("explain", "--fail-on-break", "rec", cwd=tmp_path).returncode == 1


def test_a_script_that_fails_keeps_its_code_under_fail_on_break(tmp_path: Path) -> None:
    write(tmp_path, EMITTING + "sys.exit(9)\n")

    assert run("explain", "--fail-on-break", "script.py", cwd=tmp_path).returncode == 9


def test_one_graph(tmp_path: Path) -> None:
    write(tmp_path, EMITTING)
    done = run("explain", "--graph", "0/0", "script.py", cwd=tmp_path)
    wrong = run("explain", "--graph", "0/1", "script.py", cwd=tmp_path)

    assert done.stdout == "def forward(self, x):\n    return x + 1\n"
    assert wrong.returncode == 2
    assert "error[CL006]: 0/1: no such graph; did you mean 0/0? (captured: 0/0)" in wrong.stderr


def test_records_are_explained_like_runs(tmp_path: Path) -> None:
    write(tmp_path, EMITTING)
    live = json.loads(run("trace", "--json", "script.py", "-o", "rec", cwd=tmp_path).stdout)
    (tmp_path / "script.py").unlink()
    stored = json.loads(run("explain", "--json", "rec", cwd=tmp_path).stdout)

    assert live.pop("record") == "rec"
    assert stored.pop("verdict")["graphs"] == 1
    assert stored == live
    assert "    2 | import sys\n" in run("explain", "rec", cwd=tmp_path).stdout


def test_a_damaged_record_says_so_and_is_shown(tmp_path: Path) -> None:
    write(tmp_path, EMITTING)
    run("trace", "script.py", "-o", "rec", cwd=tmp_path)
    data = (tmp_path / "rec" / EVENTS).read_bytes()
    (tmp_path / "rec" / EVENTS).write_bytes(data[: len(data) // 2])
    done = run("explain", "rec", cwd=tmp_path)

    assert done.returncode == 2
    assert "error[CL007]: rec: no end line: the record was cut off after 2 events" in done.stderr
    assert "no end line: the record was cut off after 2 events" in done.stdout
    assert done.stdout.startswith("script.py  cut off\n")


@pytest.mark.parametrize("code", ["DD001", "dd001", "CL004"])
def test_pages(tmp_path: Path, code: str) -> None:
    text = run("explain", "--code", code, cwd=tmp_path).stdout
    page = json.loads(run("explain", "--code", code, "--json", cwd=tmp_path).stdout)

    assert text.startswith(f"{code.upper()}  ")
    assert page["id"] == code.upper()
    assert page["explanation"]


def test_all_pages_are_listed(tmp_path: Path) -> None:
    done = run("explain", "--code", cwd=tmp_path)

    assert [line.split()[0] for line in done.stdout.splitlines()] == [*REASONS, *NOTES, *ERRORS]


def test_an_unknown_page_names_near_ones(tmp_path: Path) -> None:
    done = run("explain", "--code", "CL0O4", cwd=tmp_path)

    assert done.returncode == 2
    assert done.stdout == ""
    assert re.match(r"dynamo-debug: error\[CL005\]: CL0O4: unknown id; did you mean [^?]*CL004", done.stderr)


@pytest.mark.parametrize(
    "arguments, line",
    [
        (["explain"], "error[CL008]"),
        (["explain", "--engine", "jax", "script.py"], "error[CL010]: jax: no such engine; choose dynamo or torch"),
        (["export", "nowhere"], "error[CL007]: nowhere: no such record"),
        (["export", ".", "--to", "chrom"], "error[CL011]: chrom: no such format; did you mean chrome?"),
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: list[str], line: str) -> None:
    write(tmp_path, "pass\n")
    done = run(*arguments, cwd=tmp_path)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"dynamo-debug: {line}")


@pytest.mark.parametrize("command", ["explain", "breaks", "graphs", "trace", "tui"])
def test_everything_behind_the_script_is_its_own(command: str, tmp_path: Path) -> None:
    write(tmp_path, EMITTING)
    own = ["-o", "rec"] if command == "trace" else []
    done = run(command, *own, "script.py", "--json", "--full", "--backend", "x", "-o", "y", "--", "-z", cwd=tmp_path)

    assert done.returncode == 0
    assert "script says --json --full --backend x -o y -- -z\n" in done.stdout + done.stderr


@pytest.mark.parametrize("option, nearest", [("--jsn", "--json"), ("--ful", "--full"), ("--backed", "--backend")])
def test_an_unknown_option_in_front_of_the_script_names_the_nearest(option: str, nearest: str, tmp_path: Path) -> None:
    done = run("explain", option, "script.py", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert f"No such option: {option}" in done.stderr
    assert nearest in done.stderr
    assert "[CL034]" in done.stderr


def test_behind_a_record_options_are_ours(tmp_path: Path) -> None:
    write(tmp_path, EMITTING)
    run("trace", "-o", "rec", "script.py", cwd=tmp_path)

    assert json.loads(run("explain", "rec", "--json", cwd=tmp_path).stdout)["graphs"][0]["id"] == "0/0"
    assert run("breaks", "rec", "--graph", "0/7", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize("option", [["-m", "script"], ["-c", "import sys; print('script says', *sys.argv[1:])"]])
def test_modules_and_code_stand_where_a_script_does(option: list[str], tmp_path: Path) -> None:
    write(tmp_path, EMITTING)
    done = run("explain", "--graph", "0/0", *option, "--json", cwd=tmp_path)

    assert "script says --json\n" in done.stderr


def test_ids_of_torch_have_pages_and_are_linked_to_ours(tmp_path: Path) -> None:
    theirs = json.loads(run("explain", "--code", "gb0170", "--json", cwd=tmp_path).stdout)
    ours = json.loads(run("explain", "--code", "DD001", "--json", cwd=tmp_path).stdout)

    assert (theirs["id"], theirs["title"], theirs["also"]) == ("GB0170", "Data-dependent branching", ["DD001"])
    assert "GB0170" in ours["also"]
    assert '" ' not in theirs["explanation"]


def test_exports(tmp_path: Path) -> None:
    write(tmp_path, EMITTING)
    run("trace", "script.py", "-o", "rec", cwd=tmp_path)
    chrome = json.loads(run("export", "rec", cwd=tmp_path).stdout)

    assert {e["name"] for e in chrome["traceEvents"]} >= {"compile 0/0", "break DD001"}
    assert run("export", "rec", "--to", "dot", cwd=tmp_path).stdout.startswith('digraph "0/0"')
    assert run("export", "rec", "--to", "dot", "-o", "g.dot", cwd=tmp_path).stdout == ""
    assert (tmp_path / "g.dot").read_text().startswith("digraph")


def test_tui_without_a_terminal_prints_the_tree(tmp_path: Path) -> None:
    write(tmp_path, EMITTING)
    done = run("tui", "script.py", cwd=tmp_path)

    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "✗ script.py [break]"
    assert lines[1] == "  ✗ f script.py:3 [break]"
    assert lines[3] == "      ✓ graph 0/0 1 op [ok]"
    assert json.loads(run("tui", "--json", "script.py", cwd=tmp_path).stdout)["tree"][0]["status"] == "break"


def test_a_script_runs_as_under_python(tmp_path: Path) -> None:
    """Everything a script can see of how it was started is as `python script.py a b` makes it."""
    program = """
import json, sys
import helper
main = sys.modules["__main__"]
seen = [sys.argv, sys.path[0], __name__, __file__, __package__, __spec__, main.__dict__ is globals(), helper.x, __builtins__.__name__]
print(json.dumps(seen))
"""
    write(tmp_path, program)
    write(tmp_path, "x = 42\n", "helper.py")
    under = run("trace", "script.py", "a", "b", "-o", "rec", cwd=tmp_path).stdout
    plain = subprocess.run(
        [sys.executable, "script.py", "a", "b"], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    ).stdout

    assert under == plain


def test_forked_children_do_not_hold_up_the_run(tmp_path: Path) -> None:
    write(tmp_path, EMITTING + "import os, time\nif os.fork() == 0:\n    emit(ev.Note('X', 'child'))\n    time.sleep(3)\n    os._exit(0)\n")
    value = json.loads(run("explain", "--json", "script.py", cwd=tmp_path).stdout)

    assert [note["message"] for note in value["notes"]] == ["child"]
    assert value["problems"] == []


def test_help_and_version(tmp_path: Path) -> None:
    text = run("--help", cwd=tmp_path)

    assert text.returncode == 0
    assert "exit codes: 0 ok; 1 a finding" in text.stdout
    assert "Example:" not in text.stdout
    assert run("--version", cwd=tmp_path).stdout.startswith("dynamo-debug ")
    lines = run("explain", "--help", cwd=tmp_path).stdout.splitlines()
    assert lines[0].startswith("Usage: dynamo-debug explain")
    assert lines[2].strip() == "Example: dynamo-debug explain train.py --epochs 1"


def test_command_line_starts_light() -> None:
    code = "import sys; from tui.main import build; build(); print({'textual', 'graphviz', 'sympy', 'torch'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"


def test_a_command_loads_what_it_needs() -> None:
    code = "import sys; from tui.main import build; build('explain'); print({'minifier', 'tui.commands.trace'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment(), capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "ascii:strict"])
def test_a_report_is_shown_in_what_the_output_can_encode(encoding: str, tmp_path: Path) -> None:
    write(tmp_path, EMITTING)
    env = {**environment(), "PYTHONIOENCODING": encoding}
    done = subprocess.run(
        [*COMMAND, "explain", "script.py"], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, b"script says\n")
    assert done.stdout.isascii()
    assert b"script.py  finished" in done.stdout
