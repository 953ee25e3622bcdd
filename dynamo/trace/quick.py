"""Lines of JSON to events and back through msgspec, which checks and builds dataclasses in C: a large record has a million objects.

`codec` says what an event is. A line that is refused here (damaged, of an unknown kind, or with texts that JSON libraries disagree on) is
for `codec` to judge, so nothing here words a problem; where msgspec is missing, every line is.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import typing
from collections.abc import Callable

from dynamo.trace import codec
from dynamo.trace.events import Event, GraphCaptured
from dynamo.trace.model import CAPTURE

_HEAD = b'{"kind":"'
_MOVED = b'{"artifact":"'

TextOf = Callable[[str], str | None]


class _Kind(typing.NamedTuple):
    """whole: reads a line with its texts in it. moved: reads one with texts beside it, into an object like the event; `outside` leaves the
    nodes of a graph unread, and is None for other events.
    """

    event: type[Event]
    whole: typing.Any
    moved: typing.Any
    outside: typing.Any
    names: tuple[str, ...]


def event_of(line: bytes, text_of: TextOf | None = None, later_nodes: bool = True) -> Event | None:
    """The event of one line, or None for what `codec` has to look at.

    text_of: the text that was moved out of the record under a name, or None where there is no such text. later_nodes: whether graphs that
    stages after capture made have their nodes; without, these are only seen to be JSON.
    """
    if not line.startswith(_HEAD) or not line.isascii():  # what it skips, msgspec does not look into: a key that is no UTF-8 would pass
        return None
    kind = _kinds().get(line[len(_HEAD) : line.find(b'"', len(_HEAD))])
    if kind is None:
        return None
    try:
        if not later_nodes and kind.outside is not None and (found := kind.outside.decode(line)).stage != CAPTURE:
            found.nodes = ()
            return _with_texts(kind, found, text_of or _none)
        if text_of is None or _MOVED not in line:
            return kind.whole.decode(line)
        return _with_texts(kind, kind.moved.decode(line), text_of)
    except ValueError:  # msgspec's errors and those of UTF-8
        return None


def _none(name: str) -> None:
    """Where nothing was moved."""


def _with_texts(kind: _Kind, found: typing.Any, text_of: TextOf) -> Event | None:
    values = {name: getattr(found, name) for name in kind.names}
    for name, value in values.items():
        if type(value) is _artifact():
            values[name] = text_of(value.artifact)
            if values[name] is None:
                return None
    made = object.__new__(kind.event)
    made.__dict__.update(values)
    return made


def text_of(value: typing.Any) -> str:
    """JSON of plain values, with dataclasses in them as objects. ASCII only, as what reads it may not know UTF-8."""
    msgspec = _library()
    try:
        text = msgspec.json.encode(value).decode() if msgspec is not None else ""
    except UnicodeEncodeError:  # lone surrogates
        text = ""
    return text if text and text.isascii() else json.dumps(codec.plain(value), separators=(",", ":"))


@functools.cache
def _library() -> typing.Any:
    try:
        import msgspec  # noqa: PLC0415  # only readers need it; the process of a script, which writes, may have a module of that name
    except ImportError:
        return None
    return msgspec


@functools.cache
def _artifact() -> typing.Any:
    return _library().defstruct("Artifact", [("artifact", str)], forbid_unknown_fields=True)


@functools.cache
def _kinds() -> dict[bytes, _Kind]:
    msgspec = _library()
    if msgspec is None:
        return {}
    return {name.encode(): _kind(cls, msgspec.json.Decoder, msgspec.defstruct) for name, cls in codec.KINDS.items()}


def _kind(cls: type[Event], decoder: typing.Any, defstruct: typing.Any) -> _Kind:
    hints: dict[str, typing.Any] = {name: str | _artifact() if hint is str else hint for name, hint in typing.get_type_hints(cls).items()}
    fields = dataclasses.fields(cls)
    defaults = {f.name: () if f.default is dataclasses.MISSING else (f.default,) for f in fields}

    def like(hints: dict[str, typing.Any]) -> typing.Any:
        return decoder(defstruct(cls.__name__, [(name, hints[name], *default) for name, default in defaults.items()], kw_only=True))

    outside = like({**hints, "nodes": _library().Raw}) if cls is GraphCaptured else None
    return _Kind(cls, decoder(cls), like(hints), outside, tuple(defaults))
