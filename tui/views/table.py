"""The views of a run, one row each: what `explain --NAME`, the command NAME and its JSON show. A view more is a file and a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dynamo.trace.model import Run
from tui.views import breaks, graphs, guards, kernels, passes, recompiles, timeline
from tui.views.page import Page


@dataclass(frozen=True)
class View:
    """data: the view of a run as plain data (a dataclass), `graph` limits it to one compile or graph. lines: that data as text."""

    name: str
    doc: str
    shape: type
    data: Callable[[Run, str], Any]
    lines: Callable[[Any, Page], list[str]]


VIEWS: dict[str, View] = {
    view.name: view
    for view in (
        View("graphs", "Graphs node by node, with types, shapes and user lines.", graphs.Graphs, graphs.view, graphs.lines),
        View("guards", "What compiled code relies on, by the line that read the value.", guards.Guards, guards.view, guards.lines),
        View(
            "breaks",
            "Graph breaks by source line: why, and what to write instead.",
            breaks.Breaks,
            lambda run, _: breaks.view(run),
            breaks.lines,
        ),
        View(
            "recompiles",
            "Recompiles by function and cause, with the values that changed.",
            recompiles.Recompiles,
            lambda run, _: recompiles.view(run),
            recompiles.lines,
        ),
        View("kernels", "The kernels and operator calls that graphs became.", kernels.Kernels, kernels.view, kernels.lines),
        View("passes", "Graph sizes from stage to stage, and the rewrites taken and refused.", passes.Passes, passes.view, passes.lines),
        View(
            "timeline", "Where compile time went, stage inside stage.", timeline.Timeline, lambda run, _: timeline.view(run), timeline.lines
        ),
    )
}
