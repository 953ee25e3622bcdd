"""The cache on disk: content-addressed, shared by processes, never trusted blindly.

    DIR/kernels/ab/<key>.so, .c, .sum   a built library, its source, and size and SHA-256 of the library
    DIR/kernels/ab/<key>.cubin          a kernel of a GPU and how it is launched; its first line is as that of a graph
    DIR/graphs/ab/<key>.graph           a compiled graph; its first line holds sizes and SHA-256 of the parts
    DIR/hits                            one byte per graph found
    DIR/grown                           one byte per PAGE bytes written since the cache was last held to its limit

Files are written under a temporary name and renamed; a library comes before its sum. An entry that does not fit its sum was never
finished or was damaged later, and is made again. Nothing here raises for a full or read-only disk. A folder that
other users can write to is not used at all: what is in it gets executed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dynamo import config
from dynamo.surroundings.temporary import own_folder

MAGIC = "dynamo-debug graph 1"
PAGE = 4096
SHARE = 32  # the cache may be over its limit by this part of it


def root() -> Path:
    """`cache_dir`, or a folder of the user's cache directory."""
    if config.cache_dir:
        return Path(config.cache_dir)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "dynamo-debug"


def directory() -> Path:
    """Where built libraries are."""
    return root() / "kernels"


def graphs() -> Path:
    """Where compiled graphs are."""
    return root() / "graphs"


def limit() -> int:
    """Bytes the cache may hold."""
    return int(config.cache_limit) * 1024 * 1024


def refusal() -> str:
    """Why the cache is not used; '' when it is."""
    if config.force_disable_caches or not config.cache:
        return "switched off by configuration"
    return _unsafe(str(root()))


@functools.cache
def _unsafe(folder: str) -> str:
    """Why a folder is not safe to take code from. It is made when it is not there yet."""
    with contextlib.suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    try:
        stat = os.stat(folder)
    except OSError:
        return ""  # there is none and none can be made: nothing will be found
    if hasattr(os, "getuid") and stat.st_uid != os.getuid():
        return f"{folder} belongs to another user; set DYNAMO_CACHE_DIR to a folder of your own"
    if stat.st_mode & 0o022:
        return f"{folder} can be written by other users; chmod go-w it, or set DYNAMO_CACHE_DIR"
    return ""


def key_of(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()


def sum_text(content: bytes) -> str:
    return f"{len(content)} {hashlib.sha256(content).hexdigest()}\n"


# libraries


def _paths(key: str) -> tuple[Path, Path, Path]:
    folder = directory() / key[:2]
    return folder / f"{key}.so", folder / f"{key}.sum", folder / f"{key}.c"


def find(key: str) -> Path | None:
    """The library of an entry that is complete and undamaged."""
    if refusal():
        return None
    library, checksum, _ = _paths(key)
    try:
        if checksum.read_text() != sum_text(library.read_bytes()):
            return None
    except (OSError, ValueError):
        return None
    _touch(library)
    return library


def put(key: str, built: Path, source: str) -> Path:
    """Move a built library into the cache; returns where it can be loaded from, which is `built` itself when that fails."""
    if refusal():
        return built
    library, checksum, text = _paths(key)
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        content = built.read_bytes()
        write(text, source.encode())
        write(library, content)
        write(checksum, sum_text(content).encode())
    except OSError:
        return built
    grown_by(len(content) + len(source))
    return library


def _touch(path: Path) -> None:
    """Used now. A read-only cache does not keep count."""
    with contextlib.suppress(OSError):
        os.utime(path)


def write(path: Path, content: bytes) -> None:
    """All or nothing: readers see the old file or the new one."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """A private directory for one build, gone afterwards (a loaded library stays mapped)."""
    with own_folder("build-") as path:
        yield path


# graphs


class Damaged(ValueError):
    """An entry whose content does not fit its first line."""


def graph_path(key: str) -> Path:
    return graphs() / key[:2] / f"{key}.graph"


def image_path(key: str) -> Path:
    return directory() / key[:2] / f"{key}.cubin"


def find_parts(path: Path) -> list[bytes] | None:
    """The parts of an entry, None where there is none. Raises Damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    head, newline, rest = content.partition(b"\n")
    fields = head.decode("ascii", "replace").removeprefix(MAGIC).split()
    if not newline or not head.startswith(MAGIC.encode()) or not fields or not fields[0].isdigit():
        raise Damaged("its first line cannot be read")
    parts: list[bytes] = []
    for size in fields[:-1]:
        length = int(size) if size.isdigit() else -1
        if not 0 <= length <= len(rest):
            raise Damaged("it was cut off")
        part, rest = rest[:length], rest[length:]
        parts.append(part)
    if rest or hashlib.sha256(b"".join(parts)).hexdigest() != fields[-1]:
        raise Damaged("its checksum does not fit")
    _touch(path)
    return parts


def put_parts(path: Path, parts: Sequence[bytes]) -> bool:
    """Keep an entry. False when the disk does not take it."""
    content = b"".join(parts)
    head = " ".join((MAGIC, *(str(len(p)) for p in parts), hashlib.sha256(content).hexdigest()))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, head.encode() + b"\n" + content)
    except OSError:
        return False
    grown_by(len(content))
    return True


