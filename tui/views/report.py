"""What `explain` prints: the verdict, and behind it the views that were asked for."""

from __future__ import annotations

from collections.abc import Collection

from dynamo.trace.model import Run
from tui.views.page import Page
from tui.views.table import VIEWS
from tui.views.verdict import Verdict
from tui.views.verdict import lines as verdict_lines


def lines(run: Run, found: Verdict, page: Page, opened: Collection[str] = ()) -> list[str]:
    """One screen; with names of views in `opened` these follow."""
    out = verdict_lines(found, page)
    for name in opened:
        view = VIEWS[name]
        out += ["", page.paint(f"{name} {'─' * max(3, page.width - len(name) - 1)}", "dim"), *view.lines(view.data(run, ""), page)]
    return out
