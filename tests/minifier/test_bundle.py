"""Bundles: what is packed comes out, and whatever else a file holds gives an error, runs nothing and writes nothing outside."""

from __future__ import annotations

import contextlib
import io
import json
import stat
import struct
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minifier.bundle import MANIFEST, BundleError, Manifest, of_folder, pack, read, unpack
from minifier.engine import Kind, Signature
from tests.special import SPECIAL, bounded

SIGNATURE = Signature(Kind.EXCEPTION, ("RuntimeError",), "no", "lower")
FILES = {
    "repro.py": b"raise SystemExit(1)\n",
    "issue.md": b"# no\n",
    "inputs/ab12.safetensors": bytes(range(256)) * 40,
    "own/package/part.py": b"1",
}


def manifest(**changes: object) -> Manifest:
    values = {"main": "repro.py", "signature": SIGNATURE, "stage": "codegen", "graph": "3/1.bw", "rate": (3, 3), "files": tuple(FILES)}
    return Manifest(**{**values, **changes})  # type: ignore[arg-type]  # the values are of the fields


def packed(folder: Path) -> Path:
    for name, data in {**FILES, MANIFEST: manifest().text().encode()}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    pack(folder, folder / "repro.ddbg")
    return folder / "repro.ddbg"


def zipped(path: Path, entries: list[tuple[str, bytes]], change: Callable[[zipfile.ZipInfo], None] = lambda info: None) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for name, data in entries:
            info = zipfile.ZipInfo(name)
            change(info)
            made.writestr(info, data)
    return path


def refused(path: Path) -> str:
    """What reading and unpacking say, which is the same; nothing is left behind."""
    before = {p for p in path.parent.rglob("*")}
    with pytest.raises(BundleError) as read_error:
        read(path)
    with pytest.raises(BundleError):
        unpack(path, path.parent / "out")
    assert {p for p in path.parent.rglob("*")} == before
    return str(read_error.value)


def test_what_is_packed_comes_out(tmp_path: Path) -> None:
    path = packed(tmp_path / "in")
    opened = read(path)
    again = unpack(path, tmp_path / "out")

    assert opened.manifest == again == manifest() == of_folder(tmp_path / "out")
    assert {name: (tmp_path / "out" / name).read_bytes() for name in FILES} == FILES
    assert opened.sizes == {MANIFEST: len(manifest().text()), **{name: len(data) for name, data in FILES.items()}}
    assert not list((tmp_path / "in").glob(".*"))
    first = path.read_bytes()
    pack(tmp_path / "in", path)
    assert path.read_bytes() == first


def test_taken_folder_is_refused(tmp_path: Path) -> None:
    path = packed(tmp_path / "in")
    (tmp_path / "out").mkdir()
    with pytest.raises(BundleError, match="is taken"):
        unpack(path, tmp_path / "out")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(BundleError, match="is taken"):
        unpack(path, tmp_path / "link")


