"""What is run as `__main__`: a file, a folder or zip file with a `__main__`, a module (`-m`), code (`-c`) or standard input (`-`).

`sys.argv` and `sys.path` are as Python has them.
"""

from __future__ import annotations

import linecache
import os
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import BuiltinImporter, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from dynamo.peer.located import MAIN, NoSuchModule, here, located
from dynamo.recording.format import is_recording
from tui.applications import main_of
from tui.child import Request
from tui.overlay import Overlay

STDIN = "<stdin>"
_runpy: Any = runpy  # what `python -m` itself calls, as `pdb` does; typeshed has only the rest


@dataclass(frozen=True)
class Program:
    """`code` compiles it; what is wrong with it is raised there. `shown` is its name in the record, `name` that of a module."""

    module: ModuleType
    code: Callable[[], CodeType]
    shown: str
    name: str = ""


def prepare(request: Request, root: str) -> Program:
    """Make `__main__`, with our import root out of the way. Nothing of the program runs, nor is imported."""
    sys.path.remove(root)
    sys.orig_argv[:] = [sys.executable, *request.python, request.script, *request.args]
    if request.overlay:
        sys.meta_path.insert(0, Overlay(request.overlay))
    kind = request.script if not request.is_file else "file"
    program = _KINDS[kind](request)
    sys.modules["__main__"] = program.module
    return program


def _first_path(folder: str) -> None:
    if not sys.flags.safe_path:
        sys.path.insert(0, folder)


def _file(request: Request) -> Program:
    path = os.path.abspath(request.script)
    sys.argv[:] = [request.script, *request.args]
    whole = os.path.join(here(), request.script)
    application = main_of(whole)
    if application is not None:
        sys.path.insert(0, whole)
        return _application(application, request.script)
    _first_path(os.path.dirname(os.path.realpath(path)))
    module = _main(__file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path))
    if is_recording(Path(path)):
        return Program(module, lambda: _replaying(path, request), request.script)
    read = request.overlay.get(path, path)
    return Program(module, lambda: compile(_bytes_of(read), path, "exec", dont_inherit=True), request.script)


def _replaying(path: str, request: Request) -> CodeType:
    """The call that runs a recorded frame; the arguments are the lines at which it stops."""
    lines = [int(line) for line in request.args]
    text = f"import dynamo\nprint(dynamo.replay({path!r}, {request.backend or 'eager'!r}, lines={lines!r}))\n"
    return compile(text, "<replay>", "exec", dont_inherit=True)


def _module(request: Request) -> Program:
    """`python -m`: what is imported to find the module is part of the program, so it is not looked for before that begins."""
    name, *args = request.args
    sys.argv[:] = ["-m", *args]
    if here():
        _first_path(here())
    module = _main()

    def code() -> CodeType:
        try:
            _, spec, found = _runpy._get_module_details(name, _runpy._Error)
        except _runpy._Error as e:
            sys.exit(f"{sys.executable}: {e}")
        sys.argv[0] = spec.origin
        _tell(module, spec)
        compiled: CodeType = found
        return compiled

    return Program(module, code, _place(name), name)


def _place(name: str) -> str:
    try:
        return located(name, sys.path).origin or name
    except NoSuchModule:
        return name


def _application(spec: ModuleSpec, shown: str) -> Program:
    loader: Any = spec.loader
    module = _main()
    _tell(module, spec)

    def code() -> CodeType:
        found: CodeType = loader.get_code(MAIN)
        return found

    return Program(module, code, shown)


def _tell(module: ModuleType, spec: ModuleSpec) -> None:
    """Say in the module where it is from."""
    told = {"__file__": spec.origin, "__cached__": spec.cached, "__loader__": spec.loader, "__package__": spec.parent, "__spec__": spec}
    module.__dict__.update(told)


def _code(request: Request) -> Program:
    text, *args = request.args
    sys.argv[:] = ["-c", *args]
    _first_path("")
    return Program(_main(), lambda: compile(text, "<string>", "exec", dont_inherit=True), "-c")


def _stdin(request: Request) -> Program:
    sys.argv[:] = ["-", *request.args]
    _first_path("")
    return Program(_main(__file__=STDIN, __cached__=None), _read_code, "-")


def _read_code() -> CodeType:
    """All of standard input. Its lines go to `linecache`, from where excerpts are taken."""
    text = sys.stdin.read()
    linecache.cache[STDIN] = (len(text), None, text.splitlines(keepends=True), STDIN)
    return compile(text, STDIN, "exec", dont_inherit=True)


_KINDS: dict[str, Callable[[Request], Program]] = {"file": _file, "-m": _module, "-c": _code, "-": _stdin}


def _main(**values: object) -> ModuleType:
    """A module with the names that the interpreter's own has; `__annotations__` is not in all versions."""
    module = ModuleType("__main__")
    given: dict[str, object] = {"__annotations__": {}} if "__annotations__" in vars(sys.modules["__main__"]) else {}
    names = {"__builtins__": sys.modules["builtins"], "__spec__": None, "__package__": None, "__loader__": BuiltinImporter}
    module.__dict__.update(names | given | values)
    return module


def _bytes_of(path: str) -> bytes:
    with open(path, "rb") as f:
        return f.read()
