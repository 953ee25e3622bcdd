"""Short forms the tests of the C extension share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynamo import _C

Leaf = tuple[int, str, Any]
Node = tuple[str, Any, tuple[Leaf, ...], tuple[Any, ...]]


def node(accessor: str, arg: object = None, *parts: Any) -> Node:
    """A guard node: parts that start with an int are leaves, the others are children."""
    leaves = tuple(p for p in parts if isinstance(p[0], int))
    children = tuple(p for p in parts if not isinstance(p[0], int))
    return (accessor, arg, leaves, children)


def instance(name: str, *parts: Any) -> Node:
    """What is under a name in the dict of an instance."""
    return node("inst_dict", None, node("dict_item", name, *parts))


def tree(*parts: Any) -> _C.GuardTree:
    return _C.GuardTree(node("root", None, *parts))


def leaf_on_input(kind: str, arg: object) -> _C.GuardTree:
    """A tree with one leaf, id 7, on input 0."""
    return tree(node("input", 0, (7, kind, arg)))


ALWAYS = tree()
NEVER = tree((0, "pred", lambda _: False))


def native(_compiled: object, _inputs: object) -> None:
    """A miss that leaves the function to CPython."""


def compiled(
    fn: Callable[..., Any], miss: Callable[..., Any] = native, entry: Callable[..., Any] | None = None, context: object = None
) -> _C.Compiled:
    """A Compiled of fn; with `entry`, one that always hits."""
    made = _C.Compiled(fn, _C.Cache(fn.__code__), miss, context)
    if entry is not None:
        made.cache.add(_C.Entry(ALWAYS, entry))
    return made
