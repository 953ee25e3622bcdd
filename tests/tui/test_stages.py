"""The screen of what the stages made: its rows, and the screen driven by keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from dynamo.trace import events as ev
from dynamo.trace.model import Run, items
from dynamo.trace.readable import readable
from tests.trace.test_artefacts import EVENTS, FILE, IR
from tests.tui.pilot import FakeClient, drive, screen_text, sent, settle
from tui import artefact_rows, highlight
from tui.app import Explorer
from tui.screens.stages import StagesScreen

SOURCE = "import torch\n\ndef f(x):\n    y = x.relu()\n    return y\n"
TITLES = [
    "capture    0/0  captured graph",
    "guards     0/0  guards",
    "codegen    0/0  entry function",
    "partition  0/0.bw  backward graph",
    "lower      0/0.bw  loop IR before fusion",
    "lower      0/0.bw  how operators are lowered",
    "kernels    0/0.bw  C kernels",
    "decisions  0/0  2 decisions",
]


def run_of(*more: ev.Event) -> Run:
    return Run([*EVENTS, ev.SourceRead(FILE, SOURCE, t=0.0), *more])


def stages_of(app: Explorer) -> StagesScreen:
    assert isinstance(app.screen, StagesScreen)
    return app.screen


def test_rows() -> None:
    run = run_of()
    found = artefact_rows.choices(run, items(run)[0])
    decisions = artefact_rows.artefact_rows(run, found[-1])
    code = artefact_rows.artefact_rows(run, found[-2])

    assert [row.text for row in artefact_rows.list_rows(found)] == TITLES
    assert [row.look for row in decisions] == ["break", "plain"]
    assert decisions[0].text.endswith("n1 + n2: no common outer loops")
    assert code[4].text == "    for (;;) {"
    assert code[4].places == {(FILE, 4)}
    assert artefact_rows.list_rows([])[0].text == "nothing was recorded here yet"


@pytest.mark.parametrize(
    "text, language, coloured",
    [
        ("int x = 3;  /* three */\n\nfor (;;)", "c", ["int", "3", "/* three */"]),
        ("def f(): return 'a'", "python", ["def", "return"]),
        (IR, "ir", ["in", "f32"]),
        ("gcc -O3", "text", []),
    ],
)
def test_colours(text: str, language: str, coloured: list[str]) -> None:
    lines = text.split("\n")
    found = highlight.spans(text, language)
    parts = [lines[0][start:end] for start, end, _ in found[0]]

    assert len(found) == len(lines)
    assert [part for part in coloured if part not in parts] == []
    assert all(start < end <= len(line) for line, row in zip(lines, found, strict=True) for start, end, _ in row)


def test_a_text_that_is_too_long_to_colour_is_shown_plain() -> None:
    assert set(highlight.spans("int x;\n" * 100_000, "c")) == {()}


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 40)])
def test_graphs_ir_code_and_decisions_are_reached_by_keys(size: tuple[int, int]) -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("s")
        await pilot.pause()
        screen = stages_of(app)
        shown = {}
        for title in TITLES:
            await pilot.press("enter")
            await pilot.pause()
            assert app.focused is screen.pane("text")
            shown[title] = screen_text(app)
            await pilot.press("shift+tab", "j")
            await pilot.pause()
        assert "aten.relu.default(x)" in shown[TITLES[3]]
        assert "nest n1 (i0:4)" in shown[TITLES[4]]
        assert "/* model.py:4 relu (backward) */" in shown[TITLES[6]]
        assert "refused" in shown[TITLES[7]]
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.explorer

    drive(sent([*run_of_events()]), steps, size)


def run_of_events() -> list[ev.Event]:
    return [*EVENTS, ev.SourceRead(FILE, SOURCE, t=0.0), ev.RunEnded(0, t=1.0)]


def test_moving_in_the_code_marks_the_source_and_back() -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("s", *["j"] * 6, "enter", "g", *["j"] * 4)
        await pilot.pause()
        screen = stages_of(app)
        assert screen.chosen is not None
        assert screen.chosen.title == "C kernels"
        assert screen.pane("source").marks == {3}
        await pilot.press("tab", "g", "j", "j", "j")
        await pilot.pause()
        assert screen.pane("text").marks == {3, 4, 5}

    drive(sent(run_of_events()), steps, (120, 40))


def test_generated_code_begins_where_it_is_about_the_program() -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("s", *["j"] * 6)
        await pilot.pause()
        text = stages_of(app).pane("text")
        assert text.border_title.startswith("C kernels")
        assert text.cursor > 0
        assert text.row.places
        assert not any(row.places for row in text.rows[: text.cursor])

    drive(sent(run_of_events()), steps, (120, 40))


def test_search_zoom_and_help() -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("s", "j", "j", "j", "tab", "slash", *"relu", "enter")
        await pilot.pause()
        screen = stages_of(app)
        assert "/relu: 1/3 in text" in screen_text(app)
        await pilot.press("n", "z")
        await pilot.pause()
        assert [name for name in StagesScreen.NAMES if screen.pane(name).region.area] == ["text"]
        await pilot.press("question_mark")
        await pilot.pause()
        assert "text: one text of a stage" in screen_text(app)
        await pilot.press("escape", "escape", "escape")
        await pilot.pause()
        assert app.screen is screen
        assert [name for name in StagesScreen.NAMES if screen.pane(name).region.area] == list(StagesScreen.NAMES)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.explorer

    drive(sent(run_of_events()), steps, (120, 40))


def test_it_grows_while_a_run_is_live() -> None:
    client = FakeClient()

    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("s")
        await pilot.pause()
        assert "nothing was recorded here yet" in screen_text(app)
        client.send(*run_of_events())
        await settle(app, pilot)
        assert [row.text for row in stages_of(app).pane("artefacts").rows] == TITLES
        assert "def forward(self, x)" in screen_text(app)
        await pilot.press("q")
        await pilot.pause()

    drive(client, steps, (120, 40))
    assert client.stopped


def test_the_graph_under_the_cursor_is_chosen() -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("G", "s")
        await pilot.pause()
        chosen = stages_of(app).chosen
        assert chosen is not None
        assert (chosen.title, chosen.graph_id) == ("backward graph", "0/0.bw")

    drive(sent(run_of_events()), steps, (120, 40))


def test_a_long_text_stays_quick(tmp_path: Path) -> None:
    op = "aten.neg.default"
    nodes = tuple(ev.GraphNode(f"n{i}", "call_function", op, f"n{i} = {op}(x)", "", FILE, i) for i in range(20_000))
    many = ev.GraphCaptured("0/0.bw", "0/0", "partition", 20_000, readable(nodes, lambda place: ""), nodes, t=0.1)

    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("s", "tab", "G", "k", "pageup", "g", "slash", *"n19999", "enter")
        await pilot.pause()
        assert "/n19999: 1/1 in text" in screen_text(app)

    drive(sent([many, ev.RunEnded(0, t=1.0)]), steps)
