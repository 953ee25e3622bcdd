"""Unchanged scripts of users under `explain`: output and exit code as under plain Python, and a report that says what it should."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.scripts.script import FOLDER, Script, explained, plain, problems, scripts

ALL = scripts()
EXPECTED = FOLDER.parent / "expected"
by_name = pytest.mark.parametrize("script", ALL, ids=lambda s: s.name)


def _path(script: Script) -> Path:
    return EXPECTED / (script.name.replace("/", "-").removesuffix(".py") + ".txt")


def _expected(script: Script) -> str:
    """What the script prints under plain Python, as it was written down; `test_as_under_plain_python` holds it to that."""
    return _path(script).read_text()


@pytest.mark.parametrize("script", [s for s in ALL if s.quick], ids=lambda s: s.name)
def test_explained(script: Script) -> None:
    assert not problems(script, explained(script), _expected(script))


@pytest.mark.slow
@by_name
def test_as_under_plain_python(script: Script) -> None:
    done = plain(script)
    if os.environ.get("ACCEPT_GOLDEN"):
        _path(script).write_text(done.stdout)

    assert done.code == script.exit, done.stderr
    assert done.stdout == _expected(script)


@pytest.mark.slow
@by_name
@pytest.mark.parametrize("engine", ["dynamo", "torch"])
def test_with_each_engine(script: Script, engine: str) -> None:
    asked = script if engine == "dynamo" else replace(script, report=())  # facts are about our compiler
    assert not problems(asked, explained(script, "--engine", engine), _expected(script))


def test_each_says_what_comes_first() -> None:
    assert all(script.first and script.report for script in ALL)
