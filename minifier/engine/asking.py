"""Decides candidates: the journal first, then runs, repeated where the failure is flaky, and several at a time where there are jobs."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any, Generic

from minifier.engine.events import Listener, OtherFailure
from minifier.engine.journal import Answer, Journal
from minifier.engine.problem import Candidate, S
from minifier.engine.signature import Kind, Rule, Signature
from minifier.engine.transport import Outcome, Transport, Verdict
from minifier.engine.walk import Node

EARLIEST = 0.5  # seconds after which a run may be looked at that is to be one that never ends
SLOWER = 2.0  # times the longest run that ended, it is looked at
MISSED = 5e-4  # how likely a candidate that does fail may be rejected
SPREAD = 1.64  # standard deviations that a measured rate may be too high by: one in twenty is more


class OutOfBudget(Exception):
    """Time or calls ran out."""


@dataclass
class Budget:
    """Limits of one reduction; None: none."""

    seconds: float | None = None
    calls: int | None = None
    began: float = field(default_factory=time.monotonic)

    def left(self) -> float | None:
        return None if self.seconds is None else self.began + self.seconds - time.monotonic()

    def spent(self) -> float:
        return time.monotonic() - self.began


@dataclass
class Repeats:
    """A candidate is rejected after `tries` misses in a row, and accepted after 1 + `confirm` hits; after one while all that fails fails
    every time, as `confirm` more are asked for later."""

    tries: int = 1
    confirm: int = 1

    @classmethod
    def for_rate(cls, hits: int, runs: int, confirm: int) -> Repeats:
        """Enough tries to overlook a failure of that rate rarely. The rate is taken low, since few runs tell little about it: it is the
        lower end of Wilson's interval."""
        if hits == runs:
            return cls(1, confirm)
        seen, spread = hits / runs, SPREAD**2 / runs
        rate = (seen + spread / 2 - math.sqrt(spread * (seen * (1 - seen) + spread / 4))) / (1 + spread)
        return cls(max(2, math.ceil(math.log(MISSED) / math.log1p(-rate))), confirm)


@dataclass
class _Case:
    """A candidate under way. One that is not on the way of the reduction is confirmed at once."""

    candidate: Candidate
    is_on_the_way: bool
    run: Future[Outcome] | None = None
    hits: int = 0
    misses: int = 0
    signature: Signature | None = None
    rejected: Outcome | None = None


