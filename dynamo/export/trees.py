"""Containers: how they are taken apart, how they are put together again, and how the way to a part is written."""

from __future__ import annotations

import collections
import dataclasses
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree

from dynamo.export.facts import At, Call, Constant, Given, Group, Leaf, Made, Output, Row, Tree, class_name

Part = tuple[Any, Any]  # key, child


@dataclass(frozen=True)
class Kind:
    """A row of `KINDS`: `holds` tells whether a class is of this kind, `parts` takes apart, `make` builds an object of a class."""

    holds: Callable[[type], bool]
    parts: Callable[[Any], Iterable[Part]]
    make: Callable[[type, tuple[Any, ...], list[Any]], Any]
    has_names: bool = False  # a key is the name of an attribute


def _is_registered(cls: type) -> bool:
    return cls in pytree.SUPPORTED_NODES


def _registered_parts(obj: Any) -> list[Part]:
    """The children that the class was registered with, under the names of the attributes that hold them."""
    children, _ = pytree.SUPPORTED_NODES[type(obj)].flatten_fn(obj)
    names = {id(v): k for k, v in _attributes(obj)}
    return [(names.get(id(child), i), child) for i, child in enumerate(children)]


def _attributes(obj: Any) -> list[Part]:
    if dataclasses.is_dataclass(obj) and not isinstance(obj, type):
        return [(f.name, getattr(obj, f.name)) for f in dataclasses.fields(obj) if hasattr(obj, f.name)]
    return list(vars(obj).items()) if hasattr(obj, "__dict__") else []


def _object(cls: type, keys: tuple[Any, ...], items: list[Any]) -> Any:
    made: Any = object.__new__(cls)
    for key, item in zip(keys, items, strict=True):
        object.__setattr__(made, key, item)
    return made


def _mapping(cls: type, keys: tuple[Any, ...], items: list[Any]) -> Any:
    base: Any = collections.OrderedDict if issubclass(cls, collections.OrderedDict) else dict
    made: Any = base.__new__(cls)
    for key, item in zip(keys, items, strict=True):
        base.__setitem__(made, key, item)
    return made


def _sequence(cls: type, items: list[Any]) -> Any:
    base: Any = list if issubclass(cls, list) else collections.deque
    made: Any = base.__new__(cls)
    base.extend(made, items)
    return made


def _set(cls: type, items: list[Any]) -> Any:
    if issubclass(cls, frozenset):
        return frozenset.__new__(cls, items)
    made: Any = set.__new__(cls)
    set.update(made, items)
    return made


def _indexed(obj: Any) -> Iterable[Part]:
    return enumerate(obj)


def _named(obj: Any) -> Iterable[Part]:
    return zip(type(obj)._fields, obj, strict=True)


# Most special first. `set` and `object` occur in results only, `registered` in arguments only.
KINDS: dict[str, Kind] = {
    "list": Kind(lambda c: c is list, _indexed, lambda c, k, i: list(i)),
    "tuple": Kind(lambda c: c is tuple, _indexed, lambda c, k, i: tuple(i)),
    "namedtuple": Kind(lambda c: issubclass(c, tuple) and hasattr(c, "_fields"), _named, lambda c, k, i: tuple.__new__(c, i), True),
    "structseq": Kind(lambda c: issubclass(c, tuple) and hasattr(c, "n_fields"), _indexed, lambda c, k, i: c(i)),
    "dict": Kind(lambda c: issubclass(c, dict), lambda obj: obj.items(), _mapping),
    "deque": Kind(lambda c: issubclass(c, collections.deque), _indexed, lambda c, k, i: _sequence(c, i)),
    "sequence": Kind(lambda c: issubclass(c, list), _indexed, lambda c, k, i: _sequence(c, i)),
    "dataclass": Kind(dataclasses.is_dataclass, _attributes, _object, True),
    "registered": Kind(_is_registered, _registered_parts, _object, True),
    "set": Kind(lambda c: issubclass(c, set | frozenset), _indexed, lambda c, k, i: _set(c, i)),
    "object": Kind(lambda c: True, _attributes, _object, True),
}
_ONLY_RESULTS = ("set", "object")
_OPAQUE = (torch.nn.Module, torch.Tensor, type, types.ModuleType, types.FunctionType, types.MethodType, torch.Size)


def kind_of(obj: Any) -> str | None:
    """The row for an argument, or None for a leaf. Other objects are taken apart if one of their attributes holds a tensor."""
    cls = type(obj)
    if isinstance(obj, _OPAQUE):
        return None
    for name, kind in KINDS.items():
        if name not in _ONLY_RESULTS and kind.holds(cls):
            return name
    return "object" if any(isinstance(x, torch.Tensor) for _, v in _attributes(obj) for x in pytree.tree_leaves(v)) else None


def step_text(kind: str, key: Any) -> str:
    """The way from a container to a part, as the program would write it."""
    return f".{key}" if KINDS[kind].has_names and isinstance(key, str) else f"[{key!r}]"


def take_apart(obj: Any, path: str, found: list[tuple[str, Any]], above: tuple[int, ...] = ()) -> Tree:
    """The tree of an argument; its leaves are added to `found` with their paths. What contains itself is a leaf."""
    kind = kind_of(obj) if id(obj) not in above else None
    if kind is None:
        found.append((path, obj))
        return At(len(found) - 1)
    parts = list(KINDS[kind].parts(obj))
    items = tuple(take_apart(child, path + step_text(kind, key), found, (*above, id(obj))) for key, child in parts)
    return Group(kind, type(obj), tuple(k for k, _ in parts), items)


