"""Edits that bring what a function does to where it is called, and those of targets that take several values apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import libcst as cst

from minifier.engine import Pass
from minifier.source import scopes
from minifier.source.state import Source
from minifier.source.statements import Offers, choices
from minifier.source.tree import Change, Path, block_of, edited, fitted, walk

_Definition = (cst.FunctionDef, cst.ClassDef)
_Opaque = (cst.Yield, cst.Await, cst.Global, cst.Nonlocal)
_PLAIN = (cst.Name, cst.Integer, cst.Float, cst.SimpleString)


def call_pass() -> Pass[Source]:
    """Calls of functions of the module: what the function gives, or all of its lines, in their place."""
    return choices("calls", _calls, _inlined)


def lambda_pass() -> Pass[Source]:
    """Functions of one line that are read in one place: a lambda there."""
    return choices("lambdas", _one_liners, _as_lambda)


def target_pass() -> Pass[Source]:
    """Targets that take several values: without one of them, or one of them gets the whole."""
    return choices("targets", _targets, _fewer_targets)


def _functions(source: Source) -> dict[str, Path]:
    """Functions of the module that a call can be replaced by: plain ones, defined once."""
    found: dict[str, Path] = {}
    twice: set[str] = set()
    for i, node in enumerate(source.tree.body):
        if isinstance(node, _Definition):
            twice |= {node.name.value} & found.keys()
            found[node.name.value] = (("body", i),)
    return {name: path for name, path in found.items() if name not in twice and _is_plain(source.at(path))}


def _is_plain(node: cst.CSTNode) -> bool:
    """A function without decorators, variable arguments and other ways out than a `return` at its end."""
    if not isinstance(node, cst.FunctionDef) or node.decorators or node.asynchronous is not None:
        return False
    p = node.params
    if p.posonly_params or p.kwonly_params or p.star_kwarg is not None or not isinstance(p.star_arg, cst.MaybeSentinel):
        return False
    inside = [n for _, n in walk(node)]
    ways_out = [n for n in inside if isinstance(n, cst.Return)]
    return not any(isinstance(n, _Opaque) for n in inside) and all(n is _given_back(node) for n in ways_out)


def _given_back(function: cst.FunctionDef) -> cst.Return | None:
    """The `return` at the end of a function."""
    last = block_of(function)[-1]
    small = last.body[0] if isinstance(last, cst.SimpleStatementLine) else None
    return small if isinstance(small, cst.Return) else None


def _calls(source: Source) -> Iterator[Path]:
    known = _functions(source)
    for path, node in source.nodes:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in known:
            if path[:1] != known[node.func.value]:
                yield path


def _inlined(source: Source, path: Path) -> Offers:
    call = source.at(path)
    assert isinstance(call, cst.Call) and isinstance(call.func, cst.Name)
    home = _functions(source)[call.func.value]
    function = source.at(home)
    assert isinstance(function, cst.FunctionDef)
    given = _arguments(function, call)
    if given is None:
        return
    is_last = sum(isinstance(n, cst.Name) and n.value == call.func.value for _, n in source.nodes) == 2
    gone: dict[Path, Change] = {home: None} if is_last else {}
    bound, lines = _body(source, home, given)
    result = _given_back(function)
    value = cst.Name("None")
    if result is not None and result.value is not None:
        value = lines.pop().body[0].value
    elif result is not None:
        lines.pop()
    if not bound and not lines:
        yield "its value", {**gone, path: fitted(value, source.at(path[:-1]))}
        return
    line_path = _line_of(source, path)
    if line_path is None:
        return
    line = edited(source.at(line_path), {path[len(line_path) :]: fitted(value, source.at(path[:-1]))})
    is_bare = path == (*line_path, ("body", 0), ("value", -1)) and isinstance(line.body[0], cst.Expr)
    after = () if is_bare and isinstance(value, _PLAIN) else (line,)
    yield "its lines", {**gone, line_path: (*bound, *lines, *after)}


def _arguments(function: cst.FunctionDef, call: cst.Call) -> dict[str, cst.BaseExpression] | None:
    """What each parameter stands for; None where a call can't be told to fit."""
    names = [p.name.value for p in function.params.params]
    given = {p.name.value: p.default for p in function.params.params if p.default is not None}
    for i, arg in enumerate(call.args):
        word = arg.keyword.value if arg.keyword is not None else names[i] if i < len(names) else ""
        if arg.star or word not in names:
            return None
        given[word] = arg.value
    return given if len(given) == len(names) else None


