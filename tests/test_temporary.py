"""Folders of processes: in use they stay, and so does what is not ours; what a killed process left goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dynamo.surroundings import temporary
from dynamo.surroundings.temporary import OwnFolder, own_folder

MARK = ".in-use-by-dynamo-debug"
HOLDS = """
import os, signal, sys
from dynamo.surroundings.temporary import OwnFolder
folder = OwnFolder()
(folder.path / "file").write_text("x")
print(folder.path, flush=True)
sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def in_a_new_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(temporary, "_swept", set())


def grown_old(folder: Path) -> None:
    os.utime(folder / MARK, (0, 0))


def test_a_folder_is_there_for_a_block() -> None:
    with own_folder("x-") as path:
        (path / "file").write_text("x")
        assert path.name.startswith("dynamo-x-")
    assert not path.exists()


def test_closing_twice_closes_nothing_else(tmp_path: Path) -> None:
    folder = OwnFolder()
    folder.close()
    with (tmp_path / "other").open("w") as other:
        folder.close()
        other.write("x")


@pytest.mark.parametrize("is_old", [True, False])
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path, is_old: bool) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[1])}
    process = subprocess.Popen([sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    left = Path(process.stdout.readline().strip())
    grown_old(left)
    with own_folder():
        assert (left / "file").exists(), "its process lives"
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    if not is_old:
        os.utime(left / MARK)
    temporary._swept.clear()
    with own_folder() as path:
        assert sorted(tmp_path.iterdir()) == sorted([path] if is_old else [path, left])


OTHERS: dict[str, Callable[[Path], object]] = {
    "no mark": lambda folder: (folder / "mine").write_text("x"),
    "a link": lambda folder: (folder / MARK).symlink_to("/dev/zero"),
    "a pipe": lambda folder: os.mkfifo(folder / MARK),
    "a folder": lambda folder: (folder / MARK).mkdir(),
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=list(OTHERS))
def test_what_is_not_ours_stays(tmp_path: Path, make: Callable[[Path], object]) -> None:
    folder = tmp_path / "dynamo-debug-notes"
    folder.mkdir()
    make(folder)
    (tmp_path / "dynamo-debug-link").symlink_to(folder)
    with own_folder():
        assert folder.exists()
        assert len(list(folder.iterdir())) == 1


def test_a_link_to_a_folder_that_is_left_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / MARK).write_text("")
    grown_old(elsewhere)
    (tmp_path / "dynamo-debug-link").symlink_to(elsewhere)
    with own_folder():
        assert (elsewhere / MARK).exists()
