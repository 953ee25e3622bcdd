"""Folders and zip files that Python runs: their `__main__`, with the whole in front of `sys.path`."""

from __future__ import annotations

import pkgutil
from importlib.machinery import ModuleSpec

from dynamo.peer.located import MAIN


def main_of(path: str) -> ModuleSpec | None:
    """The `__main__` of a folder or zip file; None of one without, and of any other file."""
    importer = pkgutil.get_importer(path)
    return importer.find_spec(MAIN) if importer is not None else None
