"""Calls of the compiled function in the source, and what they pass."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass

from minifier.recompiles.clusters import Cluster
from minifier.recompiles.edits import Module, Sources

Store = ast.Assign | ast.AnnAssign | ast.For | ast.NamedExpr


@dataclass(frozen=True)
class Passed:
    """What a call passes for one parameter."""

    module: Module
    call: ast.Call
    value: ast.expr

    @property
    def text(self) -> str:
        return self.module.text(self.value)

    @property
    def operand(self) -> str:
        """Its text, fit to be followed by `.method()`."""
        return self.text if isinstance(self.value, ast.Name | ast.Attribute | ast.Call | ast.Subscript) else f"({self.text})"


def passed(cluster: Cluster, sources: Sources) -> Iterator[Passed]:
    """The argument at the calls that met a change, the likeliest call first."""
    for module, call in called(cluster, sources):
        value = given(call, cluster.name_of_root, cluster, sources)
        if value is not None:
            yield Passed(module, call, value)


def called(cluster: Cluster, sources: Sources) -> Iterator[tuple[Module, ast.Call]]:
    """The calls that met a change: on their lines those of a name that the function has, else those of no module and no builtin."""
    for file, line in dict.fromkeys(cluster.callers):
        module = sources.module(file)
        if module is None:
            continue
        names = _names(cluster, module, sources)
        here = [(c, steps) for c in module.at_line(line, ast.Call) if (steps := _steps(c.func))]
        own = [c for c, steps in here if steps[-1] in names]
        yield from ((module, c) for c in own or [c for c, steps in here if not module.imports(steps[0]) and steps[0] not in dir(builtins)])


def _steps(node: ast.expr) -> list[str]:
    """`["self", "layers"]` of `self.layers[0]`; empty for what does not begin at a name."""
    match node:
        case ast.Name():
            return [node.id]
        case ast.Subscript():
            return _steps(node.value)
        case ast.Attribute():
            steps = _steps(node.value)
            return [*steps, node.attr] if steps else []
    return []


def _names(cluster: Cluster, module: Module, sources: Sources) -> set[str]:
    """Names that may stand for the compiled function in a module: its own, that of its class, and what is made of those."""
    home, function = sources.module(cluster.file), sources.function(cluster.file, cluster.line)
    if home is None or function is None:
        return set()
    names = {n.name for n in (function, home.parents[function]) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    stores = [(_targets(n), set(_read(n))) for n in ast.walk(module.tree) if isinstance(n, Store)]
    names |= {name for targets, inside in stores if function in inside for name in targets}
    made = [(targets, {n.id if isinstance(n, ast.Name) else n.attr for n in inside if isinstance(n, ast.Name | ast.Attribute)})
            for targets, inside in stores]  # fmt: skip
    while True:
        more = {name for targets, read in made if not names.isdisjoint(read) for name in targets} - names
        if not more:
            return names
        names |= more


def _targets(node: Store) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [steps[-1] for t in targets for e in (t.elts if isinstance(t, ast.Tuple) else [t]) if (steps := _steps(e))]


def _read(node: Store) -> Iterator[ast.AST]:
    source = node.iter if isinstance(node, ast.For) else node.value
    return ast.walk(source) if source is not None else iter(())


def given(call: ast.Call, name: str, cluster: Cluster, sources: Sources) -> ast.expr | None:
    """What a call gives a parameter of the function."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    parameters = sources.parameters(cluster.file, cluster.line)
    index = parameters.index(name) if name in parameters else -1
    return call.args[index] if 0 <= index < len(call.args) and not any(isinstance(a, ast.Starred) for a in call.args[: index + 1]) else None
