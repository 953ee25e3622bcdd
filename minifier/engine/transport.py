"""Where candidates are judged: one interface for local processes, a cluster, or a plain function."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum

from minifier.engine.problem import Candidate
from minifier.engine.signature import Signature


class Verdict(Enum):
    """What one run says of a candidate."""

    INTERESTING = "interesting"  # it fails; `signature` says how, where that is known
    BORING = "boring"  # it works
    INVALID = "invalid"  # there is nothing to judge: eager fails too, or it can't be built
    OTHER = "other"  # it fails in a way that is worth keeping, but not the one that is being reduced


@dataclass(frozen=True)
class Outcome:
    """One run of an oracle. `detail` is text for people: the end of a traceback, the numbers that differ."""

    verdict: Verdict
    signature: Signature | None = None
    seconds: float = 0.0
    detail: str = ""


class Transport(ABC):
    """Runs candidates. A transport never decides which failure counts: it reports what it saw."""

    jobs: int  # how many candidates may be under way at a time

    @abstractmethod
    def submit(self, candidate: Candidate) -> Future[Outcome]:
        """Start one run, in a process that no other candidate has used. The future raises only where the tool itself is broken."""

    def cancel(self, run: Future[Outcome]) -> None:
        """Give a run up. Its future may still end in any way."""
        run.cancel()

    def calibrated(self, seconds: float) -> None:  # noqa: B027  # most transports have no limit to set
        """How long a run takes, from which a limit may be derived: the longest run of the start, or what longer runs say later."""

    def looks(self, seconds: float, frame: str = "") -> None:  # noqa: B027  # most see nothing of a run but its end
        """A run may be taken for one that never ends if it stands still after so many seconds, in a `frame` if one is known; 0: it may not.
        Candidates that are `is_patient` get all their time."""

    def confines(self, memory: int | None) -> None:  # noqa: B027  # nor holds it to anything
        """Bytes that a run may use from now on, if it might use more; None: as before. Candidates that are `is_patient` may use all."""

    def close(self) -> None:  # noqa: B027  # nor anything to free
        """End every run and free everything. May be called twice."""


class FunctionTransport(Transport):
    """A predicate of this process, for oracles that are cheap and can't crash. With one job it runs inside `submit`."""

    def __init__(self, judge: Callable[[bytes], Outcome | bool], jobs: int = 1) -> None:
        self.jobs = jobs
        self.runs = 0
        self._judge = judge
        self._pool = ThreadPoolExecutor(jobs) if jobs > 1 else None

    def submit(self, candidate: Candidate) -> Future[Outcome]:
        self.runs += 1
        if self._pool is not None:
            return self._pool.submit(self._run, candidate)
        done: Future[Outcome] = Future()
        done.set_result(self._run(candidate))
        return done

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _run(self, candidate: Candidate) -> Outcome:
        began = time.monotonic()
        said = self._judge(candidate.payload)
        if isinstance(said, Outcome):
            return said
        return Outcome(Verdict.INTERESTING if said else Verdict.BORING, seconds=time.monotonic() - began)
