"""Headers that torch's compiler has compiled for its user once and for all: large, and named by what is in them, not by where they lie.

Where temporary files have a folder of their own they would be compiled again there, which takes longer than most of what is asked.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

_HEADERS = "torchinductor_*/precompiled_headers/*.h*"


def headers(home: Path) -> frozenset[Path]:
    """Those of a folder for temporary files, by their paths in it."""
    return frozenset(header.relative_to(home) for header in home.glob(_HEADERS))


def lend(home: Path, target: Path) -> bool:
    """Have those of one folder for temporary files be found in another, where nothing that is done changes them. Whether there are any."""
    found = headers(home)
    for name in found:
        with contextlib.suppress(OSError):  # it is there already, or what needs it takes longer
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).symlink_to((home / name).resolve())
    return bool(found)


def give_back(target: Path, home: Path, known: frozenset[Path]) -> None:
    """Have those that were compiled in the other folder, all but `known`, be found by its user from now on. They are whole: who compiled
    them has used them, and one that was being compiled when a process was killed is `known` to the next."""
    for name in sorted(headers(target) - known):
        with contextlib.suppress(OSError):  # it is there already, or is compiled again
            _put(target / name, home / name)


def _put(source: Path, there: Path) -> None:
    """A copy, which nobody sees before it is whole."""
    there.parent.mkdir(parents=True, exist_ok=True)
    if there.exists():
        return
    descriptor, partial = tempfile.mkstemp(dir=there.parent)
    os.close(descriptor)
    try:
        shutil.copyfile(source, partial)
        os.replace(partial, there)
    except OSError:
        os.unlink(partial)
        raise
