"""Python's cycle collector, paused while we make many objects that live on: it would look at all of torch's each time."""

from __future__ import annotations

import gc
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
