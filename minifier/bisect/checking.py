"""`check`: one graph, one compiler, several draws of inputs, one verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from minifier.bisect.subject import Subject, copied, duplicate
from minifier.compare.verdict import Kind, Verdict, judge

Backend = Callable[..., Callable[..., Any]]
DRAWS = 3


@dataclass(frozen=True)
class Checked:
    """A verdict and what it is on. `flaky`: the same code on the same inputs does not always do it."""

    subject: Subject
    verdict: Verdict
    flaky: bool = False


def check(graph: torch.fx.GraphModule, inputs: Sequence[Any], backend: Backend, *, draws: int = DRAWS, gradients: bool = True) -> Checked:
    """Compile `graph` with `backend` and hold it to eager and float64 under the global state of now.

    `inputs` are what the graph is called with; they, the graph and the generator stay as they are. Raises what the backend raises, and
    what eager raises on these inputs.
    """
    subject = Subject(graph, inputs, gradients=gradients)
    verdict = compare(subject, backend, range(draws))
    return Checked(subject, verdict)


def compare(subject: Subject, backend: Backend, numbers: Sequence[int]) -> Verdict:
    """The verdict on a compiler for a subject, on these draws."""
    for number in numbers:
        if subject.drawn(number) is not None:
            break
    else:
        return Verdict(Kind.ROUNDING, 0.0, "eager refuses these inputs")
    call = compiled(subject, backend)
    samples = [(n, s) for n in numbers if (s := subject.sample(call, n)) is not None]
    verdict = judge([s for _, s in samples])
    return verdict if not samples else _numbered(verdict, [n for n, _ in samples])


def compiled(subject: Subject, backend: Backend) -> Callable[..., Any]:
    """What a backend makes of the graph. Raises what it raises; TypeError where it makes nothing that can be called."""
    given = [v.requires_grad_() if g else v for v, g in zip(copied(subject.inputs), subject.grads, strict=True)]
    call = backend(duplicate(subject.gm), given)
    if not callable(call):
        raise TypeError(f"the backend gave {type(call).__name__}, which can't be called")
    return call


def _numbered(verdict: Verdict, numbers: Sequence[int]) -> Verdict:
    return replace(verdict, draw=numbers[verdict.draw])
