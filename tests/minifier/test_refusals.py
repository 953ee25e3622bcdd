"""What a C++ compiler has refused is not compiled again in forks of one warmed process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from minifier.graph import refusals


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Path]:
    refusals.keep(tmp_path / "refused")
    yield tmp_path
    refusals.forget()


def run(folder: Path, text: str, said: str, code: int = 1) -> tuple[int, str]:
    """How many times the compiler was run at all after a run of it, and what came of that run."""
    (folder / "compiler").write_text(f"echo >> {folder}/runs\necho '{said}'\nexit {code}\n")
    (folder / "a.cpp").write_text(text)
    try:
        subprocess.run(["sh", f"{folder}/compiler", f"{folder}/a.cpp"], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        came = "built"
    except subprocess.CalledProcessError as e:
        came = f"{e.returncode}: {e.output.decode().strip()}"
    return (folder / "runs").read_text().count("\n"), came


def test_the_same_text_is_refused_once(kept: Path) -> None:
    assert run(kept, "int a", "a.cpp:1: error: no") == (1, "1: a.cpp:1: error: no")
    assert run(kept, "int a", "a.cpp:1: error: no") == (1, "1: a.cpp:1: error: no")
    assert run(kept, "int b", "a.cpp:1: error: no") == (2, "1: a.cpp:1: error: no")


@pytest.mark.parametrize("said, code", [("internal compiler error: error: x", 1), ("fatal error: no space", 1), ("killed", 137), ("", 0)])
def test_accidents_and_what_is_built_are_asked_again(kept: Path, said: str, code: int) -> None:
    assert [run(kept, "int a", said, code)[0] for _ in range(2)] == [1, 2]


def test_what_is_certified_is_compiled(kept: Path) -> None:
    for runs in (1, 2):
        assert run(kept, "int a", "a.cpp:1: error: no")[0] == runs
        refusals.forget()
