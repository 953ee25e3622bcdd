"""Packing and opening bundles.

A bundle is an uncompressed or deflated zip. `repro.json` is its first entry; after it come exactly the files that it names. Names are
relative, of plain characters, at most eight deep. Whatever else a zip can hold (links, absolute names, `..`, a name twice, encryption,
more bytes than said) makes it no bundle, before a byte of it is written.
"""

from __future__ import annotations

import re
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from dynamo.trace.plain import open_plain, read_plain
from minifier.bundle.manifest import LARGEST, MANIFEST, BundleError, Manifest

_NAME = re.compile(r"(?:[A-Za-z0-9_][\w.-]{0,99}/){0,7}[A-Za-z0-9_][\w.-]{0,99}", re.ASCII)
MOST_FILES = 10_000
MOST_BYTES = 64 << 30
_STEP = 1 << 20
_WHEN = (1980, 1, 1, 0, 0, 0)  # the same files make the same bundle
_ZIP = (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error)
_DAMAGE = (*_ZIP, EOFError, RuntimeError, ValueError, LookupError)


@dataclass(frozen=True)
class Bundle:
    """What is in a bundle. `sizes` are bytes of each file, unpacked."""

    path: Path
    manifest: Manifest
    sizes: dict[str, int]


def fits(name: str) -> bool:
    """Whether a file of that name can be in a bundle."""
    return _NAME.fullmatch(name) is not None


def pack(folder: Path, path: Path) -> None:
    """Write the repro in a folder as one file, which appears complete or not at all. Raises BundleError, OSError."""
    manifest = Manifest.from_text(read_plain(folder / MANIFEST), str(folder / MANIFEST))
    for name in manifest.files:
        if not _NAME.fullmatch(name):
            raise BundleError(f"{folder}: {name!r} can't be the name of a file in a bundle")
    partial = path.with_name(f".{path.name}.partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as made:
            for name in (MANIFEST, *manifest.files):
                info = zipfile.ZipInfo(name, _WHEN)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = (stat.S_IFREG | 0o644) << 16
                with open_plain(folder / name) as source, made.open(info, "w", force_zip64=True) as target:
                    shutil.copyfileobj(source, target, _STEP)
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)


def read(path: Path) -> Bundle:
    """The manifest of a bundle and what files it has. Executes and writes nothing. Raises BundleError."""
    try:
        with open_plain(path) as file, zipfile.ZipFile(file) as opened:
            return _checked(path, opened)
    except BundleError:
        raise
    except OSError as e:
        raise BundleError(f"{path}: cannot be read: {e.strerror or e}") from e
    except _DAMAGE as e:
        raise BundleError(f"{path}: not a bundle: {e or type(e).__name__}") from e


def unpack(path: Path, folder: Path) -> Manifest:
    """Write the files of a bundle into a folder that is not there yet; it appears complete or not at all. Raises BundleError."""
    if folder.exists() or folder.is_symlink():
        raise BundleError(f"{folder}: is taken; name a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder.parent))
    try:
        with open_plain(path) as file, zipfile.ZipFile(file) as opened:
            bundle = _checked(path, opened)
            for name in (MANIFEST, *bundle.manifest.files):
                _write(opened, name, bundle.sizes[name], partial / name)
        partial.rename(folder)
        return bundle.manifest
    except BundleError:
        raise
    except OSError as e:
        raise BundleError(f"{path}: cannot be unpacked: {e.strerror or e}") from e
    except _DAMAGE as e:
        raise BundleError(f"{path}: damaged: {e or type(e).__name__}") from e
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _checked(path: Path, opened: zipfile.ZipFile) -> Bundle:
    entries = opened.infolist()
    if not entries or entries[0].filename != MANIFEST:
        raise BundleError(f"{path}: not a bundle: it does not begin with {MANIFEST}")
    if len(entries) > MOST_FILES:
        raise BundleError(f"{path}: {len(entries)} files, more than {MOST_FILES}")
    for entry in entries:
        kind = stat.S_IFMT(entry.external_attr >> 16)  # 0: nobody said
        if not _NAME.fullmatch(entry.filename):
            raise BundleError(f"{path}: {entry.filename!r:.80} is no name for a file in a bundle")
        if entry.flag_bits & 1 or kind not in (0, stat.S_IFREG):
            raise BundleError(f"{path}: {entry.filename}: not a plain file")
    sizes = {entry.filename: entry.file_size for entry in entries}
    if len(sizes) != len(entries) or len({name.lower() for name in sizes}) != len(entries):
        raise BundleError(f"{path}: a file is in it twice")
    if sum(sizes.values()) > MOST_BYTES:
        raise BundleError(f"{path}: {sum(sizes.values())} bytes, more than {MOST_BYTES}")
    if sizes[MANIFEST] > LARGEST:
        raise BundleError(f"{path}: {MANIFEST} has more than {LARGEST} bytes")
    manifest = Manifest.from_text(opened.read(MANIFEST), f"{path}: {MANIFEST}")
    if {MANIFEST, *manifest.files} != set(sizes) or MANIFEST in manifest.files or len(set(manifest.files)) != len(manifest.files):
        raise BundleError(f"{path}: its files are not those that {MANIFEST} names")
    if manifest.main not in manifest.files or "/" in manifest.main:
        raise BundleError(f"{path}: {manifest.main!r:.60} is not in it")
    folders = {parent.as_posix() for name in sizes for parent in PurePosixPath(name).parents}
    if folders & set(sizes):
        raise BundleError(f"{path}: {min(folders & set(sizes))} is a file and a folder")
    return Bundle(path, manifest, sizes)


def _write(opened: zipfile.ZipFile, name: str, size: int, target: Path) -> None:
    """One file. `zipfile` checks its sum; no more than `size` bytes are written whatever the data says."""
    target.parent.mkdir(parents=True, exist_ok=True)
    left = size
    with opened.open(name) as source, target.open("xb") as out:
        while part := source.read(_STEP):
            left -= len(part)
            if left < 0:
                break
            out.write(part)
    if left:
        raise BundleError(f"{opened.filename}: {name} is not as long as it says")
