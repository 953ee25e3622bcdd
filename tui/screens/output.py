"""What the script printed."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen

from tui.rows import Row
from tui.widgets.row_pane import RowPane


class OutputScreen(ModalScreen[None]):
    """stdout and stderr of a live run, in order."""

    BINDINGS = [Binding("escape,q,o", "dismiss", "close", show=True)]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._lines = text.splitlines() or ["the script has printed nothing (a stored record does not keep output)"]

    def compose(self) -> ComposeResult:
        yield RowPane("output of the script, esc closes", "output")

    def on_mount(self) -> None:
        pane = self.query_one(RowPane)
        pane.show_rows([Row(line) for line in self._lines])
        pane.action_edge(1)
