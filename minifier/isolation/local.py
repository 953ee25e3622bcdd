"""The transport of local processes, and what is made of the reports of keepers."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from minifier.engine.problem import Candidate
from minifier.engine.signature import Kind, Signature
from minifier.engine.transport import Outcome, Transport, Verdict
from minifier.isolation.lent import give_back, headers, lend
from minifier.isolation.linux import end
from minifier.isolation.standing import innermost, readable
from minifier.isolation.wire import Report, Request, plain, receive, send

WARMING = 300.0  # seconds that it may take until oracles can be asked: the dummy run may be one that never ends
ATTEMPTS = 3  # at a query whose keeper dies
INTERESTING, OTHER, INVALID = 0, 101, 125  # exit codes of a command that is an oracle
_ENDED = {"timeout": Kind.HANG, "memory": Kind.MEMORY}


class IsolationError(RuntimeError):
    """The tool itself can't run oracles: the warmed process doesn't start, or keeps dying."""


@dataclass(frozen=True)
class OracleSpec:
    """What is asked. `function` (`module:function`) gets the path of a candidate; or `command` does, as its last argument, and its exit
    code is the answer: 0 interesting, 101 also interesting but another failure, 125 invalid, anything else boring.

    `warm` names what the warmed process imports (`module`) or calls (`module:function`). `name` is the file name of candidates.
    `lends`: torch's compiler is asked, and finds the headers that it has compiled for this user.
    """

    function: str = ""
    command: tuple[str, ...] = ()
    warm: tuple[str, ...] = ()
    name: str = "candidate"
    environment: dict[str, str] = field(default_factory=dict)
    lends: bool = False

    def identity(self, folder: Path) -> str:
        """Names the oracle in a journal, wherever the folder lies that what it asks for is in."""
        place = str(folder.absolute())
        written = json.dumps(place)[1:-1]  # as it stands in variables that are JSON
        environment = {k: v.replace(f"{written}/", "").replace(f"{place}/", "") for k, v in self.environment.items()}
        return json.dumps([self.function, self.command, environment], sort_keys=True)


@dataclass
class Limits:
    """Of one query. After calibration the timeout is `times` the longest run of the start, but at least `shortest` seconds."""

    timeout: float = 300.0
    shortest: float = 3.0
    times: float = 10.0
    memory: int | None = 8 << 30


class _Query:
    """The controller's end of a query, which another thread may give up."""

    def __init__(self) -> None:
        self.ours: socket.socket | None = None
        self.is_given_up = False

    def open(self) -> tuple[socket.socket, socket.socket]:
        """A new pair of sockets: ours and the keeper's."""
        self.close()
        self.ours, theirs = socket.socketpair()
        return self.ours, theirs

    def give_up(self) -> None:
        """The keeper sees the end and ends everything below it; whoever waits for the report sees it too."""
        self.is_given_up = True
        if self.ours is not None:
            with contextlib.suppress(OSError):
                self.ours.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self.ours is not None:
            self.ours.close()


