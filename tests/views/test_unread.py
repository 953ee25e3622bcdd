"""What a command does not read of a record, its view does not show."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynamo.trace import report
from tests.trace.test_quick import sample_record
from tui.commands import explain, trace, unread, view
from tui.console import as_json
from tui.runs import load_run
from tui.views.page import Page
from tui.views.table import VIEWS
from tui.views.verdict import lines, verdict


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_record(tmp_path_factory.mktemp("unread"))


@pytest.mark.parametrize("name", VIEWS)
def test_views(name: str, record: Path) -> None:
    shown, left_out = VIEWS[name], unread.UNREAD[name]
    whole = load_run(record)

    assert as_json(shown.data(load_run(record, left_out), "")) == as_json(shown.data(whole, ""))
    text = shown.data(load_run(record, (*left_out, *unread.UNREAD_BY_TEXT.get(name, ()))), "")
    assert shown.lines(text, Page()) == shown.lines(shown.data(whole, ""), Page())


def test_the_verdict(record: Path) -> None:
    left_out = explain.unread(explain.Shown("", "", False, (), False, False))

    assert "graph_captured.nodes" in left_out
    assert lines(verdict(load_run(record, left_out)), Page()) == lines(verdict(load_run(record)), Page())


def test_the_tree(record: Path) -> None:
    assert report.tree_text(load_run(record, view.UNREAD_BY_TEXT)) == report.tree_text(load_run(record))


@pytest.mark.parametrize("name", trace.FORMATS)
def test_exports(name: str, record: Path) -> None:
    assert trace.FORMATS[name](load_run(record, trace.UNREAD[name])) == trace.FORMATS[name](load_run(record))
