"""Running `dynamo-debug` as users do, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-c", "from tui.main import main; main()"]
TIMEOUT = 120


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}


def run(*arguments: str, cwd: Path, timeout: float = TIMEOUT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], cwd=cwd, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout
    )


# A script that reports a compile with two graphs and a break without compiling anything: quick, and the same on every machine.
EMITTING = """
import sys
from dynamo.trace import emit, events as ev
print("script says", *sys.argv[1:])
me = __file__
emit(ev.CompileStarted("0/0", "f", me, 3))
emit(ev.GraphCaptured("0/0", "0/0", "capture", 1, "def forward(self, x):\\n    return x + 1\\n", ()))
emit(ev.GuardInstalled("0/0", 0, "L['x']", "tensor float32 (3,)", me, 5))
emit(ev.GraphBroke("0/0", "DD001", me, 2, 0, 2, 6, "branch on a tensor", "why", "what instead"))
emit(ev.CompileEnded("0/0", "break"))
"""


def write(folder: Path, text: str, name: str = "script.py") -> str:
    (folder / name).write_text(text)
    return name
