"""Modules and backends named on the command line, as a program finds them.

Whether a backend `module:function` can be had is found out in a process of its own: its module may print, end the process or never end.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from dynamo.backends.registry import ROWS, UnknownBackend, list_backends, looked_up
from dynamo.peer.located import MAIN, NoSuchModule, here, located
from tui.applications import main_of
from tui.child import ROOT
from tui.errors import CliError, check_code, nearest

SECONDS = 60.0  # what takes longer is left to the run to find out
# Arguments: our import root; the folder that is searched first, as that of a script; the backend.
_BOOT = "import sys\nsys.path[0] = sys.argv[1]\nfrom tui.lookup import main\nmain(*sys.argv[2:])\n"
_OURS = ("<", importlib.__file__, str(Path(ROOT, "dynamo")), __file__)


def check_module(name: str) -> None:
    """Refuse what is missing before anything is imported, and what cannot be compiled. What is missing later is the program's to say."""
    with missing_modules():
        try:
            spec = located(name)
        except NoSuchModule as e:
            if not e.after_imports:
                raise
            return
    get_source = getattr(spec.loader, "get_source", None)
    if get_source is not None:
        check_code(get_source(spec.name) or "", spec.origin or name)


@contextlib.contextmanager
def missing_modules() -> Iterator[None]:
    """Modules that are not found are wrong usage inside."""
    try:
        yield
    except NoSuchModule as e:
        raise CliError("CL001", f"-m {e}") from e


def home_of(script: str) -> Path:
    """The folder in which a program's imports are looked up first."""
    if script in ("-m", "-c", "-"):
        return Path(here())
    return Path(script) if main_of(script) is not None else Path(script).resolve().parent


def check_backend(name: str, engine: str, folder: Path) -> None:
    """Refuse a backend that programs in `folder` don't find. Names without a module are torch's own under that engine."""
    module, colon, _ = name.partition(":")
    if colon and module != MAIN:
        reason = refusal(name, folder)
        if reason:
            raise CliError("CL012", f"--backend {name}: {reason}; an import in {folder} must find it, or in a folder of PYTHONPATH")
    if not name or colon or engine != "dynamo" or any(row.name == name for row in ROWS):
        return  # plug-ins are asked for last: their metadata take a while to load
    known = list_backends(exclude_tags=())
    if name not in known:
        raise CliError("CL012", f"{name}: no such backend{nearest(name, known)}; backends are {', '.join(known)}")


def refusal(name: str, folder: Path) -> str:
    """Why programs in `folder` don't find a backend; '' where they do."""
    command = [sys.executable, "-c", _BOOT, ROOT, str(folder), name]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, env=environment)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout or (f"its module ends the process with {done.returncode}" if done.returncode else "")


def main(folder: str, name: str) -> None:
    """Print why a backend can't be had. What its module prints is not heard."""
    answer = os.dup(1)
    os.dup2(2, 1)
    sys.path[0] = folder
    try:
        looked_up(name)
    except Exception as e:  # noqa: BLE001  # whatever a module of the user's raises
        os.write(answer, _reason(e).encode())


def _reason(error: Exception) -> str:
    """What was raised, and the line of the user's module that did."""
    cause = error.__cause__ or error
    said = f"its module raises {type(cause).__name__}: {cause}" if cause is error and not isinstance(error, UnknownBackend) else str(cause)
    frames = [f for f in traceback.extract_tb(cause.__traceback__) if not f.filename.startswith(_OURS)]
    return " ".join(said.split()) + (f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else "")
