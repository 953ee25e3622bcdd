"""Which user lines a loop came from, as text: `model.py:12 relu; model.py:13 softmax`."""

from __future__ import annotations

from collections.abc import Iterable

from inductor.ir.nest import BACKWARD, Origin


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
