"""What is run as `__main__`: a script, or as under Python itself `-m` with the name of a module as its first argument.

Runs of the whole program hand both words on. What looks at its text, or runs a part of it under another name, has a plain script of it.
"""

from __future__ import annotations

import ast
import os
import re
import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

MODULE = "-m"


class NoSuchModule(ValueError):
    """There is no module of that name to run; the message says what is missing."""


@dataclass(frozen=True)
class Program:
    """`path` is its file, `folder` is where it imports from, `package` is what its relative imports start at, '' for a script."""

    path: Path
    folder: Path
    args: tuple[str, ...] = ()
    package: str = ""

    def text(self) -> str:
        """Its source as a plain script, which knows no package. Raises SyntaxError."""
        text = self.path.read_text(encoding="utf-8")
        return absolute(text, self.package) if self.package else text


def program(script: str, args: Sequence[str]) -> Program:
    """What the words of a command line mean. Imports nothing. Raises NoSuchModule."""
    if script != MODULE:
        path = Path(script)
        return Program(path, path.absolute().parent, tuple(args))
    name, *rest = args
    found = _file_of(name)
    if found is None:
        raise NoSuchModule(f"{name}: no such module, or it has no source; it is looked up in {os.getcwd()} and where Python does")
    path, package = found
    return Program(path, Path.cwd(), tuple(rest), package)


def _file_of(name: str) -> tuple[Path, str] | None:
    """File and package of a module; a package means its `__main__`."""
    search: list[str] | None = [os.getcwd(), *sys.path]
    spec, known = None, ""
    for part in name.split("."):
        known = f"{known}.{part}".lstrip(".")
        spec = PathFinder.find_spec(known, search) or (None if "." in known else find_spec(known))  # by a hook, of an editable install
        if spec is None:
            return None
        search = None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)
        if search is None and known != name:
            return None
    if search is not None:
        known, package = f"{known}.__main__", known
        spec = PathFinder.find_spec(known, search)
    else:
        package = known.rpartition(".")[0]
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin), package


def run_as_main(words: Sequence[str]) -> None:
    """Run `SCRIPT [ARGS]...` or `-m NAME [ARGS]...` as Python would, in the place of what began this process with `python -m`."""
    script, *args = words
    if script == MODULE:
        sys.argv[:] = args
        sys.path[0] = os.getcwd()
        runpy.run_module(args[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = words
        sys.path[0] = os.path.dirname(os.path.abspath(script))
        runpy.run_path(script, run_name="__main__")


def absolute(text: str, package: str) -> str:
    """A text of a module of `package` without imports that are relative to it, and without its name. Raises SyntaxError."""
    places: list[tuple[int, int, str, str]] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            parts = package.split(".")
            home = ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])
            places.append((node.lineno, node.col_offset, r"from[\s\\.]+(?:[\w.\s\\]*?)\bimport\b", f"from {home} import"))
        elif isinstance(node, ast.Name) and node.id == "__package__" and isinstance(node.ctx, ast.Load):
            places.append((node.lineno, node.col_offset, "__package__", repr(package)))
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for row, column, written, instead in sorted(places, reverse=True):
        at = starts[row - 1] + len(lines[row - 1].encode()[:column].decode())
        text = text[:at] + re.sub(written, instead.replace("\\", r"\\"), text[at:], count=1)
    return text
