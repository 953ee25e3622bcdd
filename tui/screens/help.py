"""The help screen: every key, and what the pane it was asked from shows."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.keys import KEYS


class HelpScreen(ModalScreen[None]):
    """Closes with any of its keys."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > VerticalScroll { width: 90%; max-width: 76; height: 90%; border: heavy $accent; background: $surface; padding: 0 1; }
    """
    BINDINGS = [
        Binding("escape,q,question_mark,f1", "dismiss", "close", show=True),
        Binding("j", "down", show=False),
        Binding("k", "up", show=False),
    ]

    def __init__(self, about: str) -> None:
        super().__init__()
        self._about = about

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="help"):
            yield Static(help_text(self._about), markup=False)

    def action_down(self) -> None:
        self.query_one("#help").scroll_down(animate=False)

    def action_up(self) -> None:
        self.query_one("#help").scroll_up(animate=False)


def help_text(about: str) -> str:
    width = max(len(key.shown) for key in KEYS)
    lines = [about, ""] if about else []
    lines += [f"{key.shown:<{width}}  {key.text}" for key in KEYS]
    lines += ["", "▶ cursor   • same source line as the cursor of the other pane", "ctrl+q quits from anywhere, esc closes this help"]
    return "\n".join(lines)
