"""Backends that a script or a module beside it defines, for processes that do not run the script.

Their definitions are written to a file of their own.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import symtable
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dynamo.peer.located import here
from minifier.beside import copy_backend, copy_beside
from minifier.programs import absolute, source_text

MODULE = "script_backend"  # what the definitions of a script are called
_SCRIPTS = ("__main__", "__mp_main__")  # how a script is called in its own process and in those of `multiprocessing`
_UNNAMED = "backend"  # what a lambda is called


def kept(backend: str, folder: Path, function: Callable[..., Any] | None = None) -> str:
    """The name of a backend for processes that find modules in `folder`: `module:function` of a script, or of a module in its folder or in
    the current one, is written there, with the modules that it imports from that folder. So is a `function` that the script makes inside of
    another one, if it needs nothing of that. Other names stay as they are."""
    module, _, name = backend.partition(":")
    if not name:
        return backend
    beside = Path(sys.path[0]).absolute()
    home, text = sys.modules.get(module), ""
    if "." in name or "<" in name:
        name, text = inner(home, function)
    elif module not in _SCRIPTS:  # where it is one that the user names, the script need not import it
        # A backend that is tried out on programs of another folder lies where the command was given.
        copy_backend(backend, (beside, Path(here())), folder)
        return backend
    elif home is not None:
        text = _text_of(home)
    text = definition(text, name, vars(home) if home is not None else {}) if text else ""
    if not text:
        return backend
    copy_beside(text, beside, folder)
    return f"{_written(text, folder)}:{name}"


def _text_of(module: types.ModuleType) -> str:
    """Its source as that of a script; '' where it has none."""
    found = getattr(module, "__file__", None)
    return absolute(source_text(Path(found).read_bytes()), getattr(module, "__package__", None) or "") if found else ""


def _written(text: str, folder: Path) -> str:
    """The name of the module with this text: a script may have several backends."""
    names = (MODULE if number == 1 else f"{MODULE}_{number}" for number in itertools.count(1))
    files = (folder / f"{name}.py" for name in names)
    file = next(f for f in files if not f.exists() or f.read_text(encoding="utf-8") == text)
    file.write_text(text, encoding="utf-8")
    return file.stem


def inner(home: types.ModuleType | None, function: Callable[..., Any] | None) -> tuple[str, str]:
    """A plain function that a module makes inside of another one: its name there, and the text of the module with it at the end. '' where
    it needs what that function has: variables, or values of defaults that can't be written down."""
    if home is None or type(function) is not types.FunctionType or function.__code__.co_freevars:
        return "", ""
    text = _text_of(home)
    node = _node_of(function.__code__, text) if text else None
    if node is None or not _plain_defaults(node.args, function):
        return "", ""
    for arg in ast.walk(node.args):
        if isinstance(arg, ast.arg):
            arg.annotation = None
    if isinstance(node, ast.Lambda):
        name, made = _UNNAMED, f"{_UNNAMED} = {ast.unparse(node)}"
    else:
        name, node.returns, node.decorator_list = node.name, None, []
        made = ast.unparse(node)
    return ("", "") if name in vars(home) else (name, f"{text}\n\n\n{made}\n")


def _node_of(code: types.CodeType, text: str) -> ast.FunctionDef | ast.Lambda | None:
    """What made the code of a function, if only one can be meant."""
    found: list[ast.FunctionDef | ast.Lambda] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found += [node] if first == code.co_firstlineno else []
        elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>":
            found += [node] if _is_code_of(node, code) else []
    return found[0] if len(found) == 1 else None


def _is_code_of(node: ast.Lambda, code: types.CodeType) -> bool:
    """Equal code includes the places of its instructions, which those of a constant alone don't have in CPython 3.12."""
    made = compile(ast.Expression(node), code.co_filename, "eval").co_consts
    codes = [c for c in made if isinstance(c, types.CodeType)]
    return codes[-1].replace(co_flags=code.co_flags) == code


def _plain_defaults(args: ast.arguments, function: types.FunctionType) -> bool:
    """Put the values of defaults in the place of what gave them; False where one can't be written down."""
    values = [*(function.__defaults__ or ()), *((function.__kwdefaults__ or {}).get(a.arg) for a in args.kwonlyargs)]
    if not all(value is None or isinstance(value, (bool, int, float, str)) for value in values):
        return False
    count = len(args.defaults)
    args.defaults = [ast.Constant(value) for value in values[:count]]
    given = zip(args.kw_defaults, values[count:], strict=True)
    args.kw_defaults = [None if node is None else ast.Constant(value) for node, value in given]
    return True


def definition(text: str, name: str, values: dict[str, Any] | None = None) -> str:
    """The statements of a module that define a name and what that needs, in their order; '' where there are none, or where they need one
    of the `values` that the module has that no statement of its own gives it: one that is set while the script runs."""
    statements = ast.parse(text).body
    scopes = [symtable.symtable(ast.unparse(s), "<script>", "exec") for s in statements]
    bound = [set() if _runs_the_script(s) else _bound(t) | _changed(s) for s, t in zip(statements, scopes, strict=True)]
    chosen: set[int] = set()
    wanted = {name}
    while True:
        more = {i for i, names in enumerate(bound) if i not in chosen and not wanted.isdisjoint(names)}
        if not more:
            break
        chosen |= more
        wanted |= {n for i in more for n in _read(scopes[i])}
    stars = {i for i, s in enumerate(statements) if isinstance(s, ast.ImportFrom) and s.names[0].name == "*"}
    given = {n for i in chosen for n in bound[i]} | set(vars(builtins))
    missing = {n for n in wanted - given if n in (values or {}) and not n.startswith("__")}
    if not any(name in _bound(scopes[i]) for i in chosen) or (missing and not stars):
        return ""
    chosen |= stars if missing else set()
    return "\n\n".join(_text(s, text) for i, s in enumerate(statements) if i in chosen or _is_future(s)) + "\n"


def _runs_the_script(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)


def _bound(scope: symtable.SymbolTable) -> set[str]:
    """Names that a statement of a module binds there; those of functions and comprehensions in it are their own."""
    return {s.get_name() for s in scope.get_symbols() if s.is_assigned() or s.is_imported()}


def _changed(statement: ast.stmt) -> set[str]:
    """Names of the module in which a statement sets an attribute or an item."""
    if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        return set()
    found = set()
    for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
        root: ast.expr = target
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        found |= {root.id} if isinstance(root, ast.Name) else set()
    return found


def _read(scope: symtable.SymbolTable, is_module: bool = True) -> set[str]:
    """Names of the module that a statement reads, at once or when what it defines is called."""
    found = {s.get_name() for s in scope.get_symbols() if s.is_referenced() and (is_module or s.is_global())}
    return found.union(*(_read(child, False) for child in scope.get_children()))


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _text(statement: ast.stmt, text: str) -> str:
    """As it is written, decorators included."""
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(d.lineno for d in decorators)])
    return "\n".join(text.splitlines()[first - 1 : statement.end_lineno])
