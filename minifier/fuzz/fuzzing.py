"""`fuzz`: draw -> run isolated -> compare -> cluster -> minify -> certify -> write, until time, programs or failures are up."""

from __future__ import annotations

import json
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path

from minifier.doors import close
from minifier.engine import Candidate, Kind, Listener, Outcome, Transport, Verdict
from minifier.fuzz.clusters import cluster_of, staged
from minifier.fuzz.draw import asking
from minifier.fuzz.draw.drawing import BLOCK, Block, places
from minifier.fuzz.draw.kinds import KINDS
from minifier.fuzz.reducing import reduced
from minifier.fuzz.trial import EAGER_RAISES, Question, spec_for
from minifier.fuzz.types import EQUAL, FAILED, INVALID, Cluster, Drawn, Failure, Summary, Target, Wish
from minifier.isolation import Limits, LocalTransport

__all__ = ["KINDS", "Summary", "Target", "Wish", "fuzz"]

WORK, CLUSTERS = ".fuzzing", "failures"
DRAWING = 300.0  # seconds that a block of programs may take
PATIENCE = 5  # times the limit of a program that ran out of time
AHEAD = 2  # programs under way, per job

Tell = Callable[[str], None]
Progress = Callable[[Summary], None]
_OUTCOMES = {Verdict.BORING: EQUAL, Verdict.INVALID: INVALID}


def fuzz(wish: Wish, tell: Tell, progress: Progress, listener: Listener) -> Summary:
    """The whole way. Files go below `wish.folder`; an interrupt gives the summary so far. Raises IsolationError, OSError."""
    close()
    summary = Summary(wish, by_kind=dict.fromkeys(kinds_of(wish), 0), next_number=wish.first)
    began = time.monotonic()
    work = wish.folder / WORK
    shutil.rmtree(work, ignore_errors=True)
    try:
        with (
            closing(LocalTransport(asking.spec(work / "hypothesis"), work / "drawing", 1, Limits(timeout=DRAWING))) as drawer,
            closing(LocalTransport(spec_for(wish.target), work / "running", wish.jobs, Limits(timeout=wish.timeout))) as runner,
        ):
            for drawn, outcome in trials(wish, summary, drawer, runner):
                outcome = confirmed(drawn, outcome, wish, runner)
                counted(summary, drawn, outcome)
                if is_failure(outcome):
                    followed(failed(drawn, outcome), summary, runner, tell, listener)
                progress(summary)
                if wish.failures is not None and len(summary.clusters) >= wish.failures:
                    break
    except KeyboardInterrupt:
        summary.is_interrupted = True
    finally:
        shutil.rmtree(work, ignore_errors=True)
        summary.seconds = time.monotonic() - began
        summary.searching = summary.seconds - sum(c.seconds for c in summary.clusters)
    return summary


def kinds_of(wish: Wish) -> tuple[str, ...]:
    """The kinds that are drawn: those that are named; else all, or with operators named those that take them."""
    return wish.kinds or tuple(k.name for k in KINDS.values() if k.takes_ops or not wish.ops)


def trials(wish: Wish, summary: Summary, drawer: Transport, runner: Transport) -> Iterator[tuple[Drawn, Outcome]]:
    """Programs by number with their outcomes, in order, while there is time; more are under way meanwhile."""
    until = time.monotonic() + wish.seconds
    under_way: deque[tuple[Drawn, Future[Outcome]]] = deque()
    waiting = programs(wish, drawer)
    while True:
        spent = sum(c.seconds for c in summary.clusters)  # reducing is not searching
        while len(under_way) < AHEAD * wish.jobs and time.monotonic() < until + spent:
            drawn = next(waiting, None)
            if drawn is None:
                break
            run = runner.submit(Candidate(f"program {drawn.number}", Question(drawn.script, wish.target.backend).encode()))
            under_way.append((drawn, run))
        if not under_way:
            return
        drawn, run = under_way.popleft()
        outcome = run.result()
        summary.next_number = drawn.number + 1
        yield drawn, outcome


