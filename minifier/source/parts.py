"""Edits below statements: items of lists, what decorates a definition, expressions and literals."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import libcst as cst

from minifier.engine import Edit, Lower, Pass, Sweep
from minifier.source import scopes
from minifier.source.definitions import without_aliases
from minifier.source.state import Place, Source, changed
from minifier.source.statements import Offers, choices
from minifier.source.tree import Change, Path, children, fitted

_Item = (cst.Element, cst.StarredElement, cst.DictElement, cst.StarredDictElement, cst.ImportAlias, cst.WithItem, cst.NameItem, cst.CompIf)
_Text = (cst.FormattedString, cst.ConcatenatedString)
_SETTLED = ("True", "False", "None", "self")


def trimming_pass() -> Pass[Source]:
    """Decorators, annotations, docstrings, base classes, defaults, names of handled exceptions."""
    return Sweep("trimmings", lambda s: list(s.places(_trimmings)), Edit("drop", _trim))


def item_pass() -> Pass[Source]:
    """Arguments, elements of displays, names of imports, items of `with`."""
    return Sweep("items", lambda s: list(s.places(_items)), Edit("drop", _drop_items))


def expression_pass() -> Pass[Source]:
    """Expressions: a plain literal, else a part of them, stands there."""
    return choices("expressions", _expressions, _simpler)


def literal_pass() -> Pass[Source]:
    """Texts become empty or half, numbers with a point 0.0, 1.0 or short."""
    return choices("literals", _literals, _shorter)


def number_pass() -> Pass[Source]:
    """Whole numbers become as low as they can."""
    return Lower("numbers", lambda s: list(s.places(_whole)), _value, lambda s, p: 0, _put)


def _trimmings(source: Source) -> Iterator[Path]:
    return (path for path, node in source.nodes if path and _is_trimming(node, source.at(path[:-1]), path[-1][0]))


def _is_trimming(node: cst.CSTNode, parent: cst.CSTNode, name: str) -> bool:
    if isinstance(node, cst.Arg):
        return name in ("bases", "keywords")
    if isinstance(node, cst.AsName):
        return isinstance(parent, (cst.WithItem, cst.ExceptHandler, cst.ExceptStarHandler))
    if isinstance(node, cst.SimpleStatementLine):
        return isinstance(node.body[0], cst.Expr) and isinstance(node.body[0].value, cst.BaseString)
    return isinstance(node, (cst.Decorator, cst.Annotation)) or name == "default"


def _trim(source: Source, units: Sequence[Place]) -> Source | None:
    places = source.places(_trimmings)
    changes: dict[Path, Change] = {}
    for unit in units:
        path = places[unit]
        parent = source.at(path[:-1])
        if isinstance(parent, cst.AnnAssign):
            kept = None if parent.value is None else cst.Assign([cst.AssignTarget(parent.target)], parent.value)
            changes[path[:-1] if kept is not None else path[:-2]] = kept
        else:
            changes[path] = None
    return changed(source, changes)


def _items(source: Source) -> Iterator[Path]:
    for path, node in source.nodes:
        if isinstance(node, _Item) or (isinstance(node, cst.Arg) and path[-1][0] == "args"):
            yield path


def _drop_items(source: Source, units: Sequence[Place]) -> Source | None:
    places = source.places(_items)
    return changed(source, without_aliases(source, [places[u] for u in units]))


def _expressions(source: Source) -> Iterator[Path]:
    """What is read. Inside of texts and patterns nothing is."""
    hidden: list[Path] = []
    for path, node in source.nodes:
        if hidden and path[: len(hidden[-1])] == hidden[-1]:
            continue
        if isinstance(node, (*_Text, cst.Annotation, cst.MatchPattern)):
            hidden.append(path)
        if isinstance(node, cst.BaseExpression) and not isinstance(node, cst.Integer) and scopes.is_load(source, path):
            if not isinstance(node, cst.Name) or node.value not in _SETTLED:
                yield path


def _simpler(source: Source, path: Path) -> Offers:
    node, parent = source.at(path), source.at(path[:-1])
    assert isinstance(node, cst.BaseExpression)
    if path[-1] not in (("func", -1), ("decorator", -1)) and not isinstance(parent, cst.Attribute):
        if path[-1] == ("value", -1) and isinstance(parent, (cst.Return, cst.Yield)):
            yield "nothing", {path: None}
        yield "0", {path: cst.Integer("0")}
        yield "None", {path: cst.Name("None")}
    if isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp)):
        yield "one element", {path: cst.List([cst.Element(node.elt)])}
    for inner in _parts(node):
        yield _spelled(source, inner), {path: fitted(inner, parent)}
    if len(node.lpar) > _fewest_parentheses(node):
        yield "without parentheses", {path: node.with_changes(lpar=node.lpar[1:], rpar=node.rpar[:-1])}


def _fewest_parentheses(node: cst.BaseExpression) -> int:
    return int(isinstance(node, cst.GeneratorExp) or (isinstance(node, cst.Tuple) and not node.elements))


def _parts(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The nearest expressions below one that may stand for it."""
    if isinstance(node, _Text):
        return
    for (name, _), child in children(node):
        if (type(node), name) in scopes.NO_LOAD:
            continue
        if isinstance(child, cst.BaseExpression):
            yield child
        else:
            yield from _parts(child)


def _spelled(source: Source, node: cst.CSTNode) -> str:
    text = source.tree.code_for_node(node)
    return text if len(text) < 40 else text[:37] + "..."


def _literals(source: Source) -> Iterator[Path]:
    return (path for path, node in source.nodes if isinstance(node, (cst.SimpleString, *_Text, cst.Float, cst.Imaginary)))


def _shorter(source: Source, path: Path) -> Offers:
    node = source.at(path)
    if isinstance(node, cst.SimpleString):
        quote, prefix = node.quote, node.prefix
        inner = node.raw_value
        ends = (0, 1, len(inner) // 2, len(inner) - 1)
        for text in dict.fromkeys([*(inner[:end] for end in ends), *(inner[len(inner) - end :] for end in ends if end)]):
            if len(text) < len(inner) or len(quote) == 3:
                yield f"{prefix}'{text}'", {path: cst.SimpleString(f"{prefix}{quote[0]}{text}{quote[0]}")}
    elif isinstance(node, cst.FormattedString):
        for i in range(len(node.parts)):
            yield f"without part {i}", {path: node.with_changes(parts=(*node.parts[:i], *node.parts[i + 1 :]))}
        if not any(isinstance(p, cst.FormattedStringExpression) for p in node.parts):
            yield "plain", {path: cst.SimpleString('""')}
    elif isinstance(node, cst.ConcatenatedString):
        yield "left", {path: node.left}
        yield "right", {path: node.right}
    elif isinstance(node, cst.Float):
        for text in ("0.0", "1.0", f"{node.evaluated_value:.1g}"):
            if text != node.value:
                yield text, {path: cst.parse_expression(text)}


def _whole(source: Source) -> Iterator[Path]:
    return (path for path, node in source.nodes if isinstance(node, cst.Integer))


def _value(source: Source, site: Hashable) -> int:
    node = source.at(_integer(source, site))
    assert isinstance(node, cst.Integer)
    return int(node.evaluated_value)


def _integer(source: Source, site: Hashable) -> Path:
    assert isinstance(site, Place)
    return source.places(_whole)[site]


def _put(source: Source, site: Hashable, value: int) -> Source | None:
    path = _integer(source, site)
    return changed(source, {path: cst.Integer(str(value))})
