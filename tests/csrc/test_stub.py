"""The stubs name exactly what the extensions have, with the signatures that they have."""

from __future__ import annotations

import ast
import ctypes
import inspect
import os
import textwrap
import types
from pathlib import Path
from typing import Any

import pytest

from dynamo import _C
from inductor import _host

ROOT = Path(__file__).parents[2]
MODULES: dict[types.ModuleType, Path] = {_C: ROOT / "dynamo" / "_C.pyi", _host: ROOT / "inductor" / "_host.pyi"}
# What every class or function object has, and the stub therefore does not repeat.
COMMON = {
    "__doc__",
    "__module__",
    "__dict__",
    "__new__",
    "__repr__",
    "__class__",
    "__getattribute__",
    "__setattr__",
    "__delattr__",
    "__reduce__",
}
BEGIN, END = "# ---- guard kinds, written of dynamo/csrc/kinds.h by `make accept`\n", "# ---- end of guard kinds\n"


def parsed(module: types.ModuleType) -> ast.Module:
    return ast.parse(MODULES[module].read_text())


def names_in(body: list[ast.stmt]) -> set[str]:
    found = {item.name for item in body if isinstance(item, ast.FunctionDef | ast.ClassDef)}
    return found | {
        item.target.id for item in body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and not item.value
    }


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_module_names(module: types.ModuleType) -> None:
    assert {name for name in vars(module) if not name.startswith("__")} == names_in(parsed(module).body)


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_class_members(module: types.ModuleType) -> None:
    for item in parsed(module).body:
        if isinstance(item, ast.ClassDef):
            assert set(vars(getattr(module, item.name))) - COMMON == names_in(item.body) - {"__init__"}, item.name


def signature(function: ast.FunctionDef) -> str:
    """A stub's signature as `inspect` writes it, without annotations and without the receiver."""
    given = function.args
    for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
        if argument is not None:
            argument.annotation = None
    made: Any = eval(f"lambda {ast.unparse(given)}: None")
    return shown(inspect.signature(made))


def shown(signature: inspect.Signature) -> str:
    return str(signature.replace(parameters=[p for p in signature.parameters.values() if p.name != "self"]))


class MethodDef(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


POINTER = ctypes.sizeof(ctypes.c_void_p)
# Where function objects, and methods of types, keep the row of their method table: behind the head, and there behind type and names.
PLACES = {types.BuiltinFunctionType: object.__basicsize__, types.MethodDescriptorType: object.__basicsize__ + 3 * POINTER}
METH_VARARGS, METH_KEYWORDS, METH_NOARGS, METH_O, METH_FASTCALL = 1, 2, 4, 8, 0x80


def row_of(made: Any) -> MethodDef:
    return ctypes.cast(ctypes.c_void_p.from_address(id(made) + PLACES[type(made)]), ctypes.POINTER(MethodDef)).contents


def accepts(flags: int, parameters: list[inspect.Parameter]) -> bool:
    """Whether a function of these flags can have these parameters."""
    if flags & METH_NOARGS:
        return not parameters
    if flags & METH_KEYWORDS:
        return all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    return all(p.kind is p.POSITIONAL_ONLY for p in parameters) and (not flags & METH_O or len(parameters) == 1)


def callables(module: types.ModuleType) -> list[tuple[str, ast.FunctionDef, Any]]:
    """(name, the stub's function, the C object that says its signature) of all functions, methods and constructors."""
    out: list[tuple[str, ast.FunctionDef, Any]] = []
    for item in parsed(module).body:
        if isinstance(item, ast.FunctionDef):
            out.append((item.name, item, getattr(module, item.name)))
        elif isinstance(item, ast.ClassDef):
            cls = getattr(module, item.name)
            for member in item.body:
                if isinstance(member, ast.FunctionDef) and member.name == "__init__":
                    out.append((cls.__name__, member, cls))
                elif isinstance(member, ast.FunctionDef) and type(vars(cls)[member.name]) in PLACES:
                    out.append((f"{cls.__name__}.{member.name}", member, vars(cls)[member.name]))
    return out


# The __doc__ of a Compiled, and with it the place of a signature, is that of its function.
ROWS = [
    pytest.param(stub, made, id=f"{module.__name__}.{name}")
    for module in MODULES
    for name, stub, made in callables(module)
    if made is not _C.Compiled
]


@pytest.mark.parametrize("stub, made", ROWS)
def test_signatures(stub: ast.FunctionDef, made: Any) -> None:
    declared = inspect.signature(made)
    assert shown(declared) == signature(stub)
    if not isinstance(made, type):
        row = row_of(made)
        assert row.name.decode() == stub.name
        assert accepts(row.flags, [p for p in declared.parameters.values() if p.name != "self"])


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_everything_public_has_a_docstring(module: types.ModuleType) -> None:
    for name in names_in(parsed(module).body):
        made = getattr(module, name)
        assert isinstance(made, dict) or made.__doc__ or name == "Compiled", name  # a Compiled has its function's __doc__


def rows_of(title: str, alias: str, rows: dict[str, tuple[str, str]]) -> str:
    width = max(map(len, rows)) + 2
    lines = [f"#   {title}"]
    for name, (argument, words) in rows.items():
        quoted = f'"{name}"'
        head = f"#     {quoted:<{width}}  {argument}: "
        lines += textwrap.wrap(f"{argument}: {words}", 132, initial_indent=head[: 6 + width + 2], subsequent_indent="#" + " " * (width + 9))
    return "\n".join(lines) + f"\n{alias}: TypeAlias = Literal[{', '.join(map(repr, rows))}]\n".replace("'", '"')


def test_guard_kinds_of_the_stub() -> None:
    """The part of the stub that is written of the table of kinds."""
    made = rows_of("accessors, how to get a node's object from its parent's:", "GuardAccessor", _C.guard_accessors)
    made += rows_of("leaves, what is checked of the object:", "GuardKind", _C.guard_kinds)
    path = MODULES[_C]
    before, _, rest = path.read_text().partition(BEGIN)
    known, _, after = rest.partition(END)
    if os.environ.get("ACCEPT_GOLDEN"):
        path.write_text(f"{before}{BEGIN}{made}{END}{after}")
        return
    assert known == made, "the stub is not that of dynamo/csrc/kinds.h: `make accept PYTEST_ARGS=tests/csrc/test_stub.py`"
