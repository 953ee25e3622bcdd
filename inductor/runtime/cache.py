"""The disk cache of built kernels: content-addressed, shared by processes, never trusted blindly.

An entry is `<dir>/<key[:2]>/<key>.so` with `<key>.sum` beside it, which holds size and SHA-256 of the library. The
library is renamed into place before its sum, so an entry without a matching sum is one that was never finished, or was
damaged later; it is rebuilt. Nothing here raises for a full or read-only disk: callers build in a private directory.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DEFAULT_LIMIT = 512 * 1024 * 1024


def directory() -> Path:
    """`DYNAMO_CACHE_DIR`, or a folder of the user's cache directory."""
    chosen = os.environ.get("DYNAMO_CACHE_DIR")
    if chosen:
        return Path(chosen) / "kernels"
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "dynamo-debug" / "kernels"


def limit() -> int:
    """Bytes the cache may hold; `DYNAMO_CACHE_LIMIT` in megabytes."""
    text = os.environ.get("DYNAMO_CACHE_LIMIT", "")
    return int(text) * 1024 * 1024 if text.isdigit() else DEFAULT_LIMIT


def key_of(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def sum_text(content: bytes) -> str:
    return f"{len(content)} {hashlib.sha256(content).hexdigest()}\n"


def _paths(key: str) -> tuple[Path, Path, Path]:
    folder = directory() / key[:2]
    return folder / f"{key}.so", folder / f"{key}.sum", folder / f"{key}.c"


def find(key: str) -> Path | None:
    """The library of an entry that is complete and undamaged."""
    library, checksum, _ = _paths(key)
    try:
        if checksum.read_text() != sum_text(library.read_bytes()):
            return None
        os.utime(library)
    except OSError:
        return library if library.exists() and _intact(library, checksum) else None
    return library


def _intact(library: Path, checksum: Path) -> bool:
    """The same check where the file times cannot be touched (a read-only cache)."""
    try:
        return checksum.read_text() == sum_text(library.read_bytes())
    except OSError:
        return False


def put(key: str, built: Path, source: str) -> Path:
    """Move a built library into the cache; returns where it can be loaded from, which is `built` itself when that fails."""
    library, checksum, text = _paths(key)
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        content = built.read_bytes()
        _write(text, source.encode())
        _write(library, content)
        _write(checksum, sum_text(content).encode())
    except OSError:
        return built
    trim()
    return library


def _write(path: Path, content: bytes) -> None:
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
    path = Path(tempfile.mkdtemp(prefix="dynamo-build-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@dataclass(frozen=True)
class Info:
    """What `cache info` shows."""

    directory: str
    entries: int
    bytes: int
    limit: int


def _files() -> list[tuple[float, int, Path]]:
    found = []
    for path in directory().glob("*/*"):
        with contextlib.suppress(OSError):
            stat = path.stat()
            found.append((stat.st_mtime, stat.st_size, path))
    return found


def info() -> Info:
    files = _files()
    return Info(str(directory()), sum(p.suffix == ".so" for _, _, p in files), sum(size for _, size, _ in files), limit())


def clear() -> int:
    """Remove every entry; returns how many libraries there were."""
    entries = info().entries
    shutil.rmtree(directory(), ignore_errors=True)
    return entries


def trim() -> None:
    """Drop the entries used longest ago until the cache fits its limit."""
    files = sorted(_files(), key=lambda f: f[0])
    total = sum(size for _, size, _ in files)
    for _, size, path in files:
        if total <= limit():
            return
        with contextlib.suppress(OSError):
            path.unlink()
            total -= size