class Asker(Generic[S]):
    """Answers for candidates.

    `wanted` is the failure that counts; None takes any. Every answer goes to the journal. Runs are counted in `calls`, candidates
    decided by runs in `distinct`, answers that were known in `cached`. Where the failure is that runs don't end, `slowest` is how many
    seconds the longest took that did.
    """

    def __init__(self, transport: Transport, journal: Journal, rule: Rule, budget: Budget, tell: Listener) -> None:
        self.transport = transport
        self.journal = journal
        self.budget = budget
        self.repeats = Repeats(confirm=0)
        self.wanted: Signature | None = None
        self.calls = self.distinct = self.cached = 0
        self.is_flaky = False  # a candidate failed once and not again, though tries are 1
        self._rule = rule
        self._tell = tell
        self._cases: dict[str, _Case] = {}
        self._known: dict[str, Answer] = {}
        self._guesses: dict[tuple[object, ...], bool] = {}
        self._streak: dict[int, bool] = {}
        self.slowest = 0.0
        self.is_patient = False
        self._ended = 0.0  # seconds of the longest run that did

    def outcomes(self, candidate: Candidate, count: int) -> list[Outcome]:
        """That many runs of one candidate, none of them from the journal. Raises OutOfBudget."""
        done: list[Outcome] = []
        running: set[Future[Outcome]] = set()
        while len(done) < count:
            while len(running) < min(self.transport.jobs, count - len(done)):
                running.add(self._submit(candidate))
            finished, running = self._wait(running)
            done += [run.result() for run in finished]
        return done

    def look_early(self) -> None:
        """Where the failure is to stand in a known place for good: take runs for it that stand there, before their time is up."""
        if self.is_patient or self.wanted is None or self.wanted.kind is not Kind.HANG:
            return
        self.transport.looks(max(EARLIEST, SLOWER * (self._ended or self.slowest)) if self.wanted.frame else 0.0, self.wanted.frame)

    def start_over(self) -> None:
        """Forget every answer, and give every run all its time and memory."""
        self.is_patient = True
        self.transport.looks(0.0)
        self.transport.confines(None)
        self.stop()
        self._known.clear()
        for verdict in Verdict:
            self.journal.forget(verdict)

    def decide(self, node: Node[S]) -> Answer:
        """The answer for a candidate of the way. Meanwhile other jobs run what comes next if guesses hold. Raises OutOfBudget."""
        key = node.candidate.key
        if (known := self._lookup(key)) is not None:
            self.cached += 1
        while known is None:
            self._fill(node)
            self._collect()
            known = self._known.get(key)
        self._guesses[node.guess_key] = self._streak[node.place.number] = known.verdict is Verdict.INTERESTING
        return known

    def decide_alone(self, candidate: Candidate) -> Answer:
        """The answer for a candidate that is not on the way. Raises OutOfBudget."""
        known = self._lookup(candidate.key)
        if known is None and candidate.key not in self._cases:
            self._start(candidate, is_on_the_way=False)
        while known is None:
            self._collect()
            known = self._known.get(candidate.key)
        return known

    def begin_alone(self, candidate: Candidate) -> None:
        """Run what `decide_alone` is about to be asked for, if there is a job for it."""
        has_job = self.transport.jobs > 1 and self.budget.calls is None
        if has_job and candidate.key not in self._cases and self._lookup(candidate.key) is None:
            self._start(candidate, is_on_the_way=False)

    def fails_again(self, candidate: Candidate, times: int) -> bool:
        """Whether a candidate that was accepted after one hit fails so many times more; if not, it is flaky. Raises OutOfBudget."""
        if self.repeats.tries > 1:
            return True
        outcomes = self.outcomes(candidate, times)
        self.is_flaky = self.is_flaky or any(self.verdict(o) is not Verdict.INTERESTING for o in outcomes)
        return not self.is_flaky

    def forget(self, unsure: Sequence[Candidate]) -> None:
        """Drop rejections, what a single hit says of `unsure`, and runs under way: the rules for them have changed."""
        self.stop()
        for candidate in unsure:
            self._known.pop(candidate.key, None)
            self.journal.drop(candidate.key)
        for verdict in (Verdict.BORING, Verdict.OTHER):
            self.journal.forget(verdict)
        self._known = {k: a for k, a in self._known.items() if a.verdict in (Verdict.INTERESTING, Verdict.INVALID)}

    def stop(self) -> None:
        """Give up all runs under way."""
        for case in self._cases.values():
            if case.run is not None:
                self.transport.cancel(case.run)
        self._cases.clear()

    def _lookup(self, key: str) -> Answer | None:
        known = self._known.get(key)
        if known is None and (known := self.journal.answer(key)) is not None:
            self._known[key] = known
        return known

    def _fill(self, node: Node[S]) -> None:
        """Start the candidate of `node`, then, while jobs are free, what follows it on the most likely way."""
        jobs = self.transport.jobs
        path: list[Candidate] = []
        ahead: Node[S] | None = node
        for _ in range(4 * jobs):
            if ahead is None or len(path) == jobs:
                break
            known = self._lookup(ahead.candidate.key)
            if known is None:
                path.append(ahead.candidate)
            ahead = ahead.after(known.verdict is Verdict.INTERESTING if known is not None else self._guess(ahead)) if jobs > 1 else None
        wanted = {c.key for c in path}
        for key in [k for k in self._cases if k not in wanted]:
            if len(self._cases) >= jobs and (run := self._cases.pop(key).run) is not None:
                self.transport.cancel(run)
        for candidate in path:
            if candidate.key not in self._cases and len(self._cases) < jobs:
                self._start(candidate)

    def _guess(self, node: Node[S]) -> bool:
        """Whether a candidate will be accepted: as its edit was on an earlier state, else as the last edit of the pass was."""
        return self._guesses.get(node.guess_key, self._streak.get(node.place.number, False))

    def _start(self, candidate: Candidate, is_on_the_way: bool = True) -> None:
        case = self._cases[candidate.key] = _Case(candidate, is_on_the_way)
        case.run = self._submit(candidate)

    def _submit(self, candidate: Candidate) -> Future[Outcome]:
        if self.budget.calls is not None and self.calls >= self.budget.calls:
            raise OutOfBudget
        self.calls += 1
        return self.transport.submit(candidate)

    def _wait(self, running: set[Future[Outcome]]) -> tuple[set[Future[Outcome]], set[Future[Outcome]]]:
        left = self.budget.left()
        finished, rest = wait(running, None if left is None else max(left, 0.0), FIRST_COMPLETED)
        if not finished or (left is not None and left <= 0):
            raise OutOfBudget
        return finished, rest

    def _collect(self) -> None:
        """Wait for a run and take it in."""
        by_run: dict[Any, _Case] = {case.run: case for case in self._cases.values() if case.run is not None}
        finished, _ = self._wait(set(by_run))
        for run in finished:
            case = by_run[run]
            answer = self._take(case, run.result())
            if answer is None:
                case.run = self._submit(case.candidate)
            else:
                self.distinct += 1
                self._known[case.candidate.key] = answer
                self.journal.record(case.candidate.key, answer)
                del self._cases[case.candidate.key]

    def _take(self, case: _Case, outcome: Outcome) -> Answer | None:
        """What the runs of a candidate add up to, or None where another is needed."""
        verdict = self.verdict(outcome)
        self._learn_time(outcome)
        if verdict is Verdict.OTHER and outcome.signature is not None:
            if self.journal.file_other(outcome.signature, case.candidate.key, len(case.candidate.payload)):
                self._tell(OtherFailure(outcome.signature, case.candidate.key))
        if verdict is Verdict.INVALID:
            return Answer(verdict, outcome.signature, outcome.detail)
        if verdict is Verdict.INTERESTING:
            case.hits, case.misses, case.signature = case.hits + 1, 0, outcome.signature
            needed = 1 if case.is_on_the_way and self.repeats.tries == 1 else 1 + self.repeats.confirm
            return Answer(verdict, outcome.signature, outcome.detail) if case.hits >= needed else None
        case.misses += 1
        if case.rejected is None or verdict is Verdict.OTHER:
            case.rejected = outcome
        if case.misses < self.repeats.tries:
            return None
        self.is_flaky = self.is_flaky or (case.hits > 0 and self.repeats.tries == 1)
        return Answer(self.verdict(case.rejected), case.rejected.signature, case.rejected.detail)

    def _learn_time(self, outcome: Outcome) -> None:
        """Of something that never ends, the start can't tell how long a run takes. Runs that end do: the limit comes from the longest."""
        if self.wanted is not None and self.wanted.kind is Kind.HANG and outcome.verdict is Verdict.BORING:
            self._ended = max(self._ended, outcome.seconds)
            self.slowest = max(self.slowest, outcome.seconds)
            self.transport.calibrated(self.slowest)
            self.look_early()

    def verdict(self, outcome: Outcome) -> Verdict:
        """The verdict of a run in the light of the failure that is wanted: another failure is another failure."""
        if outcome.verdict is Verdict.INTERESTING and self.wanted is not None:
            if outcome.signature is None or not self._rule.holds(self.wanted, outcome.signature):
                return Verdict.OTHER
        return outcome.verdict
