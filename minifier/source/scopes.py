"""Who defines and who uses which name, by spelling: what an edit of one place means for others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import libcst as cst

from minifier.source.state import Source
from minifier.source.tree import Path, walk

_WORDS = re.compile(r"[^\W\d]\w*")
_Definition = (cst.FunctionDef, cst.ClassDef)
_Function = (cst.FunctionDef, cst.Lambda)


class Binding(NamedTuple):
    """`target = value`, a statement at `path`."""

    path: Path
    target: cst.BaseExpression
    value: cst.BaseExpression


def binding(node: cst.CSTNode, path: Path) -> Binding | None:
    """A line that binds one target, else None."""
    if not isinstance(node, cst.SimpleStatementLine) or not node.body:
        return None
    small = node.body[0]
    if isinstance(small, cst.Assign) and len(small.targets) == 1:
        return Binding(path, small.targets[0].target, small.value)
    if isinstance(small, cst.AnnAssign) and small.value is not None:
        return Binding(path, small.target, small.value)
    return None


def bindings(source: Source) -> list[Binding]:
    """All lines that bind one target."""
    if "bindings" not in source.memo:
        source.memo["bindings"] = [b for path, node in source.nodes if (b := binding(node, path)) is not None]
    found: list[Binding] = source.memo["bindings"]
    return found


def mentions(source: Source) -> Counter[str]:
    """How often each word stands in the text, strings included: a name in one may be looked up."""
    if "mentions" not in source.memo:
        source.memo["mentions"] = Counter(_WORDS.findall(source.text))
    found: Counter[str] = source.memo["mentions"]
    return found


def words(node: cst.CSTNode) -> set[str]:
    """Every name in a part of the tree."""
    return {n.value for _, n in walk(node) if isinstance(n, cst.Name)}


def scope_of(source: Source, path: Path) -> Path:
    """The function, class or module that a node stands in."""
    for end in range(len(path) - 1, 0, -1):
        if isinstance(source.at(path[:end]), _Definition):
            return path[:end]
    return ()


def locals_of(source: Source, scope: Path) -> Counter[str]:
    """Names that a function or the module binds as variables, and how often. Functions and classes inside have variables of their own."""
    key = "locals", scope
    if key not in source.memo:
        found = Counter[str]()
        for path, node in _walk_scope(source, scope):
            if isinstance(node, cst.Param):
                found[node.name.value] += 1
            elif isinstance(node, (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr, cst.AsName)):
                target = node.name if isinstance(node, cst.AsName) else node.target
                if not _is_import(source, path):
                    found.update(plain_names(target))
        source.memo[key] = found
    counted: Counter[str] = source.memo[key]
    return counted


def _walk_scope(source: Source, scope: Path) -> Iterator[tuple[Path, cst.CSTNode]]:
    """The nodes of a scope without those of scopes inside."""
    inner: Path | None = None
    for path, node in walk(source.at(scope), scope):
        if inner is not None and path[: len(inner)] == inner:
            continue
        inner = path if isinstance(node, (cst.ClassDef, *_Function)) and path != scope else None
        yield path, node


def _is_import(source: Source, path: Path) -> bool:
    return bool(path) and isinstance(source.at(path[:-1]), cst.ImportAlias)


def plain_names(target: cst.CSTNode) -> Iterator[str]:
    """The variables that a target binds."""
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from plain_names(element.value)


def loads(source: Source, scope: Path, name: str) -> Iterator[Path]:
    """Where a scope reads a name, functions inside that have no variable of that name included."""
    hidden: Path | None = None
    for path, node in walk(source.at(scope), scope):
        if hidden is not None and path[: len(hidden)] == hidden:
            continue
        hidden = path if isinstance(node, _Function) and path != scope and locals_of(source, path)[name] else None
        if isinstance(node, cst.Name) and node.value == name and is_load(source, path):
            yield path


def reads(source: Source, b: Binding) -> list[Path]:
    """Where the variable or attribute of a binding is read."""
    if isinstance(b.target, cst.Name):
        return list(loads(source, scope_of(source, b.path), b.target.value))
    alike = [p for p, n in source.nodes if isinstance(n, cst.Attribute) and n.deep_equals(b.target)]
    return [p for p in alike if is_load(source, p)]


def drops(source: Source, b: Binding) -> Iterator[Path]:
    """Lines `del name` of what a binding binds, in its scope."""
    for path, node in _walk_scope(source, scope_of(source, b.path)):
        small = node.body[0] if isinstance(node, cst.SimpleStatementLine) else None
        if isinstance(small, cst.Del) and small.target.deep_equals(b.target):
            yield path


NO_LOAD = {
    (cst.Attribute, "attr"), (cst.Arg, "keyword"), (cst.Param, "name"), (cst.FunctionDef, "name"), (cst.ClassDef, "name"),
    (cst.ImportAlias, "name"), (cst.ImportFrom, "module"), (cst.AsName, "name"), (cst.AssignTarget, "target"), (cst.AugAssign, "target"),
    (cst.AnnAssign, "target"), (cst.For, "target"), (cst.CompFor, "target"), (cst.NamedExpr, "target"), (cst.NameItem, "name"),
    (cst.Del, "target"), (cst.MatchCase, "pattern"),
}  # fmt: skip


def is_load(source: Source, path: Path) -> bool:
    """Whether an expression is read, rather than bound or a mere word. In a target, what is inside of `a[...]` counts as bound too."""
    return not any((type(source.at(path[:i])), path[i][0]) in NO_LOAD for i in range(len(path)))


def aliases(source: Source, name: str) -> set[str]:
    """A function or class and what is made from it: names and attributes bound to something that mentions it by name."""
    known = {name}
    while True:
        more: set[str] = set()
        for b in bindings(source):
            target: Any = b.target
            word = target.value if isinstance(target, cst.Name) else target.attr.value if isinstance(target, cst.Attribute) else None
            if word is not None and word not in known and isinstance(b.value, cst.Call) and known & words(b.value):
                more.add(word)
        if not more:
            return known
        known |= more


def called(call: cst.Call) -> str:
    """The last word of what is called; empty where it has none."""
    func = call.func
    return func.value if isinstance(func, cst.Name) else func.attr.value if isinstance(func, cst.Attribute) else ""


def calls_of(source: Source, names: set[str]) -> list[Path]:
    """Calls of what has one of these names, also of what a call makes of it (`compile(f)(x)`)."""
    return [path for path, node in source.nodes if isinstance(node, cst.Call) and _is_of(node, names)]


def _is_of(call: cst.Call, names: set[str]) -> bool:
    func = call.func
    if isinstance(func, cst.Call):
        return any(isinstance(a.value, cst.Name) and a.value.value in names for a in func.args) or _is_of(func, names)
    return called(call) in names


def without_annotations(params: cst.Parameters) -> cst.Parameters:
    """Parameters as a lambda may have them."""

    def bare(given: Sequence[cst.Param]) -> list[cst.Param]:
        return [p.with_changes(annotation=None) for p in given]

    star = params.star_arg.with_changes(annotation=None) if isinstance(params.star_arg, cst.Param) else params.star_arg
    keywords = params.star_kwarg and params.star_kwarg.with_changes(annotation=None)
    return params.with_changes(
        params=bare(params.params),
        posonly_params=bare(params.posonly_params),
        kwonly_params=bare(params.kwonly_params),
        star_arg=star,
        star_kwarg=keywords,
    )
