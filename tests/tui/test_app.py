"""The app driven by keys, at the sizes it must work at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.color import Color
from textual.pilot import Pilot

from dynamo.trace import events as ev
from tests.trace.sample import graph, run_events, write_script
from tests.tui.pilot import FakeClient, drive, screen_text, sent, settle
from tui.app import Explorer
from tui.client import Ended, Output, Problem
from tui.screens.explorer import PANES
from tui.views.page import Page
from tui.views.verdict import lines, verdict
from tui.widgets.row_pane import RowPane

SIZES = [(60, 20), (80, 24), (120, 40), (200, 60)]


def visible(app: Explorer) -> list[str]:
    return [name for name in PANES if app.explorer.pane(name).region.area > 0]


@pytest.mark.parametrize(
    "size, panes",
    [
        ((60, 20), ["tree"]),
        ((80, 24), ["tree", "source", "graph"]),
        ((120, 40), list(PANES)),
        ((200, 60), list(PANES)),
    ],
)
def test_what_each_size_shows(tmp_path: Path, size: tuple[int, int], panes: list[str]) -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        assert visible(app) == panes
        text = screen_text(app)
        assert "✗ break  bar.py" in text
        assert "3 graphs, 7 ops, 1 break" in text
        assert all(len(line) <= size[0] for line in text.splitlines())

    drive(sent(run_events(write_script(tmp_path))), steps, size)


@pytest.mark.parametrize("size", SIZES)
def test_every_pane_can_be_reached_and_seen(tmp_path: Path, size: tuple[int, int]) -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        for name in (*PANES[1:], PANES[0]):
            await pilot.press("tab")
            await pilot.pause()
            assert app.focused is app.explorer.pane(name)
            assert name in visible(app)
            assert app.explorer.pane(name).region.height > 3
        await pilot.press("shift+tab")
        assert app.focused is app.explorer.pane("breaks")
        await pilot.press("4")
        assert app.focused is app.explorer.pane("guards")

    drive(sent(run_events(write_script(tmp_path))), steps, size)


def test_moving_in_the_source_marks_the_other_panes(tmp_path: Path) -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("2", *["j"] * 5)
        await pilot.pause()
        explorer = app.explorer
        assert explorer.pane("source").cursor == 5
        assert explorer.pane("graph").marks == set()
        assert explorer.pane("guards").marks == {2}
        assert {0, 1} <= explorer.pane("breaks").marks
        await pilot.press("j")
        await pilot.pause()
        assert [explorer.pane("graph").rows[i].key for i in sorted(explorer.pane("graph").marks)] == ["1/0 x", "1/0 mul0", "1/0 output"]
        assert explorer.pane("guards").marks == set()

    drive(sent(run_events(write_script(tmp_path))), steps, (120, 40))


@pytest.mark.parametrize("pane, row, line", [("graph", 2, 5), ("guards", 2, 6), ("breaks", 0, 6)])
def test_moving_elsewhere_marks_the_source(tmp_path: Path, pane: str, row: int, line: int) -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        app.explorer.action_pane(pane)
        await pilot.press("end", *["k"] * 30, *["j"] * row)
        await pilot.pause()
        assert app.explorer.pane(pane).cursor == row
        assert app.explorer.pane("source").marks == {line - 1}
        assert "•" in screen_text(app)

    drive(sent(run_events(write_script(tmp_path))), steps, (120, 40))


def test_a_mark_in_another_file_opens_that_file(tmp_path: Path) -> None:
    file = write_script(tmp_path)
    other = tmp_path / "other.py"
    other.write_text("a = 1\nb = 2\n")
    extra = [ev.GuardInstalled("0/0", 9, "G['b']", "int 2", str(other), 2, t=0.3)]

    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("4", "G")
        await pilot.pause()
        source = app.explorer.pane("source")
        assert source.border_title == "2 source other.py"
        assert source.marks == {1}

    events = run_events(file)
    drive(sent([*events[:7], *extra, *events[7:12]]), steps, (120, 40))


def test_the_tree_chooses_what_is_shown(tmp_path: Path) -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        explorer = app.explorer
        await pilot.press("G")
        await pilot.pause()
        assert [r.text for r in explorer.pane("graph").rows if r.look == "title"] == ["graph 1/0  1 op  capture"]
        assert explorer.pane("source").marks == {6}
        await pilot.press("g", "enter")
        await pilot.pause()
        assert len(explorer.pane("tree").rows) == 1
        await pilot.press("enter")
        await pilot.pause()
        assert len(explorer.pane("tree").rows) == 9

    drive(sent(run_events(write_script(tmp_path))), steps)


def test_search(tmp_path: Path) -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("3", "slash", *"mul", "enter")
        await pilot.pause()
        pane = app.explorer.pane("graph")
        assert app.focused is pane
        assert "/mul: 1/10 in graph" in screen_text(app)
        first = pane.cursor
        await pilot.press("n")
        assert pane.cursor > first
        assert "/mul: 2/10 in graph" in screen_text(app)
        await pilot.press("N", "N")
        assert pane.cursor == pane.matches[-1]
        await pilot.press("escape")
        await pilot.pause()
        assert pane.matches == []
        assert "/mul" not in screen_text(app)
        await pilot.press("slash", "x", "escape")
        await pilot.pause()
        assert app.focused is pane

    drive(sent(run_events(write_script(tmp_path))), steps, (120, 40))


def test_a_search_goes_on_in_the_next_pane(tmp_path: Path) -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("1", "slash", *"sum", "enter")
        await pilot.pause()
        explorer, seen = app.explorer, []
        for _ in range(sum(len(p.matches) for p in explorer.panes)):
            seen.append((explorer.active_pane.id, explorer.active_pane.cursor))
            await pilot.press("n")
            await pilot.pause()
        assert seen == [(p.id, i) for p in explorer.panes for i in p.matches]
        assert len({name for name, _ in seen}) > 1
        assert (explorer.active_pane.id, explorer.active_pane.cursor) == seen[0]
        assert "in all panes" in screen_text(app)
        await pilot.press("slash", *"nowhere to be found", "enter")
        await pilot.pause()
        assert "/nowhere to be found: not found" in screen_text(app)

    drive(sent(run_events(write_script(tmp_path))), steps, (120, 40))


def _luminance(c: Color) -> float:
    parts = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in c.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("theme", ["textual-dark", "textual-light"])
def test_the_row_under_the_cursor_can_be_read(tmp_path: Path, theme: str) -> None:
    """A contrast of 4.5, as WCAG asks of text, for rows of every look; and only one pane has a bar."""

    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        app.theme = theme
        looks = set()
        for pane in app.explorer.panes:
            app.explorer.action_pane(str(pane.id))
            for index, row in enumerate(pane.rows):
                pane.cursor = index
                await pilot.pause()
                looks.add(row.look)
                line = pane.render_line(index - pane.scroll_offset.y)
                style = line._segments[-1].style
                light, dark = sorted((_luminance(Color.from_rich_color(c)) for c in (style.color, style.bgcolor)), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (pane.id, row)
                for other in app.explorer.panes:
                    if other is not pane and other.rows:
                        at_rest = other.render_line(other.cursor - other.scroll_offset.y)
                        assert style.bgcolor not in {s.style.bgcolor for s in at_rest._segments}
        assert {"break", "recompile", "dim", "title", "plain"} <= looks

    drive(sent(run_events(write_script(tmp_path))), steps, (120, 40))


def test_a_marked_row_has_rows_around_it(tmp_path: Path) -> None:
    long = write_script(tmp_path)
    body = "\n".join(f"x{i} = {i}" for i in range(200)) + "\n"
    other = tmp_path / "long.py"
    other.write_text(body)
    extra = [ev.GuardInstalled("0/0", 9, "G['b']", "int 2", str(other), 150, t=0.3)]

    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("4", "G")
        await pilot.pause()
        source = app.explorer.pane("source")
        top, height = source.scroll_offset.y, source.scrollable_content_region.height
        assert source.marks == {149}
        assert top + 2 <= 149 < top + height - 2

    events = run_events(long)
    drive(sent([*events[:7], *extra, *events[7:12]]), steps, (120, 40))


def test_source_has_the_colours_of_its_language(tmp_path: Path) -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        rows = app.explorer.pane("source").rows
        assert {row.text[start:end] for row in rows for start, end, _ in row.spans} >= {"def", "return"}

    drive(sent(run_events(write_script(tmp_path))), steps, (120, 40))


def test_output_grows_while_it_is_looked_at(tmp_path: Path) -> None:
    client = FakeClient(*run_events(write_script(tmp_path))[:11], Output("first\n"))

    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("o")
        await pilot.pause()
        client.send(Output("".join(f"line {i}\n" for i in range(100))))
        await settle(app, pilot)
        assert "line 99" in screen_text(app)
        await pilot.press("g")
        client.send(Output("last\n"))
        await settle(app, pilot)
        assert "first" in screen_text(app)

    drive(client, steps)


def test_the_verdict_is_that_of_explain(tmp_path: Path) -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("v")
        await pilot.pause()
        pane = app.screen.query_one("#verdict", RowPane)
        page = Page(pane.scrollable_content_region.width - 2)
        assert [row.text for row in pane.rows] == lines(verdict(app.model), page, pane.scrollable_content_region.height)
        assert any(row.spans for row in pane.rows)
        await pilot.press("escape")
        await pilot.pause()
        assert app.screen is app.explorer

    drive(sent(run_events(write_script(tmp_path))), steps, (120, 40))


def test_a_record_without_an_end_is_cut_off(tmp_path: Path) -> None:
    client = FakeClient(*run_events(write_script(tmp_path))[:11], Problem("cut off after 11 events"), is_live=False)

    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        assert "cut off: cut off after 11 events" in screen_text(app)
        assert "running" not in screen_text(app)

    drive(client, steps, (120, 40))


def test_recompiles_are_listed(tmp_path: Path) -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        rows = app.explorer.pane("breaks").rows
        (found,) = [row for row in rows if row.look == "recompile"]
        assert found.places

    drive(sent(run_events(write_script(tmp_path))), steps, (120, 40))


@pytest.mark.parametrize("size", SIZES)
def test_help_output_and_zoom(tmp_path: Path, size: tuple[int, int]) -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("question_mark")
        await pilot.pause()
        assert "tree: what was compiled" in screen_text(app)
        await pilot.press("j", "escape")
        await pilot.pause()
        assert app.screen is app.explorer
        await pilot.press("o")
        await pilot.pause()
        assert "hello from the script" in screen_text(app)
        await pilot.press("escape", "5", "z")
        await pilot.pause()
        assert visible(app) == ["breaks"]
        await pilot.press("escape")
        await pilot.pause()
        assert size[0] < 72 or len(visible(app)) > 1

    drive(FakeClient(*run_events(write_script(tmp_path)), Output("hello from the script\n")), steps, size)


def test_a_live_run_grows_under_the_cursor(tmp_path: Path) -> None:
    file = write_script(tmp_path)
    events = run_events(file)
    client = FakeClient()

    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        assert "waiting for the first graph" in screen_text(app)
        assert "… running" in screen_text(app)
        client.send(*events[:11])
        await settle(app, pilot)
        await pilot.press("j", "j")
        key = app.explorer.item.key
        assert key == "compile 0/0"
        client.send(*events[11:], Ended(0))
        await settle(app, pilot)
        assert app.explorer.item.key == key
        assert len(app.explorer.pane("tree").rows) == 9
        assert "exit 0" in screen_text(app)

    app = drive(client, steps)
    assert client.stopped
    assert app.model.exit == 0


def test_a_script_that_dies_and_a_damaged_record_say_so(tmp_path: Path) -> None:
    client = FakeClient(
        *run_events(write_script(tmp_path), finished=False), Problem("event 9 of the run: cut off"), Ended(137, "killed by SIGKILL")
    )

    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        text = screen_text(app)
        assert "! error" in text
        assert "exit 137 killed by SIGKILL" in text
        assert "? event 9 of the run: cut off" in text

    drive(client, steps, (200, 60))


def test_an_empty_run_says_what_to_do() -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        assert "nothing was compiled" in screen_text(app)
        await pilot.press("j", "G", "k", "n", "enter", "tab", "j", "enter", "tab", "tab", "end", "home", "l", "h", "pagedown", "pageup")

    drive(FakeClient(ev.RunStarted(("s.py",), "/", {}), ev.RunEnded(0)), steps)


def test_resizing_over_all_sizes(tmp_path: Path) -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        for size in [*SIZES, (20, 6), (10, 3), (300, 100), *reversed(SIZES)]:
            await pilot.resize_terminal(*size)
            await pilot.pause()
            await pilot.press("tab")
        assert app.focused is not None

    drive(sent(run_events(write_script(tmp_path))), steps)


def test_a_click_moves_the_cursor(tmp_path: Path) -> None:
    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.click("#tree", offset=(5, 3))
        assert app.explorer.pane("tree").cursor == 2

    drive(sent(run_events(write_script(tmp_path))), steps)


def test_without_colour_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("2", *["j"] * 5)
        await pilot.pause()
        strips = app.screen._compositor.render_strips()
        colours = {s.style.color for strip in strips for s in strip if s.style and s.style.color and s.style.color.triplet}
        rgb = [Color.from_rich_color(c) for c in colours]
        assert all(max(c.r, c.g, c.b) - min(c.r, c.g, c.b) <= 3 for c in rgb)
        text = screen_text(app)
        assert "▶" in text
        assert "•" in text
        assert "✗ break" in text

    drive(sent(run_events(write_script(tmp_path))), steps, (120, 40))


def test_large_graphs_stay_quick() -> None:
    many = [graph("0/0", "f.py", 1, ops=50_000)]

    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("3", "G", "k", "pageup", "g")
        await pilot.press("slash", *"mul49999", "enter")
        await pilot.pause()
        assert app.explorer.pane("graph").cursor == 50_001

    drive(sent([*many, ev.RunEnded(0)]), steps)


def test_q_quits(tmp_path: Path) -> None:
    client = sent(run_events(write_script(tmp_path)))

    async def steps(app: Explorer, pilot: Pilot[Any]) -> None:
        await pilot.press("q")
        await pilot.pause()

    app = drive(client, steps)
    assert client.stopped
    assert not app.return_code
