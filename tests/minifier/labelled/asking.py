"""Reads the labelled sets and runs the bisector on their rows: precision, recall, and how often the culprit is named exactly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import dynamo
from dynamo.backends.registry import lookup_backend
from dynamo.faults.planting import planted
from minifier.bisect.bisecting import bisect_graph
from minifier.bisect.report import Report
from tests.minifier.labelled import second_changes  # noqa: F401  # adds its rows to the tables
from tests.minifier.labelled.changes import CORRECT, WRONG, backend_of

HERE = Path(__file__).parent
# Each set: the file of legitimate differences, the file of planted errors. The second was written when the first was passed.
SETS = {"first": ("legitimate.txt", "planted.txt"), "second": ("second_legitimate.txt", "second_planted.txt")}


@dataclass(frozen=True)
class Case:
    """One row. `culprit` is '' for legitimate differences."""

    name: str
    program: str
    tensors: str
    change: str
    culprit: str = ""

    @property
    def fault(self) -> str:
        return self.change.removeprefix("fault ") if self.change.startswith("fault ") else ""


@dataclass(frozen=True)
class Answer:
    case: Case
    report: Report

    @property
    def is_right(self) -> bool:
        return self.is_named if self.case.culprit else not self.report.is_finding

    @property
    def is_named(self) -> bool:
        """The planted decision, verified; of other compilers the operator."""
        if self.case.fault:
            return self.case.culprit in self.report.decision and self.report.verified
        return self.case.culprit in self.report.op

    def line(self) -> str:
        r = self.report
        return f"{self.case.name:<30} {r.verdict:<24} {r.confidence:.4f} {r.times:9.3g} | {r.stage} | {r.decision or r.op} | {r.text}"


def cases(file: str) -> list[Case]:
    rows = [line for line in (HERE / file).read_text().splitlines() if line and not line.startswith("#")]
    return [Case(*(part.strip() for part in re.split(r" +\| ", row))) for row in rows]


def tensors(text: str) -> Iterator[tuple[str, torch.Tensor]]:
    """`x=32x64:bfloat16!`: numbers drawn from a normal distribution, `!` with gradients; `i=32@10`: whole numbers below 10."""
    for number, part in enumerate(text.replace("! ", "!  ").split()):
        name, _, rest = part.partition("=")
        shape, at, below = rest.rstrip("!").partition("@")
        shape, _, dtype = shape.partition(":")
        generator = torch.Generator().manual_seed(number)
        sizes = [int(n) for n in shape.split("x")]
        if at:
            yield name, torch.randint(int(below), sizes, generator=generator)
        else:
            value = torch.randn(sizes, generator=generator, dtype=torch.float64).to(getattr(torch, dtype or "float32"))
            yield name, value.requires_grad_(rest.endswith("!"))


def captured(case: Case) -> list[tuple[Any, list[Any]]]:
    """The graphs of a program with the inputs that they are called with, as capture gives them to backends."""
    values = dict(tensors(case.tensors))
    *statements, result = case.program.split("; ")
    body = "\n    ".join([*statements, f"return {result}"])
    space: dict[str, Any] = {"torch": torch, "F": F, "dynamo": dynamo}
    exec(compile(f"def program({', '.join(values)}):\n    {body}\n", f"<{case.name}>", "exec"), space)
    taken: list[tuple[Any, list[Any]]] = []

    def take(gm: Any, inputs: Any) -> Callable[..., Any]:
        taken.append((gm, list(inputs)))
        return gm.forward

    dynamo.reset()
    torch.manual_seed(0)
    dynamo.compile(space["program"], backend=take, fullgraph="graph_break" not in case.program)(*values.values())
    return taken


def ask(case: Case, draws: int = 3) -> Answer:
    """The bisector's report on a row: on the first of its graphs with a finding, else on that which is nearest to one."""
    reports = []
    for number, (gm, inputs) in enumerate(captured(case)):
        reports.append(_of_graph(case, gm, inputs, str(number), draws))
        if reports[-1].is_finding:
            return Answer(case, reports[-1])
    return Answer(case, max(reports, key=lambda r: r.times))


def _of_graph(case: Case, gm: Any, inputs: list[Any], graph: str, draws: int) -> Report:
    if case.change == "compiled" or case.fault:
        with planted(case.fault):
            return bisect_graph(gm, inputs, "inductor", lookup_backend("inductor")[1], graph=graph, draws=draws)
    return bisect_graph(gm, inputs, case.change, backend_of((CORRECT | WRONG)[case.change]), graph=graph, draws=draws)


@dataclass(frozen=True)
class Score:
    """The confusion table of a set, and how many culprits were named. The answer "finding" is positive."""

    legitimate: int
    planted: int
    false_alarms: int
    missed: int
    named: int

    @property
    def precision(self) -> float:
        found = self.planted - self.missed
        return found / max(found + self.false_alarms, 1)

    @property
    def recall(self) -> float:
        return (self.planted - self.missed) / max(self.planted, 1)

    @property
    def named_rate(self) -> float:
        return self.named / max(self.planted, 1)

    def __add__(self, other: Score) -> Score:
        return Score(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def score(legitimate: list[Answer], wrong: list[Answer]) -> Score:
    alarms = sum(a.report.is_finding for a in legitimate)
    missed = sum(not a.report.is_finding for a in wrong)
    return Score(len(legitimate), len(wrong), alarms, missed, sum(a.is_named for a in wrong))