def count_hit() -> None:
    """One more graph found: a byte appended is atomic, so processes need no lock."""
    with contextlib.suppress(OSError), open(root() / "hits", "ab") as file:
        file.write(b"\n")


# the whole


@dataclass(frozen=True)
class Info:
    """What `cache info` shows. `oldest` and `newest` are times of last use, in seconds since 1970; 0 without entries."""

    directory: str
    entries: int
    bytes: int
    limit: int
    graphs: int = 0
    libraries: int = 0
    oldest: float = 0.0
    newest: float = 0.0
    hits: int = 0
    refused: str = ""


@dataclass
class Entry:
    """The files of one key, and when it was last used."""

    paths: list[Path]
    used: float = 0.0
    bytes: int = 0


def _entries() -> list[Entry]:
    found: dict[Path, Entry] = {}
    for folder in (directory(), graphs()):
        for path in folder.glob("*/*"):
            with contextlib.suppress(OSError):
                stat = path.stat()
                entry = found.setdefault(path.with_suffix(""), Entry([]))
                entry.paths.append(path)
                entry.used = max(entry.used, stat.st_mtime)
                entry.bytes += stat.st_size
    return list(found.values())


def _count(entries: Sequence[Entry], suffix: str) -> int:
    return sum(p.suffix == suffix for e in entries for p in e.paths)


def info() -> Info:
    entries = _entries()
    hits = 0
    with contextlib.suppress(OSError):
        hits = (root() / "hits").stat().st_size
    kept, built = _count(entries, ".graph"), _count(entries, ".so") + _count(entries, ".cubin")
    used = [e.used for e in entries] or [0.0]
    total = sum(e.bytes for e in entries)
    return Info(str(root()), kept + built, total, limit(), kept, built, min(used), max(used), hits, refusal())


def clear() -> int:
    """Remove every entry, and nothing else that is in the folder; returns how many there were.

    Processes that use the cache meanwhile make again what they do not find.
    """
    removed = info().entries
    for folder in (directory(), graphs()):
        shutil.rmtree(folder, ignore_errors=True)
    for counter in ("hits", "grown"):
        with contextlib.suppress(OSError):
            (root() / counter).unlink()
    return removed


def grown_by(size: int) -> None:
    """`size` bytes were written. A look through the whole cache takes as long as it is large, so there is one per SHARE of the limit."""
    try:
        with open(root() / "grown", "ab") as file:
            file.write(b"\n" * (size // PAGE + 1))
            grown = file.tell() * PAGE
    except OSError:
        return
    if grown > limit() // SHARE:
        trim()


def trim() -> None:
    """Drop the entries used longest ago until the cache fits its limit."""
    with contextlib.suppress(OSError):
        os.truncate(root() / "grown", 0)
    entries = sorted(_entries(), key=lambda e: e.used)
    total = sum(e.bytes for e in entries)
    for entry in entries:
        if total <= limit():
            return
        total -= entry.bytes
        for path in entry.paths:
            with contextlib.suppress(OSError):
                path.unlink()
