"""Headers that torch's compiler has compiled for its user once and for all: large, and named by what is in them, not by where they lie.

Where temporary files have a folder of their own they would be compiled again there, which takes longer than most of what is asked.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

_HEADERS = "torchinductor_*/precompiled_headers/*.h*"


def lend(home: Path, target: Path) -> bool:
    """Have those of one folder for temporary files be found in another, where nothing that is done changes them. Whether there are any."""
    found = list(home.glob(_HEADERS))
    for header in found:
        there = target / header.relative_to(home)
        with contextlib.suppress(OSError):  # it is there already, or what needs it takes longer
            there.parent.mkdir(parents=True, exist_ok=True)
            there.symlink_to(header.resolve())
    return bool(found)
