"""What keeps a call from the compiled code there is: every guard that fails, in terms of the program."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynamo
from dynamo.trace import events, session


class Step:
    def __init__(self) -> None:
        self.factor = 2
        self.names = ["a"]


SCALE = 1


def f(x: torch.Tensor, step: Step) -> torch.Tensor:
    return x * step.factor * SCALE * len(step.names)


def changed(first: tuple[Any, ...], second: tuple[Any, ...]) -> list[events.Change]:
    dynamo.reset()
    compiled = dynamo.compile(f, backend="eager")
    with session() as store:
        compiled(*first)
        compiled(*second)
    (recompiled,) = store.of(events.Recompiled)
    assert (recompiled.caller, recompiled.caller_line) == (__file__, changed.__code__.co_firstlineno + 5)
    return list(recompiled.changes)


def test_all_guards_that_fail_are_told_not_only_the_first() -> None:
    other = Step()
    other.factor, other.names = 3, ["a", "b"]

    found = changed((torch.ones(3), Step()), (torch.ones(4), other))

    assert [(c.kind, c.aspect, c.dim, c.at, c.root, c.expected, c.seen) for c in found] == [
        ("tensor", "size", 0, "x", "argument", "3", "4"),
        ("eq", "", -1, "step.factor", "argument", "== 2", "3"),
        ("len", "", -1, "step.names", "argument", "length 1", "2"),
    ]
    assert {c.line for c in found} == {f.__code__.co_firstlineno + 1}


def test_below_a_value_of_another_type_nothing_is_said() -> None:
    class Other:
        factor = 2
        names = ("a", "b")

    found = changed((torch.ones(3), Step()), (torch.ones(3), Other()))

    assert [(c.kind, c.at) for c in found] == [("type", "step")]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_global_modes_are_named(mode: Any) -> None:
    dynamo.reset()
    compiled = dynamo.compile(lambda x: x + 1, backend="eager")
    with session() as store:
        compiled(torch.ones(3))
        with mode():
            compiled(torch.ones(3))

    (recompiled,) = store.of(events.Recompiled)
    c = recompiled.changes[0]
    assert (c.kind, c.root, c.aspect, c.expected, c.seen) == ("state", "mode", "grad mode", "on", "off")


def test_object_that_died_is_named() -> None:
    dynamo.reset()
    compiled = dynamo.compile(lambda x, layer: layer(x), backend="eager")
    with session() as store:
        for _ in range(2):
            compiled(torch.ones(2, 4), torch.nn.Linear(4, 4))

    (recompiled,) = store.of(events.Recompiled)
    assert {(c.kind, c.at) for c in recompiled.changes} == {("gone", "layer.weight"), ("gone", "layer.bias")}
    assert "has died" in recompiled.reason


def test_nobody_looking_costs_no_difference() -> None:
    dynamo.reset()
    compiled = dynamo.compile(f, backend="eager")
    compiled(torch.ones(3), Step())
    compiled(torch.ones(4), Step())

    told = [e for e in dynamo.trace.current().events if isinstance(e, events.Recompiled)]
    assert told[-1].changes == ()


def test_guards_are_measured_when_asked() -> None:
    dynamo.reset()
    compiled = dynamo.compile(f, backend="eager")
    with session() as store, dynamo.config.patch(guard_times=True):
        compiled(torch.ones(3), Step())
    with session() as unasked:
        compiled(torch.ones(4), Step())

    assert all(g.ns > 0 for g in store.of(events.GuardInstalled))
    assert {g.ns for g in unasked.of(events.GuardInstalled)} == {-1.0}
