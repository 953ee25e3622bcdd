"""Edits that reach from a definition to its uses: unused ones, layers and functions that calls pass by, parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from minifier.engine import Edit, Pass, Sweep
from minifier.source import scopes
from minifier.source.state import Place, Source, changed
from minifier.source.tree import Change, Path, fitted

_Definition = (cst.FunctionDef, cst.ClassDef)


def unused_pass() -> Pass[Source]:
    """Functions, classes, methods and imports whose name stands nowhere else."""
    return Sweep("unused", lambda s: list(s.places(_unused)), Edit("delete", _delete_unused))


def callable_pass() -> Pass[Source]:
    """Layers (`self.layer = ...`), functions and classes: their calls become the first argument, else what mentions them goes."""
    edits = (Edit("bypass", _bypass), Edit("delete with uses", _delete_uses))
    return Sweep("layers", lambda s: list(s.places(_callables)), *edits)


def parameter_pass() -> Pass[Source]:
    """Parameters together with the arguments for them."""
    return Sweep("parameters", lambda s: list(s.places(_parameters)), Edit("drop", _drop_parameters))


def _names(node: cst.CSTNode) -> list[str]:
    """What a definition or a part of an import is known by; none where anything could be meant."""
    if isinstance(node, _Definition):
        return [node.name.value]
    if isinstance(node, cst.ImportAlias):
        name: cst.BaseExpression = node.asname.name if node.asname is not None else node.name
        while isinstance(name, cst.Attribute):
            name = name.value
        return [name.value] if isinstance(name, cst.Name) else []
    return []


def _unused(source: Source) -> Iterator[Path]:
    for path, node in source.nodes:
        names = _names(node)
        if names and _mentioned_inside(source, path, names[0]) == scopes.mentions(source)[names[0]]:
            yield path


def _mentioned_inside(source: Source, path: Path, name: str) -> int:
    """How often a part of the source names something, itself."""
    node = source.at(path)
    inside = Source(source.tree.code_for_node(node), source.tree)
    return scopes.mentions(inside)[name]


def _delete_unused(source: Source, units: Sequence[Place]) -> Source | None:
    places = source.places(_unused)
    return changed(source, without_aliases(source, [places[u] for u in units]))


def without_aliases(source: Source, paths: Sequence[Path]) -> dict[Path, Change]:
    """Changes that delete nodes; an import that has lost all its names goes whole."""
    changes: dict[Path, Change] = dict.fromkeys(paths)
    for path in paths:
        parent = path[:-1]
        node = source.at(parent)
        if isinstance(node, (cst.Import, cst.ImportFrom, cst.Global, cst.Nonlocal)) and not isinstance(node.names, cst.ImportStar):
            if all((*parent, ("names", i)) in changes for i in range(len(node.names))):
                changes[parent[:-1]] = None
    return changes


def _callables(source: Source) -> Iterator[Path]:
    for path, node in source.nodes:
        b = scopes.binding(node, path)
        if isinstance(node, _Definition) or (b is not None and _is_layer(b.target)):
            yield path


def _is_layer(target: cst.CSTNode) -> bool:
    return isinstance(target, cst.Attribute) and isinstance(target.value, cst.Name) and target.value.value == "self"


def _chosen(source: Source, units: Sequence[Place]) -> tuple[list[Path], set[str]]:
    places = source.places(_callables)
    paths = [places[u] for u in units]
    return paths, {_known_as(source, path) for path in paths}


def _known_as(source: Source, path: Path) -> str:
    node = source.at(path)
    if isinstance(node, _Definition):
        return node.name.value
    b = scopes.binding(node, path)
    assert b is not None and isinstance(b.target, cst.Attribute)
    return b.target.attr.value


def _bypass(source: Source, units: Sequence[Place]) -> Source | None:
    paths, names = _chosen(source, units)
    changes: dict[Path, Change] = {}
    for path, node in source.nodes:
        if isinstance(node, cst.Call) and scopes.called(node) in names and node.args and not node.args[0].star:
            inner = _passed(node.args[0].value, names)
            changes[path] = fitted(inner, source.at(path[:-1]))
    return changed(source, {**changes, **dict.fromkeys(paths)}) if changes else None


def _passed(value: cst.BaseExpression, names: set[str]) -> cst.BaseExpression:
    """An argument, itself without calls that are passed by."""
    while isinstance(value, cst.Call) and scopes.called(value) in names and value.args:
        value = value.args[0].value
    return value


def _delete_uses(source: Source, units: Sequence[Place]) -> Source | None:
    paths, names = _chosen(source, units)
    changes: dict[Path, Change] = dict.fromkeys(paths)
    for path, node in source.nodes:
        if isinstance(node, cst.SimpleStatementLine) and path[-1][1] >= 0 and names & scopes.words(node):
            changes[path] = None
    return changed(source, changes)


def _parameters(source: Source) -> Iterator[Path]:
    return (path for path, node in source.nodes if isinstance(node, cst.Param) and len(path) > 2 and _is_def(source, path))


def _is_def(source: Source, path: Path) -> bool:
    return isinstance(source.at(path[:-2]), cst.FunctionDef)


def _drop_parameters(source: Source, units: Sequence[Place]) -> Source | None:
    places = source.places(_parameters)
    changes: dict[Path, Change] = {}
    by_function: dict[Path, list[Path]] = {}
    for unit in units:
        by_function.setdefault(places[unit][:-2], []).append(places[unit])
    for function, paths in by_function.items():
        changes.update(_without_parameters(source, function, paths))
    return changed(source, changes)


def _without_parameters(source: Source, function: Path, paths: Sequence[Path]) -> dict[Path, Change]:
    """A function without some parameters, and calls of it, or of what its class makes, without the arguments for them."""
    node = source.at(function)
    assert isinstance(node, cst.FunctionDef)
    params = [p.name.value for p in (*node.params.posonly_params, *node.params.params)]
    owner = source.at(scopes.scope_of(source, function))
    is_method = isinstance(owner, cst.ClassDef)
    if is_method:
        params = params[1:]
    name = owner.name.value if isinstance(owner, cst.ClassDef) and node.name.value.startswith("__") else node.name.value
    callers = scopes.aliases(source, name)
    if isinstance(owner, cst.ClassDef) and node.name.value in ("forward", "__call__"):
        callers |= scopes.aliases(source, owner.name.value) - {owner.name.value}
    changes: dict[Path, Change] = dict.fromkeys(paths)
    gone = {p.name.value for path in paths if isinstance(p := source.at(path), cst.Param)}
    for path in paths:
        p = source.at(path)
        assert isinstance(p, cst.Param)
        if p.default is not None:
            for use in scopes.loads(source, function, p.name.value):
                changes[use] = fitted(p.default, source.at(use[:-1]))
    for path in scopes.calls_of(source, callers):
        call = source.at(path)
        assert isinstance(call, cst.Call)
        for i, arg in enumerate(call.args):
            word = arg.keyword.value if arg.keyword is not None else params[i] if i < len(params) and not arg.star else ""
            if word in gone:
                changes[(*path, ("args", i))] = None
    return changes
