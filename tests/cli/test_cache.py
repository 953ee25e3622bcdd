"""`dynamo-debug cache`: the folder of compiled graphs and kernels, without compiling anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with one graph and one library in it, and a file that is not the cache's."""
    root = tmp_path / "cache"
    for name in ("graphs/ab/ab12.graph", "kernels/cd/cd34.so", "kernels/cd/cd34.sum", "kernels/cd/cd34.c"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 1000)
    (root / "hits").write_bytes(b"\n\n\n")
    (root / "mine.txt").write_text("kept")
    root.chmod(0o700)
    monkeypatch.setenv("DYNAMO_CACHE_DIR", str(root))
    return root


def test_info(folder: Path, tmp_path: Path) -> None:
    text = run("cache", "info", cwd=tmp_path)
    facts = json.loads(run("cache", "info", "--json", cwd=tmp_path).stdout)

    assert text.returncode == 0 and text.stderr == ""
    assert f"directory   {folder}\n" in text.stdout
    assert "entries     2 (graphs 1, libraries 1)\n" in text.stdout
    assert "size        3.9 KB of 512.0 MB\n" in text.stdout
    assert facts["entries"] == 2 and facts["bytes"] == 4000 and facts["hits"] == 3 and facts["refused"] == ""
    assert facts["oldest"] <= facts["newest"]


def test_clear_removes_entries_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    done = run("cache", "clear", cwd=tmp_path)
    again = run("cache", "clear", "--json", cwd=tmp_path)

    assert done.returncode == 0 and done.stdout == f"removed 2 entries (3.9 KB) from {folder}\n"
    assert json.loads(again.stdout) == {"directory": str(folder), "entries": 0, "bytes": 0}
    assert [p.name for p in folder.iterdir()] == ["mine.txt"]


def test_an_empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMO_CACHE_DIR", str(tmp_path / "none"))
    done = run("cache", "info", cwd=tmp_path)

    assert done.returncode == 0 and "oldest use  never\n" in done.stdout


def test_a_folder_that_is_not_used_says_why(folder: Path, tmp_path: Path) -> None:
    folder.chmod(0o777)
    done = run("cache", "info", cwd=tmp_path)

    assert done.returncode == 0
    assert "dynamo-debug: the cache is not used:" in done.stderr and "chmod go-w" in done.stderr


def test_an_unknown_action(tmp_path: Path) -> None:
    done = run("cache", "clean", cwd=tmp_path)

    assert done.returncode == 2
    assert done.stderr == "dynamo-debug: error[CL014]: clean: no such action; did you mean clear?; choose info or clear\n"


def test_a_limit_that_is_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMO_CACHE_LIMIT", "lots")
    done = run("cache", "info", cwd=tmp_path)

    assert done.returncode == 2
    assert "error[CL016]: DYNAMO_CACHE_LIMIT: expected a number of megabytes, got 'lots'" in done.stderr
