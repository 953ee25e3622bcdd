"""Which user lines a value came from, as a comment: `# model.py:12 relu; model.py:13 softmax`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from inductor.ir.nest import Origin
from inductor.targets.origins import origin_text


def origin_line(origins: Iterable[Origin]) -> str:
    """`origin_text` as one line that ends neither a comment nor a docstring."""
    return "".join(c if c.isprintable() else "?" for c in origin_text(origins)).replace('"""', "'''")


def without_comments(text: str) -> str:
    """What is compiled: the same kernel of other lines needs no other file."""
    return re.sub(r"^ *#.*\n", "", re.sub(r'\A""".*?"""\n', "", text, flags=re.DOTALL), flags=re.MULTILINE)
