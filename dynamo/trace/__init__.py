"""The compile record: typed events, the live store, the on-disk folder, and the model its views share.

Imports nothing else of this project. `dot` needs graphviz and is imported by who draws. What reads and writes records is loaded on first
use: a process that only compiles needs none of it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dynamo.trace import events, stages
from dynamo.trace.store import Store, current, emit, is_watched, session, stage

if TYPE_CHECKING:
    from dynamo.trace.record import Record, RecordError, RecordWriter, load, recording

__all__ = [
    "Record",
    "RecordError",
    "RecordWriter",
    "Store",
    "current",
    "emit",
    "events",
    "is_watched",
    "load",
    "recording",
    "session",
    "stage",
    "stages",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'dynamo.trace' has no attribute {name!r}")
    return getattr(importlib.import_module("dynamo.trace.record"), name)
