"""Sources that are no files: cells of a notebook, generated code, `-c`. Who runs them may leave their lines in `linecache`."""

from __future__ import annotations

import linecache
import os

from dynamo.trace.events import CompileStarted, Event, SourceRead
from dynamo.trace.store import current

_told: set[tuple[str, int]] = set()


def told_sources(event: Event) -> None:
    """A store listener that tells the source of a compile that has no file, once for each text."""
    if not isinstance(event, CompileStarted) or os.path.exists(event.file):
        return
    lines = linecache.getlines(event.file)
    key = (event.file, hash(tuple(lines)))
    if lines and key not in _told:
        _told.add(key)
        current().add(SourceRead(event.file, "".join(lines)))
