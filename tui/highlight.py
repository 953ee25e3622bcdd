"""Colours of code: spans of characters with styles, line by line. Knows Rich, nothing of Textual."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text

Span = tuple[int, int, Style]

LEXERS = {"c": "c", "python": "python", "shell": "bash", "ptx": "ptx", "mlir": "llvm"}
THEME = "ansi_dark"  # the terminal's own colours, so that light terminals stay readable
LARGE = 400_000  # characters from which colouring takes longer than a reader waits


@dataclass(frozen=True)
class Rule:
    """What in the loop IR gets which style."""

    pattern: str
    style: str


IR_RULES = (
    Rule(r"(?m)^\s*(kernel|stage|nest|extern|store|return|in|temp|made|const|object|tile|register)\b", "bold"),
    Rule(r"\b(f16|bf16|f32|f64|i8|i16|i32|i64|u8|bool)\b", "cyan"),
    Rule(r"%\d+", "blue"),
    Rule(r"(?<![\w%.])-?\d+(\.\d+)?(?![\w.])", "magenta"),
    Rule(r"(?m) ; .*$", "dim"),
)


@lru_cache(maxsize=16)
def spans(text: str, language: str) -> tuple[tuple[Span, ...], ...]:
    """For every line of the text its coloured parts, in order."""
    lines = text.split("\n")
    if len(text) > LARGE:
        return ((),) * len(lines)
    if language in LEXERS:
        coloured = Syntax("", LEXERS[language], theme=THEME).highlight(text)
    elif language == "ir":
        coloured = Text(text)
        for rule in IR_RULES:
            coloured.highlight_regex(rule.pattern, rule.style)
    else:
        return ((),) * len(lines)
    found = [spans_of(part) for part in coloured.split("\n", allow_blank=True)]
    return tuple(found[: len(lines)]) + ((),) * (len(lines) - len(found))


def spans_of(text: Text) -> tuple[Span, ...]:
    """The spans of one line. Where they overlap the later one is drawn over the earlier."""
    return tuple((s.start, s.end, style) for s in text.spans if (style := _style(s.style)) is not None)


def _style(style: str | Style) -> Style | None:
    """Colour and weight, without the background of the theme."""
    whole = Style.parse(style) if isinstance(style, str) else style
    plain = Style(color=whole.color, bold=whole.bold, dim=whole.dim, italic=whole.italic)
    return plain if plain else None
