"""The compile record: typed events, the live store, the on-disk folder, and the model its views share.

Imports nothing else of this project. `dot` needs graphviz and is imported by who draws.
"""

from __future__ import annotations

from dynamo.trace import events, stages
from dynamo.trace.record import Record, RecordError, RecordWriter, load, recording
from dynamo.trace.store import Store, current, emit, is_watched, session, stage

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
