"""How an exported graph is called, as JSON and back."""

from __future__ import annotations

import collections
import keyword
import sys
from collections.abc import Sequence
from typing import Any

import torch

from dynamo.export.calling import inspect_signature
from dynamo.export.facts import (
    At,
    Call,
    Constant,
    Given,
    Group,
    Guard,
    Leaf,
    LoadError,
    Made,
    Output,
    Parameter,
    Row,
    SaveError,
    Tree,
    VocabularyError,
    class_name,
)
from dynamo.export.trees import KINDS
from dynamo.export.values import TAGS, from_json, to_json

_BUILTIN: dict[str, type] = {
    f"{c.__module__}:{c.__qualname__}": c
    for c in (list, tuple, dict, set, frozenset, collections.OrderedDict, collections.defaultdict, collections.deque)
}
_BUILTIN |= {f"torch.return_types:{n}": c for n, c in vars(torch.return_types).items() if isinstance(c, type)}
_BY_ATTRIBUTES = ("object", "dataclass", "registered")  # kinds of classes that are no containers by themselves
_WITHOUT_ASKING = ("namedtuple", "dataclass", "dict", "registered")  # kinds that are filled without running anything of the class


class Classes:
    """Classes that a file may name: containers of Python and torch, those given, and plain ones that the program has imported."""

    def __init__(self, given: Sequence[type]) -> None:
        self.given = {name: c for c in given for name in (class_name(c), f"__main__:{c.__qualname__}", c.__qualname__)}

    def find(self, name: Any, kind: Any) -> type:
        if not isinstance(name, str) or kind not in KINDS:
            raise LoadError(f"the file has {name!r:.60} in place of a class [EXP003]")
        known = _BUILTIN.get(name) if kind not in _BY_ATTRIBUTES else None
        found = known or self.given.get(name) or self.given.get(name.partition(":")[2]) or self._imported(name, kind)
        if not KINDS[kind].holds(found):
            raise VocabularyError(f"the file has {name!r:.80} as a {kind}, which it is not [EXP004]")
        return found

    def _imported(self, name: str, kind: str) -> type:
        module, _, qualname = name.partition(":")
        found: Any = sys.modules.get(module) if all(p.isidentifier() for p in qualname.split(".")) else None
        for part in qualname.split("."):
            found = getattr(found, "__dict__", {}).get(part)
        is_plain = isinstance(found, type) and kind in _WITHOUT_ASKING and not hasattr(found, "__del__")
        if not is_plain or module.partition(".")[0] in sys.stdlib_module_names:
            raise VocabularyError(
                f"the file needs the class {name!r:.80}: import its module, or give it with load(..., classes=[...]) [EXP004]"
            )
        return found


# ---- writing ------------------------------------------------------------------------------------------------


def call_to_json(call: Call) -> dict[str, Any]:
    """Raises SaveError for values that have no form, and for objects whose facts the graph relies on."""
    for leaf in call.leaves:
        if leaf.kind == "object" and leaf.read == "value":
            raise SaveError(
                f"the graph relies on what is in the argument {leaf.path}, a {leaf.cls.rpartition(':')[2]}; "
                "make it a dataclass of plain values [EXP002]"
            )
    return {
        "name": call.name,
        "parameters": [_parameter_to_json(p) for p in call.parameters],
        "arguments": [_tree_to_json(t) for t in call.arguments],
        "leaves": [_leaf_to_json(leaf) for leaf in call.leaves],
        "result": [_row_to_json(r) for r in call.result],
        "guards": [list(g) for g in call.guards],
        "is_aten": call.is_aten,
        "restores_modes": call.restores_modes,
        "has_gradients": call.has_gradients,
        "apart": call.apart,
    }


def _parameter_to_json(p: Parameter) -> list[Any]:
    try:
        return [p.name, p.kind, *([to_json(p.default)] if p.has_default else [])]
    except SaveError:
        return [p.name, p.kind]  # whoever calls the loaded graph gives it


def _leaf_to_json(leaf: Leaf) -> dict[str, Any]:
    row: dict[str, Any] = {"path": leaf.path, "kind": leaf.kind, "read": leaf.read, "same_as": leaf.same_as}
    if leaf.kind == "tensor":
        assert leaf.dtype is not None
        row |= {"shape": list(leaf.shape), "dtype": str(leaf.dtype).removeprefix("torch."), "device": leaf.device}
        row |= {"strides": None if leaf.strides is None else list(leaf.strides), "requires_grad": leaf.requires_grad}
    elif leaf.kind == "object":
        row["class"] = leaf.cls
    elif leaf.read:
        row["value"] = to_json(leaf.value)
    return row


def _tree_to_json(tree: Tree) -> Any:
    if isinstance(tree, At):
        return tree.index
    return [tree.kind, class_name(tree.cls), [to_json(k) for k in tree.keys], [_tree_to_json(t) for t in tree.items]]


