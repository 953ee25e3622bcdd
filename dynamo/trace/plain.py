"""Files that somebody names or hands over: a device never ends, and a pipe waits for who never writes."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_KINDS = {
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}


class NotPlain(OSError):
    """There is something of that name, but no file with an end; `strerror` says what."""


def check_plain(path: Path | str) -> None:
    """Raises NotPlain, and OSError as a look at the file does."""
    kind = stat.S_IFMT(os.stat(path).st_mode)
    if kind != stat.S_IFREG:
        raise NotPlain(errno.EINVAL, f"it is {_KINDS.get(kind, 'something else')}, not a file", str(path))


def open_plain(path: Path | str) -> BinaryIO:
    """The file for reading. Raises NotPlain before it is opened, and OSError."""
    check_plain(path)
    return open(path, "rb")


def read_plain(path: Path | str) -> bytes:
    """All of a file. Raises as `open_plain` does."""
    with open_plain(path) as file:
        return file.read()
