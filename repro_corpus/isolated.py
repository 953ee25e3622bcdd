"""Runs programs one by one, each in a process of its own that has imported nothing but torch and this package.

A server process imports both once and forks for every request, so a program that crashes, hangs or leaves torch in a bad state tells
nothing about the next one. The compiled run comes first: imports of the eager run could hide what is missing. Then eager, then
compiled again, which must find what the first run compiled still true.

Some programs make torch load its own compiler, which takes ten times as long as the program. Once one has run on a backend, its other
backends may run where that is loaded already (`Servers`).
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
import weakref
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import IO, Any, NoReturn

import torch

import dynamo
from dynamo.surroundings.collector import paused
from repro_corpus.observe import differences, observe, undeclared
from repro_corpus.program import Program, programs_of


@dataclass
class Verdict:
    """`outcome`: equal, different, crashed, hung. `lines` say how; `output` is what the process wrote to its streams.

    `loaded` are those of HEAVY that the process had loaded in the end.
    """

    outcome: str
    lines: list[str] = field(default_factory=list)
    output: str = ""
    loaded: list[str] = field(default_factory=list)


# What torch loads late and slowly, the costliest first: 2 s, which includes the others; 1 s, likewise.
HEAVY = ("torch._dynamo", "torch.distributed.tensor", "torch.fx.experimental.symbolic_shapes")


def check(program: Program, backend: str) -> list[str]:
    """The differences between eager and two compiled runs, in this process."""

    def compile(fn: Any = None, **options: Any) -> Any:
        return dynamo.compile(fn, backend=backend, **options)

    first = observe(program, compile)
    expected = observe(program, _plain)
    second = observe(program, compile)
    found = undeclared(program, expected)
    found += [f"first run: {line}" for line in differences(expected, first, program.tolerance)]
    return found + [f"second run: {line}" for line in differences(expected, second, program.tolerance)]


def _plain(fn: Any = None, **options: Any) -> Any:
    return (lambda f: f) if fn is None else fn


class Server:
    """A warmed process that forks for each program, with `loaded` imported beforehand. Closed with `close()`."""

    def __init__(self, timeout: float = 300.0, loaded: str = "") -> None:
        command = [sys.executable, "-m", "repro_corpus.isolated", str(timeout), loaded]
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


class Servers:
    """A server where nothing is loaded, and one for each of HEAVY that a program turned out to load. Closed with `close()`.

    Give a program's deepest backend first: that one sees a process where torch's compiler isn't loaded. `known`: what programs load, by
    their ids, if that is known; of these no backend does.
    """

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        self.servers: dict[str, Server] = {}
        self.loaded = dict(known or {})

    def run(self, program: Program, backend: str) -> Verdict:
        known = self.loaded.get(program.id, "")
        if known not in self.servers:
            self.servers[known] = Server(loaded=known)
        verdict = self.servers[known].run(program, backend)
        self.loaded.setdefault(program.id, next(iter(verdict.loaded), ""))
        return verdict

    def close(self) -> None:
        for server in self.servers.values():
            server.close()


def _warm(loaded: str) -> None:
    """Import the compiler, which otherwise every child would do anew; nothing is compiled here, and what programs import is not touched."""
    if loaded:
        importlib.import_module(loaded)
    for package in ("dynamo", "inductor"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not module.name.startswith(_NOT_WARMED):
                importlib.import_module(module.name)


def _old_finalizers(run_at_exit: bool) -> None:
    """Those of torch's operator libraries, made before the fork, take longer to run than most programs."""
    for finalizer in _OLD_FINALIZERS:
        finalizer.atexit = run_at_exit


_OLD_FINALIZERS: list[weakref.finalize[..., Any]] = []
# The first three import the peer, the last imports Triton, which CPU programs never meet.
# Programs try many variants of one function: those beyond the usual limit would run in eager, and be equal whatever the compiler does.
_EVERY_VARIANT = {"recompile_limit": 1000}

_NOT_WARMED = ("dynamo.peer.watching", "dynamo.peer.script_adapter", "dynamo.export.handover", "inductor.targets.triton")


def _serve(timeout: float) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        module, name, backend = json.loads(line)
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as found:
            verdict = _forked(module, name, backend, output, found, timeout)
        answers.write(json.dumps(asdict(verdict)) + "\n")
        answers.flush()


def _forked(module: str, name: str, backend: str, output: IO[str], found: IO[str], timeout: float) -> Verdict:
    """What the child found goes through a file: nobody reads a pipe while it runs, and a pipe holds 64 KB."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        (program,) = [p for p in programs_of(module) if p.name == name]
        lines = _in_child(program, backend)
        found.write(json.dumps([lines, [name for name in HEAVY if name in sys.modules]]))
        found.flush()
        _end(whole=backend == program.backends[-1] and zlib.crc32(program.id.encode()) % 3 == 0)
    exited = os.pidfd_open(child)
    is_done = bool(select.select([exited], [], [], timeout)[0])
    os.close(exited)
    with contextlib.suppress(ProcessLookupError):  # it has ended and left no process of its own behind
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    found.seek(0)
    text = found.read()
    output.seek(0)
    said = output.read()[-4000:]
    if not is_done:
        return Verdict("hung", [f"no end after {timeout:.0f} s"], said)
    code = os.waitstatus_to_exitcode(status)
    lines, loaded = json.loads(text) if text else ([], [])
    if code:
        return Verdict("crashed", [*lines, f"the process ended with {code}"], said, loaded)
    return Verdict("different" if lines else "equal", lines, said, loaded)


def _in_child(program: Program, backend: str) -> list[str]:
    try:
        with dynamo.config.patch(check_surroundings=True, **_EVERY_VARIANT):
            return check(program, backend)
    except Exception:  # noqa: BLE001  # reported to the parent, which has no other way to see it
        return ["the check itself failed: " + traceback.format_exc()]


def _end(whole: bool) -> NoReturn:
    """The interpreter's own end belongs to the program: some failures show only there.

    It takes ten times as long as most programs, nearly all of it for modules that were imported before the fork, so it runs on one
    backend of every third program, always the same ones, without a search for cycles among what is old. Threads are waited for, and
    functions of `atexit` and finalizers of what a program made run on all.
    """
    if whole:
        _old_finalizers(run_at_exit=True)
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
    _warm(sys.argv[2])
    _OLD_FINALIZERS += weakref.finalize._registry  # type: ignore[attr-defined]
    _old_finalizers(run_at_exit=False)
    gc.collect()
    gc.freeze()  # else each child's collector walks, and so copies, all that was imported here
    with paused():  # that this process has frozen objects is found out once, here
        pass
    _serve(float(sys.argv[1]))