class LocalTransport(Transport):
    """Runs every candidate in a fresh child of a warmed process on this machine.

    All files are made below `folder`: candidates, temporary files, caches; of headers see `lent`. With `fresh`, or where the warmed
    process has used a GPU, each child is a new interpreter instead of a fork. Raises IsolationError where the warmed process can't be
    started; with `in_background`, where it is not waited for until something is asked, the first query does.
    """

    def __init__(
        self,
        spec: OracleSpec,
        folder: Path,
        jobs: int = 1,
        limits: Limits | None = None,
        fresh: bool = False,
        in_background: bool = False,
    ) -> None:
        self.spec, self.jobs, self.limits = spec, jobs, replace(limits or Limits())
        self._longest = self.limits.timeout
        self._look, self._frame = 0.0, ""
        self._memory: int | None = None
        self.folder = folder.absolute()
        self._queried = self.folder / "queries"
        shutil.rmtree(self._queried, ignore_errors=True)  # of a controller that was killed
        self._queried.mkdir(parents=True, exist_ok=True)
        self._fresh = fresh
        self._lock = threading.Lock()
        self._count = 0
        self._lent: frozenset[Path] = frozenset()
        self._queries: dict[Future[Outcome], _Query] = {}
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="query")
        self._zygote, self._control = self._spawn(self.spec.warm)
        self._is_ready = False
        self._found: dict[str, str] = {}
        if not in_background:
            self._wait_until_ready()

    @property
    def forks(self) -> bool:
        """Whether children are forks of the warmed process, not new interpreters."""
        return not self._fresh

    def found(self) -> dict[str, str]:
        """Variables that tell another process what the warmed one has found out. Waits until that is ready. Raises IsolationError."""
        self._wait_until_ready()
        return self._found

    def submit(self, candidate: Candidate) -> Future[Outcome]:
        return self.ask(self.spec.function, candidate)

    def ask(self, function: str, candidate: Candidate) -> Future[Outcome]:
        """As `submit`, but the child asks another function than that of the spec."""
        query = _Query()
        run = self._pool.submit(self._run, function, candidate, query)
        self._queries[run] = query
        run.add_done_callback(self._forget)
        return run

    def cancel(self, run: Future[Outcome]) -> None:
        query = self._queries.get(run)
        if not run.cancel() and query is not None:
            query.give_up()

    def calibrated(self, seconds: float) -> None:
        self.limits.timeout = min(self._longest, max(self.limits.shortest, self.limits.times * seconds))

    def looks(self, seconds: float, frame: str = "") -> None:
        self._look, self._frame = seconds, frame

    def confines(self, memory: int | None) -> None:
        self._memory = memory

    def close(self) -> None:
        for run in list(self._queries):
            self.cancel(run)
        self._pool.shutdown(cancel_futures=True)
        self._stop()

    def _forget(self, run: Future[Outcome]) -> None:
        query = self._queries.pop(run, None)
        if query is not None:
            query.close()

    def _wait_until_ready(self) -> None:
        with self._lock:
            if not self._is_ready:
                self._zygote, self._control = self._greeted(self.spec.warm, self._zygote, self._control)
                self._is_ready = True

    def _start(self, warm: tuple[str, ...]) -> tuple[subprocess.Popen[bytes], socket.socket]:
        return self._greeted(warm, *self._spawn(warm))

    def _spawn(self, warm: tuple[str, ...]) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "minifier.isolation.zygote", str(theirs.fileno()), json.dumps(warm)]
        with theirs:
            zygote = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=self._environment(), start_new_session=True
            )
        return zygote, ours

    def _greeted(
        self, warm: tuple[str, ...], zygote: subprocess.Popen[bytes], ours: socket.socket
    ) -> tuple[subprocess.Popen[bytes], socket.socket]:
        """A warmed process that has said that it is ready: the given one, or another in its place."""
        ours.settimeout(WARMING if warm else None)
        try:
            hello, _ = receive(ours)
            ours.settimeout(None)
        except (EOFError, TimeoutError):
            ours.close()
            if warm:  # what is to be looked at may crash on the dummy run too, or never come back from it
                end(zygote)
                return self._start(())
            raise IsolationError(f"the warmed process ended with {zygote.wait()} before it was ready") from None
        if "problem" in hello:
            ours.close()
            zygote.wait()
            raise IsolationError("the warmed process can't be made ready:\n" + hello["problem"].rstrip())
        if self.spec.lends:
            give_back(self.folder / "tmp", Path(tempfile.gettempdir()), self._lent)
        self._fresh = self._fresh or not hello["forks"]
        self._found = hello["environment"]
        return zygote, ours

    def _environment(self) -> dict[str, str]:
        """Caches and temporary files stay below the folder of this reduction."""
        cache = self.folder / "cache"
        (self.folder / "tmp").mkdir(exist_ok=True)
        if self.spec.lends:
            lend(Path(tempfile.gettempdir()), self.folder / "tmp")
            self._lent = headers(self.folder / "tmp")
        places = {"DYNAMO_CACHE_DIR": "dynamo", "TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton", "XDG_CACHE_HOME": ""}
        places = {name: str(cache / sub) for name, sub in places.items()}
        if self.spec.function:  # found where this process would find it; a command may be of another Python
            places["PYTHONPATH"] = os.pathsep.join(p or os.getcwd() for p in sys.path)
        return {**os.environ, **places, "TMPDIR": str(self.folder / "tmp"), **self.spec.environment}

    def _stop(self) -> None:
        self._control.close()
        if not self._is_ready:
            end(self._zygote)
        try:
            self._zygote.wait(10)
        except subprocess.TimeoutExpired:
            self._zygote.kill()
            self._zygote.wait()

    def _run(self, function: str, candidate: Candidate, query: _Query) -> Outcome:
        self._wait_until_ready()
        for _ in range(ATTEMPTS):
            report = self._ask(function, candidate, query)
            if query.is_given_up:
                return Outcome(Verdict.INVALID, detail="the query was given up")
            if report is not None:
                return command_outcome(report) if self.spec.command else outcome(report)
        raise IsolationError("keepers of queries keep dying; is the machine out of memory?")

    def _ask(self, function: str, candidate: Candidate, query: _Query) -> Report | None:
        """The report of one run, or None where its keeper died."""
        with self._lock:
            self._count += 1
            folder = self._queried / str(self._count)
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        if self._fresh and self.spec.lends:
            lend(self.folder / "tmp", folder / "tmp")
        limits, spec, memory = self.limits, self.spec, self.limits.memory
        if self._memory is not None and not candidate.is_patient:
            memory = min(memory or self._memory, self._memory)
        environment = {"TMPDIR": str(folder / "tmp")}
        request = Request(function, spec.command, str(folder), spec.name, limits.timeout, memory, self._fresh, environment)
        if function and not self._fresh and not candidate.is_patient:
            request = replace(request, look=self._look, frame=self._frame)
        try:
            ours, theirs = query.open()
            if query.is_given_up:
                theirs.close()
                return None
            self._hand_over(theirs)
            send(ours, plain(request), candidate.payload)
            return Report(**receive(ours)[0])
        except (EOFError, OSError):
            return None
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _hand_over(self, theirs: socket.socket) -> None:
        """Give the keeper's end of a query to the warmed process; a dead one is started again, once."""
        with theirs, self._lock:
            for is_last in (False, True):
                try:
                    socket.send_fds(self._control, [b"q"], [theirs.fileno()])
                    return
                except OSError:
                    if is_last:
                        raise IsolationError("the warmed process keeps dying") from None
                    self._stop()
                    self._zygote, self._control = self._start(self.spec.warm)


