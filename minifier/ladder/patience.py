"""How long a run may take before it counts as one that never ends. Runs that do end say it: of a part of a graph, or without a compiler."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from minifier.engine import Candidate, Kind, Outcome, Transport, Verdict
from minifier.graph import edits
from minifier.graph.ir import Graph, dump
from minifier.ladder.runs import SOON, Ended, Limit, run_in_eager, seconds_of_start

SLOWER = 3.0  # times what a run may need, it may be taken for one that never ends where it stands still
LOOK = 8.0  # seconds after which a run of a graph may be taken for one that never ends where it stands still
GUESS = 3.0  # seconds that a run of a graph is taken to need while nothing is known of it; ten times as long and its parts are asked
TIMES = 20.0  # what capture and code around graphs may cost, as a multiple of that run
STILL = 10.0  # the same, where the run stands still

LONGER = 60.0  # seconds that any run of a script gets that does not stand still
LEAST = 1.0  # seconds that capture is taken to need, however little the script does

Tell = Callable[[str], None]


def is_hang(outcome: Outcome) -> bool:
    """Whether a run was ended because it took too long."""
    return outcome.signature is not None and outcome.signature.kind is Kind.HANG


def silent(line: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class Told:
    """A run of a graph. `needs`: seconds that a run which ends may need, where one took long; else 0."""

    outcome: Outcome
    needs: float


def first_run(graph: Graph, transport: Transport, what: str, tell: Tell = silent, needs: float = 0.0) -> Told:
    """Run a graph of which nothing is known yet, or that a run which ends `needs` so many seconds. Of one that takes long, parts are asked.

    Leaves the transport with a limit for this graph. Raises IsolationError.
    """

    def ask(graph: Graph) -> Outcome:
        return transport.submit(Candidate("rung", dump(graph))).result()

    transport.calibrated(needs or GUESS)
    transport.looks(SLOWER * needs or LOOK)
    outcome = ask(graph)
    if is_hang(outcome) and not needs:
        tell(f"{what} still runs after {outcome.seconds:.0f} s; parts of it say how long it may")
        needs = _expected_seconds(graph, ask) or GUESS
        transport.calibrated(needs)
        if needs > GUESS:
            transport.looks(SLOWER * needs)
            outcome = ask(graph)
    transport.looks(0.0)
    if not is_hang(outcome):
        transport.calibrated(max(needs, GUESS, outcome.seconds))
    return Told(outcome, needs)


def _expected_seconds(graph: Graph, ask: Callable[[Graph], Outcome]) -> float:
    """Seconds that a run of the graph may need, from the first half, quarter and so on that ends; 0 where none does."""
    part = graph
    while len(part.nodes) > 1:
        ids = [n.id for n in part.nodes]
        middle = len(ids) // 2
        halves = [h for h in (edits.cut(part, ids[middle:]), edits.cut(part, ids[:middle])) if h is not None and len(h.nodes) < len(ids)]
        hanging = []
        for half in halves:
            outcome = ask(half)
            if outcome.verdict is Verdict.BORING:
                return outcome.seconds * len(graph.nodes) / len(half.nodes)
            hanging += [half] if is_hang(outcome) else []
        if not halves:
            break
        part = (hanging or halves)[0]
    return 0.0


@dataclass
class Patience:
    """With whole runs of a script. None takes longer than `longest` seconds; `graphs` is how long its graphs took, each alone."""

    longest: float
    script: str
    args: tuple[str, ...]
    engine: str
    tell: Tell
    graphs: float = 0.0
    _eager: Ended | None = None
    _start: float = 0.0

    def eager(self) -> Ended:
        """How the script ends without a compiler."""
        if self._eager is None:
            with ThreadPoolExecutor(1, thread_name_prefix="start") as pool:
                start = pool.submit(seconds_of_start)
                self._eager = run_in_eager(self.script, self.args, self.engine, self.longest)
                self._start = start.result()
        return self._eager

    def programs(self, ended: Ended) -> tuple[str, ...]:
        """Programs that the script starts and that failed in a run, though they work without a compiler."""
        if not ended.children or self.eager().code:
            return ()
        failing = {child.words for child in self.eager().children}
        return tuple(dict.fromkeys(str(child) for child in ended.children if child.words not in failing))

    @property
    def fails_in_eager(self) -> bool:
        """Whether it is known already that the script fails without a compiler."""
        return self._eager is not None and self._eager.code != 0

    def needed(self) -> float:
        """Seconds that a run under a compiler may need once torch is loaded; 0 where nothing says it."""
        return 0.0 if self.eager().code else max(LEAST, self.eager().seconds - self._start) + self.graphs

    def limit(self) -> Limit:
        """The limits of a run that has taken `SOON` seconds."""
        self.tell(f"the script still runs after {SOON:g} s; a run without a compiler says how long it may")
        if self.eager().code:
            return Limit(self.longest, self.longest)
        whole = self.eager().seconds + self.graphs
        return Limit(min(self.longest, max(LONGER, TIMES * whole)), self._start + STILL * self.needed())