def programs(wish: Wish, drawer: Transport) -> Iterator[Drawn]:
    """The programs from number `first` on. Blocks are drawn while the one before is run."""
    blocks: dict[tuple[str, int], Future[list[str | None]] | list[str | None]] = {}

    def block(kind: str, number: int) -> list[str | None]:
        for which in (number, number + 1):
            if (kind, which) not in blocks:
                blocks[kind, which] = _asked(Block(kind, wish.seed, which, wish.ops, wish.target.engine), wish.folder / WORK, drawer)
        found = blocks[kind, number]
        if isinstance(found, Future):
            found = blocks[kind, number] = found.result()
            blocks.pop((kind, number - 1), None)
        return found

    for number, kind, at, position in places(kinds_of(wish), wish.first):
        if wish.programs is not None and number - wish.first >= wish.programs:
            return
        script = block(kind, at)[position]
        if script is not None:
            yield Drawn(number, kind, script)


def _asked(block: Block, folder: Path, drawer: Transport) -> Future[list[str | None]]:
    to = folder / f"{block.kind}-{block.number}.json"
    drawn: Future[list[str | None]] = Future()

    def read(run: Future[Outcome]) -> None:
        try:
            run.result()
            drawn.set_result(json.loads(to.read_text()) if to.exists() else [None] * BLOCK)
            to.unlink(missing_ok=True)
        except BaseException as e:  # noqa: BLE001  # whoever waits for the programs gets it
            drawn.set_exception(e)

    drawer.submit(Candidate(f"{block.kind} {block.number}", asking.question(block, to))).add_done_callback(read)
    return drawn


def counted(summary: Summary, drawn: Drawn, outcome: Outcome) -> None:
    """One program more."""
    summary.outcomes[_OUTCOMES.get(outcome.verdict, FAILED)] += 1
    summary.by_kind[drawn.kind] += 1


def followed(failure: Failure, summary: Summary, runner: Transport, tell: Tell, listener: Listener) -> None:
    """A failure of a cluster that is known is counted; one of a new cluster is made small and handed over."""
    wish = summary.wish
    failure, known = cluster_of(staged(failure, wish.target, runner), summary.clusters, wish.target, runner)
    if known is not None:
        known.programs.append(failure.drawn.number)
        return
    cluster = Cluster(failure, [failure.drawn.number])
    summary.clusters.append(cluster)
    blame = f", {failure.culprit}" if failure.culprit else ""
    tell(f"program {failure.drawn.number} ({failure.drawn.kind}) fails at {failure.stage}{blame}: {failure.signature}")
    reduced(cluster, wish, next_folder(wish.folder / CLUSTERS), tell, listener)


def next_folder(folder: Path) -> Path:
    """One that nothing is in yet: what an earlier search found stays."""
    taken = [int(place.name) for place in folder.glob("*") if place.name.isdecimal()]
    return folder / str(max(taken, default=0) + 1)


def is_failure(outcome: Outcome) -> bool:
    """Whether compiled code failed."""
    return outcome.verdict not in (Verdict.BORING, Verdict.INVALID)


def confirmed(drawn: Drawn, outcome: Outcome, wish: Wish, runner: LocalTransport) -> Outcome:
    """The outcome; of a program that ran out of time, that of a run with several times as much, as other work may have slowed it down."""
    if not is_failure(outcome) or outcome.signature is None or outcome.signature.kind is not Kind.HANG:
        return outcome
    runner.limits.timeout = PATIENCE * wish.timeout
    try:
        return runner.submit(Candidate(f"program {drawn.number}", Question(drawn.script, wish.target.backend).encode())).result()
    finally:
        runner.limits.timeout = wish.timeout


def failed(drawn: Drawn, outcome: Outcome) -> Failure:
    """What an outcome says of a program."""
    assert outcome.signature is not None
    return Failure(drawn, outcome.signature, detail=outcome.detail, eager_raises=outcome.detail.startswith(EAGER_RAISES))
