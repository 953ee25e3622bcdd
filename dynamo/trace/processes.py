"""Processes of one run: each writes its events to a file of its own, and the run's reader puts them beside those of the script.

A file is begun with the first event of its process, so a worker that compiles nothing leaves none. Compile ids of a process get its key in
front (`r1.0/0` of rank 1, `p4711.0/0` of a process without a rank), so that they stay apart.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from dynamo.trace.events import Event, ProcessStarted
from dynamo.trace.stream import StreamWriter, read_stream

_IDS = ("compile_id", "graph_id", "parent")


class ProcessWriter:
    """A store listener for processes that are not the script's own: forked ones, and those started anew.

    `folder`: where the files go. `quiet`: the process id of the script, whose events go another way. `write` writes all of the bytes.
    """

    def __init__(self, folder: str, quiet: int, write: Callable[[int, bytes], None]) -> None:
        self._folder = folder
        self._quiet = quiet
        self._write = write
        self._pid = 0
        self._stream: StreamWriter | None = None

    def __call__(self, event: Event) -> None:
        pid = os.getpid()
        if pid == self._quiet:
            return
        if pid != self._pid:
            self._pid, self._stream = pid, self._open(pid, max(event.t, 0.0))
        if self._stream is not None:
            self._stream(event)

    def _open(self, pid: int, t: float) -> StreamWriter | None:
        try:
            fd = os.open(os.path.join(self._folder, f"{pid}.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError:  # the run is over and its folder gone: nobody reads any more
            return None
        stream = StreamWriter(fd, self._write)
        stream(ProcessStarted(pid, rank(), tuple(sys.argv), t=t))
        return stream


def rank() -> int:
    """Of this process in its group, -1 without one."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    text = os.environ.get("RANK", "")
    return int(text) if text.isdigit() else -1


def merged(folder: Path) -> Iterator[Event | str]:
    """Events of all files of the folder, by rank and then by process id; damage as lines of text."""
    keys: set[str] = set()
    found = [list(_read(file)) for file in sorted(folder.glob("*.jsonl"), key=lambda file: int(file.stem))]
    for items in sorted(found, key=lambda items: next((i.rank for i in items if isinstance(i, ProcessStarted)), -1)):
        key = ""
        for item in items:
            if isinstance(item, ProcessStarted):
                by_rank, by_pid = f"r{item.rank}.", f"p{item.pid}."
                key = by_pid if item.rank < 0 or by_rank in keys else by_rank  # a worker of a rank has the rank's environment
                keys.add(key)
                yield replace(item, key=key)
            else:
                yield item if isinstance(item, str) else _keyed(item, key)


def _read(file: Path) -> Iterator[Event | str]:
    with open(file, "rb") as lines:
        yield from read_stream(lines)


def _keyed(event: Event, key: str) -> Event:
    names: dict[str, Any] = {name: key + value for name in _IDS if (value := getattr(event, name, ""))}
    return replace(event, **names) if names else event
