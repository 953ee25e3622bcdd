"""Scripts of users, and what is expected of a run of each.

A script in `tests/scripts/scripts` says so in its docstring, below a line of what it is:

    run: -m package.train --json     arguments of python and of `explain`, from that folder; the file itself by default
    exit: 3                          its exit code, 0 by default
    env: NAME=value ...              variables it is started with
    stdin: NAME                      the file it reads as standard input, nothing by default
    first: ...                       the one thing its author would want to know first
    says: ... | ...                  how the first screen of `explain` says that, word for word
    report: compiled, breaks=0       facts of the report, see FACTS
    every run                        it runs with the quick tests too
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import textwrap
from ast import get_docstring, parse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.command import ROOT

FOLDER = Path(__file__).parent / "scripts"
EXPECTED = Path(__file__).parent / "expected"
TIMEOUT = 300
# The installed command: no folder of a user's is searched for our modules.
COMMAND = [sys.executable, "-c", "import sys; sys.path[0] = sys.path[1]; from tui.main import main; main()"]

Report = dict[str, Any]
# What a header may say of the report; `fact=value` hands the value over.
FACTS: dict[str, Callable[[Report, str], bool]] = {
    "compiled": lambda report, _: bool(report["frames"]),
    "nothing": lambda report, _: not report["frames"],
    "breaks": lambda report, value: len(report["verdict"]["breaks"]) == int(value),
    "some-breaks": lambda report, _: bool(report["breaks"]),
    "recompiles": lambda report, value: any(value in r["frame"] for r in report["recompiles"]),
    "frame": lambda report, value: any(value in f["name"] for f in report["frames"]),
    "note": lambda report, value: any(n["id"] == value for n in report["notes"]),
    "children": lambda report, value: len(_children(report)) >= int(value),
    "rank": lambda report, value: int(value) in {p["rank"] for p in _children(report)},
}


def _children(report: Report) -> list[dict[str, Any]]:
    return [p for p in report.get("processes", []) if p["compiles"]]


@dataclass(frozen=True)
class Script:
    """One script with its expectations."""

    name: str
    arguments: tuple[str, ...]
    exit: int
    env: dict[str, str]
    stdin: str
    first: str
    says: tuple[str, ...]
    report: tuple[str, ...]
    quick: bool

    @property
    def key(self) -> str:
        """Its name as that of a file."""
        return self.name.replace("/", "-").removesuffix(".py")


def load(path: Path) -> Script:
    """The script of that file. ValueError where the header says something unknown."""
    words: dict[str, str] = {}
    quick = False
    for line in (get_docstring(parse(path.read_text())) or "").splitlines()[1:]:
        name, colon, value = line.partition(":")
        if line.strip() == "every run":
            quick = True
        elif colon and name in ("run", "exit", "env", "stdin", "first", "says", "report"):
            words[name] = value.strip()
        elif line.strip():
            raise ValueError(f"{path.name}: {line!r} is not a line of a header")
    facts = tuple(part.strip() for part in words.get("report", "").split(",") if part.strip())
    for fact in facts:
        if fact.partition("=")[0] not in FACTS:
            raise ValueError(f"{path.name}: {fact} is not a fact; facts are {', '.join(FACTS)}")
    env = dict(part.split("=", 1) for part in shlex.split(words.get("env", "")))
    arguments = tuple(shlex.split(words.get("run", str(path.relative_to(FOLDER)))))
    says = tuple(part.strip() for part in words.get("says", "").split(" | ") if part.strip())
    name, code = str(path.relative_to(FOLDER)), int(words.get("exit", "0"))
    return Script(name, arguments, code, env, words.get("stdin", ""), words["first"], says, facts, quick)


def scripts() -> list[Script]:
    """All files whose docstring has a header; others are what those import."""
    return [load(path) for path in sorted(FOLDER.rglob("*.py")) if "\nfirst: " in path.read_text()]


def expected_file(script: Script) -> Path:
    """What the script prints under plain Python, as it was written down; `test_as_under_plain_python` holds it to that."""
    return EXPECTED / f"{script.key}.txt"


@dataclass(frozen=True)
class Done:
    """How a run ended."""

    code: int
    stdout: str
    stderr: str


def _run(command: list[str], script: Script) -> Done:
    window = ("COLUMNS", "LINES")  # of whoever runs the tests
    env = {**{k: v for k, v in os.environ.items() if k not in window}, "NO_COLOR": "1", "OMP_NUM_THREADS": "1", **script.env}
    if command[: len(COMMAND)] == COMMAND:
        env["PYTHONPATH"] = str(ROOT)
    given = (FOLDER / script.stdin).read_text() if script.stdin else ""
    done = subprocess.run(command, cwd=FOLDER, env=env, input=given, capture_output=True, text=True, timeout=TIMEOUT)
    return Done(done.returncode, done.stdout, done.stderr)


def plain(script: Script) -> Done:
    return _run([sys.executable, *script.arguments], script)


def explained(script: Script, *options: str) -> Done:
    return _run([*COMMAND, "explain", *options, *script.arguments], script)


def differences(script: Script, done: Done, expected: str) -> list[str]:
    """Where the script behaved otherwise than under plain Python. `expected`: what it prints there."""
    found = []
    if done.code != script.exit:
        found.append(f"exit code {done.code}, not {script.exit}")
    lines = done.stderr.splitlines()
    said = iter(lines)
    missing = [line for line in expected.splitlines() if line not in said]
    if missing:
        found.append(f"not printed, or not in this order: {missing[0]!r}")
    often = [line for line in dict.fromkeys(expected.splitlines()) if line and lines.count(line) > expected.splitlines().count(line)]
    if often:
        found.append(f"printed too often: {often[0]!r}")
    return [*found, textwrap.indent(done.stderr[-3000:], "    ")] if found else []


def problems(script: Script, done: Done, expected: str) -> list[str]:
    """What of a run under `explain --json` is not as it should be."""
    found = differences(script, done, expected)
    try:
        report = json.loads(done.stdout)
    except ValueError as e:
        return [*found, f"no report: {e}", textwrap.indent(done.stderr[-3000:], "    ")]
    for fact in script.report:
        name, _, value = fact.partition("=")
        if not FACTS[name](report, value):
            found.append(f"the report does not say {fact}")
    if "nothing was compiled" in done.stderr and report["frames"]:
        found.append("says that nothing was compiled")
    return [*found, textwrap.indent(done.stderr[-3000:], "    ")] if found else []
