"""From a failing graph to the smallest one that fails the same way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from minifier.engine import Candidate, Listener, Options, Outcome, Result, Rule, Transport, minimise
from minifier.graph import warming
from minifier.graph.ir import Graph, dump
from minifier.graph.oracle import Setting
from minifier.graph.problem import GraphProblem
from minifier.isolation import Limits, LocalTransport, OracleSpec


@dataclass
class Plan:
    """How to reduce a graph or a script; see `engine.Options`. Files, the journal among them, are made below `folder`. `seen` are runs of
    the start, the first of which failed."""

    folder: Path
    jobs: int = 1
    seconds: float | None = None
    resume: bool = False
    rule: Rule | None = None
    limits: Limits | None = None
    calibration: int = 3
    confirm: int = 1
    needs: float = 0.0
    seen: tuple[Outcome, ...] = ()

    def options(self, spec: OracleSpec, listener: Listener | None) -> Options:
        """The engine's options for an oracle; without a listener, its own."""
        options = Options(
            oracle=spec.identity(self.folder.parent),
            rule=self.rule or Rule(),
            calibration=self.calibration,
            confirm=self.confirm,
            seconds=self.seconds,
            needs=self.needs,
            seen=self.seen,
            journal=self.folder / "journal.sqlite",
            resume=self.resume,
        )
        if listener is not None:
            options.listener = listener
        return options


def spec_for(setting: Setting) -> OracleSpec:
    """The oracle for graphs under a setting."""
    return warming.spec(warming.OF_ONE, setting.to_json())


def reduce_graph(
    graph: Graph, setting: Setting, plan: Plan, listener: Listener | None = None, transport: Transport | None = None
) -> Result[Graph]:
    """The smallest graph that fails as `graph` does; see `minimise`. A `transport` is left open, and asks under the setting.

    Raises IsolationError, JournalError.
    """
    spec = spec_for(setting)
    plan.folder.mkdir(parents=True, exist_ok=True)
    asking = transport or LocalTransport(spec, plan.folder, plan.jobs, plan.limits)
    try:
        return minimise(GraphProblem(), graph, asking, plan.options(spec, listener))
    finally:
        if transport is None:
            asking.close()


def verified(graph: Graph, setting: Setting, plan: Plan, result: Result[Graph], runs: int = 3) -> int:
    """How many of `runs` runs, each in a new interpreter, show the failure of `result`."""
    transport = LocalTransport(spec_for(setting), plan.folder, plan.jobs, plan.limits, fresh=True)
    rule = plan.rule or Rule()
    try:
        outcomes = [transport.submit(Candidate("final", dump(graph))).result() for _ in range(runs)]
    finally:
        transport.close()
    wanted = result.signature
    return sum(wanted is not None and o.signature is not None and rule.holds(wanted, o.signature) for o in outcomes)
