"""`dynamo-debug verify`: does this installation work? Each check does the real thing once."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from dynamo.trace import events, load, recording, session
from inductor.targets.cpu.compiler import compiler
from tui import options
from tui.commands.expecting import expect
from tui.console import put, put_json
from tui.exits import Exit

_TIMEOUT = 60


@dataclass(frozen=True)
class Check:
    """One line of the report. `run` returns what it found, or raises."""

    name: str
    run: Callable[[], str]


def verify(as_json: options.AsJson = False) -> int:
    """Check that the C extension loads, functions compile, breaks resume, records read back and the C compiler works."""
    results = [_result(check) for check in CHECKS]
    if as_json:
        put_json([{"check": name, "ok": ok, "detail": detail} for name, ok, detail in results])
    else:
        put("".join(f"{'ok' if ok else 'failed':<7} {name:<12} {detail}\n" for name, ok, detail in results))
    return Exit.OK if all(ok for _, ok, _ in results) else Exit.TOOL


def _result(check: Check) -> tuple[str, bool, str]:
    try:
        return check.name, True, check.run()
    except Exception as e:  # noqa: BLE001  # whatever is wrong with the installation is the answer
        return check.name, False, f"{type(e).__name__}: {e}"


def trial() -> ModuleType:
    """The built package at work. Raises what loading it raises."""
    from tui.commands import trial  # noqa: PLC0415  # loads torch and the package; what doesn't load is a failed check

    return trial


def _extension() -> str:
    return str(trial().extension())


def _capture() -> str:
    return str(trial().capture())


def _breaks() -> str:
    return str(trial().breaks())


def _record() -> str:
    note = events.Note("DN000", "a text of more than a thousand characters " * 50)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record"
        with session() as store, recording(path):
            store.add(note)
        read = load(path)
    expect(read.problems == [], "; ".join(read.problems))
    expect([e.message for e in read.events if isinstance(e, events.Note)] == [note.message], "an event changed on the way")
    return "written and read back"


def _c_compiler() -> str:
    found = compiler()
    if found is None:
        return "none found; generated C needs one (install gcc or set CC)"
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "check.c", Path(folder) / "check.so"
        source.write_text("int twice(int x) { return 2 * x; }\n")
        command = [*found, "-O1", "-shared", "-fPIC", "-fopenmp", str(source), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
        expect(done.returncode == 0, f"{found[0]} failed: {done.stderr.strip()[:200]}")
        expect(ctypes.CDLL(str(library)).twice(21) == 42, f"{found[0]} built a library that computes wrong results")
    return f"{' '.join(found)} builds with OpenMP and loads"


CHECKS = (
    Check("extension", _extension),
    Check("capture", _capture),
    Check("breaks", _breaks),
    Check("record", _record),
    Check("c compiler", _c_compiler),
)