OUTSIDE = [
    "../evil.py",
    "/tmp/evil.py",
    "a/../../evil.py",
    "C:\\evil.py",
    "a/b/../../../evil.py",
    "1/2/3/4/5/6/7/8/evil.py",
    "inputs/",
    ".hidden",
    "..",
    "a//b",
    "é.py",
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_names_that_lead_outside_are_refused(tmp_path: Path, name: str) -> None:
    text = manifest(files=("repro.py", name)).text().encode()
    path = zipped(tmp_path / "x.ddbg", [(MANIFEST, text), ("repro.py", b""), (name, b"evil")])

    assert "no name for a file in a bundle" in refused(path)
    assert not (tmp_path.parent / "evil.py").exists()


def as_link(info: zipfile.ZipInfo) -> None:
    if info.filename == "repro.py":
        info.external_attr = (stat.S_IFLNK | 0o777) << 16


@pytest.mark.parametrize(
    "entries, says",
    [
        ([], "does not begin with repro.json"),
        ([("repro.py", b""), (MANIFEST, manifest(files=("repro.py",)).text().encode())], "does not begin with"),
        ([(MANIFEST, manifest().text().encode())], "not those that repro.json names"),
        ([(MANIFEST, manifest(files=("repro.py",)).text().encode()), ("repro.py", b""), ("more.py", b"")], "not those that"),
        ([(MANIFEST, manifest(files=("repro.py", "REPRO.py")).text().encode()), ("repro.py", b""), ("REPRO.py", b"")], "in it twice"),
        ([(MANIFEST, manifest(files=("repro.py", "a", "a/b")).text().encode()), ("repro.py", b""), ("a", b""), ("a/b", b"")], "a folder"),
        (
            [(MANIFEST, manifest(files=("repro.py", "a/b", "a/b/c")).text().encode()), *((n, b"") for n in ("repro.py", "a/b", "a/b/c"))],
            "a folder",
        ),
        ([(MANIFEST, manifest(main="inputs/x", files=("inputs/x",)).text().encode()), ("inputs/x", b"")], "is not in it"),
        ([(MANIFEST, manifest(main="other.py", files=("repro.py",)).text().encode()), ("repro.py", b"")], "'other.py' is not in it"),
        ([(MANIFEST, b"{"), ("repro.py", b"")], "damaged manifest"),
        ([(MANIFEST, b"[]"), ("repro.py", b"")], "damaged manifest"),
        ([(MANIFEST, b"[" * 100_000), ("repro.py", b"")], "damaged manifest"),
        ([(MANIFEST, b'{"format": "other"}'), ("repro.py", b"")], "not a repro of dynamo-debug"),
        ([(MANIFEST, manifest().text().replace('"version": 1', '"version": 99').encode()), ("repro.py", b"")], "this dynamo-debug reads 1"),
        ([(MANIFEST, manifest().text().replace('"exception"', '"os.system"').encode()), ("repro.py", b"")], "damaged manifest"),
        ([(MANIFEST, b" " * (5 << 20)), ("repro.py", b"")], "more than"),
    ],
)
def test_what_is_no_bundle_says_why(tmp_path: Path, entries: list[tuple[str, bytes]], says: str) -> None:
    assert says in refused(zipped(tmp_path / "x.ddbg", entries))


def test_links_are_refused(tmp_path: Path) -> None:
    entries = [(MANIFEST, manifest(files=("repro.py",)).text().encode()), ("repro.py", b"/etc/passwd")]

    assert "repro.py: not a plain file" in refused(zipped(tmp_path / "x.ddbg", entries, as_link))


@pytest.mark.parametrize("says", SPECIAL)
def test_what_never_ends_is_not_opened(tmp_path: Path, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    SPECIAL[says](tmp_path / "x.ddbg")
    SPECIAL[says](tmp_path / MANIFEST)
    with bounded():
        assert says in refused(tmp_path / "x.ddbg")
        with pytest.raises(BundleError, match=says):
            of_folder(tmp_path)
        with pytest.raises(OSError, match=says):
            pack(tmp_path, tmp_path / "y.ddbg")


@pytest.mark.parametrize("says", SPECIAL)
def test_what_never_ends_is_not_packed(tmp_path: Path, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = packed(tmp_path)
    path.unlink()
    (tmp_path / "issue.md").unlink()
    monkeypatch.chdir(tmp_path)
    SPECIAL[says](tmp_path / "issue.md")
    with bounded(), pytest.raises(OSError, match=says):
        pack(tmp_path, path)
    assert not [p for p in tmp_path.iterdir() if "ddbg" in p.name]


@settings(max_examples=40, deadline=None)
@given(
    names=st.sets(st.sampled_from([MANIFEST, *FILES]), min_size=1),
    says=st.sampled_from(list(SPECIAL)),
    links=st.integers(0, 3),
    as_bundle=st.booleans(),
)
def test_nothing_special_is_read_wherever_it_stands(names: set[str], says: str, links: int, as_bundle: bool) -> None:
    """In place of any files of a folder that is to be packed, or of the bundle; itself, or at the end of links."""
    with TemporaryDirectory() as made, contextlib.chdir(made), bounded():
        folder = Path(made)
        bundle = packed(folder)
        for place in [bundle] if as_bundle else [folder / name for name in names]:
            place.unlink()
            ends = [place.with_name(f"{place.name}.{number}") for number in range(links)]
            for link, target in pairwise([place, *ends]):
                link.symlink_to(target.name)
            SPECIAL[says]([place, *ends][-1])
        before = {p: p.lstat() for p in folder.rglob("*")}
        if as_bundle:
            assert says in refused(bundle)
        else:
            with pytest.raises(OSError, match=says):
                pack(folder, folder / "y.ddbg")
        assert {p: p.lstat().st_mtime_ns for p in folder.rglob("*")} == {p: s.st_mtime_ns for p, s in before.items()}


def test_a_file_longer_than_it_says_is_cut_off(tmp_path: Path) -> None:
    """A small entry that unpacks to much more than its header says: neither the disk nor the memory fills."""
    path = tmp_path / "x.ddbg"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(MANIFEST, manifest(files=("repro.py",)).text())
        made.writestr("repro.py", bytes(50 << 20))
    data = bytearray(path.read_bytes())
    for place in (data.rindex(b"PK\x01\x02") + 24, data.index(b"repro.py", data.index(b"PK\x03\x04", 4)) - 8):
        data[place : place + 4] = struct.pack("<I", 1000)
    path.write_bytes(data)

    with pytest.raises(BundleError):
        unpack(path, tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.ddbg"]


def original() -> bytes:
    with TemporaryDirectory() as folder:
        return packed(Path(folder)).read_bytes()


ORIGINAL = original()


@settings(max_examples=80)
@given(cut=st.integers(0, len(ORIGINAL)), changes=st.lists(st.tuples(st.integers(0, len(ORIGINAL) - 1), st.integers(0, 255)), max_size=6))
def test_damaged_bundles_give_an_error_or_the_same_files(cut: int, changes: list[tuple[int, int]]) -> None:
    data = bytearray(ORIGINAL)
    for place, value in changes:
        data[place] = value
    check(bytes(data[: cut or len(data)]))


NAMES = st.one_of(st.sampled_from(["repro.py", MANIFEST, "inputs/a", "../x", "/x", "a/../../x"]), st.text(min_size=1, max_size=12))
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8), lambda v: st.lists(v, max_size=3))


@settings(max_examples=80)
@given(
    entries=st.lists(st.tuples(NAMES, st.binary(max_size=30)), max_size=4),
    changes=st.dictionaries(st.sampled_from(sorted(json.loads(manifest().text()))), JSON, max_size=3),
    names=st.lists(NAMES, max_size=4),
)
def test_hostile_bundles_write_nothing_outside(entries: list[tuple[str, bytes]], changes: dict[str, object], names: list[str]) -> None:
    text = json.dumps({**json.loads(manifest(files=("repro.py", *names)).text()), **changes}).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, data in [(MANIFEST, text), ("repro.py", b"raise SystemExit"), *entries]:
            made.writestr(zipfile.ZipInfo(name.replace("\ud800", "")), data)
    check(out.getvalue())


def check(data: bytes) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        (folder / "in" / "x.ddbg").write_bytes(data)
        try:
            manifest = unpack(folder / "in" / "x.ddbg", folder / "in" / "out")
        except BundleError:
            assert [p.name for p in (folder / "in").iterdir()] == ["x.ddbg"]
        else:
            assert {p.relative_to(folder / "in" / "out").as_posix() for p in (folder / "in" / "out").rglob("*") if p.is_file()} == {
                MANIFEST,
                *manifest.files,
            }
        assert [p.name for p in folder.iterdir()] == ["in"]
