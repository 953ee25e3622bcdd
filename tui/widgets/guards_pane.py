"""What the compiled code relies on."""

from __future__ import annotations

from dynamo.trace.model import Item, Run
from tui.rows import guard_rows
from tui.widgets.row_pane import ItemPane


class GuardsPane(ItemPane):
    """Guards with the line that read the value, and why recompiles happened."""

    HELP = "what must hold for a compile to be used again, and which line read the value. ↻ says why a recompile happened."

    def __init__(self) -> None:
        super().__init__("4 guards", "guards")

    def show(self, run: Run, item: Item) -> None:
        self.show_rows(guard_rows(run, item))
