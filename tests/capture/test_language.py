"""The test language tells what differs, and nothing it should not tell. The compiler is replaced by known engines here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.capture import language
from tests.capture.language import Observed, check, observe
from tests.capture.same import Different, same

ADD = "def f(x): return x + 1\n"
TWICE = ["t(3)", "t(3)"]


def eager(fn: Callable[..., Any], backend: Callable[..., Any], fullgraph: bool) -> Callable[..., Any]:
    return fn


def symbolic_trace(fn: Callable[..., Any], backend: Callable[..., Any], fullgraph: bool) -> Callable[..., Any]:
    return backend(torch.fx.symbolic_trace(fn), ())


def differences(program: str, inputs: list[str], wrong: Callable[..., Any]) -> list[str]:
    """What is reported when `wrong(f, ...)` stands in for the compiled `f`."""

    def engine(fn: Callable[..., Any], backend: Callable[..., Any], fullgraph: bool) -> Callable[..., Any]:
        return lambda *args: wrong(fn, *args)

    return observe(program, inputs, True, engine).differences


def failure(program: str, seen: Observed, monkeypatch: pytest.MonkeyPatch, **expected: Any) -> str:
    monkeypatch.setattr(language, "observe", lambda *args, **kwargs: seen)
    with pytest.raises(AssertionError) as error:
        check(program, inputs=TWICE, **expected)
    return str(error.value)


def test_eager_equals_itself() -> None:
    program = """
import random
class A:
    def __init__(self, x): self.x = x
W = torch.ones(3)
def f(x, a, log):
    global W
    W = W + x
    a.x.mul_(2)
    log.append(a)
    print(x.shape)
    if len(log) > 1: raise ValueError('full')
    return {'a': a, 'x': (x, W)}
