"""Imports of our files, late ones and those for typing counted: no circles, and a reason beside every late one."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("dynamo", "inductor", "minifier", "tui", "repro_corpus")
LATE = 25  # may fall, not rise
_REASON = re.compile(r"# noqa: (?:\w+, )*PLC0415(?:, \w+)*  # \w")


def _modules() -> dict[str, Path]:
    """Our modules by name; an extension stands for itself by its stub."""
    found = {}
    for package in PACKAGES:
        for path in (*(ROOT / package).rglob("*.py"), *(ROOT / package).rglob("_*.pyi")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _imported(tree: ast.Module, known: dict[str, Path]) -> set[str]:
    """The modules that a file names in its imports, wherever they stand: the file of a name, or the package it comes from."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else str(node.module) for name in names}
    return found & known.keys()


def _circles(edges: dict[str, set[str]]) -> set[str]:
    """What is left when files that import nothing left, or that nothing left imports, are taken away again and again."""
    left = {name: set(to) for name, to in edges.items()}
    while True:
        imported = set().union(*left.values())
        ends = {name for name, to in left.items() if not to or name not in imported}
        if not ends:
            return set(left)
        left = {name: to - ends for name, to in left.items() if name not in ends}


def test_no_files_import_each_other_in_a_circle() -> None:
    known = _modules()
    edges = {name: _imported(ast.parse(path.read_text()), known) - {name} for name, path in known.items()}

    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == {"b", "c"}
    assert _circles(edges) == set()


def test_folders_of_dynamo_use_what_their_rows_say() -> None:
    """The table of ARCHITECTURE.md: a row names the folders it may use, and may use what those may."""
    table = (ROOT / "ARCHITECTURE.md").read_text().partition("| folder of `dynamo` |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| .* \|([^|]*)\|$", table, re.MULTILINE)
    allowed: dict[str, set[str]] = {}
    for name, uses in rows:
        if (ROOT / "dynamo" / name).is_dir():
            allowed[name] = set(allowed) if uses.strip() == "all above" else set(re.findall(r"`(\w+)`", uses))
    assert set(allowed) == {path.parent.name for path in (ROOT / "dynamo").glob("*/__init__.py")}

    def reached(name: str) -> set[str]:
        return {name, *(below for use in allowed[name] for below in reached(use))}

    known = {name: path for name, path in _modules().items() if name.startswith("dynamo.")}
    wrong = set()
    for name, path in known.items():
        for other in _imported(ast.parse(path.read_text()), known):
            folder, used = name.split(".")[1], other.split(".")[1]
            if folder in allowed and used in allowed.keys() - reached(folder):
                wrong.add(f"{name} imports {other}")
    assert wrong == set()


def test_every_late_import_has_its_reason() -> None:
    lines = [(path, line) for path in _modules().values() for line in path.read_text().splitlines() if "PLC0415" in line]

    assert [f"{path}: {line}" for path, line in lines if not _REASON.search(line)] == []
    assert len(lines) <= LATE


def test_the_record_is_kept_from_every_neighbour() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (forbidden,) = [set(c["forbidden_modules"]) for c in contracts if c["name"].startswith("dynamo.trace alone")]

    names = {f"dynamo.{path.stem}" for path in (ROOT / "dynamo").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert names - forbidden == {"dynamo.__init__", "dynamo.trace"}
