"""The child side of a run: be `python SCRIPT ARGS`, with our compiler in place of torch's and the events going to the parent."""

from __future__ import annotations

import json
import os
import platform
import signal
import sys
import traceback
from importlib import metadata
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType
from typing import NoReturn

from dynamo.trace import store
from dynamo.trace.events import RunEnded, RunStarted
from dynamo.trace.stream import StreamWriter
from tui import tracebacks
from tui.child import Request
from tui.exits import Exit

_VERSIONED = ("dynamo-debug", "torch", "triton")


def main() -> NoReturn:
    """Argument 1 is our import root, 2 the descriptor for events, 3 the request as JSON (see `tui.child`)."""
    root, fd, text = sys.argv[1:4]
    values = json.loads(text)
    request = Request(**(values | {"args": tuple(values["args"])}))
    stream = StreamWriter(int(fd))
    os.register_at_fork(after_in_child=stream.close)
    store.current().listeners.append(stream)
    store.emit(RunStarted((request.script, *request.args), os.getcwd(), versions(), request.engine))
    _ENGINES[request.engine](request)
    code, error = run(request, root)
    store.emit(RunEnded(code, error))
    sys.exit(code)


def _with_dynamo(request: Request) -> None:
    from dynamo import script_adapter

    script_adapter.install_when_torch_loads(request.backend)


def _with_torch(request: Request) -> None:
    from dynamo.backends import peer  # imports torch's own compiler, which only this engine may load

    peer.observe_when_torch_loads(request.backend)


_ENGINES = {"dynamo": _with_dynamo, "torch": _with_torch}


def versions() -> dict[str, str]:
    """Versions without importing anything: the script decides when torch is loaded."""
    found = {"python": platform.python_version()}
    for name in _VERSIONED:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def run(request: Request, root: str) -> tuple[int, str]:
    """Run the script as `__main__`. Returns its exit code and its last exception as one line."""
    path = os.path.abspath(request.script)
    code = compile(_bytes_of(path), path, "exec", dont_inherit=True)
    module = _become_main(path, request, root)
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _execute(code, module)
    except SystemExit as e:
        return _exit_code(e), ""
    except KeyboardInterrupt:
        return int(Exit.INTERRUPTED), "interrupted"
    except BaseException as e:  # noqa: BLE001 whatever the script lets through ends it, as in Python
        line = traceback.format_exception_only(e)[-1].strip()
        tracebacks.show(e, request.internals)
        return int(Exit.FINDING), line
    return 0, ""


def _execute(code: CodeType, module: ModuleType) -> None:
    exec(code, module.__dict__)


def _bytes_of(path: str) -> bytes:
    with open(path, "rb") as f:
        return f.read()


def _become_main(path: str, request: Request, root: str) -> ModuleType:
    """`sys.argv`, `sys.path` and `__main__` as Python sets them up for a script."""
    sys.argv[:] = [request.script, *request.args]
    sys.path.remove(root)
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    if root not in sys.path:
        sys.path.append(root)
    module = ModuleType("__main__")
    module.__dict__.update(
        __file__=path,
        __builtins__=sys.modules["builtins"],
        __loader__=SourceFileLoader("__main__", path),
        __spec__=None,
        __package__=None,
        __cached__=None,
    )
    sys.modules["__main__"] = module
    return module


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1
