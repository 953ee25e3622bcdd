"""One line on how the run stands."""

from __future__ import annotations

from textual.widgets import Static

from dynamo.trace.model import Run, items
from dynamo.trace.report import summary


class StatusLine(Static):
    """Status of the run as glyph and word, its counts, and what the last search found."""

    DEFAULT_CSS = "StatusLine { height: 1; background: $panel; text-wrap: nowrap; text-overflow: ellipsis; }"

    def __init__(self) -> None:
        super().__init__("", id="status", markup=False)
        self.found = ""

    def show(self, run: Run) -> None:
        found = f"{self.found}  " if self.found else ""
        self.update(found + status_text(run))


def status_text(run: Run) -> str:
    status = items(run)[0].status
    if run.running:
        ended = ""
    elif run.exit is None:
        ended = "  cut off" + (f": {run.problems[-1]}" if run.problems else "")
    else:
        ended = f"  exit {run.exit}" + (f" {run.error}" if run.error else "")
    return f"{status.glyph} {status.word}{ended}  {summary(run)}"
