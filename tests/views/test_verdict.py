"""The first screen: what it says, and that it is one."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dynamo.trace import events as ev
from dynamo.trace.model import Run
from tests.views import runs
from tui.views.page import HEIGHT, WIDTH, Page, plain
from tui.views.verdict import Slowest, lines, verdict

GOLDEN = Path(__file__).parent / "golden"
RUNS: dict[str, Callable[[], Run]] = {
    "recompiling": runs.recompiling,
    "breaking": runs.breaking,
    "failing": runs.failing,
    "large": runs.large,
    "layered": runs.layered,
    "nothing": lambda: Run([*runs.begun(), ev.RunEnded(0, t=1.0)]),
}


def screen(run: Run, page: Page | None = None) -> list[str]:
    return lines(verdict(run, "train.py"), page or Page())


@pytest.mark.parametrize("name", RUNS)
def test_the_screen_is_the_golden_one(name: str) -> None:
    found = "\n".join(screen(RUNS[name]())) + "\n"
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("ACCEPT_GOLDEN"):
        golden.write_text(found, encoding="utf-8")

    assert found == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [60, WIDTH, 160])
@pytest.mark.parametrize("name", RUNS)
def test_it_is_one_screen_of_any_width(name: str, width: int) -> None:
    found = screen(RUNS[name](), Page(width))

    assert len(found) <= HEIGHT
    assert max(len(line) for line in found) <= width


@pytest.mark.parametrize("name", RUNS)
def test_colours_change_nothing_but_colours(name: str) -> None:
    painted = screen(RUNS[name](), Page(colour=True))

    assert [plain(line) for line in painted] == screen(RUNS[name]())
    assert any("\x1b[" in line for line in painted)


@pytest.mark.parametrize(
    "name, headline",
    [
        ("recompiling", "scale reached its recompile limit of 8 because k changes: it now runs in eager"),
        ("breaking", "graph breaks at 2 lines, most at train.py:12: output to the terminal or a log: print"),
        ("failing", "the compiler itself failed: RuntimeError: no kernel for aten.foo at find.py:12"),
        ("layered", "compiled whole: 1 function, 1 graph, no breaks, no recompiles"),
        ("nothing", "nothing was compiled"),
    ],
)
def test_the_headline_is_the_worst(name: str, headline: str) -> None:
    assert verdict(RUNS[name]()).headline == headline


def test_a_cause_is_said_to_have_caused_its_own_compiles_only() -> None:
    again = runs.compiled("0/2", "scale", 5, 3.0)  # by another `torch.compile` of the function
    run = runs.recompiling(range(2))
    before = verdict(run).headline
    for event in again:
        run.add(event)

    assert before == "scale is compiled 2 times because k changes"
    assert verdict(run).headline == "scale is compiled 3 times, 1 of them because k changes"


def test_a_step_of_torchs_own_modules_has_no_lines() -> None:
    found = replace(verdict(runs.layered()), slowest=Slowest("build", 0.1, 0.5, "k0", "0/0.fw", 64, ()))

    assert "  largest step k0 of graph 0/0.fw: 64 B read and written" in lines(found, Page(100))


def test_every_failure_has_its_exception_and_line() -> None:
    found = {(f.kind, f.error, f.at, f.count) for f in verdict(runs.failing()).failures}

    assert found == {
        ("compiler", "RuntimeError: no kernel for aten.foo", "find.py:12", 2),
        ("script", "ValueError: bad shape", "train.py:11", 1),
        ("compile", "the compile failed", "train.py:5", 1),
    }


@pytest.mark.parametrize("reason, is_one", [("DD007", False), ("DD024", True), ("", True)])
def test_what_follows_from_a_break_is_no_failure(reason: str, is_one: bool) -> None:
    """A loop that a break cut through ends the next graph too: at an iterator that was there before."""
    ended = ev.CompileEnded("1/0", "break", "range_iterator L['___stack0']", reason, runs.FILE, 11, t=3.5)
    run = Run([*runs.begun(), ev.CompileStarted("1/0", "f", runs.FILE, 10, t=3.0), ended, ev.RunEnded(0, t=4.0)])

    assert bool(verdict(run).failures) is is_one


def test_what_ran_in_eager_since_the_compiler_failed_is_no_success() -> None:
    failed = ev.InternalError("DD095", "ValueError", "no relu", "mine.py:5 run", "the compiled graph of f (/home/mine.py:8)", "0/0", t=2.0)
    run = Run([*runs.begun(), *runs.compiled("0/0", "f", 8, 1.0, "ok"), failed, ev.RunEnded(0, t=4.0)])

    assert [c.status for c in verdict(run).compiled] == ["error"]
    assert any(line.endswith("eager ran: the compiled graph of f (mine.py:8), raised at mine.py:5") for line in screen(run))


def test_commands_to_paste_name_what_was_explained() -> None:
    steps = [s.command for s in verdict(runs.breaking(), "train.py --epochs 1").next]

    assert steps[:2] == ["dynamo-debug breaks train.py --epochs 1", "dynamo-debug explain --code DD004"]


def test_a_run_without_an_end_is_running_or_cut_off() -> None:
    live, stored = Run(runs.begun()), Run(runs.begun())
    stored.live = False
    stored.problems.append("cut off after 2 events")

    assert (verdict(live).state, verdict(stored).state) == ("running", "cut off")