"""
    assert observe(program, ["t(3, grad=True), A(t(2)), []", "t(3), A(t(1)), [1]"], True, eager).differences == []


def test_inputs_are_the_same_in_both_runs_and_differ_between_places() -> None:
    seen: list[torch.Tensor] = []
    differences("def f(x, y): return x\n", ["t(3), t(3)", "t(3), t(3)"], lambda fn, x, y: seen.extend((x, y)) or fn(x, y))

    assert len({tuple(x.tolist()) for x in seen}) == 4


def test_graphs_are_listed_by_operators_and_once() -> None:
    assert observe("def f(x): return torch.sin(x) * 2 + x.cos()\n", TWICE, True, symbolic_trace).graphs == ["sin mul cos add"]


@pytest.mark.parametrize(
    "program, wrong, expected",
    [
        (ADD, lambda fn, x: x + 2, "['result']: tensor"),
        (ADD, lambda fn, x: fn(x).double(), "['result'].dtype: torch.float32 in eager, torch.float64 compiled"),
        (ADD, lambda fn, x: [fn(x)], "['result']: Tensor"),
        (ADD, lambda fn, x: print("extra") or fn(x), "['printed']: '' in eager, 'extra\\n' compiled"),
        (ADD, lambda fn, x: (fn(x), x.add_(1))[0], "['arguments'][0][0]: tensor"),
        (ADD, lambda fn, x: fn(x) + torch.rand(3) * 0, "['random state']"),
        (ADD, lambda fn, x: (torch.set_grad_enabled(False) and None) or fn(x), "['modes']['grad']: True in eager, False compiled"),
        ("def f(x): raise ValueError('a')\n", lambda fn, x: x, "eager raised ValueError('a'), compiled code returned"),
        ("K = 0\ndef f(x):\n    global K\n    K += 1\n", lambda fn, x: (fn(x), fn(x))[0], "['globals']['K']: 1 in eager, 2 compiled"),
        ("def f(x): raise KeyError\n", lambda fn, x: {}[1], "['exception'] message: '' in eager, '1' compiled"),
        (ADD, lambda fn, x: x / "a", "compiled code raised TypeError: unsupported operand"),
        ("def f(x): return x\n", lambda fn, x: x.clone(), "['arguments'][0][0]: 'an object met before' in eager, 'another"),
        ("def f(x): return 1\n", lambda fn, x: True, "['result']: int 1 in eager, bool True compiled"),
    ],
)
def test_differences_are_named_by_path(program: str, wrong: Callable[..., Any], expected: str) -> None:
    found = differences(program, TWICE, wrong)

    assert found
    assert any(expected in line for line in found), found


def test_exceptions_are_compared_by_type_and_message() -> None:
    def other_message(fn: Callable[..., Any], x: object) -> None:
        raise ValueError("b")

    assert "message" in differences("def f(x): raise ValueError('a')\n", TWICE, other_message)[0]


def test_gradients_are_compared() -> None:
    found = differences("def f(x): return x * 2\n", ["t(3, grad=True)"] * 2, lambda fn, x: fn(x.detach()).requires_grad_())

    assert any("is_leaf" in line or ".grad" in line for line in found)


@pytest.mark.parametrize(
    "left, right, holds",
    [
        (float("nan"), float("nan"), True),
        (0.0, -0.0, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        ([1, (2, {3})], [1, (2, {3})], True),
        (range(3), range(3), True),
        (iter([1, 2]), iter([1, 2]), True),
        (torch.ones(2, 3), torch.ones(3, 2).T, False),
        (torch.ones(3), torch.nn.Parameter(torch.ones(3)), False),
        (torch.tensor([float("nan")]), torch.tensor([float("nan")]), True),
    ],
)
def test_same(left: object, right: object, holds: bool) -> None:
    if holds:
        same(left, right, "value")
    else:
        with pytest.raises(Different, match="value"):
            same(left, right, "value")


def test_same_knows_cycles_and_aliases() -> None:
    left: list[Any] = [1]
    left.append(left)
    right: list[Any] = [1]
    right.append(right)

    same(left, right, "cycle")
    with pytest.raises(Different):
        same([left, left], [right, [1, right]], "alias")


def test_failure_shows_program_expectation_and_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    text = failure(ADD, Observed(graphs=["add", "mul"], compiles=1), monkeypatch, graphs=["add", "sin mul"])

    assert (
        text
        == """
  1 def f(x): return x + 1

graphs:
    expected | actual
    add      | add
  > sin mul  | mul"""
    )


def test_alternatives_and_counts_of_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "observe", lambda *args, **kwargs: Observed(graphs=["iadd mul"], compiles=1))

    check(ADD, inputs=TWICE, graphs=["add_|iadd mul"])
    check(ADD, inputs=TWICE, graphs=1)
    assert "graphs" in failure(ADD, Observed(graphs=["iadd"], compiles=1), monkeypatch, graphs=2)


@pytest.mark.parametrize("expected, actual", [("DD001:3", "DD002:3"), ("DD001:3", "DD001:4"), ("*:3", "DD001:4")])
def test_breaks_are_matched_by_id_and_line(expected: str, actual: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "breaks" in failure(ADD, Observed(breaks=[actual]), monkeypatch, breaks=[expected])

    monkeypatch.setattr(language, "observe", lambda *args, **kwargs: Observed(breaks=["DD001:3"]))
    check(ADD, inputs=TWICE, breaks=["*:3"])


def test_guards_and_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Observed(guards=["len(L['xs']) == 1"], compiles=2)

    assert "compiles" in failure(ADD, seen, monkeypatch)
    assert "L['y']" in failure(ADD, seen, monkeypatch, compiles=2, guards=["len(L['xs'])", "L['y']"])
    assert "no len" in failure(ADD, seen, monkeypatch, compiles=2, no_guards=["len"])


def test_one_input_set_is_refused() -> None:
    with pytest.raises(AssertionError, match="two input sets"):
        check(ADD, inputs=["t(3)"])
