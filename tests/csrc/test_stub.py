"""dynamo/_C.pyi names exactly what the extension has."""

from __future__ import annotations

import ast
from pathlib import Path

from dynamo import _C

STUB = ast.parse((Path(__file__).parents[2] / "dynamo" / "_C.pyi").read_text())
# What every class or function object has, and the stub therefore does not repeat.
COMMON = {"__doc__", "__module__", "__dict__", "__new__", "__repr__", "__getattribute__", "__setattr__", "__delattr__", "__reduce__"}


def names_in(body: list[ast.stmt]) -> set[str]:
    found = {item.name for item in body if isinstance(item, ast.FunctionDef | ast.ClassDef)}
    return found | {
        item.target.id for item in body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and not item.value
    }


def test_module_names() -> None:
    assert {name for name in vars(_C) if not name.startswith("__")} == names_in(STUB.body)


def test_class_members() -> None:
    for item in STUB.body:
        if isinstance(item, ast.ClassDef):
            assert set(vars(getattr(_C, item.name))) - COMMON == names_in(item.body) - {"__init__"}, item.name


def test_everything_public_has_a_docstring() -> None:
    for name in names_in(STUB.body):
        assert getattr(_C, name).__doc__ or name == "Compiled", name  # a Compiled has its function's __doc__
