"""Running a recorded frame again."""

from __future__ import annotations

import pdb
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from dynamo import config
from dynamo.backends.registry import Backend
from dynamo.compile.context import Context
from dynamo.compile.misses import miss
from dynamo.graph.rescue import called_with
from dynamo.recording.build import Builder
from dynamo.recording.format import RecordingError, read
from dynamo.recording.save import RANDOM
from dynamo.surroundings.modes import MODES, snapshot


def replay(file: str | Path, backend: str | Backend = "eager", *, lines: Sequence[int] = ()) -> Any:
    """Compile and run one recorded frame, under the global modes in which it was recorded, and give its result.

    lines: break points; the frame then runs in eager under pdb, which stops there. A capture that failed when the frame was recorded raises
    the same again. Raises RecordingError for a file that is damaged or of another Python version, and NotRecorded where the frame uses a
    value that could not be kept. This executes the code in the file: open only files that you trust.
    """
    recording = read(Path(file))
    builder = Builder(recording)
    fn = builder.whole(recording.frame["function"])
    if type(fn) is not types.FunctionType:
        raise RecordingError(f"{file}: the frame is no function")
    inputs = tuple(builder.whole(n) for n in recording.frame["inputs"])
    restore = snapshot()
    options = config.patch(suppress_errors=False, replay_record_enabled=False, replay_record_always=False, debug_function="")
    try:
        _set_modes({name: builder.whole(n) for name, n in recording.frame["modes"]})
        with options:
            return _stopping(fn, inputs, lines) if lines else _compiled(fn, inputs, backend, recording.frame["fullgraph"])
    finally:
        restore(None)


def _compiled(fn: types.FunctionType, inputs: tuple[Any, ...], backend: str | Backend, fullgraph: bool) -> Any:
    ctx = Context(backend, miss, fullgraph=fullgraph)
    args, kwargs = called_with(fn.__code__, inputs)
    return ctx.compiled(fn)(*args, **kwargs)


def _stopping(fn: types.FunctionType, inputs: tuple[Any, ...], lines: Sequence[int]) -> Any:
    args, kwargs = called_with(fn.__code__, inputs)
    debugger = pdb.Pdb(nosigint=True)
    debugger.cmdqueue.append("continue")  # it would stop at the first line, too
    for line in lines:
        problem = debugger.set_break(fn.__code__.co_filename, line)
        if problem:
            print(f"{fn.__code__.co_filename}:{line}: {problem}", file=sys.stderr)
    return debugger.runcall(fn, *args, **kwargs)


def _set_modes(wanted: dict[str, Any]) -> None:
    for mode in MODES:
        if mode.name in wanted and mode.read() != wanted[mode.name]:
            mode.write(wanted[mode.name])
    state = wanted.get(RANDOM)
    if isinstance(state, torch.Tensor):
        torch.set_rng_state(state)
