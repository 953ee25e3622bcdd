"""The child side of a run: be `python SCRIPT ARGS`, with our compiler in place of torch's and the events going to the parent."""

from __future__ import annotations

import atexit
import importlib
import json
import os
import platform
import signal
import sys
import warnings
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from importlib.machinery import PathFinder
from typing import NoReturn

import inductor  # noqa: F401  # found by name later, when the script's folder is searched first
from dynamo import _C
from dynamo.peer.children import follow
from dynamo.peer.located import here
from dynamo.peer.private_names import PACKAGES, PrivateNames, clashing
from dynamo.peer.script_adapter import install_when_torch_loads
from dynamo.peer.watching import observe_when_torch_loads
from dynamo.surroundings import collector
from dynamo.surroundings.parent import end_with_parent
from dynamo.trace import store
from dynamo.trace.events import CompileEnded, RunEnded, RunStarted
from dynamo.trace.processes import ProcessWriter
from dynamo.trace.sources import told_sources
from dynamo.trace.stream import StreamWriter
from tui import programs, tracebacks
from tui.child import Request
from tui.exits import Exit

# Packages of ours that nothing imports by name any more once the script runs, so it finds its own modules of these names; and the others.
_DONE = ("tui", "minifier", "repro_corpus")
NOWHERE = ("", 0)
INTERRUPTED = "interrupted"
_LONG = 1 << 63  # what is outside of C's `long` ends Python with 255
_VERSIONED = ("dynamo-debug", "torch", "triton")


def main(started: frozenset[str]) -> NoReturn:
    """Argument 1 is our import root, 2 the descriptor for events, 3 the folder for those of other processes, 4 the request as JSON.

    `started`: the modules that any script finds loaded.
    """
    end_with_parent()
    root, fd, folder, text = sys.argv[1:5]
    values = json.loads(text)
    request = Request(**(values | {name: tuple(values[name]) for name in ("args", "python")}))
    stream = StreamWriter(int(fd), _C.write_whole)
    os.register_at_fork(after_in_child=stream.close)
    current = store.current()
    current.listeners += [told_sources, stream, ProcessWriter(folder, os.getpid(), _C.write_whole)]
    collector.skip_at_exit()
    _follow_others(request, folder, current.began)
    warnings.filterwarnings("ignore", "Failed to initialize NumPy", UserWarning)  # of a torch without NumPy; says nothing about the script
    main_module = programs.prepare(request, root)
    store.emit(RunStarted((main_module.shown, *sys.argv[1:]), here(), versions(), request.engine, main_module.name))
    _ENGINES[request.engine](request.backend)
    ending = run(request, main_module, root, started)
    store.emit(RunEnded(ending.code, ending.error, *ending.place))
    if ending.error == INTERRUPTED:
        _end_interrupted(request.engine)
    raise SystemExit(ending.given)


def _end_interrupted(engine: str) -> NoReturn:
    """Leave the end to Python: it kills itself with SIGINT, unless it ran a text as code since.

    At the exit of a process that compiled, torch's compiler imports a library that does so: then the exit code is 1.
    """
    if engine == "dynamo" and store.current().of(CompileEnded):
        atexit.register(_as_torch_at_exit)
    hook = sys.excepthook

    def silent(*error: object) -> None:
        sys.excepthook = hook  # what is shown is shown already

    sys.excepthook = silent
    raise KeyboardInterrupt


def _as_torch_at_exit() -> None:
    with suppress(ImportError):
        importlib.import_module("tabulate")


def _follow_others(request: Request, folder: str, began: float) -> None:
    """Python processes that the script starts begin with `dynamo.peer.following`; forked ones write by themselves."""
    follow("dynamo.peer.following:begin", {"folder": folder, "began": began, "engine": request.engine, "backend": request.backend})


_ENGINES = {"dynamo": install_when_torch_loads, "torch": observe_when_torch_loads}


def versions() -> dict[str, str]:
    """Versions without importing anything: the script decides when torch is loaded."""
    found = {"python": platform.python_version()}
    for name in _VERSIONED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@dataclass(frozen=True)
class Ending:
    """Exit code of the script, its last exception as one line and where that was raised. `given` is what Python ends with."""

    code: int
    error: str = ""
    place: tuple[str, int] = NOWHERE
    given: object = None


def run(request: Request, main_module: programs.Program, root: str, started: frozenset[str]) -> Ending:
    """Run the script as `__main__`, and print what it does not catch."""
    _give_back_names(started)
    _step_aside(root)
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return _ended(_raised(main_module), request)  # named here, the exception would keep itself: its frames lead to this one


def _ended(error: BaseException | None, request: Request) -> Ending:
    if error is None:
        return Ending(0)
    place = tracebacks.place(error)
    if isinstance(error, SystemExit):
        return _left(error, place)
    line = tracebacks.one_line(error)
    by_hook = tracebacks.show(error, request.internals)
    if by_hook is not None:
        return _left(by_hook, place)
    if isinstance(error, KeyboardInterrupt):
        return Ending(int(Exit.INTERRUPTED), INTERRUPTED)
    return Ending(int(Exit.FINDING), line, place, int(Exit.FINDING))


def _raised(program: programs.Program) -> BaseException | None:
    """What the script lets through. It is shown outside of any `except`, as in Python: hooks see no exception being handled."""
    try:
        _execute(program)
    except BaseException as e:  # noqa: BLE001  # whatever it is ends the script
        return e
    return None


def _execute(program: programs.Program) -> None:
    _C.run_outermost(program.code(), program.module.__dict__)


def _give_back_names(started: frozenset[str]) -> None:
    """A module that only we have loaded hides none of that name beside the script. What uses it has it already."""
    tops = {name.partition(".")[0] for name in sys.modules} - started
    hidden = {top for top in tops - {*PACKAGES} if top in _DONE or _is_beside_script(top)}
    for name in [name for name in sys.modules if name.partition(".")[0] in hidden]:
        sys.modules[f"_dynamo_debug.{name}"] = sys.modules.pop(name)


def _is_beside_script(name: str) -> bool:
    spec = None if sys.flags.safe_path else PathFinder.find_spec(name, sys.path[:1])
    return spec is not None and spec.origin is not None


def _step_aside(root: str) -> None:
    """Where the compiler's own packages have the name of something beside the script, that is what the script finds."""
    names = [] if sys.flags.safe_path else clashing(sys.path[:1], root)
    if names:
        PrivateNames(names).install()
    elif root not in sys.path:
        sys.path.append(root)


def _left(error: SystemExit, place: tuple[str, int]) -> Ending:
    """Python itself ends the process, and prints what is no number: `sys.exit("no data")` ends it with 1."""
    given = error.code
    if given is None:
        return Ending(0, "", place)
    if isinstance(given, int):
        return Ending(given & 0xFF if -_LONG <= given < _LONG else 0xFF, "", place, given)
    return Ending(int(Exit.FINDING), tracebacks.one_line(error), place, given)
