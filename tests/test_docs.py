"""The documents say what is there: generated blocks, files, commands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tui.main import COMMANDS

PACKAGES = ("dynamo", "inductor", "minifier", "tui", "repro_corpus")
ROOT = Path(__file__).resolve().parents[1]


def test_generated_documents_are_current() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_and_option_is_documented() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()

    assert [c.name for c in COMMANDS if f"dynamo-debug {c.name}" not in text] == []


DOCUMENTS = (
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"),
    *(f"docs/{name}.md" for name in ("corpus", "differences", "export", "record", "testing")),
)
# What a command writes, and files of others that ours were learned from.
OTHERS = {"minified/repro.py", "coverage/env.py", "uop/symbolic.py", "passes/definitions.py"}
_QUOTED = re.compile(r"`([^`\n]+)`")
_FILE = re.compile(r"[\w./-]+\.(?:py|c|h|md|json|toml|yaml|txt|sh)")


def _told(name: str) -> tuple[str, list[str]]:
    """A document, and what it has in backticks."""
    text = (ROOT / name).read_text()
    return text, _QUOTED.findall(text)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_in_documents_are_there(name: str) -> None:
    """By their path, or by the end of it."""
    known = {"/" + path.relative_to(ROOT).as_posix() for top in (*PACKAGES, "docs", "tests") for path in (ROOT / top).rglob("*.*")}
    known |= {"/" + path.name for path in ROOT.iterdir()}
    paths = {found[0] for quoted in _told(name)[1] if (found := _FILE.fullmatch(quoted.partition(":")[0])) and "/" in quoted}

    assert sorted(path for path in paths - OTHERS if not any(file.endswith("/" + path) for file in known)) == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_in_documents_are_there(name: str) -> None:
    text, _ = _told(name)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    made = set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE))
    modules = set(re.findall(r"python -m ([\w.]+)", text)) - {"pip", "pytest"}
    commands = set(re.findall(r"(?:`|^)dynamo-debug ([a-z]+)", text, re.MULTILINE))

    assert made - set(targets) == set()
    places = {module: module.replace(".", "/") for module in modules}
    assert [m for m, place in places.items() if not any((ROOT / f"{place}{end}").exists() for end in (".py", "/__main__.py"))] == []
    assert commands - {command.name for command in COMMANDS} == set()
