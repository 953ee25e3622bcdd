"""`minimise`: the steps of a reduction, in order."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic

from minifier.engine.asking import Asker, Budget, OutOfBudget, Repeats
from minifier.engine.events import Calibrated, Certificate, Decided, Event, Listener, Rejected, Result, Status
from minifier.engine.journal import Journal, JournalError
from minifier.engine.problem import Candidate, Problem, S, Size, candidate_of
from minifier.engine.signature import Kind, Rule, Signature
from minifier.engine.transport import Outcome, Transport, Verdict
from minifier.engine.walk import Node, Walk

CONFINED = tuple(n << 30 for n in (1, 2, 4))  # bytes that runs which fill the memory are held to, as long as they fail in the same way
AT_THE_END = 3  # times as many runs confirm the last state, which are the cheapest


def _silent(event: Event) -> None:
    """Nobody listens."""


@dataclass
class Options:
    """How to reduce. `oracle` names the oracle: answers of two oracles never mix.

    `calibration` runs of the start, `seen` among them, tell its rate and time; if some don't fail, `flaky_calibration` do, or half of that
    if none does. An accepted candidate is seen to fail `confirm` more times, unless a smaller one is accepted next. `seconds` and `calls`
    are limits, None: none. `needs`: seconds that a run which ends may need, where the failure is that runs don't end; 0: nobody knows.
    """

    oracle: str = ""
    rule: Rule = field(default_factory=Rule)
    calibration: int = 1
    flaky_calibration: int = 40
    confirm: int = 0
    seen: tuple[Outcome, ...] = ()
    seconds: float | None = None
    calls: int | None = None
    needs: float = 0.0
    journal: Path | None = None
    resume: bool = False
    listener: Listener = _silent


def minimise(problem: Problem[S], start: S, transport: Transport, options: Options | None = None, trivial: S | None = None) -> Result[S]:
    """Make `start` as small as the passes of `problem` can while it keeps failing in the same way.

    Always returns, with the best state so far: also when time runs out, or on Ctrl-C. Deterministic for a deterministic oracle, whatever
    the number of jobs, and whether or not the run was killed and resumed. Raises JournalError for a journal that can't be used.
    """
    options = options or Options()
    first = candidate_of(problem, start, options.oracle)
    journal = Journal(options.journal, first.key, options.resume)
    asker: Asker[S] = Asker(transport, journal, options.rule, Budget(options.seconds, options.calls), options.listener)
    asker.slowest = options.needs
    reduction = _Reduction(problem, start, asker, options)
    try:
        reduction.calibrate(first)
        if reduction.status is None and trivial is not None:
            reduction.refuse_undiscerning(candidate_of(problem, trivial, options.oracle))
        if reduction.status is None:
            reduction.reduce()
            if not reduction.is_sure():
                reduction.reduce()
            reduction.look_beside()
    except OutOfBudget:
        reduction.status = reduction.status or Status.BEST_SO_FAR
    except KeyboardInterrupt:
        reduction.status = Status.INTERRUPTED
    try:
        return reduction.result()
    finally:
        asker.stop()
        journal.close()


def _ran_out(outcome: Outcome, kind: Kind) -> bool:
    return outcome.signature is not None and outcome.signature.kind is kind


@dataclass(frozen=True)
class Rates:
    """What runs of the start have shown: how many failed in the wanted way, of how many, and the longest time, as later ones find what the
    first has left in caches."""

    hits: int
    runs: int
    longest: float
    wanted: Signature | None

    def text(self) -> str:
        """JSON for the journal."""
        return json.dumps({**vars(self), "wanted": None if self.wanted is None else self.wanted.to_json()})

    @classmethod
    def from_text(cls, text: str) -> Rates:
        """Raises JournalError for what `text` did not write."""
        try:
            data = json.loads(text)
            wanted = data["wanted"]
            wanted = None if wanted is None else Signature.from_json(wanted)
            return cls(int(data["hits"]), int(data["runs"]), float(data["longest"]), wanted)
        except (ValueError, TypeError, KeyError) as e:
            raise JournalError(f"journal: calibration is damaged: {e}") from e


class _Reduction(Generic[S]):
    """One run of `minimise`: the best state so far and what is known of the failure."""

    def __init__(self, problem: Problem[S], start: S, asker: Asker[S], options: Options) -> None:
        self.problem, self.asker, self.options = problem, asker, options
        self.start = self.state = self.sure = start
        self.unsure: list[Candidate] = []  # those accepted since `sure`, the last of which is `state`
        self.status: Status | None = None
        self.certificate: Certificate | None = None
        self.rates = Rates(0, 0, 0.0, None)
        self.curve: list[tuple[float, int, Size]] = []

    def calibrate(self, first: Candidate) -> None:
        """How often the start fails, how, and how long that takes. A resumed reduction takes what the first one found."""
        noted = self.asker.journal.note("calibration")
        if noted is not None:
            self._set_rates(Rates.from_text(noted))
            if self.rates.wanted is not None and self.rates.wanted.kind is Kind.MEMORY:
                self._confined(first)
            return
        count = self.options.calibration
        outcomes = list(self.options.seen) or self.asker.outcomes(first, 1)
        if _ran_out(outcomes[0], Kind.MEMORY):
            outcomes += self._confined(first)
        if not _ran_out(outcomes[0], Kind.HANG):  # else it is as long as anything may take: once will do
            outcomes += self.asker.outcomes(first, max(count - len(outcomes), 0))
        rates = self._rates(outcomes)
        most = self.options.flaky_calibration if count > 1 else count
        while rates.hits < rates.runs < (most if rates.hits else most // 2):
            outcomes += self.asker.outcomes(first, min(count, most - rates.runs))
            rates = self._rates(outcomes)
        self.asker.journal.set_note("calibration", rates.text())
        self._set_rates(rates)

    def _rates(self, outcomes: list[Outcome]) -> Rates:
        """What runs of the start say. Where it fails in several ways, the commonest is the failure that counts."""
        failing = [o for o in outcomes if o.verdict is Verdict.INTERESTING]
        wanted = _commonest([o.signature for o in failing])
        hits = [o for o in failing if wanted is None or (o.signature is not None and self.options.rule.holds(wanted, o.signature))]
        return Rates(len(hits), len(outcomes), max(o.seconds for o in outcomes), wanted)

    def _set_rates(self, rates: Rates) -> None:
        self.rates = rates
        if not rates.hits:
            self.status = Status.NOT_REPRODUCED
            return
        self.asker.wanted = rates.wanted
        self.asker.repeats = Repeats.for_rate(rates.hits, rates.runs, self.options.confirm)
        is_hang = rates.wanted is not None and rates.wanted.kind is Kind.HANG
        self.asker.transport.calibrated(self.options.needs if is_hang and self.options.needs else rates.longest)
        self.asker.look_early()
        self.options.listener(Calibrated(rates.runs, rates.hits, self.asker.repeats.tries, rates.longest, rates.wanted))

    def _confined(self, first: Candidate) -> list[Outcome]:
        """A run of a start that fills the memory, held to the least at which it still does; none if there is no such limit. Where the
        reference needs more than a limit, the candidate is invalid."""
        for memory in CONFINED:
            self.asker.transport.confines(memory)
            (outcome,) = self.asker.outcomes(first, 1)
            if outcome.verdict is Verdict.INTERESTING and _ran_out(outcome, Kind.MEMORY):
                return [outcome]
        self.asker.transport.confines(None)
        return []

    def refuse_undiscerning(self, trivial: Candidate) -> None:
        """An oracle that calls an empty candidate interesting would shrink anything to nothing."""
        if self.asker.decide_alone(trivial).verdict is Verdict.INTERESTING:
            self.status = Status.UNDISCERNING

    def reduce(self) -> None:
        """Walk until a round changes nothing. That round is the certificate."""
        walk = Walk(self.problem, self.options.oracle)
        self._note_best(candidate_of(self.problem, self.state, self.options.oracle))
        node = walk.begin(self.state)
        rejected: list[Rejected] = []
        round = 0
        while node is not None:
            if node.place.round != round:
                rejected, round = [], node.place.round
            answer = self.asker.decide(node)
            accepted = answer.verdict is Verdict.INTERESTING
            following = node.after(accepted)
            if accepted:
                self.state = node.step.state
                self.unsure.append(node.candidate)
            if following is None and (rest := self._rest()) is not None:
                self.asker.begin_alone(rest)
            if not accepted or following is None:
                self._confirm(is_last=following is None)
            if self.asker.is_flaky:
                node, rejected, round = self._start_over_as_flaky(walk), [], 0
                continue
            if accepted:
                self._note_best(node.candidate)
            elif walk.is_last(node.place):
                rejected.append(Rejected(walk.pass_at(node.place).name, node.step.label, node.candidate.key, answer.verdict))
            if not walk.is_last(node.place) or accepted:
                rejected.clear()
            self._tell(walk, node, answer.verdict)
            node = following
        self.status = Status.MINIMAL
        self.certificate = Certificate(tuple(rejected), self.asker.repeats.tries)

    def _confirm(self, is_last: bool) -> None:
        """See the state fail again, if that has not been seen since it was accepted. The last one is seen more often: a start that failed
        every time may have been lucky."""
        wanted, times = self.asker.wanted, self.options.confirm
        if is_last and (wanted is None or wanted.kind is not Kind.HANG):
            times *= AT_THE_END
        elif not self.unsure:
            return
        if self.asker.fails_again(candidate_of(self.problem, self.state, self.options.oracle), times):
            self.sure, self.unsure = self.state, []

    def is_sure(self) -> bool:
        """Whether what was taken early for a run that never ends, or that fills the memory, is one. If not, the reduction is to begin
        again, with more patience."""
        wanted = self.asker.wanted
        is_early = wanted is not None and (wanted.kind is Kind.MEMORY or (wanted.kind is Kind.HANG and bool(wanted.frame)))
        if self.asker.is_patient or not is_early:
            return True
        last = replace(candidate_of(self.problem, self.state, self.options.oracle), is_patient=True)
        if self.asker.verdict(self.asker.outcomes(last, 1)[0]) is Verdict.INTERESTING:
            return True
        self.asker.start_over()
        self.state, self.sure, self.unsure, self.certificate = self.start, self.start, [], None
        return False

    def look_beside(self) -> None:
        """One more run, of the start without the culprit: a second failure that the way never met is filed as one."""
        rest = self._rest()
        if rest is not None:
            self.asker.decide_alone(rest)

    def _rest(self) -> Candidate | None:
        """The start without what the state consists of."""
        rest = self.problem.remainder(self.start, self.state)
        return None if rest is None else candidate_of(self.problem, rest, self.options.oracle)

    def _start_over_as_flaky(self, walk: Walk[S]) -> Node[S] | None:
        """What looked certain is not: count again on the best state that is sure, and take back rejections that a single miss made."""
        self.asker.is_flaky = False
        self.asker.forget(self.unsure)
        self.state, self.unsure = self.sure, []
        candidate = candidate_of(self.problem, self.state, self.options.oracle)
        outcomes = self.asker.outcomes(candidate, self.options.flaky_calibration)
        hits = sum(self.asker.verdict(o) is Verdict.INTERESTING for o in outcomes)
        rates = replace(self.rates, hits=max(1, min(hits, len(outcomes) - 1)), runs=len(outcomes))
        self.asker.journal.set_note("calibration", rates.text())
        self._set_rates(rates)
        return walk.begin(self.state)

    def _note_best(self, candidate: Candidate) -> None:
        size = self.problem.size(self.state)
        self.curve.append((self.asker.budget.spent(), self.asker.calls, size))
        self.asker.journal.set_best(size, candidate.key, candidate.payload)

    def _tell(self, walk: Walk[S], node: Node[S], verdict: Verdict) -> None:
        asker, left = self.asker, node.remaining()
        each = asker.budget.spent() / asker.distinct if asker.distinct else 0.0
        estimate = left * each if left and each else None
        name = walk.pass_at(node.place).name
        size = self.problem.size(self.state)
        self.options.listener(Decided(name, node.step.label, verdict, size, asker.calls, asker.budget.spent(), estimate))

    def result(self) -> Result[S]:
        asker = self.asker
        return Result(
            self.status or Status.BEST_SO_FAR,
            self.state,
            self.problem.size(self.state),
            asker.wanted,
            self.certificate,
            asker.calls,
            asker.distinct,
            asker.cached,
            asker.budget.spent(),
            self.rates.hits,
            self.rates.runs,
            tuple(self.curve),
            asker.journal.others(),
        )


def _commonest(signatures: list[Signature | None]) -> Signature | None:
    """The signature seen most often, the first of equals."""
    counted: dict[Signature | None, int] = {}
    for s in signatures:
        counted[s] = counted.get(s, 0) + 1
    return max(counted, key=lambda s: counted[s]) if counted else None
