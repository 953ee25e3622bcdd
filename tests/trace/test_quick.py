"""Lines read in C are what `codec` makes of them, and what it refuses is left to it, so that problems read the same."""

from __future__ import annotations

import json
import random
import typing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynamo.trace import codec, load, quick
from dynamo.trace import events as ev
from dynamo.trace.events import Event
from dynamo.trace.record import EVENTS, LATER_NODES
from tests.trace.sample import graph, run_events, write_script
from tests.trace.test_codec import any_event
from tests.trace.test_record import LONG, write

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["artifact", "name", "t"]), inner, max_size=2),
    max_leaves=3,
)


def line_of(value: object) -> bytes:
    return (json.dumps(value, separators=(",", ":")) + "\n").encode()


def by_codec(line: bytes) -> Event | None:
    try:
        return codec.decode(json.loads(line))
    except codec.Malformed:
        return None


@given(any_event)
def test_every_event_is_read(event: Event) -> None:
    assert quick.event_of(line_of(codec.encode(event))) == event


@given(any_event, st.data())
def test_what_codec_refuses_is_not_read(event: Event, data: st.DataObject) -> None:
    value = codec.encode(event)
    name = data.draw(st.sampled_from([n for n in value if n != "kind"]))
    changed = data.draw(st.sampled_from([{n: v for n, v in value.items() if n != name}, {**value, name: data.draw(_JSON)}]))
    found = quick.event_of(line_of(changed))

    assert found is None or found == by_codec(line_of(changed))


@given(any_event, st.integers(0, 10_000), st.binary(max_size=2))
def test_damaged_bytes_are_not_read(event: Event, at: int, put: bytes) -> None:
    line = line_of(codec.encode(event))
    damaged = line[: at % len(line)] + put + line[at % len(line) + 1 :]
    found = quick.event_of(damaged)
    try:
        expected = by_codec(damaged)
    except ValueError:
        expected = None

    assert found is None or found == expected


@given(st.recursive(_JSON | any_event, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4))
def test_written_values_are_those_of_the_json_module(value: object) -> None:
    assert json.loads(quick.text_of(value)) == json.loads(json.dumps(codec.plain(value)))
    assert quick.text_of(value).isascii()


def test_lone_surrogates_are_written() -> None:
    assert json.loads(quick.text_of([ev.Note("N", "\udc80")]))[0]["message"] == "\udc80"


def sample_record(folder: Path) -> Path:
    """A record with texts beside it and graphs of a later stage."""
    script = write_script(folder)
    later = [
        ev.GraphCaptured(f"{g.graph_id}.aot", g.compile_id, "aot", g.ops, g.code + LONG, g.nodes, t=0.8)
        for g in (graph("0/0", script, 5), graph("0/1", script, 5))
    ]
    return write(folder / "rec", [*run_events(script), *later])


def read_both_ways(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[Event], list[str]]]:
    quickly = load(path)
    with monkeypatch.context() as without:
        without.setattr(quick, "_kinds", dict[bytes, typing.Any])
        slowly = load(path)
    return [(r.events, r.problems) for r in (quickly, slowly)]


def test_damaged_records_read_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sample_record(tmp_path)
    header, data = (path / EVENTS).read_bytes().split(b"\n", 1)
    chance = random.Random(0)
    for _ in range(100):
        damaged = bytearray(data)
        for _ in range(chance.randrange(3)):
            at = chance.randrange(len(damaged))
            damaged[at : at + chance.randrange(3)] = chance.choice((b"", b'"', b"}", b"\n", b"\xff", b"0", b"null"))
        (path / EVENTS).write_bytes(header + b"\n" + damaged[: chance.choice((len(damaged), chance.randrange(len(damaged))))])
        quickly, slowly = read_both_ways(path, monkeypatch)

        assert quickly == slowly


def test_a_lost_text_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sample_record(tmp_path)
    for file in (path / "artifacts").iterdir():
        file.unlink()
    quickly, slowly = read_both_ways(path, monkeypatch)

    assert quickly == slowly
    assert sum("is missing" in p for p in quickly[1]) == 2


def test_nodes_of_later_graphs_may_be_left_out(tmp_path: Path) -> None:
    path = sample_record(tmp_path)
    whole, part = load(path), load(path, (LATER_NODES,))
    later = [e for e in part.events if isinstance(e, ev.GraphCaptured) and e.stage != "capture"]

    assert part.problems == []
    assert len(later) == 2
    assert all(e.nodes == () and e.code.endswith(LONG) for e in later)
    assert [e for e in part.events if e not in later] == [e for e in whole.events if getattr(e, "stage", "") != "aot"]
