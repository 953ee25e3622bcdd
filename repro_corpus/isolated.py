"""Runs programs one by one, each in a process of its own that has imported nothing but torch and this package.

A server process imports both once and forks for every request, so a program that crashes, hangs or leaves torch in a bad state tells
nothing about the next one. The compiled run comes first: imports of the eager run could hide what is missing. Then eager, then
compiled again, which must find what the first run compiled still true.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import zlib
from dataclasses import asdict, dataclass, field
from typing import IO, Any, NoReturn

import torch

import dynamo
from repro_corpus.observe import differences, observe
from repro_corpus.program import Program, programs_of


@dataclass
class Verdict:
    """`outcome`: equal, different, crashed, hung. `lines` say how; `output` is what the process wrote to its streams."""

    outcome: str
    lines: list[str] = field(default_factory=list)
    output: str = ""


def check(program: Program, backend: str) -> list[str]:
    """The differences between eager and two compiled runs, in this process."""

    def compile(fn: Any = None, **options: Any) -> Any:
        return dynamo.compile(fn, backend=backend, **options)

    first = observe(program, compile)
    expected = observe(program, _plain)
    second = observe(program, compile)
    found = [f"first run: {line}" for line in differences(expected, first, program.tolerance)]
    return found + [f"second run: {line}" for line in differences(expected, second, program.tolerance)]


def _plain(fn: Any = None, **options: Any) -> Any:
    return (lambda f: f) if fn is None else fn


class Server:
    """A warmed process that forks for each program. Closed with `close()`."""

    def __init__(self, timeout: float = 300.0) -> None:
        self.timeout = timeout
        command = [sys.executable, "-m", "repro_corpus.isolated", str(timeout)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, program: Program, backend: str) -> Verdict:
        requests, answers = self.process.stdin, self.process.stdout
        assert requests is not None and answers is not None
        requests.write(json.dumps([program.module, program.name, backend]) + "\n")
        requests.flush()
        answer = answers.readline()
        if not answer:
            raise RuntimeError(f"the process that runs programs ended with {self.process.wait()}")
        return Verdict(**json.loads(answer))

    def close(self) -> None:
        self.process.communicate()


def _warm() -> None:
    """Import the compiler, which otherwise every child would do anew; nothing is compiled here, and what programs import is not touched."""
    for package in ("dynamo", "inductor"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if module.name not in _NOT_WARMED:
                importlib.import_module(module.name)


_NOT_WARMED = frozenset({"dynamo.backends.peer", "dynamo.script_adapter", "dynamo.export.handover"})  # they import torch's own compiler


def _serve(timeout: float) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        module, name, backend = json.loads(line)
        with tempfile.TemporaryFile("w+") as output:
            verdict = _forked(module, name, backend, output, timeout)
        answers.write(json.dumps(asdict(verdict)) + "\n")
        answers.flush()


def _forked(module: str, name: str, backend: str, output: IO[str], timeout: float) -> Verdict:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        (program,) = [p for p in programs_of(module) if p.name == name]
        with os.fdopen(write, "w") as pipe:
            pipe.write(json.dumps(_in_child(program, backend)))
        _end(whole=backend == program.backends[-1] and zlib.crc32(program.id.encode()) % 3 == 0)
    os.close(write)
    exited = os.pidfd_open(child)
    is_done = bool(select.select([exited], [], [], timeout)[0])
    os.close(exited)
    with contextlib.suppress(ProcessLookupError):  # it has ended and left no process of its own behind
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    output.seek(0)
    said = output.read()[-4000:]
    if not is_done:
        return Verdict("hung", [f"no end after {timeout:.0f} s"], said)
    code = os.waitstatus_to_exitcode(status)
    lines = json.loads(text) if text else []
    if code:
        return Verdict("crashed", [*lines, f"the process ended with {code}"], said)
    return Verdict("different" if lines else "equal", lines, said)


def _in_child(program: Program, backend: str) -> list[str]:
    try:
        with dynamo.config.patch(check_surroundings=True):
            return check(program, backend)
    except Exception:  # noqa: BLE001  # reported to the parent, which has no other way to see it
        return ["the check itself failed: " + traceback.format_exc()]


def _end(whole: bool) -> NoReturn:
    """The interpreter's own end belongs to the program: some failures show only there.

    It takes ten times as long as most programs, nearly all of it for modules that were imported before the fork, so it runs on one
    backend of every third program, always the same ones, without a search for cycles among what is old. Threads are waited for and
    functions of `atexit` run on all.
    """
    if whole:
        gc.collect(1)
        gc.freeze()
        sys.exit(0)
    threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter itself calls first
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    _warm()
    _serve(float(sys.argv[1]))
