"""The schema of plain data. Like its JSON it follows the dataclasses, so that they can't disagree."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from typing import Any

from dynamo.trace.events import Event

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
}


def schema_of(cls: type, title: str, more: dict[str, Any] | None = None) -> dict[str, Any]:
    """The schema of a command's JSON: an object with the fields of `cls`, and those of `more` beside them."""
    definitions: dict[str, Any] = {}
    whole = _object(cls, definitions)
    whole["properties"] = {**(more or {}), **whole["properties"]}
    whole["required"] = list(whole["properties"])
    return {"$schema": DRAFT, "title": title, **whole, "$defs": dict(sorted(definitions.items()))}


def definition(cls: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """A reference to the schema of a dataclass, which is put into `definitions`. Events are without the time they happened."""
    return _schema(cls, definitions)


def _object(cls: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    left_out = ("t",) if issubclass(cls, Event) else ()
    properties = {f.name: _schema(hints[f.name], definitions) for f in dataclasses.fields(cls) if f.name not in left_out}
    out = {"type": "object", "properties": properties, "required": list(properties)}
    doc = " ".join((cls.__doc__ or "").split())
    return {"description": doc, **out} if doc and not doc.startswith(f"{cls.__name__}(") else out


def _schema(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if hint in _SCALARS:
        return dict(_SCALARS[hint])
    if hint is Any:
        return {}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (tuple, list):
        return {"type": "array", "items": _schema(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_schema(a, definitions) for a in arguments]}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    if not dataclasses.is_dataclass(hint):
        raise TypeError(f"{hint!r} has no schema; add it to tui/views/schema.py")
    cls = typing.cast(type, hint)
    if cls.__name__ not in definitions:
        definitions[cls.__name__] = {}
        definitions[cls.__name__] = _object(cls, definitions)
    return {"$ref": f"#/$defs/{cls.__name__}"}
