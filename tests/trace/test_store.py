"""Sessions: what an inner store passes on."""

from __future__ import annotations

from dynamo.trace import current, emit, session, stage
from dynamo.trace import events as ev


def test_inner_session_passes_events_to_the_outer() -> None:
    with session() as outer, session() as inner:
        emit(ev.Note("N", "x"))
        with stage("capture", "0/0"):
            pass

    assert [e.id for e in inner.of(ev.Note)] == [e.id for e in outer.of(ev.Note)] == ["N"]
    gap = inner.began - outer.began
    assert outer.of(ev.StageTimed)[0].start - inner.of(ev.StageTimed)[0].start == gap


def test_a_listener_outside_hears_inner_events() -> None:
    heard: list[ev.Event] = []
    current().listeners.append(heard.append)
    try:
        with session():
            emit(ev.Note("N", "x"))
    finally:
        current().listeners.remove(heard.append)

    assert [type(e) for e in heard] == [ev.Note]


def test_the_process_store_does_not_grow_from_sessions() -> None:
    before = len(current().events)
    with session():
        emit(ev.Note("N", "x"))

    assert len(current().events) == before
