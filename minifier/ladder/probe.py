"""The oracle of the ladder, in the child: a graph and how it is to be judged come together, so that one warmed process serves all rungs."""

from __future__ import annotations

import json
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from minifier.engine import Candidate, Outcome, Transport
from minifier.graph import warming
from minifier.graph.ir import Graph, dump, load
from minifier.graph.oracle import Setting, judge
from minifier.isolation import OracleSpec
from minifier.isolation.child import stage


def question(graph: Graph, setting: Setting) -> bytes:
    """What `ask` reads."""
    return json.dumps({"setting": setting.to_json(), "graph": json.loads(dump(graph))}).encode()


class Posed(Transport):
    """Graphs under one setting, asked in the processes of a transport whose oracle is `ask` and which stays open: these are warm."""

    def __init__(self, inner: Transport, setting: Setting) -> None:
        self.inner, self.jobs = inner, inner.jobs
        self._setting = json.dumps(setting.to_json()).encode()

    def submit(self, candidate: Candidate) -> Future[Outcome]:
        posed = b'{"setting": ' + self._setting + b', "graph": ' + candidate.payload + b"}"
        return self.inner.submit(replace(candidate, payload=posed))

    def cancel(self, run: Future[Outcome]) -> None:
        self.inner.cancel(run)

    def calibrated(self, seconds: float) -> None:
        self.inner.calibrated(seconds)

    def looks(self, seconds: float, frame: str = "") -> None:
        self.inner.looks(seconds, frame)

    def confines(self, memory: int | None) -> None:
        self.inner.confines(memory)


def ask(path: Path) -> Outcome:
    """Judge the graph at `path`."""
    stage("build", counts=False)
    return answer(path.read_bytes())


def answer(asked: bytes) -> Outcome:
    """Judge what `question` wrote."""
    data = json.loads(asked)
    return judge(load(json.dumps(data["graph"]).encode()), Setting.from_json(data["setting"]))


def spec_for(setting: Setting) -> OracleSpec:
    """The oracle, warmed with what a setting needs."""
    return warming.spec(warming.OF_MANY, setting.to_json())
