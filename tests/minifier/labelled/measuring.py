"""Reads the labelled set and runs the bisector on it: precision, recall, and how often the culprit is named exactly.

python -m tests.minifier.labelled.measuring [NAME]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import dynamo
from dynamo.backends.registry import lookup_backend
from dynamo.faults import planted
from minifier.bisect.bisecting import bisect_graph
from minifier.bisect.report import Report
from tests.minifier.labelled.changes import CORRECT, WRONG, backend_of

HERE = Path(__file__).parent


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


def captured(case: Case) -> tuple[Any, list[Any]]:
    """The graph of a program, as capture gives it to backends."""
    values = dict(tensors(case.tensors))
    names = ", ".join(values)
    space = {"torch": torch, "F": F}
    exec(compile(f"def program({names}):\n    return {case.program}\n", f"<{case.name}>", "exec"), space)
    taken: list[tuple[Any, list[Any]]] = []

    def take(gm: Any, inputs: Any) -> Callable[..., Any]:
        taken.append((gm, list(inputs)))
        return gm.forward

    dynamo.reset()
    torch.manual_seed(0)
    dynamo.compile(space["program"], backend=take, fullgraph=True)(*values.values())
    return taken[0]


def ask(case: Case, draws: int = 3) -> Answer:
    """The bisector's report on a row."""
    gm, inputs = captured(case)
    if case.change == "compiled" or case.fault:
        with planted(case.fault):
            return Answer(case, bisect_graph(gm, inputs, "inductor", lookup_backend("inductor")[1], draws=draws))
    return Answer(case, bisect_graph(gm, inputs, case.change, backend_of((CORRECT | WRONG)[case.change]), draws=draws))


@dataclass(frozen=True)
class Score:
    """Counts over the labelled set."""

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


def score(legitimate: list[Answer], wrong: list[Answer]) -> Score:
    alarms = sum(a.report.is_finding for a in legitimate)
    missed = sum(not a.report.is_finding for a in wrong)
    return Score(len(legitimate), len(wrong), alarms, missed, sum(a.is_named for a in wrong))


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    answers: dict[str, list[Answer]] = {"legitimate.txt": [], "planted.txt": []}
    for file, found in answers.items():
        for case in cases(file):
            if wanted in case.name:
                found.append(ask(case))
                good = found[-1].is_named if case.culprit else not found[-1].report.is_finding
                print("   " if good else "!! ", found[-1].line()[:220], flush=True)
    result = score(*answers.values())
    print(result, f"precision {result.precision:.3f} recall {result.recall:.3f} named {result.named_rate:.3f}")


if __name__ == "__main__":
    main()
