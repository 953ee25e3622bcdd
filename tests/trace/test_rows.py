"""No event is forgotten: every type is in every table, or its row says why it is not."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Iterator

import pytest

from dynamo.trace import artefacts, codec, quick, report
from dynamo.trace import events as ev
from dynamo.trace.logs import LOGS as LOG_ROWS
from dynamo.trace.model import Item, Run, items
from dynamo.trace.rows import JSON, LINES, LOGS, ROWS, VIEWS, lines_of
from dynamo.trace.stages import STAGES
from tui import artefact_rows, rows
from tui.views import report as reports
from tui.views.page import Page
from tui.views.table import VIEWS as VIEWS_OF_A_RUN
from tui.views.verdict import verdict
from tui.widgets.status_line import status_text

FILE = "program.py"
BEFORE = [
    ev.RunStarted((FILE,), "/", {}, t=0.0),
    ev.SourceRead(FILE, "first line", t=0.0),
    ev.CompileStarted("0/0", "f", FILE, 1, t=0.1),
]
# What a field must hold for the event to mean something; the others get any value of their type.
VALUES = {"compile_id": "0/0", "graph_id": "0/0", "stage": "schedule", "file": FILE, "line": 1, "code": "code", "outcome": "ok", "exit": 1}
OTHERS: dict[type[ev.Event], dict[str, object]] = {
    ev.CacheLooked: {"outcome": "hit"},
    ev.CompileStarted: {"compile_id": "1/0"},
    ev.CompileEnded: {"outcome": "error"},
    ev.SourceRead: {"text": "another line"},
}


def sample(cls: type[typing.Any], **more: object) -> typing.Any:
    hints = typing.get_type_hints(cls)
    values = {f.name: VALUES.get(f.name, value_of(hints[f.name])) for f in dataclasses.fields(cls)}
    if "t" in values:
        values["t"] = 0.5
    return cls(**{**values, **OTHERS.get(cls, {}), **more})


def value_of(hint: typing.Any) -> object:
    if typing.get_origin(hint) is tuple:
        return (value_of(typing.get_args(hint)[0]),)
    if typing.get_origin(hint) is dict:
        return {"key": "value"}
    if dataclasses.is_dataclass(hint):
        return node() if hint is ev.GraphNode else sample(typing.cast(typing.Any, hint))
    return {str: "word", int: 2, float: 0.25, bool: True}[hint]


def node() -> ev.GraphNode:
    return ev.GraphNode("add", "call_function", "add", "add = x + 1", "f32[3]", FILE, 1)


def whole(run: Run) -> Item:
    return items(run)[0]


def texts(found: Iterable[rows.Row]) -> str:
    return "\n".join(f"{row.look} {row.text}" for row in found)


def stages(run: Run) -> str:
    choices = artefact_rows.choices(run, whole(run))
    shown = [texts(artefact_rows.artefact_rows(run, a)) for a in choices]
    return "\n".join([texts(artefact_rows.list_rows(choices)), *shown, *(artefacts.stage_text(run, s.name) for s in STAGES)])


def report_text(run: Run) -> str:
    """Everything `explain --full` prints."""
    return "\n".join(reports.lines(run, verdict(run), Page(full=True), VIEWS_OF_A_RUN))


DRAW: dict[str, Callable[[Run], str]] = {
    "report": report_text,
    "tree": lambda run: report.tree_text(run) + texts(row for _, row in rows.tree_rows(run, set())),
    "graph": lambda run: texts(rows.graph_rows(run, whole(run))),
    "guards": lambda run: texts(rows.guard_rows(run, whole(run))),
    "breaks": lambda run: texts(rows.break_rows(run, whole(run), 80)),
    "source": lambda run: texts(rows.source_rows(run, FILE)),
    "stages": stages,
    "status": status_text,
}
TYPES = [pytest.param(cls, id=cls.__name__) for cls in codec.KINDS.values()]


def runs(cls: type[ev.Event]) -> tuple[Run, Run]:
    """The same run without the event and with it."""
    before = [e for e in BEFORE if not isinstance(e, cls) or cls in (ev.CompileStarted, ev.SourceRead)]
    return Run(before), Run([*before, sample(cls)])


def every_json(run: Run) -> str:
    return quick.text_of([report.as_json(run), *(artefacts.stage_json(run, s.name) for s in STAGES)])


def test_every_type_has_a_row() -> None:
    assert list(ROWS) == [cls for cls in vars(ev).values() if isinstance(cls, type) and cls in ROWS]
    assert set(ROWS) == set(codec.KINDS.values())
    assert set(DRAW) == set(VIEWS)
    assert {view for row in ROWS.values() for view in row.views} == set(VIEWS)


@pytest.mark.parametrize("cls", TYPES)
def test_every_type_is_seen_in_its_views(cls: type[ev.Event]) -> None:
    assert ROWS[cls].views
    without, run = runs(cls)
    assert [view for view in ROWS[cls].views if DRAW[view](without) == DRAW[view](run)] == []


def left_out(cls: type[ev.Event]) -> Iterator[str]:
    """The tables that say nothing of an event."""
    if not lines_of(sample(cls)):
        yield LINES
    endings = [sample(cls, **more) for more in endings_of(cls)]
    if not any(log.wants(e) for log in LOG_ROWS for e in endings):
        yield LOGS
    without, run = runs(cls)
    if every_json(without) == every_json(run):
        yield JSON


def endings_of(cls: type[ev.Event]) -> list[dict[str, object]]:
    """Logs choose graphs and texts by their names."""
    names = {ev.GraphCaptured: "graph_id", ev.CodeGenerated: "name"}
    return [{names[cls]: "0/0.fw"}, {names[cls]: "0/0.c"}] if cls in names else [{}]


@pytest.mark.parametrize("cls", TYPES)
def test_a_type_is_in_every_table_or_its_row_says_why(cls: type[ev.Event]) -> None:
    assert set(left_out(cls)) == set(ROWS[cls].unseen)
    assert all(ROWS[cls].unseen.values())


def test_hits_of_the_cache_are_seen_where_one_looks() -> None:
    run = Run([*BEFORE, sample(ev.CacheLooked, key="abc", reason="")])

    assert "0/0 0.000 s cached" in report.tree_text(run)
    assert "(from the cache)" in report_text(run)
    assert "==== 0/0  cache on disk: hit" in artefacts.stage_text(run, "cache")
    assert lines_of(sample(ev.CacheLooked, key="abc", reason="")) == ["cache: hit of abc"]
    assert report.as_json(run)["cache"] == [{"compile_id": "0/0", "outcome": "hit", "key": "abc", "reason": ""}]


def test_misses_say_why_and_change_no_report() -> None:
    run, without = Run([*BEFORE, sample(ev.CacheLooked, outcome="miss", reason="not seen before")]), Run(BEFORE)

    assert "miss: not seen before" in artefacts.stage_text(run, "cache")
    assert (report.tree_text(run), report_text(run)) == (report.tree_text(without), report_text(without))
