"""The record on disk: one folder per run, `events.jsonl` plus content-addressed artifacts.

    DIR/events.jsonl            header line, one line per event, end line with the number of events
    DIR/artifacts/<sha256>.txt  texts longer than LONG_TEXT characters, moved out of their event

A record is written under a temporary name next to its place and renamed when it is complete, so a folder that carries the
final name is whole. Reading executes nothing: JSON and text only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dynamo.trace import codec, quick
from dynamo.trace.events import SCHEMA, Event, RunStarted, SourceRead
from dynamo.trace.model import script_file
from dynamo.trace.plain import open_plain, read_plain
from dynamo.trace.store import current

EVENTS = "events.jsonl"
ARTIFACTS = "artifacts"
FORMAT = "dynamo-debug record"
LONG_TEXT = 1000
MAX_SOURCE_BYTES = 2_000_000
LATER_NODES = "graph_captured.nodes"  # what `load` may leave out: most of a record are nodes of graphs that stages after capture made
_SHA = re.compile(r"[0-9a-f]{64}")


class RecordError(Exception):
    """A record that can't be opened or written at all. The text names the path and the way out."""


def is_record(path: Path) -> bool:
    return (path / EVENTS).is_file()


class RecordWriter:
    """Writes one record. `close()` puts it in its place, `abort()` leaves nothing behind."""

    def __init__(self, path: Path, replace: bool = False) -> None:
        self.path = path
        self.count = 0
        self._sources: set[str] = set()
        self._lock = threading.RLock()
        self._pid = os.getpid()
        check_target(path, replace)
        self._partial = path.parent / f".{path.name}.{os.getpid()}.partial"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(self._partial, ignore_errors=True)
            (self._partial / ARTIFACTS).mkdir(parents=True)
            self._file = open(self._partial / EVENTS, "w", encoding="utf-8", newline="\n")  # noqa: SIM115  # closed by close() and abort()
        except OSError as e:
            raise RecordError(f"{path}: cannot write a record here: {e.strerror}") from e
        self._line({"kind": "header", "format": FORMAT, "schema": SCHEMA})

    def add(self, event: Event) -> None:
        """Write one event. The source file it points into goes into the record the first time it is named.

        Forked children of the recorded process write nothing.
        """
        if os.getpid() != self._pid:
            return
        with self._lock:
            file = _file_of(event)
            if file and file not in self._sources:
                self._sources.add(file)
                text = read_source(file)
                if text is not None:
                    self._event(SourceRead(file, text, t=max(event.t, 0.0)))
            self._event(event)

    def close(self) -> None:
        """Complete the record and give it its final name, all or nothing."""
        self._line({"kind": "end", "events": self.count})
        self._file.close()
        old = self.path.parent / f".{self.path.name}.{os.getpid()}.old"
        if self.path.exists():
            self.path.rename(old)
        self._partial.rename(self.path)
        shutil.rmtree(old, ignore_errors=True)

    def abort(self) -> None:
        self._file.close()
        shutil.rmtree(self._partial, ignore_errors=True)

    def _event(self, event: Event) -> None:
        if isinstance(event, SourceRead):
            self._sources.add(event.file)
        value = codec.encode(event)
        for name, text in value.items():
            if isinstance(text, str) and len(text) > LONG_TEXT:
                value[name] = {"artifact": self._artifact(text)}
        self._line(value)
        self.count += 1

    def _artifact(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        sha = hashlib.sha256(data).hexdigest()
        target = self._partial / ARTIFACTS / f"{sha}.txt"
        if not target.exists():
            target.write_bytes(data)
        return sha

    def _line(self, value: dict[str, Any]) -> None:
        self._file.write(json.dumps(value, separators=(",", ":")) + "\n")
        self._file.flush()


def _file_of(event: Event) -> str:
    """The source file an event points into, or ''."""
    if isinstance(event, RunStarted):
        return script_file(event.argv, event.cwd)
    return getattr(event, "file", "")


def check_target(path: Path, replace: bool) -> None:
    """Refuse a place that holds something: only an empty folder, or with `replace` an older record, gives way."""
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_dir():
        raise RecordError(f"{path}: exists and is not a folder; choose another name")
    if not any(path.iterdir()):
        return
    if not is_record(path):
        raise RecordError(f"{path}: folder is not empty and holds no record; choose another name")
    if not replace:
        raise RecordError(f"{path}: a record is already there; choose another name or pass --force")


def read_source(file: str) -> str | None:
    """Text of a source file, or None where there is nothing to show (generated code, unreadable, not a text)."""
    try:
        if os.path.getsize(file) > MAX_SOURCE_BYTES:
            return None
        data = read_plain(file)
    except (OSError, ValueError):
        return None
    return data.decode("utf-8", "replace")


@contextmanager
def recording(path: Path | str, replace: bool = False) -> Iterator[RecordWriter]:
    """Record every event emitted in this process meanwhile. An exception passing through leaves a complete record."""
    writer = RecordWriter(Path(path), replace)
    store = current()
    store.listeners.append(writer.add)
    try:
        yield writer
    finally:
        store.listeners.remove(writer.add)
        writer.close()


@dataclass
class Record:
    """A loaded record. `problems` says, one line each, what could not be read; empty for a whole record."""

    path: Path
    events: list[Event] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def load(path: Path | str, leave_out: Collection[str] = ()) -> Record:
    """Open a record as far as it is readable. Events of kinds in `leave_out` are counted, not parsed; with LATER_NODES in it, graphs of
    stages after capture have no nodes.

    Raises RecordError where there is no record.
    """
    folder = Path(path)
    if not folder.exists():
        raise RecordError(f"{folder}: no such record")
    if not is_record(folder):
        raise RecordError(f"{folder}: not a record: it has no {EVENTS}; write one with `dynamo-debug trace -o DIR SCRIPT`")
    record = Record(folder)
    try:
        with open_plain(folder / EVENTS) as lines:
            _Reader(record, leave_out).read(lines)
    except OSError as e:
        raise RecordError(f"{folder / EVENTS}: cannot be read: {e.strerror}") from e
    return record


class _Reader:
    """Fills a record line by line."""

    def __init__(self, record: Record, leave_out: Collection[str]) -> None:
        self._record = record
        self._skipped = tuple(f'{{"kind":"{kind}",'.encode() for kind in leave_out if kind != LATER_NODES)
        self._later_nodes = LATER_NODES not in leave_out
        self._count = 0
        self._garbage: list[int] = []
        self._ended: object = None
        self._texts: dict[str, str] = {}

    def read(self, lines: Iterable[bytes]) -> None:
        problems = self._record.problems
        for number, line in enumerate(lines, 1):
            if self._skipped and line.startswith(self._skipped) and line.endswith(b"}\n"):
                self._count += 1
            elif number > 1 and (event := quick.event_of(line, self._whole_text, self._later_nodes)) is not None:
                self._record.events.append(event)
                self._count += 1
            elif line.strip():
                self._line(number, line)
        if self._garbage:
            first, others = self._garbage[0], len(self._garbage) - 1
            more = f", nor {'are' if others > 1 else 'is'} {others} more" if others else ""
            problems.append(f"{EVENTS} line {first} is not JSON{more}: left out")
        self._check_end()

    def _whole_text(self, sha: str) -> str | None:
        """The text of an artifact without damage, read once."""
        if sha not in self._texts:
            problems: list[str] = []
            text = _text_of(sha, "", self._record.path, problems)
            if problems:
                return None
            self._texts[sha] = text
        return self._texts[sha]

    def _line(self, number: int, line: bytes) -> None:
        where = f"{EVENTS} line {number}"
        try:
            value = json.loads(line)
        except ValueError:
            if line.endswith(b"\n"):
                self._garbage.append(number)
            return  # the rest of a line that was cut off is no damage of its own
        kind = value.get("kind") if isinstance(value, dict) else None
        if number == 1 and kind != "header":
            self._record.problems.append(f"{where}: no header; read as schema {SCHEMA}")
        if kind == "header":
            _check_header(value, self._record)
        elif kind == "end":
            self._ended = value.get("events")
        else:
            self._event(value, where)

    def _event(self, value: Any, where: str) -> None:
        if isinstance(value, dict):
            for name, part in value.items():
                if type(part) is dict and len(part) == 1 and "artifact" in part:
                    value[name] = _text_of(part["artifact"], f"{where}: {name}", self._record.path, self._record.problems)
        try:
            self._record.events.append(codec.decode(value))
            self._count += 1
        except codec.Malformed as e:
            self._record.problems.append(f"{where}: {e}; the event is left out")

    def _check_end(self) -> None:
        problems = self._record.problems
        if self._ended is None:
            problems.append(f"no end line: the record was cut off after {self._count} events")
        elif self._ended != self._count:
            problems.append(f"{self._ended} events were written, {self._count} could be read")


def _check_header(value: dict[str, Any], record: Record) -> None:
    if value.get("format") != FORMAT:
        raise RecordError(f"{record.path}: not a record of dynamo-debug: format is {value.get('format')!r}")
    if value.get("schema") != SCHEMA:
        record.problems.append(f"schema {value.get('schema')!r} was written by another version; this one reads schema {SCHEMA}")


def _text_of(sha: object, where: str, folder: Path, problems: list[str]) -> str:
    if not isinstance(sha, str) or not _SHA.fullmatch(sha):
        problems.append(f"{where}: artifact name {sha!r} is not a sha256")
        return "<text missing from the record>"
    try:
        data = read_plain(folder / ARTIFACTS / f"{sha}.txt")
    except FileNotFoundError:
        problems.append(f"{where}: artifact {sha[:12]} is missing")
        return "<text missing from the record>"
    except OSError as e:
        problems.append(f"{where}: artifact {sha[:12]} cannot be read: {e.strerror}")
        return "<text missing from the record>"
    if hashlib.sha256(data).hexdigest() == sha:
        return data.decode("utf-8", "surrogatepass")
    problems.append(f"{where}: artifact {sha[:12]} is damaged; its text is shown as found")
    return data.decode("utf-8", "replace")
