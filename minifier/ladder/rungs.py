"""Climbing with single graphs: which one fails, and under which part of the compiler first."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

from minifier.engine import Candidate, Kind, Outcome, Transport, Verdict
from minifier.graph.ir import Graph, dump
from minifier.graph.oracle import Setting, known
from minifier.graph.repro import first_lines
from minifier.isolation import Limits, LocalTransport
from minifier.ladder.patience import Tell, first_run, is_hang, silent
from minifier.ladder.probe import Posed, question, spec_for
from minifier.recordings import Recorded
from minifier.verify import environment
from minifier.warmed import Early, beside

# Backends of both engines that stop short of the one below: what fails under one fails at that stage.
SHORTER = {"inductor": (("capture", "eager"), ("aot", "aot_eager")), "aot_eager": (("capture", "eager"),)}
LAST = {"inductor": "codegen", "aot_eager": "aot", "eager": "capture"}
OF_A_BACKEND = "backend"
TRIES = 18  # at graphs none of which fails: of failures that come three times in ten, one in six hundred is missed
PATIENCE = 60.0  # seconds after which no further try begins


SURE = 3  # signals in a row that are no accident
STEADY = 3  # failures in a row after which one is taken for steady, and runs of a shorter backend that show none of it
OF_CODEGEN = ("torch._inductor.", "inductor.")  # homes of exceptions that are raised once all that a shorter backend does was done


def _how(setting: Setting) -> str:
    return f"{setting.backend}{', gradients' if setting.backward else ''}"


def _is_signal(outcome: Outcome) -> bool:
    return outcome.signature is not None and outcome.signature.kind is Kind.SIGNAL


@dataclass(frozen=True)
class Found:
    """A graph that fails, how it was judged, what was seen, and the stage it fails at. `again` are more runs of it, `needs` seconds that a
    run which ends may need, where the failure is that it doesn't."""

    stage: str
    recorded: Recorded
    setting: Setting
    outcome: Outcome
    again: tuple[Outcome, ...] = ()
    needs: float = 0.0

    @property
    def is_steady(self) -> bool:
        """Whether all runs showed it."""
        return all(o.verdict is Verdict.INTERESTING for o in self.again)

    @property
    def runs_below(self) -> int:
        """How many runs of a shorter backend may show it before it is of a longer one. Runs that came to code generation were such too."""
        signature = self.outcome.signature
        return 1 if signature is not None and any(e.startswith(OF_CODEGEN) for e in signature.exceptions) else STEADY


