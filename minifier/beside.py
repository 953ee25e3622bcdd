"""Modules that lie in the folder of a program and that a part of it imports: a repro has copies of them beside it."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

# Of these every repro has its own: they are installed, even where a program lies among their sources.
_INSTALLED = frozenset({"dynamo", "inductor", "minifier", "torch", "tui"})


def modules_beside(text: str, folder: Path) -> list[str]:
    """Files of modules in `folder` that a script there imports, and those that these import: relative names, in order."""
    found: dict[str, None] = {}
    waiting = [(text, "")]
    while waiting:
        source, package = waiting.pop()
        for name in _imported(source, package):
            for file, home in _files(name, folder):
                if file not in found:
                    found[file] = None
                    waiting.append(((folder / file).read_text(encoding="utf-8", errors="replace"), home))
    return sorted(found)


def copy_beside(text: str, folder: Path, target: Path) -> None:
    """Copy the files of `modules_beside` to the same places below another folder. Raises OSError."""
    if folder.absolute() == target.absolute():
        return
    for file in modules_beside(text, folder):
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        (target / file).unlink(missing_ok=True)
        shutil.copyfile(folder / file, target / file)


def _imported(text: str, package: str) -> Iterator[str]:
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
            if (folder / part / "__init__.py").is_file():
                yield (part / "__init__.py").as_posix(), ".".join(parts[:count])
        else:
            if (folder / part).with_suffix(".py").is_file():
                yield part.with_suffix(".py").as_posix(), ".".join(parts[: count - 1])
            return
