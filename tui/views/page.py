"""A page of text: how wide it is, whether it may use colours, and what fits."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

WIDTH = 100
HEIGHT = 45

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36"}
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Page:
    """width: characters a line may have. colour: whether escape sequences are understood. full: nothing is shortened."""

    width: int = WIDTH
    colour: bool = False
    full: bool = False

    def paint(self, text: str, style: str) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.colour and style and text else text

    def clip(self, text: str, indent: int = 0) -> str:
        """The beginning of a line that fits, `…` where something is missing."""
        room = max(self.width - indent, 10)
        return text if self.full or length(text) <= room else plain(text)[: room - 1] + "…"

    def wrap(self, text: str, indent: str = "", hanging: str = "  ", most: int = 0) -> list[str]:
        """The text in lines; with `most` at most so many."""
        lines = textwrap.wrap(text, max(self.width, 30), initial_indent=indent, subsequent_indent=indent + hanging)
        if self.full or not most or len(lines) <= most:
            return lines
        return [*lines[: most - 1], self.clip(lines[most - 1] + " …")] if most > 1 else [self.clip(lines[0] + " …")]


def plain(text: str) -> str:
    """Without colours."""
    return _ESCAPE.sub("", text)


def length(text: str) -> int:
    return len(plain(text)) if "\x1b" in text else len(text)


def columns(rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Rows of cells under each other; columns in `right` end at the same place."""
    rows = [list(row) for row in rows]
    widths = [max(length(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    return ["  ".join(_cell(row[i], w, i in right) for i, w in enumerate(widths)).rstrip() for row in rows]


def _cell(text: str, width: int, right: bool) -> str:
    gap = " " * (width - length(text))
    return gap + text if right else text + gap


def continued(command: str, width: int) -> list[str]:
    """A command of a shell in lines that fit, as far as its words allow."""
    if len(command) <= width:
        return [command]
    lines = [""]
    for word in map(shlex.quote, shlex.split(command)):
        longer = f"{lines[-1]} {word}".lstrip(" ") if len(lines) == 1 else f"{lines[-1]} {word}"
        if len(longer) <= width - 2:
            lines[-1] = longer
        else:
            lines.append(f"   {word}")
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def cleaned(text: str) -> str:
    """Text that a terminal shows as it is."""
    return "".join(c if c.isprintable() or c == "\n" else "·" for c in text.expandtabs(4))


@dataclass
class Section:
    """Part of a page that may be cut: entries of lines, and the command that shows the rest. One of weight 2 keeps twice the lines."""

    title: str
    entries: list[list[str]]
    more: str = ""
    weight: float = 1.0
    dropped: int = 0

    @property
    def height(self) -> int:
        body = sum(len(e) for e in self.entries) + (1 if self.dropped else 0)
        return body + 1 if body else 0

    def lines(self, page: Page) -> list[str]:
        if not self.height:
            return []
        body = [f"  {line}" for entry in self.entries for line in entry]
        if self.dropped:
            body.append(f"  ... {self.dropped} more: {self.more}")
        return [page.paint(self.title, "bold"), *(page.clip(line).rstrip() for line in body)]


def fitted(sections: Sequence[Section], height: int) -> None:
    """Drop last entries of the sections that are tallest for their weight until everything fits."""
    while sum(s.height for s in sections) > height:
        tallest = max((s for s in sections if len(s.entries) > 1), key=lambda s: s.height / s.weight, default=None)
        if tallest is None:
            return
        tallest.entries.pop()
        tallest.dropped += 1
