"""`dynamo-debug profile`: what made a script compile again, which edit stops that, and whether it does."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, Annotated

import typer

from dynamo.surroundings.temporary import own_folder
from minifier.recompiles import profile as profiler
from minifier.recompiles.text import as_text
from tui import options
from tui.checks import check_program
from tui.child import Child, Request
from tui.console import put, put_json, say
from tui.exits import Exit
from tui.runs import Keeper, Outcome, check_request, narrate

Verify = Annotated[bool, typer.Option("--verify", help="Run the script again with each fix in a copy of its source; count compiles.")]
Limit = Annotated[int, typer.Option(help="Compiles of one function before it runs from its cache.", min=1)]
# A run with a fix may take this many times as long as the first, and this many seconds more.
_PATIENCE = (3.0, 30.0)


def profile(
    script: options.Script,
    args: options.Args = None,
    module: options.AsModule = False,
    verify: Verify = False,
    limit: Limit = 64,
    backend: options.Backend = "",
    internals: options.Internals = False,
    as_json: options.AsJson = False,
) -> int:
    """Run SCRIPT and say why it compiled again: cause, the line that read the value, the line that changed it, and what to edit.

    Example: dynamo-debug profile train.py --verify
    """
    request = Request(*options.words(script, args, module), backend=backend, internals=internals)
    check_request(request)
    if module:
        check_program(request.script, request.args)
    with _options(DYNAMO_GUARD_TIMES="1", DYNAMO_RECOMPILE_LIMIT=str(limit)):
        started = time.monotonic()
        first = _run(request, {}, None, echo=True)
        narrate(Outcome(first.run, first.code, first.run.argv != ()))
        patience = _PATIENCE[0] * (time.monotonic() - started) + _PATIENCE[1]

        def again(files: Mapping[str, bytes]) -> profiler.Ran:
            return _run(request, files, patience, echo=False)

        found = profiler.profile(first, again if verify and first.code == Exit.OK else None, say)
    put_json(found.to_json()) if as_json else put(as_text(found))
    return first.code


@contextmanager
def _options(**values: str) -> Iterator[None]:
    """Options for the child, unless the user has set them."""
    mine = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(mine)
    try:
        yield
    finally:
        for name in mine:
            del os.environ[name]


def _run(request: Request, files: Mapping[str, bytes], patience: float | None, *, echo: bool) -> profiler.Ran:
    """One run with `files` in the place of those on disk, killed after `patience` seconds. `echo`: its output goes to stderr, too."""
    with own_folder("debug-profile-") as folder:
        overlay = {}
        for number, (file, data) in enumerate(files.items()):
            copy = folder / f"{number}.py"
            copy.write_bytes(data)
            overlay[file] = str(copy)
        return _follow(replace(request, overlay=overlay), patience, echo)


def _follow(request: Request, patience: float | None, echo: bool) -> profiler.Ran:
    reading, writing = os.pipe()
    output = bytearray()
    with open(os.devnull, "wb") as nowhere:
        child = Child(request, stdout=writing, stderr=None if echo else nowhere.fileno())
        os.close(writing)
        ended = threading.Event()
        listener = threading.Thread(target=_listen, args=(os.fdopen(reading, "rb"), output, echo, ended), daemon=True)
        listener.start()
        timer = threading.Timer(patience, child.kill) if patience is not None else None
        if timer is not None:
            timer.start()
        keeper = Keeper()
        try:
            for item in child.events():
                keeper.take(item)
            code = child.exit_code()
        except BaseException:
            child.kill()
            child.exit_code()
            raise
        finally:
            if timer is not None:
                timer.cancel()
    ended.set()
    listener.join()
    keeper.end(code, "")
    return profiler.Ran(keeper.run, code, bytes(output))


def _listen(pipe: IO[bytes], output: bytearray, echo: bool, ended: threading.Event) -> None:
    """Until the pipe is closed, or the script has ended and nothing is left in it: a process that it left behind may hold the pipe."""
    with pipe:
        while True:
            last = ended.is_set()
            if not select.select([pipe], [], [], 0.0 if last else 0.1)[0]:
                if last:
                    return
                continue
            chunk = os.read(pipe.fileno(), 65536)
            if not chunk:
                return
            output += chunk
            if echo:
                sys.stderr.buffer.write(chunk)
                sys.stderr.flush()
