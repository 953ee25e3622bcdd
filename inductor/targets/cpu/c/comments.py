"""Which user lines a loop came from, as a comment: `/* model.py:12 relu; model.py:13 softmax */`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from inductor.ir.nest import BACKWARD, Origin

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def origin_text(origins: Iterable[Origin]) -> str:
    """User lines in order, each with the operators that stand on it; lines of gradients are marked as backward."""
    by_line: dict[str, list[str]] = {}
    for origin in origins:
        file = origin.file.replace("\\", "/").rsplit("/", 1)[-1]
        place = f"{file}:{origin.line} " if file else ""
        names = by_line.setdefault(f"{place}%s{BACKWARD if origin.is_backward else ''}", [])
        name = origin.op.partition(".")[0].lstrip("_")
        if name not in names:
            names.append(name)
    return "; ".join(form.replace("%s", ", ".join(names)) for form, names in by_line.items())


def origin_comment(origins: Iterable[Origin]) -> list[str]:
    """The comment as lines of C: one, or none where nothing is known."""
    text = "".join(c if c.isprintable() else "?" for c in origin_text(origins)).replace("*/", "* /").replace("/*", "/ *")
    return [f"/* {text} */"] if text else []


def without_comments(source: str) -> str:
    """What the C compiler sees: the same loops of other lines need no other library."""
    return COMMENT.sub("", source)
