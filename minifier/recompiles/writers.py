"""The user line that gives a value its new state."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeGuard

from minifier.recompiles.calls import passed
from minifier.recompiles.clusters import Cluster, Place
from minifier.recompiles.edits import Module, Sources

# What switches a mode, where not `set_` and its name.
_SETTERS = {"grad mode": "set_grad_enabled", "deterministic algorithms": "use_deterministic_algorithms"}
_SWITCHES = ("train", "eval")
_MUTATORS = ("append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "add", "discard")


def changed_at(cluster: Cluster, sources: Sources, files: Iterable[str]) -> Place:
    """The line that changed the value: a store to it, else the call that brought it."""
    caller = cluster.callers[-1]
    is_whole = cluster.at == cluster.name_of_root
    names = {cluster.at, *(p.text for p in passed(cluster, sources) if is_whole and cluster.first.root == "argument")}
    for module in (m for f in files if (m := sources.module(f)) is not None):
        lines = list(_lines(cluster, module, caller, names))
        if lines:
            return module.file, _nearest(lines, caller[1] if caller[0] == module.file else 0)
    return caller


def _nearest(lines: list[int], caller: int) -> int:
    """The last one before the call, as a loop comes by there; else the last one."""
    before = [line for line in lines if line <= caller]
    return before[-1] if before else lines[-1]


def _lines(cluster: Cluster, module: Module, caller: Place, names: set[str]) -> Iterator[int]:
    if cluster.cause.name == "global mode":
        calls = module.at_line(caller[1], ast.Call) if module.file == caller[0] else []
        modes = [n for call in calls for n in module.around(call) if "compile" not in ast.unparse(n)]
        yield from (n.lineno for n in modes[:1])
        if not modes:
            setter = _SETTERS.get(cluster.first.aspect, f"set_{cluster.first.aspect}".replace(" ", "_"))
            yield from sorted(n.lineno for n in ast.walk(module.tree) if isinstance(n, ast.Call) and _called(n) == setter)
        return
    nodes = list(ast.walk(module.tree))
    later = [node for node in nodes if _changes(node, cluster, names) and not _is_first(module, node)]
    yield from sorted({node.lineno for node in later or [node for node in nodes if _changes(node, cluster, {cluster.at})]})


def _is_first(module: Module, node: ast.stmt | ast.expr) -> bool:
    """Whether a store gives the first value: in `__init__`, or outside of all functions and loops."""
    if isinstance(node, ast.For):
        return False
    around = [n for n in module.above(node) if isinstance(n, ast.FunctionDef | ast.For | ast.While)]
    return not around or any(isinstance(n, ast.FunctionDef) and n.name == "__init__" for n in around)


def _changes(node: ast.AST, cluster: Cluster, names: set[str]) -> TypeGuard[ast.stmt | ast.expr]:
    """Whether a node of the syntax tree may be what changed the value, which has these names."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if cluster.cause.name == "train/eval":
            return node.func.attr in _SWITCHES
        return node.func.attr in _MUTATORS and ast.unparse(node.func.value) in {cluster.name_of_root, *names}
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.NamedExpr):
        targets = [node.target]
    else:
        return False
    return any(stores_to(target, cluster) or _gives(target, cluster, names) for target in targets)


def _gives(target: ast.expr, cluster: Cluster, names: set[str]) -> bool:
    """Whether a store is to what the caller passes."""
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    return cluster.first.root == "argument" and any(ast.unparse(part) in names for part in parts)


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


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
