"""Events over a pipe: one JSON object per line, texts inline. What a child process sends while it compiles."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import IO

from dynamo.trace import codec, quick
from dynamo.trace.events import Event

SMALL = 1 << 17  # bytes: less than this the standard library has read before msgspec is loaded


def _write_whole(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class StreamWriter:
    """A store listener that sends events to a file descriptor. `write` writes all of the bytes.

    It goes quiet when the reader is gone, and in forked children: the run continues, only nobody watches.
    """

    def __init__(self, fd: int, write: Callable[[int, bytes], None] = _write_whole) -> None:
        self._fd = fd
        self._write = write
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a signal handler of the script's may compile while the lock is held
        os.set_inheritable(fd, False)

    def __call__(self, event: Event) -> None:
        if os.getpid() != self._pid:
            return  # before the lock: another thread may have held it when the child was forked
        data = (json.dumps(codec.encode(event), separators=(",", ":")) + "\n").encode()
        with self._lock:
            if self._fd < 0:
                return
            try:
                self._write(self._fd, data)
            except OSError:  # the reader is gone, or the script has closed every descriptor it did not open
                self._fd = -1

    def close(self) -> None:
        with self._lock if os.getpid() == self._pid else nullcontext():
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1


def read_stream(pipe: IO[bytes]) -> Iterator[Event | str]:
    """Events as they arrive, until the writer closes. A line that is no event comes as one line of text saying so."""
    read = 0
    for number, line in enumerate(pipe, 1):
        read += len(line)
        try:
            yield (quick.event_of(line) if read > SMALL else None) or codec.decode(json.loads(line))
        except codec.Malformed as e:
            yield f"event {number} of the run: {e}"
        except ValueError:
            yield f"event {number} of the run: cut off"
