"""What the script printed."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen

from tui.rows import Row
from tui.widgets.row_pane import RowPane


class OutputScreen(ModalScreen[None]):
    """stdout and stderr of a live run, in order. It follows the end while the cursor is on it."""

    BINDINGS = [Binding("escape,q,o", "dismiss", "close", show=True)]

    def __init__(self, text: Callable[[], str]) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        yield RowPane("output of the script, esc closes", "output")

    def on_mount(self) -> None:
        self.refresh_run()
        self.query_one(RowPane).action_edge(1)

    def refresh_run(self) -> None:
        """Show what has been printed until now."""
        pane = self.query_one(RowPane)
        follows = pane.cursor >= len(pane.rows) - 1
        lines = self._text().splitlines() or ["the script has printed nothing (a stored record does not keep output)"]
        pane.show_rows([Row(line) for line in lines])
        if follows:
            pane.action_edge(1)
