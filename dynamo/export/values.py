"""Values as JSON: what is plain in JSON stands for itself, everything else is `{tag: data}` with a row in `TAGS`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node
from torch.fx.immutable_collections import immutable_dict

from dynamo.export import vocabulary
from dynamo.export.facts import LoadError, SaveError

Encode = Callable[[Any], Any]

_LARGE = 1 << 63


@dataclass(frozen=True)
class Tag:
    """A row of `TAGS`: the values it is for, and both directions. The last argument encodes or decodes what is inside."""

    holds: Callable[[Any], bool]
    encode: Callable[[Any, Encode], Any]
    decode: Callable[[Any, Encode], Any]


def _torch_name(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _torch_value(cls: type) -> Callable[[Any, Encode], Any]:
    def decode(name: Any, inner: Encode) -> Any:
        value = getattr(torch, name, None) if isinstance(name, str) and name.isidentifier() else None
        if not isinstance(value, cls):
            raise LoadError(f"the file names {name!r} as a {cls.__name__} [EXP003]")
        return value

    return decode


def _is(cls: Any) -> Callable[[Any], bool]:
    return lambda value: type(value) is cls


def _device(name: Any, inner: Encode) -> torch.device:
    if not isinstance(name, str) or len(name) > 40:
        raise LoadError(f"the file names {name!r:.60} as a device [EXP003]")
    return torch.device(name)


def _type(name: Any, inner: Encode) -> type:
    if not isinstance(name, str) or name not in vocabulary.TYPES:
        raise vocabulary.VocabularyError(f"the file names the type {name!r:.60} [EXP004]")
    return vocabulary.TYPES[name]


def _type_name(cls: type, inner: Encode) -> str:
    for name, known in vocabulary.TYPES.items():
        if cls is known:
            return name
    raise SaveError(f"the class {cls.__qualname__} as a value has no form in a file [EXP002]")


def _small(n: Any) -> int:
    if type(n) is not int or abs(n) > _LARGE:
        raise LoadError(f"the file has {n!r:.60} in place of an integer [EXP003]")
    return n


TAGS: dict[str, Tag] = {
    "float": Tag(lambda v: type(v) is float, lambda v, f: repr(v), lambda d, f: float(d)),
    "complex": Tag(_is(complex), lambda v, f: [repr(v.real), repr(v.imag)], lambda d, f: complex(float(d[0]), float(d[1]))),
    "bytes": Tag(_is(bytes), lambda v, f: v.hex(), lambda d, f: bytes.fromhex(d)),
    "dtype": Tag(lambda v: isinstance(v, torch.dtype), lambda v, f: _torch_name(v), _torch_value(torch.dtype)),
    "layout": Tag(lambda v: isinstance(v, torch.layout), lambda v, f: _torch_name(v), _torch_value(torch.layout)),
    "memory_format": Tag(lambda v: isinstance(v, torch.memory_format), lambda v, f: _torch_name(v), _torch_value(torch.memory_format)),
    "device": Tag(lambda v: isinstance(v, torch.device), lambda v, f: str(v), _device),
    "size": Tag(_is(torch.Size), lambda v, f: list(v), lambda d, f: torch.Size([_small(n) for n in d])),
    "tuple": Tag(lambda v: isinstance(v, tuple), lambda v, f: [f(x) for x in v], lambda d, f: tuple(f(x) for x in d)),
    "dict": Tag(
        lambda v: type(v) in (dict, immutable_dict),
        lambda v, f: [[f(k), f(x)] for k, x in v.items()],
        lambda d, f: {f(k): f(x) for k, x in d},
    ),
    "set": Tag(_is(set), lambda v, f: [f(x) for x in v], lambda d, f: {f(x) for x in d}),
    "frozenset": Tag(_is(frozenset), lambda v, f: [f(x) for x in v], lambda d, f: frozenset(f(x) for x in d)),
    "slice": Tag(_is(slice), lambda v, f: [f(v.start), f(v.stop), f(v.step)], lambda d, f: slice(*(f(x) for x in d[:3]))),
    "range": Tag(_is(range), lambda v, f: [v.start, v.stop, v.step], lambda d, f: range(*(_small(n) for n in d[:3]))),
    "ellipsis": Tag(lambda v: v is Ellipsis, lambda v, f: 0, lambda d, f: Ellipsis),
    "type": Tag(lambda v: isinstance(v, type), _type_name, _type),
    "function": Tag(
        lambda v: callable(v) and not isinstance(v, type | torch.nn.Module),
        lambda v, f: vocabulary.name_of(v),
        lambda d, f: vocabulary.function_of(str(d)),
    ),
}


def to_json(value: Any) -> Any:
    """Raises SaveError for a value without a row."""
    if value is None or type(value) in (bool, str):
        return value
    if (type(value) is int and abs(value) <= _LARGE) or (type(value) is float and math.isfinite(value)):
        return value
    if type(value) is int:
        raise SaveError(f"the integer {value:.3g} is too large for a file [EXP002]")
    if isinstance(value, Node):
        return {"node": value.name}
    if isinstance(value, list):
        return [to_json(x) for x in value]
    for name, tag in TAGS.items():
        if tag.holds(value):
            return {name: tag.encode(value, to_json)}
    raise SaveError(f"a {type(value).__qualname__} ({value!r:.60}) has no form in a file [EXP002]")


def from_json(data: Any, nodes: dict[str, Any] | None = None) -> Any:
    """`nodes` are those that a reference may name. Raises LoadError."""
    if isinstance(data, list):
        return [from_json(x, nodes) for x in data]
    if not isinstance(data, dict):
        return data
    if len(data) != 1:
        raise LoadError(f"the file has {data!r:.60} in place of a value [EXP003]")
    ((name, inner),) = data.items()
    if name == "node":
        if nodes is None or not isinstance(inner, str) or inner not in nodes:
            raise LoadError(f"the file refers to {inner!r:.60}, which is no earlier node [EXP003]")
        return nodes[inner]
    if name not in TAGS:
        raise LoadError(f"the file has a value of the unknown kind {name!r:.60} [EXP003]")
    return TAGS[name].decode(inner, lambda d: from_json(d, nodes))
