"""What screens made of panes have in common: one active pane, search in it, and help on it."""

from __future__ import annotations

from textual.screen import Screen
from textual.widgets import Input

from tui.screens.help import HelpScreen
from tui.widgets.row_pane import RowPane
from tui.widgets.search_bar import SearchBar


class PaneScreen(Screen[None]):
    """Subclasses say which pane is active and where the number of matches is shown."""

    @property
    def active_pane(self) -> RowPane:
        raise NotImplementedError

    def say_found(self, text: str) -> None:
        raise NotImplementedError

    def action_search(self) -> None:
        self.query_one(SearchBar).open()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        found = self.active_pane.search(message.value)
        self.say_found(f"/{message.value}: {found} found" if message.value else "")
        self._end_search()

    def on_search_bar_left(self) -> None:
        self._end_search()

    def _end_search(self) -> None:
        self.query_one(SearchBar).close()
        self.active_pane.focus()

    def action_match(self, step: int) -> None:
        self.active_pane.next_match(step)

    def clear_search(self) -> None:
        self.active_pane.search("")
        self.say_found("")

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen(f"{self.active_pane.id}: {self.active_pane.HELP}"))

    def action_quit(self) -> None:
        self.app.exit()
