"""What screens made of panes have in common: one active pane, search in it, and help on it."""

from __future__ import annotations

from textual.screen import Screen
from textual.widgets import Input

from tui.screens.help import HelpScreen
from tui.widgets.row_pane import RowPane
from tui.widgets.search_bar import SearchBar


class PaneScreen(Screen[None]):
    """Subclasses name the panes, lay them out, and say where the place among the matches is shown."""

    NAMES: tuple[str, ...]  # in the order of the tab key

    def __init__(self) -> None:
        super().__init__()
        self._active = self.NAMES[0]
        self._zoomed = False

    def pane(self, name: str) -> RowPane:
        return self.query_one(f"#{name}", RowPane)

    @property
    def active_pane(self) -> RowPane:
        return self.pane(self._active)

    @property
    def panes(self) -> list[RowPane]:
        return [self.pane(name) for name in self.NAMES]

    def say_found(self, text: str) -> None:
        raise NotImplementedError

    def enter_pane(self, pane: RowPane) -> None:
        """Make it visible and active."""
        raise NotImplementedError

    def lay_out(self) -> None:
        """Show the panes there is room for; the active one alone if zoomed."""
        raise NotImplementedError

    def on_resize(self) -> None:
        self.lay_out()

    def action_next_pane(self, step: int) -> None:
        self.enter_pane(self.pane(self.NAMES[(self.NAMES.index(self._active) + step) % len(self.NAMES)]))

    def action_zoom(self) -> None:
        self._zoomed = not self._zoomed
        self.lay_out()

    def action_search(self) -> None:
        self.query_one(SearchBar).open()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        for pane in self.panes:
            pane.search(message.value)
        self._end_search()
        if not self.active_pane.next_match(1, here=True):
            self._next_pane_with_matches(1)
        self._say_place()

    def on_search_bar_left(self) -> None:
        self._end_search()

    def _end_search(self) -> None:
        self.query_one(SearchBar).close()
        self.active_pane.focus()

    def action_match(self, step: int) -> None:
        if not self.active_pane.next_match(step):
            self._next_pane_with_matches(step)
        self._say_place()

    def _next_pane_with_matches(self, step: int) -> None:
        """From the last match of a pane on to the first of the next, and around."""
        panes, at = self.panes, self.panes.index(self.active_pane)
        for distance in range(1, len(panes) + 1):
            pane = panes[(at + step * distance) % len(panes)]
            if pane.matches:
                self.enter_pane(pane)
                pane.edge_match(step)
                return

    def _say_place(self) -> None:
        pane = self.active_pane
        if not pane.pattern:
            self.say_found("")
            return
        total = sum(len(p.matches) for p in self.panes)
        if pane.cursor not in pane.matches:
            self.say_found(f"/{pane.pattern}: not found")
            return
        here = f"/{pane.pattern}: {pane.matches.index(pane.cursor) + 1}/{len(pane.matches)} in {pane.id}"
        self.say_found(here if total == len(pane.matches) else f"{here}, {total} in all panes")

    def clear_search(self) -> None:
        for pane in self.panes:
            pane.search("")
        self.say_found("")

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen(f"{self.active_pane.id}: {self.active_pane.HELP}"))

    def action_quit(self) -> None:
        self.app.exit()
