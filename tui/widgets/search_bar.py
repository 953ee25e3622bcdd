"""The line in which a search is typed."""

from __future__ import annotations

from textual.binding import Binding
from textual.message import Message
from textual.widgets import Input


class SearchBar(Input):
    """Hidden until `/`. Enter searches, esc leaves."""

    DEFAULT_CSS = """
    SearchBar { display: none; height: 1; border: none; padding: 0 1; }
    SearchBar:focus { border: none; }
    SearchBar.open { display: block; }
    """
    BINDINGS = [Binding("escape", "leave", "leave the search", show=False)]

    class Left(Message):
        """The search was given up."""

    def __init__(self) -> None:
        super().__init__(placeholder="search: text or regular expression, enter to go", id="search", compact=True)

    def open(self) -> None:
        self.add_class("open")
        self.value = ""
        self.focus()

    def close(self) -> None:
        self.remove_class("open")

    def action_leave(self) -> None:
        self.post_message(self.Left())
