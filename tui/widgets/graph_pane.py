"""The captured graphs, a row per node."""

from __future__ import annotations

from dynamo.trace.model import Item, Run
from tui.rows import graph_rows
from tui.widgets.row_pane import ItemPane


class GraphPane(ItemPane):
    """Nodes with the lines they came from."""

    HELP = "the nodes of the captured graphs with their shapes. moving marks the source line a node came from."

    def __init__(self) -> None:
        super().__init__("3 graph", "graph")

    def show(self, run: Run, item: Item) -> None:
        self.show_rows(graph_rows(run, item))
