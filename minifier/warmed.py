"""Runs of a written repro that are not waited for as long as a plain one: in forks of the warmed process of a reduction, and in a new
interpreter that was started early."""

from __future__ import annotations

import contextlib
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path

from minifier.engine import Candidate, Kind, Outcome, Verdict
from minifier.graph import refusals
from minifier.isolation import LocalTransport
from minifier.isolation.child import stage
from minifier.isolation.lent import lend
from minifier.isolation.linux import end

_CACHE, _TEMPORARY = "TORCHINDUCTOR_CACHE_DIR", "TMPDIR"
_CERTIFIED = "certified"  # the folder of both, below that of the transport
# of torch's compiler: what it has compiled, which a run that is to certify something compiles itself, and locks
_LEFT_OUT = ("fxgraph", "aotautograd", "locks")


_WAITING = """import atexit, gc, os, runpy, sys
gc.disable()
{lines}
gc.freeze()
gc.unfreeze()  # what is loaded counts as old: it is not looked through for garbage
gc.enable()
path = sys.stdin.readline().rstrip()
if path:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(os.path.dirname(path))
    sys.argv[:] = [path]
    sys.path[0] = os.path.dirname(path)
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code)
"""


class Early:
    """A new interpreter that has run `lines`, imports that the repro makes too, and waits to be told where that is.

    With the exit code that a repro ends with it is gone; taking torch down takes longer than the run.
    """

    def __init__(self, lines: Sequence[str], environment: dict[str, str]) -> None:
        self.lines = list(lines)
        self.said = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WAITING.format(lines="\n".join(lines))],
            stdin=subprocess.PIPE,
            stdout=self.said,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )

    def run(self, repro: Path) -> None:
        """Have it run the repro."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError), self.process.stdin as told:  # one that is gone has an exit code
            told.write(f"{repro.absolute()}\n".encode())

    def close(self) -> None:
        """End it, and what it started. May be called twice."""
        end(self.process)
        self.said.close()


def beside(transport: LocalTransport, lines: Sequence[str], environment: dict[str, str]) -> Early:
    """A new interpreter for what a transport comes to find."""
    return Early(lines, {**environment, **places(transport)})


def places(transport: LocalTransport) -> dict[str, str]:
    """Variables for a new interpreter that is to have what a `Warmed` of the transport puts there."""
    if not transport.spec.lends:
        return {}
    target = transport.folder / _CERTIFIED
    shutil.rmtree(target, ignore_errors=True)
    (target / "tmp").mkdir(parents=True)
    return {_CACHE: str(target), _TEMPORARY: str(target / "tmp")}


class Warmed:
    """What is ready to run a repro once there is one: the warmed process of a transport, and a new interpreter that has run `lines`, which
    may be there already."""

    def __init__(self, transport: LocalTransport, lines: Sequence[str], environment: dict[str, str], early: Early | None = None) -> None:
        self.transport = transport
        self.early = early if early is not None and early.lines == list(lines) else beside(transport, lines, environment)
        self._fill()

    def close(self) -> None:
        self.early.close()

    def run(self, repro: Path) -> Future[Outcome]:
        """Start the repro in a fork; `code_of` says how that ended."""
        return self.transport.ask("minifier.warmed:ask", Candidate("repro", str(repro.absolute()).encode()))

    def _fill(self) -> None:
        """The new interpreter has what the reduction found out about the machine, and no graph that was compiled."""
        found, target = self.transport.folder / "cache" / "inductor", self.transport.folder / _CERTIFIED
        if target.is_dir() and found.is_dir():
            shutil.copytree(found, target, ignore=lambda folder, names: _LEFT_OUT if Path(folder) == found else (), dirs_exist_ok=True)
        if target.is_dir():
            lend(self.transport.folder / "tmp", target / "tmp")


def code_of(outcome: Outcome) -> int | None:
    """The exit code of a repro, minus the number of the signal that ended it; None where it was ended or could not be run."""
    signature = outcome.signature
    if outcome.verdict is not Verdict.INTERESTING or signature is None:
        return None
    match signature.kind:
        case Kind.EXIT:
            return signature.code
        case Kind.SIGNAL:
            return -signature.code
    return None


def ask(path: Path) -> Outcome:
    """Run the repro that `path` names as Python would; the process ends with its exit code."""
    repro = path.read_text()
    os.chdir(os.path.dirname(repro))
    sys.argv[:] = [repro]
    sys.path.insert(0, os.path.dirname(repro))
    refusals.forget()  # what is certified was compiled for it
    stage("run", counts=True)
    try:
        runpy.run_path(repro, run_name="__main__")
    except Exception:  # noqa: BLE001  # it ends with any as Python ends
        sys.excepthook(*sys.exc_info())  # which a repro may have set
        raise SystemExit(1) from None
    raise SystemExit(0)
