"""The user line that gives a value its new state."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeGuard

from minifier.recompiles.clusters import Cluster, Place
from minifier.recompiles.edits import Module, Sources

_SWITCHES = ("train", "eval")
_MUTATORS = ("append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "add", "discard")


def changed_at(cluster: Cluster, sources: Sources, files: Iterable[str]) -> Place:
    """The line that changed the value: a store to it, else the call that brought it."""
    caller = cluster.callers[-1]
    for module in (m for f in files if (m := sources.module(f)) is not None):
        lines = list(_lines(cluster, module, caller))
        if lines:
            return module.file, _nearest(lines, caller[1] if caller[0] == module.file else 0)
    return caller


def _nearest(lines: list[int], caller: int) -> int:
    """The last one before the call, as a loop comes by there; else the last one."""
    before = [line for line in lines if line <= caller]
    return before[-1] if before else lines[-1]


def _lines(cluster: Cluster, module: Module, caller: Place) -> Iterator[int]:
    if cluster.cause.name == "global mode":
        calls = module.at_line(caller[1], ast.Call) if module.file == caller[0] else []
        withs = [n for call in calls for n in module.above(call) if isinstance(n, ast.With)]
        yield from (n.lineno for n in withs[:1])
        return
    found = [node for node in ast.walk(module.tree) if _changes(node, cluster)]
    later = [node for node in found if not _is_first(module, node)]
    yield from sorted({node.lineno for node in later or found})


def _is_first(module: Module, node: ast.stmt | ast.Call) -> bool:
    """Whether a store gives the first value: in `__init__`, or outside of all functions and loops."""
    around = [n for n in module.above(node) if isinstance(n, ast.FunctionDef | ast.For | ast.While)]
    return not around or any(isinstance(n, ast.FunctionDef) and n.name == "__init__" for n in around)


def _changes(node: ast.AST, cluster: Cluster) -> TypeGuard[ast.stmt | ast.Call]:
    """Whether a node of the syntax tree may be what changed the value."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if cluster.cause.name == "train/eval":
            return node.func.attr in _SWITCHES
        return node.func.attr in _MUTATORS and ast.unparse(node.func.value) in (cluster.at, cluster.name_of_root)
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []
    return any(stores_to(target, cluster) for target in targets)


def stores_to(target: ast.expr, cluster: Cluster) -> bool:
    """Whether a store to `target` is one to the value: by the last step of its place, as objects have other names elsewhere."""
    if isinstance(target, ast.Tuple | ast.List):
        return any(stores_to(t, cluster) for t in target.elts)
    if isinstance(target, ast.Attribute):
        return cluster.at.endswith(f".{target.attr}")
    if isinstance(target, ast.Subscript):
        key = target.slice.value if isinstance(target.slice, ast.Constant) else None
        return cluster.at.endswith(f"[{key!r}]") or (cluster.cause.name == "keys of a dict" and ast.unparse(target.value) == cluster.at)
    return isinstance(target, ast.Name) and target.id == cluster.at and cluster.first.root in ("global", "closure", "argument")