def _body(source: Source, home: Path, given: dict[str, cst.BaseExpression]) -> tuple[list[cst.CSTNode], list[Any]]:
    """Lines that bind parameters, and those of the function with the arguments of the other parameters in their place."""
    bound: list[cst.CSTNode] = []
    uses: dict[Path, Change] = {}
    for name, value in given.items():
        reads = list(scopes.loads(source, home, name))
        if scopes.locals_of(source, home)[name] == 1 and (len(reads) == 1 or isinstance(value, _PLAIN)):
            uses |= {p: fitted(value, source.at(p[:-1])) for p in reads}
        elif not (isinstance(value, cst.Name) and value.value == name) and (reads or not isinstance(value, _PLAIN)):
            bound.append(cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(cst.Name(name))], value)]))
    lines = []
    for i, line in enumerate(block_of(source.at(home))):
        own = (*home, ("body", -1), ("body", i))
        lines.append(edited(line, {p[len(own) :]: change for p, change in uses.items() if p[: len(own)] == own}))
    return bound, lines


def _line_of(source: Source, path: Path) -> Path | None:
    """The simple line that an expression is part of."""
    for end in range(len(path) - 1, 0, -1):
        if isinstance(source.at(path[:end]), cst.SimpleStatementLine):
            return path[:end]
    return None


def _one_liners(source: Source) -> Iterator[Path]:
    return (path for path in _functions(source).values() if len(block_of(source.at(path))) == 1)


def _as_lambda(source: Source, path: Path) -> Offers:
    node = source.at(path)
    assert isinstance(node, cst.FunctionDef)
    line = block_of(node)[0]
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    reads = list(scopes.loads(source, (), node.name.value))
    if len(reads) != 1 or not isinstance(small, (cst.Return, cst.Expr, cst.Pass)):
        return
    value = None if isinstance(small, cst.Pass) else small.value
    made = cst.Lambda(scopes.without_annotations(node.params), value or cst.Name("None"))
    yield "its value", {path: None, reads[0]: fitted(made, source.at(reads[0][:-1]))}


def _targets(source: Source) -> Iterator[Path]:
    for path, node in source.nodes:
        if isinstance(node, cst.Assign) and len(node.targets) == 1 and isinstance(node.targets[0].target, (cst.Tuple, cst.List)):
            yield path


def _fewer_targets(source: Source, path: Path) -> Offers:
    node = source.at(path)
    assert isinstance(node, cst.Assign)
    target, value = node.targets[0].target, node.value
    assert isinstance(target, (cst.Tuple, cst.List))
    if isinstance(value, (cst.Tuple, cst.List)) and len(value.elements) == len(target.elements):
        for i in range(len(target.elements)):
            yield f"without {i + 1}", {path: _assigned(_without(target.elements, i), _without(value.elements, i))}
        return
    scope, names = scopes.scope_of(source, path), list(scopes.plain_names(target))
    for name in names:
        reads: dict[Path, Change] = {p: cst.Name(name) for other in names if other != name for p in scopes.loads(source, scope, other)}
        yield f"{name} alone", {**reads, path: cst.Assign([cst.AssignTarget(cst.Name(name))], value)}


def _without(elements: Sequence[Any], index: int) -> list[Any]:
    return [e.with_changes(comma=cst.MaybeSentinel.DEFAULT) for i, e in enumerate(elements) if i != index]


def _assigned(targets: list[Any], values: list[Any]) -> cst.BaseSmallStatement:
    """`a, b = c, d`; of one pair `a = c`, of none nothing."""
    if not targets:
        return cst.Pass()
    if len(targets) == 1 and not any(isinstance(e, cst.StarredElement) for e in (*targets, *values)):
        return cst.Assign([cst.AssignTarget(targets[0].value)], values[0].value)
    return cst.Assign([cst.AssignTarget(cst.Tuple(targets, lpar=(), rpar=()))], cst.Tuple(values, lpar=(), rpar=()))
