"""Unchanged scripts of users: output and exit code as under plain Python with each engine, and a report that says what it should."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.scripts.script import Script, expected_file, explained, plain, problems, scripts

by_name = pytest.mark.parametrize("script", scripts(), ids=lambda s: s.name)


@pytest.mark.slow
@by_name
def test_as_under_plain_python(script: Script) -> None:
    done = plain(script)
    if os.environ.get("ACCEPT_GOLDEN"):
        expected_file(script).write_text(done.stdout, encoding="utf-8")

    assert done.code == script.exit, done.stderr
    assert done.stdout == expected_file(script).read_text(encoding="utf-8")


@pytest.mark.slow
@by_name
@pytest.mark.parametrize("engine", ["dynamo", "torch"])
def test_with_each_engine(script: Script, engine: str) -> None:
    asked = script if engine == "dynamo" else replace(script, report=())  # facts are about our compiler
    assert not problems(asked, explained(script, "--json", "--engine", engine), expected_file(script).read_text(encoding="utf-8"))


def test_each_says_what_comes_first() -> None:
    assert all(script.first and script.report for script in scripts())


def test_there_are_enough_of_them() -> None:
    assert len(scripts()) >= 45
