"""Nodes of a syntax tree by their paths, and trees with other nodes at some paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import libcst as cst

Path = tuple[tuple[str, int], ...]  # field and index of each step down; index -1: the field is a node
Change = cst.CSTNode | None | tuple[cst.CSTNode, ...]  # what stands there instead; None: nothing; a tuple: all of these
Changes = Mapping[Path, Change]

_LAYOUT = (
    "leading_lines", "lines_after_decorators", "header", "footer", "trailing_whitespace", "lpar", "rpar", "comma", "equal", "semicolon",
)  # fmt: skip
_TIGHT = (cst.Arg, cst.Assign, cst.Expr, cst.Return, cst.Element, cst.Index, cst.DictElement, cst.AnnAssign, cst.AugAssign, cst.Raise)
_ATOMS = (
    cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseNumber, cst.BaseString, cst.List, cst.Set, cst.Dict, cst.ListComp,
    cst.SetComp, cst.DictComp, cst.Ellipsis,
)  # fmt: skip
_GREEDY = (cst.Tuple, cst.NamedExpr, cst.Yield, cst.GeneratorExp)


@cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind) if not f.name.startswith("whitespace") and f.name not in _LAYOUT)


def children(node: cst.CSTNode) -> Iterator[tuple[tuple[str, int], cst.CSTNode]]:
    """The nodes below one, without those of layout."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield (name, -1), value
        elif isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                if isinstance(item, cst.CSTNode):
                    yield (name, i), item


def walk(node: cst.CSTNode, path: Path = ()) -> Iterator[tuple[Path, cst.CSTNode]]:
    """All nodes from one down, each before those below it."""
    stack = [(path, node)]
    while stack:
        path, node = stack.pop()
        yield path, node
        stack += reversed([((*path, step), child) for step, child in children(node)])


def at(node: cst.CSTNode, path: Path) -> cst.CSTNode:
    """The node at a path."""
    for name, index in path:
        value = getattr(node, name)
        node = value if index < 0 else value[index]
    return node


def edited(node: Any, changes: Changes) -> Any:
    """The tree with changes. A change at a node hides those below it. Blocks that would be empty get a `pass`."""
    if () in changes:
        return changes[()]
    if not changes:
        return node
    below: dict[str, dict[int, dict[Path, Change]]] = {}
    for path, change in changes.items():
        name, index = path[0]
        below.setdefault(name, {}).setdefault(index, {})[path[1:]] = change
    new: dict[str, Any] = {}
    for name, by_index in below.items():
        value = getattr(node, name)
        if -1 in by_index:
            new[name] = edited(value, by_index[-1])
            continue
        items: list[cst.CSTNode] = []
        for i, item in enumerate(value):
            made = edited(item, by_index[i]) if i in by_index else item
            items += made if isinstance(made, tuple) else [] if made is None else [made]
        new[name] = items or [passing()] if isinstance(node, cst.IndentedBlock) else items
    return node.with_changes(**new)


def passing() -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine([cst.Pass()])


def fitted(value: cst.BaseExpression, parent: cst.CSTNode) -> cst.BaseExpression:
    """An expression that can stand below `parent`: in parentheses where those may matter."""
    if isinstance(value, _ATOMS) or value.lpar or (isinstance(parent, _TIGHT) and not isinstance(value, _GREEDY)):
        return value
    return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def block_of(node: cst.CSTNode) -> Sequence[cst.CSTNode]:
    """The statements right below a statement or clause."""
    body = getattr(node, "body", None)
    return body.body if isinstance(body, cst.IndentedBlock) else ()
