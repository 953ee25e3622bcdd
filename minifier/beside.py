"""Modules in the folder of a program that a part of it imports, and data that it reads: a repro has copies of them beside it."""

from __future__ import annotations

import ast
import os
import shutil
from collections.abc import Iterator, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path, PurePosixPath

MOST_BYTES, MOST_FILES = 64 << 20, 1000  # of data that go with a script
_LONGEST = 4096  # characters of a name of a file
_COMPILED = tuple(EXTENSION_SUFFIXES)
# Of these every repro has its own: they are installed, even where a program lies among their sources.
_INSTALLED = frozenset({"dynamo", "inductor", "minifier", "torch", "tui"})


def modules_beside(text: str, folder: Path) -> list[str]:
    """Files of modules in `folder` that a script there imports, and those that these import: relative names, in order. A package with
    compiled parts is where it is built, and none of these: a copy of its text alone would hide it."""
    found: dict[str, None] = {}
    waiting: list[tuple[str | bytes, str]] = [(text, "")]
    while waiting:
        source, package = waiting.pop()
        for name in _imported(source, package):
            for file, home in _files(name, folder):
                if file not in found:
                    found[file] = None
                    waiting.append(((folder / file).read_bytes(), home))
    return sorted(found)


def copy_beside(text: str, folder: Path, target: Path) -> None:
    """Copy the files of `modules_beside` to the same places below another folder. Raises OSError."""
    if folder.absolute() == target.absolute():
        return
    for file in modules_beside(text, folder):
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        (target / file).unlink(missing_ok=True)
        shutil.copyfile(folder / file, target / file)


def importing(backend: str) -> str:
    """A text that imports the module of a backend `module:function`; '' for other names."""
    module, is_own, _ = backend.partition(":")
    return f"import {module}\n" if is_own else ""


def copy_backend(backend: str, folders: Sequence[Path], target: Path) -> None:
    """Copy the module of a backend, and those that it imports, from the first folder that has it. Raises OSError."""
    text = importing(backend)
    for folder in [f for f in folders if text and modules_beside(text, f)][:1]:
        copy_beside(text, folder, target)


def naming(text: str, args: Sequence[str]) -> str:
    """A text in which what the arguments of a script name is named too."""
    return f"{text}\n{list(args)!r}\n"


def data_beside(text: str, folder: Path) -> list[str]:
    """Files in `folder` that a script or its arguments name, those of a folder that they name included: relative names, in order. None
    where that is much."""
    try:
        nodes = [n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    except (SyntaxError, ValueError):
        return []
    parts = {part for value in nodes if len(value) < _LONGEST for part in PurePosixPath(value).parts}
    found, size = list[str](), 0
    for entry in sorted(folder / name for name in parts.intersection(os.listdir(folder)) if not name.startswith(".")):
        files = sorted(p for p in entry.rglob("*") if p.is_file()) if entry.is_dir() else [entry] if entry.is_file() else []
        for file in files:
            size += file.stat().st_size
            if size > MOST_BYTES or len(found) == MOST_FILES:
                return []
            found.append(file.relative_to(folder).as_posix())
    return found


def copy_data(text: str, folders: Sequence[Path], target: Path) -> None:
    """Copy the files of `data_beside` of each folder to the same places below another one. Those of the first folder count first.
    Raises OSError."""
    homes = {file: folder for folder in reversed(folders) for file in data_beside(text, folder)}
    for file, folder in homes.items():
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / file, target / file)


def _imported(text: str | bytes, package: str) -> Iterator[str]:
    """Full names of what a text may import; some of them are no modules but names in one."""
    try:
        nodes = ast.walk(ast.parse(text))
    except (SyntaxError, ValueError):
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".") if package and node.level else []
            home = [*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])]
            yield ".".join(home)
            yield from (".".join([*home, a.name]) for a in node.names if a.name != "*")


def _files(name: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Files in the folder that an import of a module runs, each with the package that its relative imports start at."""
    parts = [p for p in name.split(".") if p]
    if not parts or parts[0] in _INSTALLED:
        return
    for count in range(1, len(parts) + 1):
        part = Path(*parts[:count])
        if (folder / part).is_dir():
            if count == 1 and any(file.name.endswith(_COMPILED) for file in (folder / part).rglob("*")):
                return
            if (folder / part / "__init__.py").is_file():
                yield (part / "__init__.py").as_posix(), ".".join(parts[:count])
        else:
            if (folder / part).with_suffix(".py").is_file():
                yield part.with_suffix(".py").as_posix(), ".".join(parts[: count - 1])
            return
