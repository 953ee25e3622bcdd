"""Processes for graphs, made ready while the rest of the tool is loaded: they take longest, and most runs come to need them."""

from __future__ import annotations

from pathlib import Path

from minifier import doors
from minifier.graph import warming
from minifier.isolation import Limits, LocalTransport
from minifier.isolation.leftover import end_with_this_process
from minifier.programs import Program

UNKNOWN = ""  # where only a run of the script can tell what its graphs will be compiled with


def level(after: str) -> str:
    """The step of the compiler whose graphs are asked for first."""
    return "aot" if after == "aot" else "dynamo"


def folder_of(folder: Path, level: str) -> Path:
    """Where processes for graphs have their files."""
    return folder / f"ladder-{level}"


def started(
    program: Program, after: str, engine: str, backend: str, accuracy: bool, folder: Path, jobs: int, limits: Limits | None
) -> LocalTransport | None:
    """Processes that are being made ready; None where they may not be needed, or where it is not known for which backend. What they do
    depends on a Wish; see there."""
    end_with_this_process()
    likely = backend or (UNKNOWN if b"backend" in program.path.read_bytes() else "inductor")
    if after == "capture" or not likely:
        return None
    doors.close()
    first = level(after)
    spec = warming.spec(warming.OF_MANY, {"backend": likely, "after": first, "accuracy": accuracy, "engine": engine})
    return LocalTransport(spec, folder_of(folder, first), jobs, limits, in_background=True)
