"""Where graphs break, and why."""

from __future__ import annotations

from dynamo.trace.model import Item, Run
from tui.rows import break_rows
from tui.widgets.row_pane import ItemPane


class BreaksPane(ItemPane):
    """Breaks with explanation and what to write instead, and recompiles; for the whole run also what was skipped and what went wrong."""

    HELP = (
        "graph breaks with their id, why they happen and what to write instead; ↻ recompiles and why. "
        "`dynamo-debug explain --code ID` has the full page."
    )

    def __init__(self) -> None:
        super().__init__("5 breaks", "breaks")
        self._shown: tuple[Run, Item] | None = None

    def show(self, run: Run, item: Item) -> None:
        self._shown = (run, item)
        self.show_rows(break_rows(run, item, self.scrollable_content_region.width))

    def on_resize(self) -> None:
        if self._shown is not None:
            self.show(*self._shown)