def _row_to_json(row: Row) -> list[Any]:
    match row:
        case Output(index):
            return ["output", index]
        case Given(parameter, steps):
            return ["given", parameter, [[how, to_json(key)] for how, key in steps]]
        case Constant(value):
            return ["constant", to_json(value)]
        case Made(kind, cls, keys, items, attributes):
            return ["made", kind, class_name(cls), [to_json(k) for k in keys], list(items), [list(a) for a in attributes]]


# ---- reading ------------------------------------------------------------------------------------------------


def call_from_json(data: dict[str, Any], classes: Classes) -> Call:
    """Raises LoadError, or what taking apart other data raises."""
    parameters = tuple(
        Parameter(_name(row[0]), str(row[1]), len(row) > 2, from_json(row[2]) if len(row) > 2 else None) for row in data["parameters"]
    )
    inspect_signature(parameters)  # raises for parameters that no function can have
    leaves = tuple(_leaf_from_json(row) for row in data["leaves"])
    arguments = tuple(_tree_from_json(t, classes) for t in data["arguments"])
    places = [i for t in arguments for i in _positions(t)]
    if places != list(range(len(leaves))) or len(arguments) != len(parameters):
        raise LoadError("the file is damaged: the arguments are not those of the call [EXP003]")
    if any(leaf.same_as is not None and not 0 <= leaf.same_as < i for i, leaf in enumerate(leaves)):
        raise LoadError("the file is damaged: an argument equals a later one [EXP003]")
    names = {p.name for p in parameters}
    result = tuple(_row_from_json(row, i, names, classes) for i, row in enumerate(data["result"]))
    if not result:
        raise LoadError("the file is damaged: there is no result [EXP003]")
    return Call(
        str(data["name"]),
        parameters,
        arguments,
        leaves,
        result,
        tuple(Guard(str(s), str(c)) for s, c in data["guards"]),
        data["is_aten"] is True,
        data["restores_modes"] is True,
        data["has_gradients"] is True,
        data["apart"] if data["apart"] in ("objects", "memory") else "",
    )


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise LoadError(f"the file has {name!r:.60} in place of a name [EXP003]")
    return name


def _positions(tree: Tree) -> list[int]:
    return [tree.index] if isinstance(tree, At) else [i for t in tree.items for i in _positions(t)]


def _leaf_from_json(row: dict[str, Any]) -> Leaf:
    if row["kind"] not in ("tensor", "value", "object") or row["read"] not in ("", "type", "value"):
        raise LoadError(f"the file has an argument of the kind {row['kind']!r:.40} [EXP003]")
    same = row["same_as"]
    if row["kind"] == "object":
        return Leaf(str(row["path"]), "object", row["read"], same_as=same, cls=str(row["class"]))
    if row["kind"] != "tensor":
        return Leaf(str(row["path"]), row["kind"], row["read"], from_json(row["value"]) if row["read"] else None, same_as=same)
    strides = row["strides"]
    return Leaf(
        str(row["path"]),
        "tensor",
        row["read"],
        None,
        tuple(int(n) for n in row["shape"]),
        TAGS["dtype"].decode(row["dtype"], from_json),
        str(row["device"]),
        None if strides is None else tuple(int(n) for n in strides),
        row["requires_grad"] if row["requires_grad"] in (True, False) else None,
        same,
    )


def _step(how: Any, key: Any) -> tuple[str, Any]:
    if how not in ("item", "attr"):
        raise LoadError(f"the file is damaged: {how!r:.40} is no way into an argument [EXP003]")
    return (how, key) if how == "item" else (how, _attribute(key))


def _attribute(name: Any) -> str:
    if not isinstance(name, str) or name.startswith("__") or not name.isidentifier():
        raise LoadError(f"the file has {name!r:.60} in place of the name of an attribute [EXP003]")
    return name


def _tree_from_json(data: Any, classes: Classes) -> Tree:
    if type(data) is int:
        return At(data)
    kind, name, keys, items = data
    cls = classes.find(name, kind)
    made = tuple(_tree_from_json(t, classes) for t in items)
    if len(made) != len(keys):
        raise LoadError("the file is damaged: a container has not as many keys as items [EXP003]")
    return Group(kind, cls, tuple(from_json(k) for k in keys), made)


def _row_from_json(row: list[Any], i: int, parameters: set[str], classes: Classes) -> Row:
    match row:
        case ["output", int(index)]:
            return Output(index)
        case ["given", str(parameter), list(steps)] if parameter in parameters:
            return Given(parameter, tuple(_step(how, from_json(key)) for how, key in steps))
        case ["constant", value]:
            return Constant(from_json(value))
        case ["made", str(kind), str(name), list(keys), list(items), list(attributes)]:
            if all(type(j) is int and 0 <= j < i for j in (*items, *(j for _, j in attributes))) and len(keys) == len(items):
                cls = classes.find(name, kind)
                found = tuple(from_json(k) for k in keys)
                if KINDS[kind].has_names:
                    found = tuple(_attribute(k) for k in found)
                return Made(kind, cls, found, tuple(items), tuple((_attribute(a), j) for a, j in attributes))
    raise LoadError(f"the file is damaged: row {i} of the result is {row!r:.60} [EXP003]")
