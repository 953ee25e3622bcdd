"""The verdict on the run: what `explain` prints."""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen

from dynamo.trace.model import Run
from tui.highlight import spans_of
from tui.rows import Row
from tui.views.page import Page
from tui.views.verdict import lines, verdict
from tui.widgets.row_pane import RowPane


class VerdictScreen(ModalScreen[None]):
    """One screen of text about the whole run, as it is now."""

    BINDINGS = [Binding("escape,q,v", "dismiss", "close", show=True)]

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    def compose(self) -> ComposeResult:
        yield RowPane("verdict, esc closes", "verdict")

    def on_mount(self) -> None:
        self.refresh_run()

    def on_resize(self) -> None:
        self.refresh_run()

    def refresh_run(self) -> None:
        """Show the verdict as it is now; the cursor stays on its line."""
        pane = self.query_one(RowPane)
        region = pane.scrollable_content_region
        text = [Text.from_ansi(line) for line in lines(verdict(self._run), Page(region.width - 2, colour=True), max(region.height, 1))]
        pane.show_rows([Row(line.plain, spans=spans_of(line), key=str(i)) for i, line in enumerate(text)])