@dataclass
class Ladder:
    """Judges graphs of one script, in processes unless there is a `transport`; what comes after may ask these too, until `close`.

    `problems` could not be judged, `asked` was tried, `seconds` is what runs that end took. `needs` has graphs of which a run took long,
    by name, with the seconds that one which ends may need. `tell` hears of those. `early` is a new interpreter for a repro.
    """

    engine: str
    accuracy: bool
    store: Path
    folder: Path
    limits: Limits | None = None
    jobs: int = 1
    transport: Transport | None = None
    problems: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    seconds: float = 0.0
    needs: dict[str, float] = field(default_factory=dict)
    tell: Tell = silent
    early: Early | None = None
    _tried: int = 0

    def first_failure(self, graphs: Sequence[Recorded], after: str, tries: int = TRIES) -> Found | None:
        """The first graph that fails, with gradients only if it needs them to. Where none does they are tried again, up to `tries` times
        in all the calls, since failures may come and go. Raises IsolationError."""
        began = time.monotonic()
        while self._tried < tries:
            if self._tried and time.monotonic() - began > PATIENCE:
                break
            self._tried += 1
            self._begin_early(graphs, after)
            found = self._failing(graphs, after, is_first=self._tried == 1)
            if found is not None:
                return found
        return None

    def _begin_early(self, graphs: Sequence[Recorded], after: str) -> None:
        """Have the interpreter for a repro load what it needs while there is a core for it: most runs come to need it."""
        is_first = self._tried == 1 and self.early is None and bool(graphs)
        if is_first and isinstance(self.transport, LocalTransport) and self.transport.jobs > 1:
            setting = self._setting(graphs[0], after)
            self.early = beside(self.transport, first_lines(setting), {**environment(), **known(setting, self.transport)})

    def _failing(self, graphs: Sequence[Recorded], after: str, is_first: bool) -> Found | None:
        for recorded in graphs:
            for setting in self._settings(recorded, after):
                outcome = self._ask(recorded, setting)
                if outcome.verdict is Verdict.INTERESTING:
                    return self._at_first_stage(Found("", recorded, setting, outcome))
            if is_first and outcome.verdict not in (Verdict.BORING, Verdict.INTERESTING):
                told = f"graph {recorded.name} can't be judged: {outcome.detail.strip() or outcome.signature}"
                self.problems += [] if told in self.problems else [told]
        return None

    def compare_numbers(self) -> None:
        """Take wrong numbers for failures too, from now on."""
        self.accuracy, self._tried = True, 0

    def close(self) -> None:
        """End the processes. Where graphs are asked for again, there are others."""
        if self.early is not None:
            self.early.close()
            self.early = None
        if self.transport is not None:
            self.transport.close()
            self.transport = None

    def _confirmed(self, asked: Candidate, outcome: Outcome, setting: Setting, forking: LocalTransport) -> Outcome:
        """A signal may come from forks alone, as not all libraries survive one: then new interpreters are asked from now on."""
        fresh = LocalTransport(spec_for(setting), self.folder / "fresh", self.jobs, self.limits, fresh=True)
        told = fresh.submit(asked).result()
        if not _is_signal(told) and all(_is_signal(forking.submit(asked).result()) for _ in range(SURE)):
            forking.close()
            self.transport = fresh
            return told
        fresh.close()
        return outcome

    def _setting(self, recorded: Recorded, after: str) -> Setting:
        """How a graph is judged first."""
        return recorded.setting(self.engine, after, self.accuracy, str(self.store.absolute()))

    def _settings(self, recorded: Recorded, after: str) -> Iterator[Setting]:
        plain = self._setting(recorded, after)
        yield plain
        graph = recorded.graph
        if after == "dynamo" and recorded.state.grad and graph is not None and any(i.requires_grad for i in graph.inputs):
            yield replace(plain, backward=True)

    def _at_first_stage(self, found: Found) -> Found:
        """The failure under the shortest part of the compiler that shows one."""
        backend = found.setting.backend
        if found.setting.after == "aot":
            return self._timed(replace(found, stage=LAST.get(backend, OF_A_BACKEND)))
        ahead: dict[str, list[Future[Outcome]]] = {}
        if backend in SHORTER and not is_hang(found.outcome):
            again = self._again(found)
            ahead = self._shorter_ahead(found)
            found = replace(found, again=tuple(run.result() for run in again))
        for stage, shorter in self._shorter(backend):
            setting = replace(found.setting, backend=shorter, arguments={})
            if found.is_steady and ahead and all(run.result().verdict is Verdict.BORING for run in ahead[stage]):
                self._note(found.recorded.name, setting, ahead[stage][0].result())
                continue
            asked = (self._ask(found.recorded, setting) for _ in range(found.runs_below if found.is_steady else TRIES))
            failed = next((o for o in asked if o.verdict is not Verdict.BORING), None)
            if failed is not None and failed.verdict is Verdict.INTERESTING:
                found = Found(stage, found.recorded, setting, failed)
                break
        else:
            found = replace(found, stage=LAST.get(backend, OF_A_BACKEND))
        return self._timed(found)

    def _shorter(self, backend: str) -> list[tuple[str, str]]:
        """Our `eager` hands the graph back as it is."""
        return [row for row in SHORTER.get(backend, ()) if row[1] != "eager" or self.engine == "torch"]

    def _again(self, found: Found) -> list[Future[Outcome]]:
        """More runs of what failed, which the reduction would make too: what comes and goes may be missed under a shorter backend."""
        assert found.recorded.graph is not None and self.transport is not None
        posed, asked = Posed(self.transport, found.setting), Candidate("rung", dump(found.recorded.graph))
        return [posed.submit(asked) for _ in range(STEADY - 1)]

    def _shorter_ahead(self, found: Found) -> dict[str, list[Future[Outcome]]]:
        """By stage, runs under each of the shorter backends, where some can be made side by side. Most failures are of none of these."""
        assert found.recorded.graph is not None and self.transport is not None
        if self.transport.jobs == 1:
            return {}
        runs: dict[str, list[Future[Outcome]]] = {}
        for stage, shorter in self._shorter(found.setting.backend):
            asked = question(found.recorded.graph, replace(found.setting, backend=shorter, arguments={}))
            runs[stage] = [self.transport.submit(Candidate("rung", asked)) for _ in range(found.runs_below)]
        return runs

    def _timed(self, found: Found) -> Found:
        return replace(found, needs=self.needs[found.recorded.name]) if is_hang(found.outcome) else found

    def _ask(self, recorded: Recorded, setting: Setting) -> Outcome:
        assert recorded.graph is not None
        if self.transport is None:
            self.transport = LocalTransport(spec_for(setting), self.folder, self.jobs, self.limits)
        asked = Candidate("rung", question(recorded.graph, setting))
        outcome = self._waited_for(recorded.name, recorded.graph, setting, self.transport)
        if _is_signal(outcome) and isinstance(self.transport, LocalTransport) and self.transport.forks:
            outcome = self._confirmed(asked, outcome, setting, self.transport)
        self._note(recorded.name, setting, outcome)
        return outcome

    def _note(self, name: str, setting: Setting, outcome: Outcome) -> None:
        told = f"graph {name} under {_how(setting)}: {outcome.verdict.value}, {outcome.signature or 'no failure'}"
        self.asked += [] if told in self.asked else [told]

    def _waited_for(self, name: str, graph: Graph, setting: Setting, transport: Transport) -> Outcome:
        what = f"graph {name} under {_how(setting)}"
        told = first_run(graph, Posed(transport, setting), what, self.tell, self.needs.get(name, 0.0))
        if told.needs:
            self.needs[name] = told.needs
        self.seconds += 0.0 if is_hang(told.outcome) else told.outcome.seconds
        return told.outcome
