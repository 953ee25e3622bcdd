"""Where the module lies that `-m NAME` stands for, found without importing anything: imports are the program's, and have effects."""

from __future__ import annotations

import os
import pkgutil
import re
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

MAIN = "__main__"


class NoSuchModule(ValueError):
    """There is no module of that name to run; the message says what is missing.

    `after_imports`: Python imports packages before it finds that out, and one of them does something about where modules are found.
    """

    def __init__(self, message: str, after_imports: bool = False) -> None:
        super().__init__(message)
        self.after_imports = after_imports


def located(name: str, path: Sequence[str] | None = None) -> ModuleSpec:
    """What runs: the module itself, of a package its `__main__`. `path` is `sys.path` as it is for the program. Raises NoSuchModule."""
    search: list[str] | None = list(program_path() if path is None else path)
    spec, known, mends = None, "", False
    parts = name.split(".")
    for part in parts:
        known = f"{known}.{part}" if known else part
        spec = _found(known, search) if part and search is not None else None
        if spec is None:
            raise _missing(name, known, mends)
        mends = mends or _may_mend(spec)
        search = None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)
    if search is not None:
        spec = _on_path(f"{name}.{MAIN}", search)
        if spec is None:
            raise _missing(name, f"{name}.{MAIN}", mends)
    assert spec is not None
    return spec


def _may_mend(package: ModuleSpec) -> bool:
    """Whether the code of a package may give it modules that are not in its folder."""
    if package.loader is None:
        return False
    get_source: Any = getattr(package.loader, "get_source", None)
    source = get_source(package.name) if get_source is not None else None
    return source is None or re.search(r"\b(__path__|sys|importlib)\b", source) is not None


def _missing(name: str, part: str, after_imports: bool) -> NoSuchModule:
    reason = f", for there is no {part}" if part not in (name, "") else ""
    where = f"it is looked up in {here()} and where Python does"
    return NoSuchModule(f"{name}: no such module{reason}; {where}", after_imports=after_imports)


def here() -> str:
    """The folder that the process is in; '' where that is deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def program_path() -> list[str]:
    """`sys.path` of a program that is started with `-m` in this folder."""
    folder = "" if sys.flags.safe_path else here()
    return [folder, *sys.path] if folder else [*sys.path]


def _found(name: str, search: Sequence[str]) -> ModuleSpec | None:
    if "." in name:
        return _on_path(name, search)
    for finder in sys.meta_path:
        finder_asked: Any = finder
        spec: ModuleSpec | None = _on_path(name, search) if finder is PathFinder else finder_asked.find_spec(name, None)
        if spec is not None:
            return spec
    return None


def _on_path(name: str, search: Sequence[str]) -> ModuleSpec | None:
    """As `PathFinder` does it, which asks for the packages above to be loaded where they have no `__init__`."""
    portions: list[str] = []
    for entry in [entry or here() for entry in search]:
        importer: Any = pkgutil.get_importer(entry) if entry else None
        spec: ModuleSpec | None = importer.find_spec(name) if importer is not None else None
        if spec is None:
            continue
        if spec.loader is not None:
            return spec
        portions += spec.submodule_search_locations or []
    if not portions:
        return None
    space = ModuleSpec(name, None, is_package=True)
    space.submodule_search_locations = portions
    return space
