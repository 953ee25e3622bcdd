"""A record is whole or absent; a damaged one opens as far as it is readable."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dynamo.trace import emit, load, recording, session
from dynamo.trace import events as ev
from dynamo.trace.record import ARTIFACTS, EVENTS, LONG_TEXT, RecordError, RecordWriter
from dynamo.trace.stream import StreamWriter, read_stream
from tests.special import SPECIAL, bounded
from tests.trace.sample import run_events, write_script

LONG = "long text\n" * LONG_TEXT


def write(path: Path, events: list[ev.Event]) -> Path:
    writer = RecordWriter(path)
    for event in events:
        writer.add(event)
    writer.close()
    return path


def test_record_round_trips_and_keeps_sources(tmp_path: Path) -> None:
    script = write_script(tmp_path)
    events = run_events(script)
    record = load(write(tmp_path / "rec", events))

    assert record.problems == []
    assert [e for e in record.events if not isinstance(e, ev.SourceRead)] == events
    assert [e.file for e in record.events if isinstance(e, ev.SourceRead)] == [script]


def test_long_texts_become_artifacts_once(tmp_path: Path) -> None:
    events: list[ev.Event] = [ev.CodeGenerated("0/0", "codegen", name, "python", LONG, t=0.0) for name in "ab"]
    path = write(tmp_path / "rec", events)

    assert len(list((path / ARTIFACTS).iterdir())) == 1
    assert "long text" not in (path / EVENTS).read_text()
    assert load(path).events == events


def test_lone_surrogates_survive(tmp_path: Path) -> None:
    events: list[ev.Event] = [ev.Note("N", "\udc80 short", t=0.0), ev.Note("N", "\udc80" + LONG, t=0.0)]

    assert load(write(tmp_path / "rec", events)).events == events


def test_nothing_carries_the_final_name_before_close(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path / "rec")
    writer.add(ev.Note("N", "x", t=0.0))

    assert not (tmp_path / "rec").exists()
    writer.abort()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "prepare, replace, message",
    [
        (lambda p: p.write_text(""), False, "exists and is not a folder"),
        (lambda p: (p.mkdir(), (p / "thesis.txt").write_text("")), True, "holds no record"),
        (lambda p: write(p, []), False, "pass --force"),
    ],
)
def test_a_place_that_holds_something_is_refused(tmp_path: Path, prepare: object, replace: bool, message: str) -> None:
    prepare(tmp_path / "rec")  # type: ignore[operator]
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RecordError, match=message):
        RecordWriter(tmp_path / "rec", replace)

    assert sorted(tmp_path.rglob("*")) == before


def test_force_replaces_an_older_record(tmp_path: Path) -> None:
    write(tmp_path / "rec", [ev.Note("N", "old", t=0.0)])
    writer = RecordWriter(tmp_path / "rec", replace=True)
    writer.add(ev.Note("N", "new", t=0.0))
    writer.close()

    assert load(tmp_path / "rec").events == [ev.Note("N", "new", t=0.0)]
    assert [p.name for p in tmp_path.iterdir()] == ["rec"]


def test_recording_is_complete_after_an_exception(tmp_path: Path) -> None:
    def interrupted() -> None:
        with session(), recording(tmp_path / "rec"):
            emit(ev.Note("N", "seen", t=0.0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    record = load(tmp_path / "rec")
    assert record.problems == []
    assert record.events == [ev.Note("N", "seen", t=0.0)]


def _edit(path: Path, old: str, new: str) -> None:
    text = (path / EVENTS).read_text()
    assert old in text
    (path / EVENTS).write_text(text.replace(old, new))


def _remove_artifacts(path: Path) -> None:
    for artifact in (path / ARTIFACTS).iterdir():
        artifact.unlink()


def _spoil_artifacts(path: Path) -> None:
    for artifact in (path / ARTIFACTS).iterdir():
        artifact.write_bytes(b"\xff spoiled")


def _cut(path: Path) -> None:
    data = (path / EVENTS).read_bytes()
    (path / EVENTS).write_bytes(data[: data.index(b'"end"') - 30])


@pytest.mark.parametrize(
    "damage, problem, readable",
    [
        (_cut, "no end line: the record was cut off", 1),
        (_remove_artifacts, "is missing", 2),
        (_spoil_artifacts, "is damaged", 2),
        (lambda p: _edit(p, '"kind":"note"', '"kind":"nothing"'), "unknown event kind 'nothing'", 1),
        (lambda p: _edit(p, '"schema":1', '"schema":99'), "schema 99 was written by another version", 2),
        (lambda p: _edit(p, '{"kind":"note"', "\x00\x00"), "not JSON", 1),
        (lambda p: _edit(p, '"artifact":"', '"artifact":"../../etc/'), "is not a sha256", 2),
    ],
)
def test_damaged_records_open_and_say_what_is_missing(tmp_path: Path, damage: object, problem: str, readable: int) -> None:
    path = write(tmp_path / "rec", [ev.CodeGenerated("0/0", "codegen", "f", "python", LONG, t=0.0), ev.Note("N", "x", t=0.0)])
    damage(path)  # type: ignore[operator]
    record = load(path)

    assert any(problem in p for p in record.problems), record.problems
    assert len(record.events) == readable


@pytest.mark.parametrize("says", SPECIAL)
def test_what_never_ends_is_not_read(tmp_path: Path, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "rec", [ev.CodeGenerated("0/0", "codegen", "f", "python", LONG, t=0.0)])
    (artifact,) = (path / ARTIFACTS).iterdir()
    artifact.unlink()
    monkeypatch.chdir(artifact.parent)
    SPECIAL[says](artifact)
    with bounded():
        record = load(path)

    assert len(record.events) == 1
    assert any(says in p for p in record.problems), record.problems
    (path / EVENTS).unlink()
    SPECIAL[says](path / EVENTS)
    with bounded(), pytest.raises(RecordError, match="not a record"):
        load(path)


def test_any_cut_opens(tmp_path: Path) -> None:
    path = write(tmp_path / "rec", run_events(write_script(tmp_path)))
    data = (path / EVENTS).read_bytes()
    for size in range(0, len(data) - 1, 97):
        (path / EVENTS).write_bytes(data[:size])

        assert load(path).problems


@pytest.mark.parametrize(
    "name, content, message",
    [("absent", None, "no such record"), ("empty", "", "not a record"), ("other", '{"kind":"header","format":"x"}', "format is 'x'")],
)
def test_what_is_no_record_is_refused(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.mkdir()
    if content:
        (path / EVENTS).write_text(content)
    with pytest.raises(RecordError, match=message):
        load(path)


def test_stream_round_trips_and_reports_a_cut_line(tmp_path: Path) -> None:
    events = run_events(write_script(tmp_path))
    reading, writing = os.pipe()
    with open(reading, "rb") as pipe:
        writer = StreamWriter(writing)
        for event in events:
            writer(event)
        os.write(writing, b'{"kind":"no')
        writer.close()

        assert list(read_stream(pipe)) == [*events, f"event {len(events) + 1} of the run: cut off"]


def test_stream_goes_quiet_without_a_reader() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    writer = StreamWriter(writing)
    writer(ev.Note("N", "x", t=0.0))
    writer(ev.Note("N", "y", t=0.0))
    writer.close()


def test_stream_goes_quiet_when_its_descriptor_is_closed() -> None:
    reading, writing = os.pipe()
    writer = StreamWriter(writing)
    os.close(writing)
    writer(ev.Note("N", "x", t=0.0))
    os.close(reading)


def test_stream_names_what_is_no_event() -> None:
    pipe = io.BytesIO(json.dumps({"kind": "other"}).encode() + b"\n")

    assert list(read_stream(pipe)) == ["event 1 of the run: unknown event kind 'other'"]


def test_a_killed_writer_leaves_no_record(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from dynamo.trace.record import RecordWriter\n"
        "RecordWriter(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "rec")], check=False)

    assert done.returncode == -9
    assert not (tmp_path / "rec").exists()
