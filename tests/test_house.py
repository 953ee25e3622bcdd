"""Rules of the house that no other tool holds: sizes, reasons beside suppressions, a word about every file and package."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("dynamo", "inductor", "minifier", "tui")
# Files that gather what others ask for by their name, as packages do.
FRONTS = ("dynamo/trace/writers.py", "dynamo/utils.py", "inductor/uncached.py", "minifier/fuzz/fuzzing.py", "minifier/minify.py")
FILE, FUNCTION, CLASS = 700, 100, 500  # lines
_SUPPRESSED = re.compile(r"# (?:type: ignore|noqa|mypy:|ruff:)[^#]*")
_WITH_REASON = re.compile(r"(?:# (?:type: ignore\[[\w, -]+\]|noqa: [A-Z]+\d+(?:, [A-Z]+\d+)*) *){1,2} # \S")


def _files() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text()


def _too_long(text: str) -> list[str]:
    found = [f"file of {lines} lines"] if (lines := text.count("\n")) > FILE else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            lines = node.end_lineno - node.lineno + 1
            if lines > (CLASS if isinstance(node, ast.ClassDef) else FUNCTION):
                found.append(f"{node.name} of {lines} lines")
    return found


def _has_all(text: str) -> bool:
    return any(isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__" for n in ast.parse(text).body)


def _hidden(text: str) -> list[str]:
    """Variables of functions that have the name of something the file imports or defines."""
    tree = ast.parse(text)
    imported = (a.asname or a.name.partition(".")[0] for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names)
    known = {*imported, *(n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)))}
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
    shared = {name for n in ast.walk(tree) if isinstance(n, ast.Global) for name in n.names}
    stored = {n.id for f in functions for n in ast.walk(f) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return sorted(stored & known - shared)


def _without_reason(text: str) -> list[str]:
    """Comments that switch off a tool for their line and don't say why."""
    comments = (t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT)
    return [c for c in comments if _SUPPRESSED.search(c) and not _WITH_REASON.match(c)]


@pytest.mark.parametrize(
    ("comment", "is_enough"),
    [
        ("# noqa: BLE001  # the program's own error", True),
        ("# type: ignore[arg-type,unused-ignore]  # since 3.12", True),
        ("# type: ignore[operator]  # noqa: B015  # the complaint is the point", True),
        ("# noqa: BLE001", False),
        ("# noqa", False),
        ("# type: ignore", False),
        ("# type: ignore  # of everything", False),
        ("# noqa: BLE001 without a mark", False),
        ("# raises  # type: ignore[misc]", False),
    ],
)
def test_what_counts_as_a_reason(comment: str, is_enough: bool) -> None:
    assert (_without_reason(f"x = 1  {comment}\n") == []) is is_enough


def test_what_counts_as_hidden() -> None:
    assert _hidden("import a\nfrom b import c as d\ndef f():\n    a = d = f = e = 1\n") == ["a", "d", "f"]
    assert _hidden("import a\ndef f():\n    global a\n    a = 1\n") == []


def test_what_counts_as_too_long() -> None:
    assert _too_long("def f():\n" + "    pass\n" * FUNCTION) == [f"f of {FUNCTION + 1} lines"]
    assert _too_long("class C:\n" + "    x = 1\n" * (CLASS - 1)) == []
    assert _too_long("x = 1\n" * (FILE + 1)) == [f"file of {FILE + 1} lines"]


def test_sizes() -> None:
    assert {name: found for name, text in _files() if (found := _too_long(text))} == {}


def test_every_suppression_has_its_reason() -> None:
    assert {name: found for name, text in _files() if (found := _without_reason(text))} == {}


def test_every_file_says_what_it_is() -> None:
    assert [name for name, text in _files() if ast.get_docstring(ast.parse(text)) is None] == []


def test_names_kept_alive() -> None:
    """Elsewhere `__all__` hides names that nobody uses from the tool that finds them."""
    assert [name for name, text in _files() if _has_all(text) and not name.endswith("__init__.py")] == list(FRONTS)


def test_no_variable_hides_a_name_of_its_file() -> None:
    assert {name: found for name, text in _files() if (found := _hidden(text))} == {}
