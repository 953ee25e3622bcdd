"""When frames are recorded and where the files go. Recording never changes what the program does."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

from dynamo import config
from dynamo.trace import emit
from dynamo.trace.events import Note

_MOST = 1_000  # files of one name


def keep_frame(fn: types.FunctionType, inputs: tuple[Any, ...], error: BaseException | None, fullgraph: bool) -> None:
    """Write the frame if the options ask for it: always, or when its capture has failed, whose error then says where the file is."""
    if not config.replay_record_always and (error is None or not config.replay_record_enabled):
        return
    from dynamo.recording import format, save  # noqa: PLC0415  # only where an option asks

    try:
        path = _place(fn.__code__, type(error).__name__ if error is not None else "frame")
        text = f"{type(error).__name__}: {error}" if error is not None else ""
        format.write(path, *save.save(fn, inputs, text, fullgraph))
    except (OSError, RuntimeError, TypeError, ValueError, LookupError, AttributeError) as e:
        emit(Note(format.NOT_WRITTEN, f"{fn.__qualname__} could not be recorded: {type(e).__name__}: {e}"))
        return
    said = f"{format.SAID}{path}. To run only this frame while debugging, run dynamo.replay('{path}')."
    emit(Note(format.WRITTEN, said, "info"))
    if error is not None:
        error.add_note(said)


def _place(code: types.CodeType, what: str) -> Path:
    """`Net.forward_ValueError_12.rec` in the folder of recordings; never a file that is there."""
    folder = Path(config.replay_record_dir or Path(config.debug_dir or ".") / "torch_compile_debug" / "error_recordings").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in code.co_qualname)[-60:].lstrip(".")
    for number in range(_MOST):
        path = folder / f"{name}_{what}_{code.co_firstlineno}{f'_{number}' if number else ''}.rec"
        if not path.exists():
            return path
    raise OSError(f"{folder}: holds {_MOST} recordings of {name} already; remove some")
