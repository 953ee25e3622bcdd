"""Edits that lead past whole definitions: another one stands in its place, a class becomes its only method."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from minifier.engine import Choices, Pass
from minifier.source import scopes
from minifier.source.state import Source
from minifier.source.statements import Offers, choices, source_options
from minifier.source.tree import Change, Path

_Definition = (cst.FunctionDef, cst.ClassDef)


def stand_in_pass() -> Pass[Source]:
    """Uses of a function or class of the module: another one stands there, and what nobody reaches any more goes.

    The last uses come first: they are those of the program's own lines, from which most can be reached.
    """
    options = source_options("stand-ins", _uses, _exchanges)
    return Choices("stand-ins", lambda s: list(s.places(_uses))[::-1], lambda s, p: sorted(options(s, p), key=lambda offer: offer[1].size))


def method_pass() -> Pass[Source]:
    """Classes with one method become functions."""
    return choices("methods", _classes, _as_function)


def _definitions(source: Source) -> dict[str, Path]:
    """Functions and classes of the module by name."""
    found: dict[str, Path] = {}
    for i, node in enumerate(source.tree.body):
        if isinstance(node, _Definition):
            found[node.name.value] = (("body", i),)
    return found


def _uses(source: Source) -> Iterator[Path]:
    known = _definitions(source)
    if len(known) > 1:
        for path, node in source.nodes:
            if isinstance(node, cst.Name) and node.value in known and scopes.is_load(source, path) and not _in_annotation(source, path):
                yield path


def _in_annotation(source: Source, path: Path) -> bool:
    return any(isinstance(source.at(path[:i]), cst.Annotation) for i in range(len(path)))


def _exchanges(source: Source, path: Path) -> Offers:
    node = source.at(path)
    assert isinstance(node, cst.Name)
    known = _definitions(source)
    own = path[:1]
    for name, home in known.items():
        if name != node.value and home != own:
            yield name, {**_unreached(source, path, name), path: cst.Name(name)}


def _unreached(source: Source, path: Path, name: str) -> dict[Path, Change]:
    """Definitions that nothing leads to once `name` stands at `path`."""
    known = _definitions(source)
    reads: dict[Path, set[str]] = {}
    for p, node in source.nodes:
        if isinstance(node, cst.Name) and node.value in known and p[-1] != ("name", -1):
            reads.setdefault(p[:1], set()).add(name if p == path else node.value)
    inner = set(known.values())
    reached = {n for home, names in reads.items() if home not in inner for n in names}
    todo = list(reached)
    while todo:
        more = reads.get(known[todo.pop()], set()) - reached
        reached |= more
        todo += more
    return {home: None for n, home in known.items() if n not in reached}


def _classes(source: Source) -> Iterator[Path]:
    for path, node in source.nodes:
        if isinstance(node, cst.ClassDef) and len(node.body.body) == 1 and isinstance(node.body.body[0], cst.FunctionDef):
            yield path


def _as_function(source: Source, path: Path) -> Offers:
    node = source.at(path)
    assert isinstance(node, cst.ClassDef)
    method = node.body.body[0]
    assert isinstance(method, cst.FunctionDef)
    params = method.params.with_changes(params=method.params.params[1:])
    changes: dict[Path, Change] = {path: method.with_changes(name=node.name, params=params)}
    for p, use in source.nodes:
        if isinstance(use, cst.Attribute) and use.attr.value == method.name.value and _makes(use.value, node.name.value):
            changes[p] = node.name
        elif _makes(use, node.name.value):
            changes.setdefault(p, node.name)
    yield "its method", changes


def _makes(node: cst.CSTNode, name: str) -> bool:
    """Whether an expression makes an instance of a class."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == name
