"""Events to JSON values and back. The dataclasses of `events.py` are the schema; nothing here names a single event."""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
import types
import typing
from collections.abc import Callable

from dynamo.trace import events
from dynamo.trace.events import Event

Json = typing.Any
Decode = Callable[[Json, str], typing.Any]


class Malformed(ValueError):
    """A JSON value that is not the event it claims to be. The text names the field."""


def kind_of(cls: type[Event]) -> str:
    """`GraphCaptured` -> `graph_captured`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


KINDS: dict[str, type[Event]] = {
    kind_of(cls): cls for cls in vars(events).values() if isinstance(cls, type) and issubclass(cls, Event) and cls is not Event
}
_KIND_OF: dict[type[Event], str] = {cls: kind for kind, cls in KINDS.items()}


def encode(event: Event) -> dict[str, Json]:
    """The event as one JSON object; `kind` comes first."""
    out: dict[str, Json] = {"kind": _KIND_OF[type(event)]}
    for name in _field_names(typing.cast(typing.Any, type(event))):
        out[name] = plain(getattr(event, name))
    return out


def fields(event: Event) -> dict[str, Json]:
    """The event for the JSON of a report, where its place says what it is: without kind and time. Values are as they are: `quick.text_of`
    writes dataclasses and tuples."""
    out = members(event)
    del out["t"]
    return out


def members(value: Json) -> dict[str, Json]:
    """The fields of a dataclass by name, as they are."""
    return {name: getattr(value, name) for name in _field_names(typing.cast(typing.Any, type(value)))}


def decode(value: Json) -> Event:
    """The event of one JSON object. Unknown fields are ignored: a newer version may add some."""
    if not isinstance(value, dict):
        raise Malformed(f"expected an object, got {type(value).__name__}")
    kind = value.get("kind")
    cls = KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise Malformed(f"unknown event kind {kind!r}")
    built = _build(cls, value, str(kind))
    assert isinstance(built, Event)
    return built


@functools.cache
def _field_names(cls: typing.Any) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(cls))


_ATOMS = frozenset({str, int, float, bool, type(None)})


def _hints(cls: typing.Any) -> dict[str, typing.Any]:
    """Types of the fields. Where a script has a `dynamo` of its own, the events' module is not where they are looked up."""
    return typing.get_type_hints(cls, None if cls.__module__ in sys.modules else vars(events))


@functools.cache
def _container_names(cls: typing.Any) -> tuple[str, ...]:
    """Fields that are no scalars."""
    hints = _hints(cls)
    return tuple(f.name for f in dataclasses.fields(cls) if hints[f.name] not in _SCALARS)


