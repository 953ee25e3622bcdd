"""Edits of statements. Any set of lines that stays is a program: blocks that lose their head hand their lines to the block around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import libcst as cst

from minifier.engine import Choices, Edit, Pass, Sweep
from minifier.source import scopes
from minifier.source.state import Place, Source, changed
from minifier.source.tree import Change, Path, at, block_of, edited, fitted, walk

_Definition = (cst.FunctionDef, cst.ClassDef)
_Statement = (cst.SimpleStatementLine, cst.BaseCompoundStatement)
_Clause = (cst.Else, cst.ExceptHandler, cst.ExceptStarHandler, cst.Finally, cst.MatchCase)

Offers = Iterator[tuple[str, dict[Path, Change]]]


def choices(name: str, find: Callable[[Source], Iterator[Path]], offers: Callable[[Source, Path], Offers]) -> Choices[Source]:
    """A pass over the changes on offer at each place that is found."""
    return Choices(name, lambda s: list(s.places(find)), source_options(name, find, offers))


def source_options(
    name: str, find: Callable[[Source], Iterator[Path]], offers: Callable[[Source, Path], Offers]
) -> Callable[[Source, Any], Sequence[tuple[str, Source]]]:
    """The states of changes that make a smaller program, worked out once per program and place."""

    def options(source: Source, site: Any) -> Sequence[tuple[str, Source]]:
        key = (name, site)
        if key not in source.memo:
            made = [(label, changed(source, changes)) for label, changes in offers(source, source.places(find)[site])]
            source.memo[key] = [(label, s) for label, s in made if s is not None]
        found: Sequence[tuple[str, Source]] = source.memo[key]
        return found

    return options


def statement_pass() -> Pass[Source]:
    """Statements of any depth: they go with what they hold, and uses of what they bind read what it is from; else what they hold stays."""
    edits = (Edit("delete", _delete), Edit("delete outright", _delete_outright), Edit("unwrap", _unwrap))
    return Sweep("statements", lambda s: list(s.places(_lines)), *edits)


def block_pass() -> Pass[Source]:
    """Compound statements and their clauses: one of their blocks, or none, in their place."""
    return choices("blocks", _blocks, _block_changes)


def inline_pass() -> Pass[Source]:
    """Lines that do something with a value: the value alone, or, where it is bound and read once, at its use."""
    return choices("inline", _valued, _inline_changes)


def _lines(source: Source) -> Iterator[Path]:
    """Statements that stand in a block, not those that are a clause (`elif`)."""
    return (path for path, node in source.nodes if isinstance(node, _Statement) and path[-1][1] >= 0)


def _blocks(source: Source) -> Iterator[Path]:
    return (path for path, node in source.nodes if isinstance(node, (cst.BaseCompoundStatement, *_Clause)))


def _valued(source: Source) -> Iterator[Path]:
    return (path for path, node in source.nodes if isinstance(node, cst.SimpleStatementLine) and _value(node) is not None)


def _value(line: cst.SimpleStatementLine) -> cst.BaseExpression | None:
    """What a line does something with."""
    small = line.body[0]
    if isinstance(small, (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Return)):
        return small.value
    return small.test if isinstance(small, cst.Assert) else small.exc if isinstance(small, cst.Raise) else None


def _paths(source: Source, units: Sequence[Place]) -> list[Path]:
    places = source.places(_lines)
    return [places[u] for u in units]


def _delete(source: Source, units: Sequence[Place]) -> Source | None:
    paths = _paths(source, units)
    return changed(source, {**_passed_by(source, paths), **dict.fromkeys(paths)})


def _delete_outright(source: Source, units: Sequence[Place]) -> Source | None:
    paths = _paths(source, units)
    return changed(source, dict.fromkeys(paths)) if _passed_by(source, paths) else None


def _passed_by(source: Source, paths: Sequence[Path]) -> dict[Path, Change]:
    """Where variables are read that these lines bind, and nothing else does: a variable they were computed from."""
    instead: dict[Path, dict[str, cst.Name]] = {}
    for path in paths:
        b = scopes.binding(source.at(path), path)
        bound = [] if b is None else list(scopes.plain_names(b.target))
        if b is None or not bound:
            continue
        scope = scopes.scope_of(source, path)
        names = instead.setdefault(scope, {})
        new = _origin(source, scope, b)
        if new is not None:
            names |= dict.fromkeys(bound, names.get(new.value, new))
    changes: dict[Path, Change] = {}
    for scope, names in instead.items():
        for name, new in names.items():
            if scopes.locals_of(source, scope)[name] == 1:
                changes.update(dict.fromkeys(scopes.loads(source, scope, name), new))
    return changes


def _origin(source: Source, scope: Path, b: scopes.Binding) -> cst.Name | None:
    """The first variable that a value is computed from."""
    known = scopes.locals_of(source, scope)
    own = scopes.words(b.target)
    for _, node in walk(b.value):
        if isinstance(node, cst.Name) and known[node.value] and node.value not in own and node.value != "self":
            return node
    return None


def _unwrap(source: Source, units: Sequence[Place]) -> Source | None:
    gone = set(_paths(source, units))
    if not any(block_of(source.at(p)) for p in gone):
        return None
    return changed(source, {path: _rest(source, path, gone) for path in gone})


def _rest(source: Source, path: Path, gone: set[Path]) -> Change:
    """What is left of a statement when it goes and what it holds and is not in `gone` stays."""
    node = source.at(path)
    inner = {p: _rest(source, p, gone) for p in gone if len(p) > len(path) and p[: len(path)] == path}
    lines = [p for p, n in walk(node, path) if isinstance(n, _Statement) and len(p) > len(path) and p[-1][1] >= 0]
    direct = [p for p in lines if not any(len(q) < len(p) and p[: len(q)] == q for q in lines)]
    kept: list[cst.CSTNode] = []
    for p in direct:
        made = inner[p] if p in inner else edited(at(source.tree, p), {q[len(p) :]: c for q, c in inner.items() if q[: len(p)] == p})
        kept += made if isinstance(made, tuple) else [] if made is None else [made]
    if isinstance(node, _Definition):
        return node.with_changes(body=node.body.with_changes(body=kept)) if kept else None
    return tuple(kept) or None


def _block_changes(source: Source, path: Path) -> Offers:
    node = source.at(path)
    if isinstance(node, _Clause) or path[-1][1] < 0:
        yield "drop", {path: None}
        if isinstance(node, cst.If):
            yield "go on with the next", {path: node.orelse}
            yield "else", {path: cst.Else(node.body)}
        return
    uses = _users(source, node.name.value) if isinstance(node, _Definition) else {}
    if isinstance(node, cst.For) and isinstance(node.iter, (cst.List, cst.Tuple)) and len(node.iter.elements) == 1:
        first = cst.Assign([cst.AssignTarget(node.target)], node.iter.elements[0].value)
        yield "once", {path: (cst.SimpleStatementLine([first]), *block_of(node))}
    if isinstance(node, cst.For):
        yield from _first_round(node, path)
    for label, body in _bodies(node):
        yield label, {path: tuple(body)}
        if uses:
            yield f"{label}, and nothing that names it", {**uses, path: tuple(body)}


def _first_round(node: cst.For, path: Path) -> Offers:
    """What a loop does that ends with a `break`: it takes the first element."""
    *lines, last = block_of(node)
    if node.asynchronous is None and isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[0], cst.Break):
        element = cst.Call(cst.Name("next"), [cst.Arg(cst.Call(cst.Name("iter"), [cst.Arg(node.iter)]))])
        if not lines:
            yield "its first element", {path: cst.SimpleStatementLine([cst.Expr(element)])}
        first = cst.Assign([cst.AssignTarget(node.target)], element)
        yield "its first round", {path: (cst.SimpleStatementLine([first]), *lines)}


def _users(source: Source, name: str) -> dict[Path, Change]:
    """Changes that delete the lines that name something."""
    lines = ((path, node) for path, node in source.nodes if isinstance(node, cst.SimpleStatementLine))
    return {path: None for path, node in lines if name in scopes.words(node)}


def _bodies(node: cst.CSTNode, label: str = "") -> Iterator[tuple[str, Sequence[cst.CSTNode]]]:
    """The blocks of a compound statement, one by one."""
    if body := block_of(node):
        yield f"{label}body", body
    for name in ("handlers", "cases", "orelse", "finalbody"):
        value = getattr(node, name, None)
        for clause in value if isinstance(value, (list, tuple)) else [value] if value is not None else []:
            yield from _bodies(clause, f"{name} ")


def _inline_changes(source: Source, path: Path) -> Offers:
    node = source.at(path)
    assert isinstance(node, cst.SimpleStatementLine)
    b, value = scopes.binding(node, path), _value(node)
    uses = [] if b is None else scopes.reads(source, b)
    if b is not None and len(uses) == 1 and uses[0][: len(path)] != path:
        yield "at its use", {path: None, uses[0]: fitted(b.value, source.at(uses[0][:-1]))}
    if value is not None:
        alone = cst.SimpleStatementLine([cst.Expr(value)])
        yield "value", {path: alone}
        dropped = [] if b is None or uses else list(scopes.drops(source, b))
        if dropped:
            yield "value, never dropped by name", {**dict.fromkeys(dropped), path: alone}
