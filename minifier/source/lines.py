"""Edits that save a line and may make others longer: they come last, when the parts of all lines are as small as they get."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from minifier.engine import Pass
from minifier.source import scopes
from minifier.source.state import Source
from minifier.source.statements import Offers, choices
from minifier.source.tree import Change, Path, block_of, fitted, walk

_COPIED = 40  # characters of a value that may stand in several places
_OPAQUE = (cst.Yield, cst.Await)


def copy_pass() -> Pass[Source]:
    """Lines that bind a short value which is read in several places: the value stands in all of them."""
    return choices("copies", _bound, _copied)


def one_liner_pass() -> Pass[Source]:
    """Functions and methods of one line, decorated or not: `name = lambda: ...`."""
    return choices("one-liners", _one_liners, _as_line)


def decorator_pass() -> Pass[Source]:
    """Decorators of what is read in one place: called there."""
    return choices("decorators", _decorated, _undecorated)


def argument_pass() -> Pass[Source]:
    """Lines of a function that bind what it computes from nothing of its own: a parameter, and calls give the value."""
    return choices("arguments", _independent, _as_argument)


def _bound(source: Source) -> Iterator[Path]:
    for b in scopes.bindings(source):
        if len(source.tree.code_for_node(b.value)) <= _COPIED and len(scopes.reads(source, b)) > 1:
            yield b.path


def _binding(source: Source, path: Path) -> scopes.Binding:
    b = scopes.binding(source.at(path), path)
    assert b is not None
    return b


def _copied(source: Source, path: Path) -> Offers:
    b = _binding(source, path)
    uses = scopes.reads(source, b)
    if not any(use[: len(path)] == path for use in uses):
        yield "at its uses", {path: None, **{use: fitted(b.value, source.at(use[:-1])) for use in uses}}


def _one_liners(source: Source) -> Iterator[Path]:
    for path, node in source.nodes:
        if isinstance(node, cst.FunctionDef) and node.asynchronous is None and _only_value(node) is not None:
            yield path


def _only_value(function: cst.FunctionDef) -> cst.BaseExpression | None:
    """What a function of one line computes; None where it is more than an expression."""
    block = block_of(function)
    small = block[0].body[0] if len(block) == 1 and isinstance(block[0], cst.SimpleStatementLine) else None
    if not isinstance(small, (cst.Return, cst.Expr, cst.Pass)) or any(isinstance(n, _OPAQUE) for _, n in walk(function)):
        return None
    return (None if isinstance(small, cst.Pass) else small.value) or cst.Name("None")


def _as_line(source: Source, path: Path) -> Offers:
    node = source.at(path)
    assert isinstance(node, cst.FunctionDef)
    body = _only_value(node)
    assert body is not None
    made: cst.BaseExpression = cst.Lambda(scopes.without_annotations(node.params), fitted(body, cst.Return()))
    for decorator in reversed(node.decorators):
        made = cst.Call(fitted(decorator.decorator, cst.Call(node.name)), [cst.Arg(made)])
    yield "one line", {path: cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(node.name)], made)])}


def _decorated(source: Source) -> Iterator[Path]:
    for path, node in source.nodes:
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and node.decorators and len(_calls_for(source, path, node.name.value)) == 1:
            yield path


def _calls_for(source: Source, path: Path, name: str) -> list[Path]:
    return list(scopes.loads(source, scopes.scope_of(source, path), name))


def _undecorated(source: Source, path: Path) -> Offers:
    node = source.at(path)
    assert isinstance(node, (cst.FunctionDef, cst.ClassDef))
    use = _calls_for(source, path, node.name.value)[0]
    last = node.decorators[-1].decorator
    made = cst.Call(fitted(last, cst.Call(node.name)), [cst.Arg(node.name)])
    yield "at its use", {(*path, ("decorators", len(node.decorators) - 1)): None, use: made}


def _independent(source: Source) -> Iterator[Path]:
    for b in scopes.bindings(source):
        scope = scopes.scope_of(source, b.path)
        function = source.at(scope) if scope else None
        if isinstance(function, cst.FunctionDef) and len(scope) == 1 and isinstance(b.target, cst.Name):
            known = scopes.locals_of(source, scope)
            if known[b.target.value] == 1 and not any(known[word] for word in scopes.words(b.value)):
                yield b.path


def _as_argument(source: Source, path: Path) -> Offers:
    bound = _binding(source, path)
    home = scopes.scope_of(source, path)
    function = source.at(home)
    assert isinstance(function, cst.FunctionDef) and isinstance(bound.target, cst.Name)
    params = function.params
    if params.kwonly_params or params.star_kwarg is not None or isinstance(params.star_arg, cst.Param):
        return
    wider = params.with_changes(params=[*params.params, cst.Param(cst.Name(bound.target.value))])
    changes: dict[Path, Change] = {path: None, (*home, ("params", -1)): wider}
    for call in scopes.calls_of(source, scopes.aliases(source, function.name.value)):
        node = source.at(call)
        assert isinstance(node, cst.Call)
        changes[call] = node.with_changes(args=[*node.args, cst.Arg(bound.value)])
    if not any(a != b and a == b[: len(a)] for a in changes for b in changes):  # a change at a node hides those below it
        yield "from its calls", changes
