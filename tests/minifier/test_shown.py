"""Scripts that fail beside what a warmed process has loaded, and not in a new interpreter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minifier.engine import Candidate, Kind, Outcome, Signature, Verdict
from minifier.engine.transport import FunctionTransport
from minifier.scripts.setting import ScriptSetting
from minifier.scripts.shown import Shown
from tests.cli.command import run, write

ERROR = Outcome(Verdict.INTERESTING, Signature(Kind.EXCEPTION, ("ValueError",), "no"))
RAISES = "raise ValueError('no')"


@pytest.mark.parametrize(
    "text, said, verdict, detail",
    [
        (RAISES, ERROR, Verdict.INTERESTING, ""),
        ("", ERROR, Verdict.BORING, "in a new interpreter: exit code 0"),
        ("raise KeyError('no')", ERROR, Verdict.BORING, "in a new interpreter: exit code 4: KeyError: 'no'"),
        (RAISES, Outcome(Verdict.INVALID), Verdict.INVALID, ""),
    ],
)
def test_a_failure_counts_if_its_repro_shows_it(tmp_path: Path, text: str, said: Outcome, verdict: Verdict, detail: str) -> None:
    shown = Shown(FunctionTransport(lambda payload: said, 2), ScriptSetting("script.py", str(tmp_path)), tmp_path / "shown")
    try:
        outcome = shown.submit(Candidate("key", text.encode())).result()
    finally:
        shown.close()

    assert (outcome.verdict, outcome.detail) == (verdict, detail)
    assert not list((tmp_path / "shown").iterdir())


LOADS = """
import sys

import inductor.backend
import torch

compiler = sys.modules["inductor.backend"].torch.compiler
f = torch.compile(lambda x: x + 2 if compiler.is_compiling() else x + 1)
assert f(torch.zeros(2)).sum() == 2
"""


@pytest.mark.slow
def test_an_import_that_the_warmed_process_has_made_stays(tmp_path: Path) -> None:
    write(tmp_path, LOADS)
    done = run("minify", "script.py", "--json", "-o", "out", cwd=tmp_path, timeout=600)

    assert json.loads(done.stdout)["status"] == "reproduced"
    assert "works in a new interpreter" in done.stderr
    assert "import inductor.backend" in (tmp_path / "out" / "repro.py").read_text()
