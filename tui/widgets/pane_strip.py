"""The names of all panes in one line, for layouts that cannot show all of them."""

from __future__ import annotations

from textual.widgets import Static

from dynamo.trace.model import Run


class PaneStrip(Static):
    """The active pane stands in brackets; numbers after a name say how much there is to see in it."""

    DEFAULT_CSS = "PaneStrip { height: 1; background: $panel; text-wrap: nowrap; }"

    def __init__(self) -> None:
        super().__init__("", id="strip", markup=False)

    def show(self, run: Run, active: str) -> None:
        counts = {"tree": "", "source": "", "graph": len(run.graphs), "guards": len(run.guards), "breaks": len(run.breaks)}
        names = [f"{number} {name}" + (f" {count}" if count else "") for number, (name, count) in enumerate(counts.items(), 1)]
        shown = [f"[{text}]" if name == active else f" {text} " for name, text in zip(counts, names, strict=True)]
        self.update("".join(shown))
