"""Events survive the way to JSON and back, and nothing that is not an event gets in."""

from __future__ import annotations

import dataclasses
import json
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamo.trace import codec, events
from dynamo.trace.events import Change, Event, GraphNode

_TEXT = st.text(max_size=20)
_BY_HINT: dict[typing.Any, st.SearchStrategy[typing.Any]] = {
    str: _TEXT,
    int: st.integers(),
    float: st.floats(min_value=0, allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    tuple[str, ...]: st.lists(_TEXT, max_size=3).map(tuple),
    tuple[int, ...]: st.lists(st.integers(-(2**62), 2**62), max_size=3).map(tuple),
    dict[str, str]: st.dictionaries(_TEXT, _TEXT, max_size=3),
}


def _strategy(cls: type) -> st.SearchStrategy[typing.Any]:
    hints = typing.get_type_hints(cls)
    return st.builds(cls, **{f.name: _BY_HINT[hints[f.name]] for f in dataclasses.fields(cls)})


_BY_HINT[tuple[GraphNode, ...]] = st.lists(_strategy(GraphNode), max_size=2).map(tuple)
_BY_HINT[tuple[Change, ...]] = st.lists(_strategy(Change), max_size=2).map(tuple)
any_event = st.one_of([_strategy(cls) for cls in codec.KINDS.values()])


@given(any_event)
def test_every_event_round_trips(event: Event) -> None:
    assert codec.decode(json.loads(json.dumps(codec.encode(event)))) == event


def test_every_event_class_has_a_kind() -> None:
    classes = {c for c in vars(events).values() if isinstance(c, type) and issubclass(c, Event) and c is not Event}

    assert set(codec.KINDS.values()) == classes
    assert codec.KINDS["graph_captured"] is events.GraphCaptured


@pytest.mark.parametrize(
    "value, message",
    [
        ([], "expected an object, got list"),
        ({"kind": "nonsense"}, "unknown event kind 'nonsense'"),
        ({"kind": ["run_ended"]}, "unknown event kind ['run_ended']"),
        ({"kind": "run_ended"}, "run_ended: field 'exit' is missing"),
        ({"kind": "run_ended", "exit": "0"}, "run_ended.exit: expected int, got str"),
        ({"kind": "run_ended", "exit": True}, "run_ended.exit: expected int, got bool"),
        ({"kind": "run_started", "argv": "x", "cwd": "", "versions": {}}, "run_started.argv: expected a list, got str"),
        ({"kind": "run_started", "argv": [1], "cwd": "", "versions": {}}, "run_started.argv[0]: expected str, got int"),
        ({"kind": "run_started", "argv": [], "cwd": "", "versions": []}, "run_started.versions: expected an object, got list"),
    ],
)
def test_what_is_no_event_is_named(value: object, message: str) -> None:
    with pytest.raises(codec.Malformed) as caught:
        codec.decode(value)

    assert str(caught.value) == message


def test_fields_of_a_newer_version_are_ignored() -> None:
    value = codec.encode(events.RunEnded(0, t=1.0)) | {"added_later": 1}

    assert codec.decode(value) == events.RunEnded(0, t=1.0)