def refusal(tree: Tree, obj: Any, path: str, out: list[Any]) -> str:
    """Collects the leaves of an argument that must have this tree. Returns "" or what is wrong with it."""
    if isinstance(tree, At):
        out.append(obj)
        return ""
    if type(obj) is not tree.cls:
        return f"{path}: expected a {tree.cls.__qualname__}, got {_a(obj)}"
    parts = list(KINDS[tree.kind].parts(obj))
    keys = tuple(k for k, _ in parts)
    if keys != tree.keys:
        if set(keys) != set(tree.keys) or not issubclass(tree.cls, dict):
            return f"{path}: expected {_these(tree.kind, tree.keys)}, got {_these(tree.kind, keys)}"
        found: dict[Any, Any] = obj  # type: ignore[assignment]  # its class is a kind of dict
        parts = [(k, found[k]) for k in tree.keys]
    for (key, child), below in zip(parts, tree.items, strict=True):
        wrong = refusal(below, child, path + step_text(tree.kind, key), out)
        if wrong:
            return wrong
    return ""


def _these(kind: str, keys: tuple[Any, ...]) -> str:
    if kind in ("dict", "object", "registered", "dataclass"):
        return f"{'keys' if kind == 'dict' else 'attributes'} {list(keys)}"
    return f"{len(keys)} item{'s' if len(keys) != 1 else ''}"


def misfit(leaf: Leaf, obj: Any, leaves: list[Any], first: tuple[Leaf, ...]) -> str:
    """ "" or what is wrong with a leaf."""
    if leaf.same_as is not None and obj is not leaves[leaf.same_as]:
        return f"{leaf.path}: expected the same object as {first[leaf.same_as].path}"
    if not leaf.read:
        return ""
    if leaf.kind == "tensor":
        return _tensor_misfit(leaf, obj)
    if leaf.kind == "object":
        return "" if class_name(type(obj)) == leaf.cls else f"{leaf.path}: expected a {leaf.cls.rpartition(':')[2]}, got {_a(obj)}"
    if type(obj) is not type(leaf.value):
        return f"{leaf.path}: expected {_short(leaf.value)}, got {_a(obj)}"
    if leaf.read == "value" and not _equal(obj, leaf.value):
        return f"{leaf.path}: expected {_short(leaf.value)}, got {_short(obj)}"
    return ""


def _tensor_misfit(leaf: Leaf, obj: Any) -> str:
    if not isinstance(obj, torch.Tensor):
        return f"{leaf.path}: expected a tensor {tensor_text(leaf)}, got {_a(obj)}"
    fits = obj.dtype == leaf.dtype and tuple(obj.shape) == leaf.shape and str(obj.device) == leaf.device
    if not fits:
        seen = Leaf("", "tensor", shape=tuple(obj.shape), dtype=obj.dtype, device=str(obj.device))
        return f"{leaf.path}: expected a tensor {tensor_text(leaf)}, got {tensor_text(seen)}"
    if leaf.requires_grad is not None and obj.requires_grad != leaf.requires_grad:
        return f"{leaf.path}: expected a tensor with requires_grad={leaf.requires_grad}, on which the function depends"
    if leaf.strides is not None and obj.stride() != leaf.strides:
        return f"{leaf.path}: expected strides {list(leaf.strides)}, on which the function depends, got {list(obj.stride())}"
    return ""


def together(call: Call, leaves: list[Any]) -> str:
    """ "" or which tensors are one object (or share memory) that the graph takes for different ones."""
    first: dict[int, Leaf] = {}
    for leaf, obj in zip(call.leaves, leaves, strict=True):
        if leaf.kind == "tensor" and leaf.read and leaf.same_as is None:
            key = id(obj) if call.apart == "objects" else obj.untyped_storage()._cdata
            other = first.setdefault(key, leaf)
            if other is not leaf:
                what = "another object than" if call.apart == "objects" else "other memory than that of"
                return f"{leaf.path}: expected {what} {other.path}"
    return ""


def tensor_text(leaf: Leaf) -> str:
    return f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)} on {leaf.device}"


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, float):
        return repr(a) == repr(b)  # nan equals nan, 0.0 is not -0.0
    try:
        return bool(a == b)
    except Exception:  # noqa: BLE001  # whatever `==` of the user's objects may raise anything
        return a is b


def _a(obj: Any) -> str:
    if isinstance(obj, torch.Tensor):
        return "a tensor"
    return "None" if obj is None else f"a {type(obj).__qualname__}"


def _short(obj: Any) -> str:
    text = repr(obj)
    return text if len(text) <= 60 else text[:57] + "..."


def build(rows: tuple[Row, ...], given: dict[str, Any], outputs: Any) -> Any:
    """The result of a call: rows are made in order, the last is the whole."""
    made: list[Any] = []
    value: Any
    for row in rows:
        match row:
            case Output(index):
                made.append(outputs[index])
            case Given(parameter, steps):
                value = given[parameter]
                for how, key in steps:
                    value = getattr(value, key) if how == "attr" else value[key]
                made.append(value)
            case Constant(value):
                made.append(value)
            case Made(kind, cls, keys, items, attributes):
                value = KINDS[kind].make(cls, keys, [made[i] for i in items])
                for name, i in attributes:
                    object.__setattr__(value, name, made[i])
                made.append(value)
    return made[-1]
