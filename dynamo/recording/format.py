"""The file of a recorded frame, and what may stand in it. Opening one executes nothing, imports nothing and writes nothing.

    frame.json           versions, the frame, a table of values, code objects, namespaces, source texts
    tensors.safetensors  memory of tensors, by storage

It is a zip without compression and without any other member, so what it says is never larger than the file. Values refer to each other by
their number in the table. What each kind of value holds is a row of `VALUES`; all is checked against it before anybody uses it.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dynamo.trace.plain import open_plain

NAME, VERSION = "dynamo-debug frame", 1
NOT_WRITTEN = "DD097"  # the note about a frame that could not be kept
WRITTEN, SAID = "DD098", "Last frame execution written to "  # the note about a file that was written, and how it begins
FRAME, TENSORS = "frame.json", "tensors.safetensors"
_MAGIC = b"PK\x03\x04"
_MOST_JSON = 256 << 20

Check = Callable[[Any, "Sizes"], bool]


class RecordingError(ValueError):
    """A file that is no recorded frame, or a damaged one. The text names file and part."""


class Sizes(NamedTuple):
    """Lengths of the tables, within which references lie."""

    values: int
    codes: int
    namespaces: int


FIELD: type = type(vars(Sizes)["values"])  # what the fields of named tuples are


def _is(cls: type) -> Check:
    return lambda x, _: type(x) is cls


def _optional(check: Check) -> Check:
    return lambda x, sizes: x is None or check(x, sizes)


def _all(check: Check) -> Check:
    return lambda x, sizes: type(x) is list and all(check(item, sizes) for item in x)


def _pair(first: Check, second: Check) -> Check:
    return lambda x, sizes: type(x) is list and len(x) == 2 and first(x[0], sizes) and second(x[1], sizes)


def _hex(x: Any, _: Sizes) -> bool:
    if type(x) is not str:
        return False
    try:
        bytes.fromhex(x)
    except ValueError:
        return False
    return True


TEXT, INT, FLAG = _is(str), _is(int), _is(bool)
REF: Check = lambda x, sizes: type(x) is int and 0 <= x < sizes.values  # noqa: E731  # a row of checks like the others
CODE: Check = lambda x, sizes: type(x) is int and 0 <= x < sizes.codes  # noqa: E731  # as above
SPACE: Check = lambda x, sizes: type(x) is int and 0 <= x < sizes.namespaces  # noqa: E731  # as above
REFS, NAMES, PAIRS = _all(REF), _all(_pair(TEXT, REF)), _all(_pair(REF, REF))
SIZES = _all(lambda x, _: type(x) is int and 0 <= x < 1 << 62)

# What stands in a value of each kind, besides its `kind`.
VALUES: dict[str, dict[str, Check]] = {
    "plain": {"type": TEXT, "text": TEXT},  # None, bool, int, float, complex, str, bytes, ellipsis
    "sequence": {"type": TEXT, "items": REFS},  # list, tuple, set, frozenset, torch.Size
    "dict": {"type": TEXT, "items": PAIRS},  # dict, OrderedDict
    "defaultdict": {"factory": REF, "items": PAIRS},
    "deque": {"items": REFS, "limit": REF},
    "range": {"type": TEXT, "items": REFS},  # range, slice
    "torch": {"type": TEXT, "text": TEXT},  # dtype, device, layout, memory_format
    "tensor": {"storage": TEXT, "dtype": TEXT, "size": SIZES, "stride": SIZES, "offset": INT, "device": TEXT,
               "requires_grad": FLAG, "is_parameter": FLAG},
    "import": {"name": TEXT},  # a module of a library
    "module": {"name": TEXT, "names": NAMES},  # a module of the user's: what recorded code may ask it for
    "reference": {"module": TEXT, "name": TEXT},  # a class or function of a library
    "function": {"code": CODE, "globals": SPACE, "name": TEXT, "qualname": TEXT, "defaults": _optional(REFS), "kwdefaults": NAMES,
                 "closure": REFS, "attributes": NAMES},
    "method": {"function": REF, "instance": REF},
    "wrapper": {"type": TEXT, "items": REFS},  # staticmethod, classmethod, property, field of a named tuple
    "partial": {"function": REF, "items": REFS, "keywords": NAMES},
    "cell": {"contents": _optional(REF)},
    "class": {"name": TEXT, "qualname": TEXT, "module": TEXT, "bases": REFS, "names": NAMES},
    "class of": {"metaclass": REF, "name": TEXT, "qualname": TEXT, "module": TEXT, "bases": REFS, "names": NAMES},  # of a metaclass
    "object": {"class": REF, "attributes": NAMES, "slots": NAMES},
    "named": {"class": REF, "items": REFS},  # an instance of a subclass of tuple
    "container": {"class": REF, "base": TEXT, "items": REFS, "attributes": NAMES, "slots": NAMES},  # of a subclass of list, set or dict
    "made": {"type": TEXT, "items": REFS},  # a value of a row of dynamo/recording/known.py, of its parts
    "enumeration": {"name": TEXT, "qualname": TEXT, "module": TEXT, "bases": REFS, "members": NAMES, "names": NAMES},
    "enum": {"name": TEXT, "module": TEXT, "base": REF, "names": NAMES},
    "member": {"class": REF, "name": TEXT},
    "code": {"code": CODE},
    "placeholder": {"type": TEXT, "text": TEXT},  # what can't be kept
}  # fmt: skip

CODE_FIELDS: dict[str, Check] = {
    **dict.fromkeys(("argcount", "posonlyargcount", "kwonlyargcount", "nlocals", "stacksize", "flags", "firstlineno"), INT),
    **dict.fromkeys(("code", "linetable", "exceptiontable"), _hex),
    **dict.fromkeys(("names", "varnames", "freevars", "cellvars"), _all(TEXT)),
    **dict.fromkeys(("filename", "name", "qualname"), TEXT),
    "consts": REFS,
}
NAMESPACE: dict[str, Check] = {"name": TEXT, "file": TEXT, "names": NAMES}
TOP: dict[str, Check] = {
    "format": TEXT,
    "version": INT,
    "versions": lambda x, _: type(x) is dict and all(type(v) is str for v in x.values()),
    "error": TEXT,
    "function": REF,
    "inputs": REFS,
    "modes": NAMES,
    "fullgraph": FLAG,
    "sources": lambda x, _: type(x) is dict and all(type(v) is str for v in x.values()),
    "values": lambda x, _: type(x) is list,
    "codes": lambda x, _: type(x) is list,
    "namespaces": lambda x, _: type(x) is list,
}


@dataclass(frozen=True)
class Recording:
    """An opened file: `frame` is checked plain data, `tensors` the bytes of the other member."""

    path: Path
    frame: dict[str, Any]
    tensors: bytes

    @property
    def title(self) -> str:
        """`Net.forward (model.py:12)`."""
        value = self.frame["values"][self.frame["function"]]
        if value["kind"] != "function":
            raise RecordingError(f"{self.path}: the frame is no function")
        code = self.frame["codes"][value["code"]]
        return f"{code['qualname']} ({code['filename']}:{code['firstlineno']})"


def is_recording(path: Path) -> bool:
    """Whether a file begins as a recorded frame does."""
    try:
        with open_plain(path) as f:
            return f.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def write(path: Path, frame: dict[str, Any], tensors: bytes) -> None:
    """Write a file whole or not at all. Raises OSError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED) as z:
            z.writestr(zipfile.ZipInfo(FRAME), json.dumps(frame, separators=(",", ":")))
            z.writestr(zipfile.ZipInfo(TENSORS), tensors)
        partial.rename(path)
    finally:
        partial.unlink(missing_ok=True)


