"""Damaged, truncated and hostile files: one clear error; nothing runs, nothing is imported, nothing is written."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamo.recording.build import Builder
from dynamo.recording.format import FRAME, TENSORS, RecordingError, is_recording, read, write
from dynamo.recording.save import save
from tests.cli.command import run
from tests.special import SPECIAL, bounded

FOLDER = Path(tempfile.mkdtemp(prefix="recording-"))
_ACTS = ("import", "exec", "compile", "os.system", "os.exec", "subprocess.Popen", "marshal.loads", "pickle.find_class", "code.__new__")
_watching = False
_seen: list[str] = []


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if _watching and (event in _ACTS or (event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"))):
        _seen.append(f"{event} {args}")


sys.addaudithook(_audit)


@contextlib.contextmanager
def nothing_happens() -> Iterator[None]:
    global _watching
    before = sorted(FOLDER.rglob("*"))
    _seen.clear()
    _watching = True
    try:
        yield
    finally:
        _watching = False
    assert _seen == []
    assert sorted(FOLDER.rglob("*")) == before


def frame_of(x: Any, names: list[Any]) -> Any:
    return x * len(names)


def valid() -> bytes:
    path = FOLDER / "valid.rec"
    write(path, *save(frame_of, (torch.arange(4.0), ["a", ("b", {"c": 1.5})]), "", False))
    return path.read_bytes()


GOOD = valid()
DATA: dict[str, Any] = read(FOLDER / "valid.rec").frame
MEMORY = read(FOLDER / "valid.rec").tensors


def opened(data: bytes) -> Any:
    """What opening a file gives; RecordingError is the only error it may give."""
    path = FOLDER / "file.rec"
    path.write_bytes(data)
    with nothing_happens():
        return read(path)


def packed(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as z:
        for name, data in members.items():
            z.writestr(name, data)
    return buffer.getvalue()


def test_valid_file_opens_without_doing_anything() -> None:
    assert opened(GOOD).title.startswith("frame_of (")


@given(st.integers(0, len(GOOD) - 1))
def test_truncated_files_are_refused(length: int) -> None:
    with pytest.raises(RecordingError, match=r"file\.rec"):
        opened(GOOD[:length])


@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=8))
@settings(max_examples=150)
def test_changed_bytes_are_an_error_or_change_nothing_that_is_checked(changes: list[tuple[int, int]]) -> None:
    data = bytearray(GOOD)
    for at, byte in changes:
        data[at] = byte
    with contextlib.suppress(RecordingError):
        opened(bytes(data))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 40) | st.floats() | st.sampled_from(["", "tensor", "reference", "os", "system", "../../x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kind", "items", "text", "name"]), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


PLACES = list(places(DATA))


@given(st.sampled_from(PLACES), _JSON)
@settings(max_examples=250)
def test_changed_data_are_refused_or_well_formed(place: tuple[Any, ...], new: Any) -> None:
    data = copy.deepcopy(DATA)
    holder: Any = data
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = new
    with contextlib.suppress(RecordingError):
        recording = opened(packed({FRAME: json.dumps(data).encode(), TENSORS: MEMORY}))
        size = len(recording.frame["values"])
        for row in recording.frame["values"]:
            assert all(0 <= n < size for n in row.get("items", ()) if isinstance(n, int))


@given(st.binary(max_size=200))
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(RecordingError):
        opened(data)
    with pytest.raises(RecordingError):
        opened(packed({FRAME: data, TENSORS: MEMORY}))


TEXT = json.dumps(DATA).encode()


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({FRAME: TEXT}, "not frame.json and tensors.safetensors"),
        ({FRAME: TEXT, "../tensors.safetensors": MEMORY}, "'../tensors.safetensors'"),
        ({FRAME: TEXT, TENSORS: MEMORY, "/tmp/evil.py": b"x"}, "'/tmp/evil.py'"),
        ({FRAME: b"[" * 100_000, TENSORS: MEMORY}, "damaged"),
        ({FRAME: b"9" * 10_000, TENSORS: MEMORY}, "damaged"),
        ({FRAME: b"\xff\xfe", TENSORS: MEMORY}, "damaged"),
        ({FRAME: b"[]", TENSORS: MEMORY}, "no JSON object"),
        ({FRAME: json.dumps(DATA | {"version": 2}).encode(), TENSORS: MEMORY}, "version 2 of the format"),
        ({FRAME: json.dumps(DATA | {"inputs": [10**6]}).encode(), TENSORS: MEMORY}, "inputs is missing or damaged"),
        ({FRAME: json.dumps(DATA | {"values": [{"kind": "pickle"}]}).encode(), TENSORS: MEMORY}, "damaged|no known kind"),
    ],
)
def test_hostile_archives_are_refused_by_name(members: dict[str, bytes], says: str) -> None:
    with pytest.raises(RecordingError, match=says):
        opened(packed(members))


def test_compressed_members_are_refused_before_they_are_unpacked() -> None:
    with pytest.raises(RecordingError, match="compressed"):
        opened(packed({FRAME: b" " * 50_000_000, TENSORS: b""}, zipfile.ZIP_DEFLATED))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"kind": "sequence", "type": "tuple", "items": [0]}, "part of itself"),
        ({"kind": "sequence", "type": "os.system", "items": []}, "can't be made"),
        ({"kind": "reference", "module": "no.such.module", "name": "x"}, "can't be made"),
        ({"kind": "deque", "items": [], "limit": 0}, "part of itself"),
        ({"kind": "defaultdict", "factory": 0, "items": []}, "part of itself"),
        ({"kind": "torch", "type": "dtype", "text": "load"}, "torch.load is no dtype"),
        ({"kind": "plain", "type": "bool", "text": "2"}, "can't be made"),
        ({"kind": "wrapper", "type": "eval", "items": []}, "can't be made"),
        (
            {"kind": "tensor", "storage": "0", "dtype": "float32", "size": [1 << 40], "stride": [1], "offset": 0, "device": "cpu",
             "requires_grad": False, "is_parameter": False},
            "beyond its memory",
        ),
        (
            {"kind": "tensor", "storage": "9", "dtype": "float32", "size": [1], "stride": [1], "offset": 0, "device": "cpu",
             "requires_grad": False, "is_parameter": False},
            "can't be made",
        ),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_together_are_refused_when_they_are_made(row: dict[str, Any], says: str) -> None:
    data = copy.deepcopy(DATA)
    data["values"][0] = row
    recording = opened(packed({FRAME: json.dumps(data).encode(), TENSORS: MEMORY}))

    with pytest.raises(RecordingError, match=says):
        Builder(recording).whole(0)


def test_damaged_memory_of_tensors_is_named() -> None:
    recording = opened(packed({FRAME: TEXT, TENSORS: b"\x00" * 64}))

    with pytest.raises(RecordingError, match="memory of the tensors is damaged"):
        Builder(recording)


@pytest.mark.parametrize("says", SPECIAL)
def test_what_never_ends_is_not_opened(tmp_path: Path, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    SPECIAL[says](tmp_path / "x.rec")
    with bounded(), pytest.raises(OSError, match=says):
        read(tmp_path / "x.rec")
    with bounded():
        assert not is_recording(tmp_path / "x.rec")


def test_command_line_refuses_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "cut.rec").write_bytes(GOOD[: len(GOOD) // 2])
    done = run("replay", "cut.rec", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("dynamo-debug: error[CL030]: cut.rec: not a recorded frame, or a damaged one: ")
    assert len(done.stderr.splitlines()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["cut.rec"]
