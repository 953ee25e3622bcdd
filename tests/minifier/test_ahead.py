"""What is made ready before it is known to be needed: processes for graphs, and headers that torch's compiler has compiled before."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from minifier import ahead, doors
from minifier.graph import warming
from minifier.graph.oracle import Setting
from minifier.isolation import Limits, LocalTransport, OracleSpec
from minifier.isolation.lent import lend
from minifier.ladder.probe import spec_for
from minifier.programs import program

HEADERS = "torchinductor_me/precompiled_headers"


def test_processes_are_started_before_torch_is_loaded() -> None:
    check = "import sys, tui.commands.minify, minifier.ahead; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}).returncode == 0


def test_processes_that_are_started_early_are_those_of_the_ladder() -> None:
    early = {"backend": "aot_eager", "after": "aot", "accuracy": True, "engine": "torch"}
    setting = Setting("aot_eager", "aot", True, engine="torch")

    assert Setting.from_json(early) == setting
    assert warming.spec(warming.OF_MANY, early).environment.keys() == spec_for(setting).environment.keys()


@pytest.mark.parametrize("text, after, starts", [("", "auto", True), ("", "capture", False), ("compile(f, backend=b)", "auto", False)])
def test_nothing_is_started_that_may_not_be_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, after: str, starts: bool
) -> None:
    monkeypatch.setattr(doors, "close", lambda: None)  # which is for good
    (tmp_path / "script.py").write_text(text)
    made = ahead.started(program(str(tmp_path / "script.py"), []), after, "dynamo", "", False, tmp_path, 1, Limits())

    assert (made is not None) == starts
    if made is not None:
        made.close()


def test_headers_are_found_and_cannot_be_changed(tmp_path: Path) -> None:
    home, target = tmp_path / "home", tmp_path / "target"
    (home / HEADERS / "locks").mkdir(parents=True)
    for name in ("a.h", "a.h.gch"):
        (home / HEADERS / name).write_text(name)

    assert lend(home, target)
    assert lend(home, target)
    assert [(target / HEADERS / name).read_text() for name in ("a.h", "a.h.gch")] == ["a.h", "a.h.gch"]
    (target / HEADERS / "a.h").unlink()
    assert (home / HEADERS / "a.h").read_text() == "a.h"
    assert not lend(tmp_path / "nothing", target)


@pytest.mark.parametrize("lends", [False, True])
def test_only_what_asks_torchs_compiler_gets_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lends: bool) -> None:
    (tmp_path / HEADERS).mkdir(parents=True)
    (tmp_path / HEADERS / "a.h").write_text("")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    LocalTransport(OracleSpec("tests.minifier.oracles:behave", lends=lends), tmp_path / "work").close()

    assert (tmp_path / "work" / "tmp" / HEADERS / "a.h").exists() == lends
