"""Backends that a script or a module beside it defines, for processes that do not run the script.

Their definitions are written to a file of their own.
"""

from __future__ import annotations

import ast
import symtable
import sys
from pathlib import Path

from minifier.beside import copy_beside
from minifier.programs import absolute

MODULE = "script_backend"  # what the definitions of a script are called


def kept(backend: str, folder: Path) -> str:
    """The name of a backend for processes that find modules in `folder`: `module:function` of a script or of a module in its folder is
    written there, with the modules that it imports from that folder. Other names, and functions that a script makes inside of functions,
    stay as they are."""
    module, _, name = backend.partition(":")
    if not name or "." in name:
        return backend
    beside = Path(sys.path[0]).absolute()
    if module != "__main__":  # where it is one that the user names, the script need not import it
        copy_beside(f"import {module}", beside, folder)
        return backend
    home = sys.modules[module]
    found = getattr(home, "__file__", None)
    if not found:
        return backend
    text = definition(absolute(Path(found).read_text(encoding="utf-8"), getattr(home, "__package__", None) or ""), name)
    if not text:
        return backend
    (folder / f"{MODULE}.py").write_text(text, encoding="utf-8")
    copy_beside(text, beside, folder)
    return f"{MODULE}:{name}"


def definition(text: str, name: str) -> str:
    """The statements of a module that define a name and what that needs, in their order; '' where there are none."""
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
    if not any(name in _bound(scopes[i]) for i in chosen):
        return ""
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
