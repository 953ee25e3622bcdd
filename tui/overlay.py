"""Modules of a program read from other files than their own, as copies of its source with an edit in them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType


class _Loader(SourceFileLoader):
    """Loads the text of `copy` under the name and path of the original; nothing of it is cached."""

    def __init__(self, name: str, path: str, copy: str) -> None:
        super().__init__(name, path)
        self.copy = copy

    def get_code(self, fullname: str) -> CodeType:
        with open(self.copy, "rb") as f:
            return compile(f.read(), self.path, "exec", dont_inherit=True)


class Overlay(MetaPathFinder):
    """Finds modules as usual, and gives those with a copy a loader of the copy."""

    def __init__(self, copies: Mapping[str, str]) -> None:
        self.copies = {os.path.realpath(path): copy for path, copy in copies.items()}

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target)
        copy = self.copies.get(os.path.realpath(spec.origin)) if spec is not None and spec.origin else None
        if spec is None or copy is None or spec.origin is None:
            return None
        spec.loader = _Loader(fullname, spec.origin, copy)
        return spec