def read(path: Path) -> Recording:
    """Open a file and check all of it. Raises RecordingError; OSError where it can't be read."""
    try:
        text, tensors = _members(path)
        frame = json.loads(text)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, struct.error, RuntimeError, ValueError, RecursionError) as e:
        raise RecordingError(f"{path}: not a recorded frame, or a damaged one: {e}") from e
    _check(path, frame)
    return Recording(path, frame, tensors)


def _members(path: Path) -> tuple[bytes, bytes]:
    with open_plain(path) as file, zipfile.ZipFile(file) as z:
        infos = z.infolist()
        if sorted(i.filename for i in infos) != [FRAME, TENSORS]:
            raise ValueError(f"it holds {', '.join(repr(i.filename) for i in infos[:4]) or 'nothing'}, not {FRAME} and {TENSORS}")
        size = path.stat().st_size
        for info in infos:
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > size or info.flag_bits & 1:
                raise ValueError(f"{info.filename} is compressed, encrypted or larger than the file")
        if z.getinfo(FRAME).file_size > _MOST_JSON:
            raise ValueError(f"{FRAME} is larger than {_MOST_JSON >> 20} MB")
        return z.read(FRAME), z.read(TENSORS)


def _check(path: Path, frame: Any) -> None:
    def must(holds: bool, what: str) -> None:
        if not holds:
            raise RecordingError(f"{path}: {what}")

    must(type(frame) is dict, "the frame is no JSON object")
    must(frame.get("format") == NAME, f"{FRAME} does not say {NAME!r}")
    must(frame.get("version") == VERSION, f"version {frame.get('version')!r} of the format; this dynamo-debug reads version {VERSION}")
    tables = [frame.get(name) for name in ("values", "codes", "namespaces")]
    must(all(type(table) is list for table in tables), "a table is missing")
    sizes = Sizes(*(len(table) for table in tables if table is not None))
    for name, check in TOP.items():
        must(name in frame and check(frame[name], sizes), f"{name} is missing or damaged")
    for number, value in enumerate(frame["values"]):
        kind = value.get("kind") if type(value) is dict else None
        fields = VALUES.get(kind) if type(kind) is str else None
        must(fields is not None, f"value {number} is of no known kind")
        _fields(path, f"value {number} ({kind})", value, fields or {}, sizes)
    for number, code in enumerate(frame["codes"]):
        _fields(path, f"code {number}", code, CODE_FIELDS, sizes)
    for number, space in enumerate(frame["namespaces"]):
        _fields(path, f"namespace {number}", space, NAMESPACE, sizes)


def _fields(path: Path, where: str, value: Any, fields: dict[str, Check], sizes: Sizes) -> None:
    for name, check in fields.items():
        if type(value) is not dict or name not in value or not check(value[name], sizes):
            raise RecordingError(f"{path}: {where}: {name} is missing or damaged")
