"""One form for all texts that mean the same: no comments, no blank lines, one statement per line, plain spaces. Names stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import cache, partial
from typing import Any

import libcst as cst

_NO_SPACE = cst.SimpleWhitespace("")
_LISTED = (
    cst.Arg, cst.Element, cst.StarredElement, cst.DictElement, cst.StarredDictElement, cst.Param, cst.ImportAlias, cst.WithItem,
    cst.NameItem,
)  # fmt: skip
_LAYOUT = ("leading_lines", "lines_after_decorators", "header", "footer", "trailing_whitespace", "semicolon")


def canonical(module: cst.Module) -> cst.Module:
    """The canonical form of a module; that of a canonical module is itself."""
    made = module.visit(_Plain())
    assert isinstance(made, cst.Module)
    return made.with_changes(header=(), footer=(), default_indent="    ", default_newline="\n", has_trailing_newline=True, encoding="utf-8")


@cache
def _defaults(kind: type[cst.CSTNode]) -> tuple[tuple[str, Callable[[], Any]], ...]:
    """What the layout of a class of nodes is by default."""
    found: list[tuple[str, Callable[[], Any]]] = []
    for f in fields(kind):
        if f.name.startswith("whitespace_") or f.name in _LAYOUT:
            if f.default_factory is not MISSING:
                found.append((f.name, f.default_factory))
            elif f.default is not MISSING:
                found.append((f.name, partial(_same, f.default)))
    return tuple(found)


def _same(value: Any) -> Any:
    return value


class _Plain(cst.CSTTransformer):
    def visit_FormattedString(self, node: cst.FormattedString) -> bool:
        """Spaces inside may be part of the text."""
        return False

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        node = super().on_leave(original_node, updated_node)
        if not isinstance(node, cst.CSTNode) or isinstance(node, (cst.Module, cst.FormattedString)):
            return node
        changes: dict[str, Any] = {name: make() for name, make in _defaults(type(node))}
        if isinstance(node, _LISTED):
            changes["comma"] = cst.MaybeSentinel.DEFAULT
        if isinstance(node, (cst.Arg, cst.Param)) and isinstance(node.equal, cst.AssignEqual):
            changes["equal"] = cst.AssignEqual(_NO_SPACE, _NO_SPACE)
        if isinstance(node, cst.Subscript):
            changes["slice"] = _subscripts(node.slice)
        if isinstance(node, cst.Parameters):
            changes["posonly_ind"] = cst.MaybeSentinel.DEFAULT
            if isinstance(node.star_arg, cst.ParamStar):
                changes["star_arg"] = cst.MaybeSentinel.DEFAULT
        if isinstance(node, cst.Lambda):
            changes["colon"] = cst.Colon(whitespace_after=cst.SimpleWhitespace(" "))
        if isinstance(node, (cst.ImportFrom, cst.With)):
            changes |= {"lpar": _default(node, "lpar"), "rpar": _default(node, "rpar")}
        if isinstance(node, cst.ConcatenatedString):
            changes["whitespace_between"] = cst.SimpleWhitespace(" ")
        if isinstance(node, cst.IndentedBlock):
            changes["indent"] = None
            changes["body"] = _lines(node.body)
        if isinstance(node, cst.Comma):
            changes["whitespace_after"] = cst.SimpleWhitespace(" ")
        if isinstance(node, cst.MatchCase) and node.guard is not None:
            changes |= {"whitespace_before_if": cst.SimpleWhitespace(" "), "whitespace_after_if": cst.SimpleWhitespace(" ")}
        return node.with_changes(**changes)

    def leave_SimpleStatementSuite(self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite) -> cst.BaseSuite:
        return cst.IndentedBlock(_lines([cst.SimpleStatementLine(updated_node.body)]))

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        return updated_node.with_changes(body=_lines(updated_node.body))


def _default(node: cst.CSTNode, name: str) -> Any:
    return next(f.default for f in fields(node) if f.name == name)


def _subscripts(elements: Any) -> list[cst.SubscriptElement]:
    """With a comma behind the only one where there was: it makes a tuple."""
    is_tuple = len(elements) == 1 and isinstance(elements[0].comma, cst.Comma)
    return [e.with_changes(comma=cst.Comma() if is_tuple else cst.MaybeSentinel.DEFAULT) for e in elements]


def _lines(body: Any) -> list[Any]:
    """Statements, each on a line of its own."""
    lines: list[Any] = []
    for line in body:
        if isinstance(line, cst.SimpleStatementLine):
            lines += [cst.SimpleStatementLine([small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)]) for small in line.body]
        else:
            lines.append(line)
    return lines