def plain(value: Json) -> Json:
    """The value as JSON: dataclasses as objects, tuples as lists."""
    if type(value) in _ATOMS:
        return value
    if isinstance(value, (tuple, list)):
        return list(value) if _ATOMS.issuperset(map(type, value)) else [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        out = dict(vars(value))
        for name in _container_names(type(value)):
            out[name] = plain(out[name])
        return out
    return value


def _build(cls: type, value: Json, where: str) -> object:
    if not isinstance(value, dict):
        raise Malformed(f"{where}: expected an object, got {type(value).__name__}")
    quick = _quick(cls)
    found = list(map(value.get, quick.names))
    if tuple(map(type, found)) in quick.types:
        try:
            for position, convert in quick.converted:
                found[position] = convert(found[position], where)
        except Malformed:
            return _build_slowly(cls, value, where)  # says which field it is
        made: object = object.__new__(cls)
        made.__dict__.update(zip(quick.names, found, strict=True))
        return made
    return _build_slowly(cls, value, where)


class _Quick(typing.NamedTuple):
    """How an object with every field of its type is made in a few calls: a large record has a million fields.

    types: the JSON types its values then have. converted: the places of those that are no scalars.
    """

    names: tuple[str, ...]
    types: frozenset[tuple[type, ...]]
    converted: tuple[tuple[int, Decode], ...]


@functools.cache
def _quick(cls: type) -> _Quick:
    hints = _hints(cls)
    typed = [(f.name, hints[f.name]) for f in dataclasses.fields(cls)]
    kinds = tuple(hint if hint in _SCALARS else list if typing.get_origin(hint) is tuple else dict for _, hint in typed)
    converted = tuple((i, decoder) for i, (name, _, decoder) in enumerate(_plan(cls)) if kinds[i] in (list, dict))
    return _Quick(tuple(name for name, _ in typed), frozenset([kinds]), converted)


def _build_slowly(cls: type, value: Json, where: str) -> object:
    """Field by field: some are missing or of a type that needs a look."""
    arguments = {}
    for name, required, decoder in _plan(cls):
        if name in value:
            arguments[name] = decoder(value[name], f"{where}.{name}")
        elif required:
            raise Malformed(f"{where}: field {name!r} is missing")
    return cls(**arguments)


@functools.cache
def _plan(cls: type) -> tuple[tuple[str, bool, Decode], ...]:
    """(field, required, decoder) for each field, worked out once per class."""
    hints = _hints(cls)
    rows = []
    for f in dataclasses.fields(cls):
        required = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        rows.append((f.name, required, _decoder(hints[f.name])))
    return tuple(rows)


def _decoder(hint: typing.Any) -> Decode:
    if hint in _SCALARS:
        return _SCALAR_DECODERS[hint]
    origin = typing.get_origin(hint)
    if origin is tuple:
        return functools.partial(_sequence, _decoder(typing.get_args(hint)[0]))
    if origin is dict:
        return functools.partial(_mapping, _decoder(typing.get_args(hint)[1]))
    if origin in (types.UnionType, typing.Union):
        return functools.partial(_union, tuple(_decoder(arg) for arg in typing.get_args(hint)))
    if dataclasses.is_dataclass(hint):
        return functools.partial(_build, typing.cast(type, hint))
    raise TypeError(f"events.py: fields of type {hint!r} have no JSON form; add one to dynamo/trace/codec.py")


# What JSON value each scalar type accepts. JSON has no int/float difference, Python's bool is an int.
_SCALARS: dict[typing.Any, tuple[type, ...]] = {
    str: (str,),
    int: (int,),
    float: (int, float),
    bool: (bool,),
    type(None): (type(None),),
}


def _scalar(hint: typing.Any, value: Json, where: str) -> Json:
    if not isinstance(value, _SCALARS[hint]) or (isinstance(value, bool) and hint is not bool):
        raise Malformed(f"{where}: expected {hint.__name__}, got {type(value).__name__}")
    return float(typing.cast(float, value)) if hint is float else value


def _sequence(item: Decode, value: Json, where: str) -> tuple[Json, ...]:
    if not isinstance(value, list):
        raise Malformed(f"{where}: expected a list, got {type(value).__name__}")
    if not value:
        return ()
    if item in _PLAIN and set(map(type, value)) == {_PLAIN[item]}:
        return tuple(value)
    try:
        return tuple([item(v, where) for v in value])
    except Malformed:
        pass  # names are made only for what is wrong
    return tuple(item(v, f"{where}[{i}]") for i, v in enumerate(value))


def _mapping(item: Decode, value: Json, where: str) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise Malformed(f"{where}: expected an object, got {type(value).__name__}")
    return {k: item(v, f"{where}.{k}") for k, v in value.items()}


def _union(options: tuple[Decode, ...], value: Json, where: str) -> Json:
    problem: Malformed | None = None
    for option in options:
        try:
            return option(value, where)
        except Malformed as e:
            problem = e
    raise problem or Malformed(f"{where}: no type fits")


_SCALAR_DECODERS: dict[typing.Any, Decode] = {hint: functools.partial(_scalar, hint) for hint in _SCALARS}
# Decoders of lists whose members need no look when all are of one type.
_PLAIN: dict[Decode, type] = {_SCALAR_DECODERS[hint]: hint for hint in (str, int)}
