"""The order in which `minify` looks for what fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dynamo import config
from minifier import minify as front
from minifier.engine import Kind, Outcome, Signature, Verdict
from minifier.graph.ir import Graph
from minifier.graph.oracle import Setting
from minifier.ladder import Ended, Found, Patience
from minifier.recordings import Recorded

ONE = Recorded(0, "inductor", False, Graph((), (), ()), name="0/0")


@dataclass
class Rungs:
    """A ladder whose graph works in the first `works` tries, and later has wrong numbers if `is_wrong`."""

    works: int
    is_wrong: bool = False
    problems: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    seconds: float = 0.0
    tried: int = 0

    def first_failure(self, graphs: Any, after: str, tries: int = 12) -> Found | None:
        while self.tried < tries:
            self.tried += 1
            if self.tried > self.works:
                return Found("backend", ONE, Setting(), Outcome(Verdict.INTERESTING, Signature(Kind.EXCEPTION)))
        return None

    def compare_numbers(self) -> None:
        self.tried, self.works = 0, 0 if self.is_wrong else self.works

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "works, is_wrong, code, stage",
    [
        (0, False, 1, "backend"),
        (1, False, 1, "backend"),
        (1, False, 0, "backend"),
        (99, False, 1, "script"),
        (99, False, 0, ""),
        (99, True, 1, "backend"),
        (99, True, -11, "script"),
        (99, True, 0, ""),
    ],
)
def test_a_graph_that_works_at_first_is_tried_again_before_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, works: int, is_wrong: bool, code: int, stage: str
) -> None:
    (tmp_path / "script.py").write_text("")
    asked: list[str] = []

    def compiled(script: str, args: Any, engine: str, backend: str, *limits: Any) -> Ended:
        asked.append(backend)
        return Ended(0 if backend else code)

    monkeypatch.setattr(front, "run_compiled", compiled)
    monkeypatch.setattr(front, "_reduced_graph", lambda wish, found, *more: front.Report("reproduced", found.stage))
    monkeypatch.setattr(front, "_script_under", lambda wish, stage, *more: front.Report("reproduced", stage))
    patience = Patience(9.0, "script.py", (), "dynamo", lambda line: None, _eager=Ended(0))
    wish = front.Wish(str(tmp_path / "script.py"), folder=tmp_path)
    report = front._graph_failure(wish, "dynamo", [ONE], Rungs(works, is_wrong), patience, lambda event: None)  # type: ignore[arg-type]  # as far as it is asked

    assert report.stage == stage
    assert bool(asked) == (works > 0)


def test_a_script_that_ends_so_in_eager_too_is_not_run_more_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded, and without a compiler: that says what its exit code means. The graphs of one that ends with 0 are asked for as often."""
    script = tmp_path / "script.py"
    script.write_text("""
import os, sys, torch
with open(os.path.join(os.path.dirname(__file__), "runs"), "a") as f:
    f.write(os.environ.get("DYNAMO_DISABLE", "0"))
torch.compile(lambda x: torch.tanh(x) + 1)(torch.ones(3))
sys.exit(3)
""")
    wish = front.Wish(str(script), folder=tmp_path / "out", plan=front.Plan(tmp_path / "out", 1))
    said: list[str] = []
    with config.patch(repro_after=""):  # stays as `minify` sets it
        report = front.minify(wish, said.append, lambda event: None)

    assert report.status == front.NOTHING
    assert (tmp_path / "runs").read_text() == "01"
    assert said == ["1 graph recorded", "the script ends with 3 without a compiler too; its graphs are looked at, each alone"]


@pytest.mark.parametrize(
    "after, accuracy, fails, status",
    [
        ("auto", False, True, "reproduced"),
        ("auto", True, True, "reproduced"),
        ("auto", False, False, "nothing fails"),
        ("auto", True, False, "not looked at"),
        ("dynamo", False, True, "not looked at"),
    ],
)
def test_what_cannot_be_written_down_as_captured_is_looked_at_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str, accuracy: bool, fails: bool, status: str
) -> None:
    (tmp_path / "script.py").write_text("")

    def deeper(wish: Any, captured: list[Recorded], *more: Any) -> tuple[front.Report | None, tuple[str, ...]]:
        assert [c.name for c in captured] == ["0/0"]
        return front.Report("reproduced") if fails else None, ("graph 0/0.fw: it has a region",)

    monkeypatch.setattr(front, "_deeper", deeper)
    monkeypatch.setattr(front, "run_compiled", lambda *given: Ended(0))
    patience = Patience(9.0, "script.py", (), "dynamo", lambda line: None, _eager=Ended(0))
    wish = front.Wish(str(tmp_path / "script.py"), after=after, accuracy=accuracy, folder=tmp_path)
    unread = Recorded(0, "inductor", False, None, "it has a region", "0/0")
    report = front._graph_failure(wish, "dynamo", [unread], Rungs(99), patience, lambda event: None)  # type: ignore[arg-type]  # as far as it is asked

    assert report.status == status
    assert len(report.problems) == 1
