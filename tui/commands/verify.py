"""`dynamo-debug verify`: does this installation work? Each check does the real thing once."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dynamo.trace import events, load, recording, session
from dynamo.trace.store import Store
from inductor.targets.cpu.compiler import compiler
from tui import options
from tui.console import put, put_json
from tui.exits import Exit

_TIMEOUT = 60


class Failed(Exception):
    """A check that ran and found something wrong."""


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
    except Exception as e:  # noqa: BLE001 whatever is wrong with the installation is the answer
        return check.name, False, f"{type(e).__name__}: {e}"


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise Failed(what)


def _extension() -> str:
    from dynamo import _C  # importing it loads torch; so do the other checks

    return ", ".join(f"{name} {value}" for name, value in _C.layout_report().items())


def _capture() -> str:
    import torch

    import dynamo

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + torch.cos(x)

    x = torch.randn(10, 10)
    with session() as store:
        compiled = dynamo.compile(program, backend="eager")
        _expect(torch.equal(compiled(x), program(x)), "compiled and eager results differ")
        _expect(torch.equal(compiled(x + 1), program(x + 1)), "compiled and eager results differ on the second call")
        return _count(store, graphs=1, compiles=1) + ", second call hit the cache"


def _breaks() -> str:
    import torch

    import dynamo

    def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        x = a / (torch.abs(a) + 1)
        if b.sum() < 0:
            b = b * -1
        return x * b

    a, b = torch.randn(10), torch.ones(10)
    with session() as store:
        compiled = dynamo.compile(program, backend="eager")
        for sign in (1, -1):
            _expect(torch.equal(compiled(a, b * sign), program(a, b * sign)), "compiled and eager results differ")
        _expect(len(store.of(events.GraphBroke)) == 1, f"{len(store.of(events.GraphBroke))} breaks, expected 1")
        return _count(store, graphs=3, compiles=3) + ", resumed on both sides"


def _count(store: Store, graphs: int, compiles: int) -> str:
    found = len(store.of(events.GraphCaptured)), len(store.of(events.CompileStarted))
    _expect(found == (graphs, compiles), f"{found[0]} graphs in {found[1]} compiles, expected {graphs} in {compiles}")
    return f"{graphs} graphs in {compiles} compiles"


def _record() -> str:
    note = events.Note("DN000", "a text of more than a thousand characters " * 50)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record"
        with session() as store, recording(path):
            store.add(note)
        read = load(path)
    _expect(read.problems == [], "; ".join(read.problems))
    _expect([e.message for e in read.events if isinstance(e, events.Note)] == [note.message], "an event changed on the way")
    return "written and read back"


def _c_compiler() -> str:
    path = compiler()
    if path is None:
        return "none found; generated C needs one (install gcc or set CC)"
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "check.c", Path(folder) / "check.so"
        source.write_text("int twice(int x) { return 2 * x; }\n")
        command = [path, "-O1", "-shared", "-fPIC", "-fopenmp", str(source), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
        _expect(done.returncode == 0, f"{path} failed: {done.stderr.strip()[:200]}")
        _expect(ctypes.CDLL(str(library)).twice(21) == 42, f"{path} built a library that computes wrong results")
    return f"{path} builds with OpenMP and loads"


CHECKS = (
    Check("extension", _extension),
    Check("capture", _capture),
    Check("breaks", _breaks),
    Check("record", _record),
    Check("c compiler", _c_compiler),
)
