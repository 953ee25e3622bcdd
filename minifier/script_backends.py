"""Backends that a script or a module beside it defines, for processes that do not run the script.

Their definitions are written to a file of their own.
"""

from __future__ import annotations

import ast
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
    home = sys.modules.get(module)
    found = getattr(home, "__file__", None)
    if not name or not found or "." in name:
        return backend
    beside = Path(sys.path[0]).absolute()
    if module != "__main__":
        copy_beside(f"import {module}", beside, folder)
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
    chosen: set[int] = set()
    wanted = {name}
    while True:
        more = {i for i, s in enumerate(statements) if i not in chosen and not wanted.isdisjoint(_bound(s))}
        if not more:
            break
        chosen |= more
        wanted |= {n.id for i in more for n in ast.walk(statements[i]) if isinstance(n, ast.Name)}
    if not any(name in _bound(statements[i]) for i in chosen):
        return ""
    return "\n\n".join(_text(s, text) for i, s in enumerate(statements) if i in chosen or _is_future(s)) + "\n"


def _bound(statement: ast.stmt) -> set[str]:
    """Names that a statement of a module binds there."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
        return set()  # what runs the script
    found = set()
    for node in ast.walk(statement):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(a.asname or a.name).partition(".")[0] for a in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
    return found


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _text(statement: ast.stmt, text: str) -> str:
    """As it is written, decorators included."""
    decorators = getattr(statement, "decorator_list", [])
    first = min([statement.lineno, *(d.lineno for d in decorators)])
    return "\n".join(text.splitlines()[first - 1 : statement.end_lineno])
