"""Which user lines a loop came from, as a comment: `/* model.py:12 relu; model.py:13 softmax */`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from inductor.ir.nest import Origin
from inductor.targets.origins import origin_text

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def origin_comment(origins: Iterable[Origin]) -> list[str]:
    """The comment as lines of C: one, or none where nothing is known."""
    text = "".join(c if c.isprintable() else "?" for c in origin_text(origins)).replace("*/", "* /").replace("/*", "/ *")
    return [f"/* {text} */"] if text else []


def without_comments(source: str) -> str:
    """What the C compiler sees: the same loops of other lines need no other library."""
    return COMMENT.sub("", source)
