"""Every key of the app, once. Bindings, footer, help screen and docs/cli.md come from this table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Key:
    """`keys` as Textual names them, comma separated; `scope` is `screen` or `pane`; `footer` is its short name at the bottom."""

    keys: str
    action: str
    text: str
    scope: str
    shown: str
    footer: str = ""


KEYS = (
    Key("q", "quit", "quit", "screen", "q", footer="quit"),
    Key("question_mark,f1", "help", "help", "screen", "? F1", footer="help"),
    Key("tab", "next_pane(1)", "next pane", "screen", "tab", footer="pane"),
    Key("shift+tab", "next_pane(-1)", "previous pane", "screen", "shift+tab"),
    Key("1", "pane('tree')", "tree pane", "screen", "1"),
    Key("2", "pane('source')", "source pane", "screen", "2"),
    Key("3", "pane('graph')", "graph pane", "screen", "3"),
    Key("4", "pane('guards')", "guards pane", "screen", "4"),
    Key("5", "pane('breaks')", "breaks pane", "screen", "5"),
    Key("slash", "search", "search in this pane", "screen", "/", footer="search"),
    Key("n", "match(1)", "next match", "screen", "n"),
    Key("N", "match(-1)", "previous match", "screen", "N"),
    Key("s", "stages", "what the stages made: graphs, loop IR, generated code, decisions", "screen", "s", footer="stages"),
    Key("v", "verdict", "the verdict on the run, as `explain` prints it", "screen", "v", footer="verdict"),
    Key("o", "output", "output of the script", "screen", "o", footer="output"),
    Key("z", "zoom", "this pane alone, or all again", "screen", "z", footer="zoom"),
    Key("escape", "back", "clear search, end zoom", "screen", "esc"),
    Key("up,k", "move(-1)", "line up", "pane", "↑ k"),
    Key("down,j", "move(1)", "line down", "pane", "↓ j"),
    Key("pageup,ctrl+u", "page(-1)", "page up", "pane", "pgup ctrl+u"),
    Key("pagedown,ctrl+d", "page(1)", "page down", "pane", "pgdn ctrl+d"),
    Key("home,g", "edge(-1)", "first line", "pane", "home g"),
    Key("end,G", "edge(1)", "last line", "pane", "end G"),
    Key("left,h", "shift(-1)", "scroll left", "pane", "← h"),
    Key("right,l", "shift(1)", "scroll right", "pane", "→ l"),
    Key("enter,space", "fold", "open or close a branch of the tree", "pane", "enter space"),
)