def command_outcome(report: Report) -> Outcome:
    """The answer of a command: its exit code."""
    verdicts = {INTERESTING: Verdict.INTERESTING, OTHER: Verdict.OTHER, INVALID: Verdict.INVALID}
    verdict = verdicts.get(report.status, Verdict.BORING) if report.ended == "itself" else Verdict.BORING
    signature = Signature(Kind.PREDICATE, code=report.status) if verdict in (Verdict.INTERESTING, Verdict.OTHER) else None
    return Outcome(verdict, signature, report.seconds, (report.output + report.errors)[-2000:])


def outcome(report: Report) -> Outcome:
    """The answer of a function, or what its process died of."""
    stage: dict[str, Any] = {"stage": "", "counts": False}
    said: Outcome | None = None
    for line in report.said:
        if isinstance(line, dict) and "stage" in line:
            stage = line
        elif isinstance(line, dict) and "verdict" in line:
            signature = None if line["signature"] is None else Signature.from_json(line["signature"])
            said = Outcome(Verdict(line["verdict"]), signature, report.seconds, line["detail"])
    died = _death(report, str(stage["stage"]), said is not None)
    if died is None or (said is not None and said.verdict is not Verdict.BORING):
        return said or Outcome(Verdict.INVALID, None, report.seconds, "the oracle said nothing")
    detail = readable(report.faults)[:1000] + report.errors[-1000:]
    return Outcome(Verdict.INTERESTING if stage["counts"] else Verdict.INVALID, died, report.seconds, detail)


def _death(report: Report, stage: str, answered: bool) -> Signature | None:
    """The signature of an end that no oracle chooses."""
    where = innermost(report.faults)
    if report.ended in _ENDED:
        return Signature(_ENDED[report.ended], frame=where, stage=stage)
    if report.status < 0:
        return Signature(Kind.SIGNAL, frame=where, code=-report.status, stage=stage)
    if report.status or not answered:
        return Signature(Kind.EXIT, code=report.status, stage=stage)
    return None
