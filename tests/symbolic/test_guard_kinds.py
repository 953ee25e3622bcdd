"""The vocabulary of guards is one: each kind has its row in C and its row in Python, and something that makes it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dynamo
from dynamo import _C
from dynamo.guards.kinds import KINDS
from dynamo.source import STEPS

PACKAGE = Path(dynamo.__file__).parent
# Where kinds are named: the second of (source, kind, argument), and the first of (kind, argument).
MAKES_KINDS = {"guard": 1, "GuardRecord": 1}
MAKES_STEPS = {"step": 0, "Source": 0, "_Node": 0}


@cache
def trees() -> list[ast.Module]:
    return [ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))]


def named(makers: dict[str, int]) -> Iterator[str]:
    """The kinds that calls of `makers` name, and assignments to `because`, which becomes one."""
    for tree in trees():
        for found in ast.walk(tree):
            given: ast.expr | None = None
            if isinstance(found, ast.Call):
                name = found.func.attr if isinstance(found.func, ast.Attribute) else getattr(found.func, "id", "")
                given = found.args[makers[name]] if name in makers and len(found.args) > makers[name] else None
            elif isinstance(found, ast.Assign) and getattr(found.targets[0], "attr", "") == "because":
                given = found.value.elts[1] if "guard" in makers and isinstance(found.value, ast.Tuple) else None
            if isinstance(given, ast.Constant):
                yield str(given.value)


def test_the_tables_name_the_same_kinds() -> None:
    assert set(KINDS) == set(_C.guard_kinds)
    assert {*STEPS, "root"} == set(_C.guard_accessors)  # sources begin with an input or a constant


def test_every_kind_has_a_producer() -> None:
    assert set(named(MAKES_KINDS)) == set(_C.guard_kinds)


def test_every_accessor_has_a_producer() -> None:
    assert set(named(MAKES_STEPS)) == set(_C.guard_accessors)
