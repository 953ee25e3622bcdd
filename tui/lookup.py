"""Whether a backend `module:function` can be had, found out in a process of its own: its module may print, end the process or never end."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import traceback
from pathlib import Path

from dynamo.backends.registry import UnknownBackend, looked_up
from tui.child import ROOT

SECONDS = 60.0  # what takes longer is left to the run to find out
# Arguments: our import root; the folder that is searched first, as that of a script; the backend.
_BOOT = "import sys\nsys.path[0] = sys.argv[1]\nfrom tui.lookup import main\nmain(*sys.argv[2:])\n"
_OURS = ("<", importlib.__file__, str(Path(ROOT, "dynamo")), __file__)


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
