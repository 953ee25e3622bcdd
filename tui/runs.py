"""One run from start to end: the child, the model it fills, and the record if one is kept."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from dynamo import config
from dynamo.peer.names import NOTES
from dynamo.surroundings.collector import paused
from dynamo.trace.events import Event, RunEnded, RunStarted
from dynamo.trace.model import Run
from dynamo.trace.record import RecordError, RecordWriter, is_record, load
from tui.child import Child, Request
from tui.console import progress, say
from tui.errors import CliError, check_code, check_script
from tui.exits import SIGNAL_BASE, Exit
from tui.lookup import check_backend, check_module, home_of
from tui.options import ENGINES
from tui.stops import ENDED_BY

STDERR = 2
_SAID = 5  # problems of a record that are said one by one


@dataclass
class Outcome:
    """How a run ended. `code` is the exit code this process should end with, before findings are counted."""

    run: Run
    code: int
    started: bool


class Keeper:
    """Takes the events of a run into the model and, if there is one, into the record."""

    def __init__(self, writer: RecordWriter | None = None) -> None:
        self.run = Run()
        self.started = False
        self._writer = writer
        self._last = 0.0

    def take(self, item: Event | str) -> None:
        if isinstance(item, str):
            self.run.problems.append(item)
            return
        self.started = self.started or isinstance(item, RunStarted)
        self._last = max(self._last, item.t)
        self.run.add(item)
        if self._writer is not None:
            self._writer.add(item)

    def end(self, code: int, error: str) -> None:
        """Say how the run ended when the child could not, or ended otherwise than its script."""
        if self.run.exit != code:
            self.take(RunEnded(code, error or self.run.error, t=self._last))


def run_script(request: Request, record: Path | None = None, replace: bool = False, own_stdout: bool = False) -> Outcome:
    """Run a script to its end. Its stdout goes to stderr unless `own_stdout`. Leaves a whole record or none."""
    check_request(request)
    writer = open_writer(record, replace)
    keeper = Keeper(writer)
    try:
        code, error = _follow(request, keeper, own_stdout)
    except BaseException:
        if writer is not None:
            writer.abort()
        raise
    keeper.end(code, error)
    if writer is not None and keeper.started:
        writer.close()
    elif writer is not None:
        writer.abort()
    return Outcome(keeper.run, code, keeper.started)


def check_request(request: Request) -> None:
    if request.engine not in ENGINES:
        raise CliError("CL010", f"{request.engine}: no such engine; choose {' or '.join(ENGINES)}")
    _check_configuration()
    if request.is_file:
        check_script(request.script)
    elif request.script != "-" and not request.args:
        raise CliError("CL008", f"{request.script}: name what to run, as for python {request.script}")
    elif request.script == "-c":
        check_code(request.args[0], "<string>")
    elif request.script == "-m":
        check_module(request.args[0])
    check_backend(request.backend, request.engine, home_of(request.script))


def _check_configuration() -> None:
    """Variables that nothing can read end the command here: the script would run into them at its first compile."""
    try:
        config.rows()
    except config.ConfigError as e:
        raise CliError("CL016", str(e)) from e


def open_writer(record: Path | None, replace: bool) -> RecordWriter | None:
    if record is None:
        return None
    try:
        return RecordWriter(record, replace)
    except RecordError as e:
        raise CliError("CL007", str(e)) from e


def load_run_events(folder: Path, leave_out: Collection[str] = ()) -> tuple[list[Event], list[str]]:
    """Events of a stored record, and what of it could not be read. Kinds in `leave_out` are not read at all."""
    try:
        with paused():
            record = load(folder, leave_out)
    except RecordError as e:
        raise CliError("CL007", str(e)) from e
    return record.events, record.problems


def load_run(folder: Path, leave_out: Collection[str] = ()) -> Run:
    """The model of a stored record, damage included."""
    stored, problems = load_run_events(folder, leave_out)
    run = Run(stored)
    run.problems += problems
    run.live = False
    return run


def open_record(folder: Path, leave_out: Collection[str] = ()) -> Outcome:
    """A stored record as the outcome of a run. What is damaged is shown as far as it goes, said on stderr, and ends with exit code 2."""
    with progress(f"reading {folder}"):
        run = load_run(folder, leave_out)
    say_damage(folder, run.problems)
    return Outcome(run, int(Exit.USAGE if run.problems else Exit.OK), True)


def say_damage(folder: Path, problems: Sequence[str]) -> None:
    for problem in problems[:_SAID]:
        say(f"error[CL007]: {folder}: {problem}")


def run_or_open(request: Request, leave_out: Collection[str] = ()) -> Outcome:
    """What SCRIPT stands for: a record is opened, a script is run and how it ended is told."""
    if is_record(Path(request.script)):
        return open_record(Path(request.script), leave_out)
    outcome = run_script(request)
    narrate(outcome)
    return outcome


def _follow(request: Request, keeper: Keeper, own_stdout: bool) -> tuple[int, str]:
    sys.stdout.flush()
    child = Child(request, stdout=None if own_stdout else STDERR)
    with _stopped_by_signals(child) as received, progress(f"running {request.script}", lambda: _compiles(keeper.run)):
        for item in child.events():
            keeper.take(item)
        code = child.exit_code()
    others = [number for number in received if number != signal.SIGINT]
    if others:
        ended_itself = child.process.returncode >= 0 and keeper.run.exit is not None
        return (code if ended_itself else SIGNAL_BASE + others[-1]), ENDED_BY[others[-1]]
    if received or code == Exit.INTERRUPTED:
        return int(Exit.INTERRUPTED), "interrupted"
    if code > SIGNAL_BASE and keeper.run.exit is None:
        return code, f"killed by {signal_name(code - SIGNAL_BASE)}"
    return code, ""


def _compiles(run: Run) -> str:
    return f"{len(run.compiles)} compiles" if run.compiles else ""


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextmanager
def _stopped_by_signals(child: Child) -> Iterator[list[int]]:
    """The first signal has the child end, the second kills it. Raised as exceptions they would cost the event at hand."""
    received: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        child.kill() if received else child.stop(number)
        received.append(number)

    numbers = [n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def narrate(outcome: Outcome) -> None:
    """Say on stderr how the script ended, unless it ended well and compiled something. Other notes the script has printed itself."""
    run = outcome.run
    if not outcome.started and run.error != "interrupted":
        raise CliError("CL009", f"{run.script or 'the script'}: the child process ended with code {outcome.code} before the script began")
    for matches, text in _ENDINGS:
        if matches(outcome):
            say(text(outcome))
    for note in run.notes:
        if note.id in NOTES:
            say(f"{note.level}[{note.id}]: {note.message}")


def _nothing(outcome: Outcome) -> str:
    return (
        f"nothing was compiled: {outcome.run.title} never called a compiled function; "
        "decorate one with `torch.compile` or `dynamo.compile` and call it"
    )


# What is said about an ending: the first column decides, every row that fits speaks.
_ENDINGS: tuple[tuple[Callable[[Outcome], bool], Callable[[Outcome], str]], ...] = (
    (lambda o: o.run.error == "interrupted", lambda o: f"interrupted (exit code {o.code})"),
    (
        lambda o: bool(o.run.error) and o.run.error != "interrupted",
        lambda o: f"script failed: {o.run.error} (exit code {o.code})",
    ),
    (lambda o: not o.run.error and o.code != 0, lambda o: f"script ended with exit code {o.code}"),
    (lambda o: o.code == 0 and not o.run.compiles and not o.run.skipped, _nothing),
)
