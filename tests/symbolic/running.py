"""Run one program in eager and captured, and compare what a caller can see."""

from __future__ import annotations

import textwrap
import warnings
from typing import Any

import pytest
import torch

import dynamo
from dynamo.compile import capture
from dynamo.symbolic.values.errors import BreakError
from tests.capture.same import same


def run(fn: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    args = (torch.randn(3), [1, 2, 3], {"a": 1, "b": 2}, {1, 2, 3})
    seen: dict[str, Any] = {}
    try:
        seen["result"] = fn(*args)
    except Exception as e:  # noqa: BLE001  # whatever eager raises, compiled code must raise too
        seen["exception"] = e
    seen["arguments"] = args
    return seen


def check(body: str, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The body of `def f(x, xs, d, s)` as one graph, with the results, exceptions and mutations of eager."""
    found: list[str] = []

    def learn(known: Any, tx: Any, frame: Any, reason: BreakError, fullgraph: bool) -> None:
        found.append(f"{reason.id} {reason.what}")
        real_learn(known, tx, frame, reason, fullgraph)

    real_learn = capture._learn
    monkeypatch.setattr(capture, "_learn", learn)
    scope = dict(names)
    exec(f"def f(x, xs, d, s):\n{textwrap.indent(body, '    ')}\n", scope)
    dynamo.reset()
    eager = run(scope["f"])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="compiling")  # a crash of the compiler falls back with a warning
        compiled = run(dynamo.compile(scope["f"], backend="eager", fullgraph=True))
    if "exception" in compiled:
        raise compiled["exception"]
    same(eager, compiled, "")
    assert found == [], "the tracer met an exception that eager did not raise"
