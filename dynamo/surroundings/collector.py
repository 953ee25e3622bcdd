"""Python's cycle collector, paused while we make many objects that live on: it would look at all of torch's each time."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# CPython 3.12 freezes a few objects of its own: `python3.12 -c "import gc; print(gc.get_freeze_count())"` prints 375.
FROZEN_BY_PROGRAM = 1000
_has_frozen: list[bool] = []  # counting walks all that is frozen, so once it is known that the program did, it isn't asked again


def _program_has_frozen() -> bool:
    if not _has_frozen and gc.get_freeze_count() >= FROZEN_BY_PROGRAM:
        _has_frozen.append(True)
    return bool(_has_frozen)


@contextmanager
def paused() -> Iterator[None]:
    """No collection inside: a first compile spends half of its time on three of them otherwise.

    Nor right after: what was made counts as old, and waits for the next full collection. The program's own young garbage is
    collected before, so that it does not have to wait too. Objects that the program has frozen are left alone.
    """
    was_enabled = gc.isenabled()
    if was_enabled:
        gc.collect(1)
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if not _program_has_frozen():
                gc.freeze()
                gc.unfreeze()  # to the oldest generation
            gc.enable()


def skip_at_exit() -> None:
    """Have this process end without the two full collections of Python's end: with torch loaded they take a quarter of a second and more.

    They take place where an object has a finalizer (`__del__`, an open file, a suspended generator) that may wait for them, and where a
    library was made with nanobind (Triton is one): it says at the end which of its objects are left.
    """
    atexit.register(_freeze_unless_finalized)


def _freeze_unless_finalized() -> None:
    kinds = list(map(type, gc.get_objects()))
    finalized = {kind for kind in set(kinds) if any("__del__" in vars(base) for base in kind.__mro__)}
    finalized |= {kind for kind in set(kinds) if vars(kind).get("__module__") == "nanobind"}
    if sum(map(finalized.__contains__, kinds)) == sum(map(gc.is_tracked, _standard_streams())):
        gc.freeze()


def _standard_streams() -> set[object]:
    """The files that every process has open, with the layers they consist of. Python flushes them itself."""
    found = {sys.__stdin__, sys.__stdout__, sys.__stderr__}
    found |= {getattr(stream, "buffer", None) for stream in found}
    return found | {getattr(buffer, "raw", None) for buffer in found}
