"""Answers on disk. The journal is the cache too: a reduction that is begun again with it asks nothing twice and ends at the same state.

Every answer is committed when it comes, so a killed process loses at most the runs that were under way.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minifier.engine.signature import Signature
from minifier.engine.transport import Verdict

VERSION = "2"
_KINDS = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
_SCHEMA = """
create table if not exists meta (name text primary key, value text not null);
create table if not exists answers (key text primary key, verdict text not null, signature text, detail text not null);
create table if not exists others (signature text primary key, key text not null, bytes integer not null);
create table if not exists best (id integer primary key check (id = 1), size text not null, key text not null, payload blob not null);
"""


class JournalError(ValueError):
    """The file is no journal, is damaged, or belongs to another reduction."""


@dataclass(frozen=True)
class Answer:
    """What was decided of a candidate, however many runs it took."""

    verdict: Verdict
    signature: Signature | None = None
    detail: str = ""


class Journal:
    """`path` None keeps it in memory. `identity` says what is reduced and by which oracle.

    With `resume` an existing file is read and must have the same identity; without, it is replaced. Raises JournalError.
    """

    def __init__(self, path: Path | None, identity: str, resume: bool = False) -> None:
        self.path = path
        if path is not None:
            _check_files(path, resume)
        try:
            self._db = sqlite3.connect(":memory:" if path is None else path, isolation_level=None)
        except sqlite3.Error as e:
            raise JournalError(f"{path}: cannot be opened: {e}") from e
        try:
            self._db.execute("pragma journal_mode=wal")
            self._db.execute("pragma synchronous=normal")
            self._db.executescript(_SCHEMA)
            self._check(identity)
        except sqlite3.Error as e:
            self._db.close()
            raise JournalError(f"{path}: is not a journal of a reduction: {e}") from e
        except JournalError:
            self._db.close()
            raise

    def _check(self, identity: str) -> None:
        for name, value in (("version", VERSION), ("identity", identity)):
            found = self.note(name)
            if found is None:
                self.set_note(name, value)
            elif found != value:
                raise JournalError(
                    f"{self.path}: belongs to another reduction, or its script was moved ({name} {found[:40]!r}, here {value[:40]!r}); "
                    "begin anew without --resume"
                )

    def _run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as e:
            raise JournalError(f"{self.path}: can't be used any more: {e}") from e

    def _first(self, statement: str, *values: object) -> tuple[Any, ...] | None:
        rows = self._run(statement, *values)
        return rows[0] if rows else None

    def note(self, name: str) -> str | None:
        """A value that was noted under a name."""
        row = self._first("select value from meta where name = ?", name)
        return None if row is None else str(row[0])

    def set_note(self, name: str, value: str) -> None:
        self._run("insert or replace into meta values (?, ?)", name, value)

    def answer(self, key: str) -> Answer | None:
        """What was decided of the candidate with that key. Raises JournalError for a damaged row."""
        row = self._first("select verdict, signature, detail from answers where key = ?", key)
        try:
            return None if row is None else Answer(Verdict(row[0]), _signature(row[1]), row[2])
        except (ValueError, TypeError, KeyError) as e:
            raise JournalError(f"{self.path}: is damaged: {e}") from e

    def record(self, key: str, answer: Answer) -> None:
        signature = None if answer.signature is None else answer.signature.text()
        self._run("insert or replace into answers values (?, ?, ?, ?)", key, answer.verdict.value, signature, answer.detail)

    def drop(self, key: str) -> None:
        """Take back what was decided of a candidate."""
        self._run("delete from answers where key = ?", key)

    def forget(self, verdict: Verdict) -> None:
        """Drop the answers with a verdict: they were given under weaker rules."""
        self._run("delete from answers where verdict = ?", verdict.value)

    def file_other(self, signature: Signature, key: str, size: int) -> bool:
        """Note the smallest candidate, of `size` bytes, for a failure that is not followed. True where the signature is new."""
        row = self._first("select bytes from others where signature = ?", signature.text())
        if row is None or size < row[0]:
            self._run("insert or replace into others values (?, ?, ?)", signature.text(), key, size)
        return row is None

    def others(self) -> dict[Signature, str]:
        """Signatures of other failures, each with the key of its smallest candidate."""
        rows = self._run("select signature, key from others order by rowid")
        try:
            return {Signature.from_json(json.loads(text)): key for text, key in rows}
        except (ValueError, TypeError, KeyError) as e:
            raise JournalError(f"{self.path}: is damaged: {e}") from e

    def set_best(self, size: tuple[object, ...], key: str, payload: bytes) -> None:
        """The smallest state so far, for whoever looks while the reduction runs or after it was killed."""
        self._run("insert or replace into best values (1, ?, ?, ?)", json.dumps(size, default=str), key, payload)

    def best(self) -> bytes | None:
        row = self._first("select payload from best")
        return None if row is None else bytes(row[0])

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._db.close()


def _check_files(path: Path, resume: bool) -> None:
    """SQLite writes through links, so a journal is a file of its own. One that is not gone on with is removed."""
    for file in (path, *(path.with_name(f"{path.name}-{part}") for part in ("wal", "shm"))):
        try:
            kind = stat.S_IFMT(file.lstat().st_mode)
            if resume and kind != stat.S_IFREG:
                raise JournalError(f"{file}: is no file but {_KINDS.get(kind, 'a device')}; remove it, or begin anew without --resume")
            if not resume:
                file.unlink()
        except FileNotFoundError:
            continue
        except OSError as e:
            raise JournalError(f"{file}: can't be removed: {e.strerror}; name another folder with -o") from e


def _signature(text: str | None) -> Signature | None:
    return None if text is None else Signature.from_json(json.loads(text))
