"""Folders for as long as a process needs them. One that was killed leaves its own to the next that needs one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_MARK = ".in-use-by-dynamo-debug"  # locked in a folder as long as its process lives
_YOUNGEST = 60.0  # seconds for which a folder may not have been locked yet
_PREFIX = "dynamo-"
_swept: set[str] = set()


class OwnFolder:
    """A new folder in the temporary one, until `close`."""

    def __init__(self, prefix: str = "debug-") -> None:
        home = tempfile.gettempdir()
        if home not in _swept:
            _swept.add(home)
            _sweep(home)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX + prefix))
        try:
            self._mark = os.open(self.path / _MARK, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        except OSError:
            self.path.rmdir()
            raise
        with contextlib.suppress(OSError):  # of a file system without locks; there nobody else gets it either
            fcntl.flock(self._mark, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        """May be called again."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._mark >= 0:
            os.close(self._mark)
            self._mark = -1


@contextlib.contextmanager
def own_folder(prefix: str = "debug-") -> Iterator[Path]:
    """`OwnFolder` for a block."""
    folder = OwnFolder(prefix)
    try:
        yield folder.path
    finally:
        folder.close()


def _sweep(home: str) -> None:
    """Remove folders of this user whose processes have gone."""
    with contextlib.suppress(OSError), os.scandir(home) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                _remove_left(Path(entry.path))


def _remove_left(folder: Path) -> None:
    with contextlib.suppress(OSError):  # it is somebody else's, has no mark, or is in use
        mark = os.open(folder / _MARK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            facts = os.fstat(mark)
            if facts.st_uid == os.getuid() and time.time() - facts.st_mtime > _YOUNGEST:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(mark)
