"""What a compile raises behind a graph break, it raises inside the blocks that are open there: they end as they do for any error."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynamo
from dynamo.compile import misses
from dynamo.errors import BackendError

seen: list[str] = []


class Stopped(BaseException):
    """As `KeyboardInterrupt`, which ends the tests."""


def tripled(x: torch.Tensor) -> torch.Tensor:
    print(end="")
    return x * 3


def with_block(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    with torch.no_grad():
        y = x * 2
        print(end="")
        z = y * 3
    return z + 1


def returning_from_a_block(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    with torch.no_grad():
        return tripled(x)


def blocks_in_a_loop(x: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        with torch.inference_mode():
            print(end="")
            x = x * 2
            with torch.enable_grad(), torch.autocast("cpu"):
                print(end="")
                x = x * 2
    return x


def a_block_in_a_finally(x: torch.Tensor) -> torch.Tensor:
    try:
        with torch.no_grad():
            x = x + 1
            print(end="")
            x = x * 2
    finally:
        seen.append("finally")
    return x


def in_a_handled_block(x: torch.Tensor) -> torch.Tensor:
    try:
        print(end="")
        x = x * 2
        with torch.no_grad():
            print(end="")
            x = x * 3
    except Stopped:
        seen.append("handled")
    return x


def after_a_handled_block(x: torch.Tensor) -> torch.Tensor:
    try:
        print(end="")
    except Stopped:
        seen.append("of what comes later")
    print(end="")
    return x * 2


# Per function what its own handlers see of an error in each compile; the first is that of the whole function.
CASES: dict[Callable[[torch.Tensor], torch.Tensor], list[list[str]]] = {
    with_block: [[], []],
    returning_from_a_block: [[]] * 4,
    blocks_in_a_loop: [[]] * 8,
    a_block_in_a_finally: [[], ["finally"]],
    in_a_handled_block: [[], ["handled"], ["handled"]],
    after_a_handled_block: [[], ["of what comes later"], []],
}


# The same of each run of a graph; those of modes and constants alone count.
RUNS: dict[Callable[[torch.Tensor], torch.Tensor], list[list[str]]] = {
    with_block: [[], []],
    returning_from_a_block: [[], []],
    blocks_in_a_loop: [[]] * 4,
    a_block_in_a_finally: [[], ["finally"]],
    in_a_handled_block: [["handled"], ["handled"]],
    after_a_handled_block: [[]],
}


def modes() -> tuple[bool, ...]:
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize(("function", "at"), [(f, at) for f, rows in CASES.items() for at in range(len(rows))])
def test_blocks_end(function: Callable[..., Any], at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = itertools.count()
    real = misses._compile

    def failing(*args: Any) -> Any:
        if next(calls) == at:
            raise Stopped
        return real(*args)

    seen.clear()
    monkeypatch.setattr(misses, "_compile", failing)
    before, argument = modes(), torch.ones(3)
    compiled = dynamo.compile(function, backend="eager")
    try:
        compiled(argument)
        assert "raised" not in seen
    except Stopped:
        assert CASES[function][at] in ([], ["finally"])
    assert modes() == before
    assert seen == CASES[function][at]
    assert next(calls) > at
    assert torch.equal(compiled(argument), function(argument))


@pytest.mark.parametrize("function", CASES)
def test_each_compile_of_a_function_has_a_row(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    compiles: list[str] = []
    real = misses._compile
    monkeypatch.setattr(misses, "_compile", lambda ctx, fn, *rest: compiles.append(fn.__name__) or real(ctx, fn, *rest))
    dynamo.compile(function, backend="eager")(torch.ones(3))
    assert len(compiles) == len(CASES[function])


@pytest.mark.parametrize(("function", "at", "expected"), [(f, at, e) for f, rows in RUNS.items() for at, e in enumerate(rows)])
def test_blocks_end_where_a_graph_is_interrupted(function: Callable[..., Any], at: int, expected: list[str]) -> None:
    calls = itertools.count()

    def backend(gm: Any, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            if next(calls) == at:
                raise Stopped
            return gm.forward(*args)

        return run

    seen.clear()
    before, argument = modes(), torch.ones(3)
    compiled = dynamo.compile(function, backend=backend)
    try:
        compiled(argument)
        assert "handled" in expected
    except Stopped:
        assert "handled" not in expected
    assert next(calls) > at
    assert (modes(), seen) == (before, expected)
    assert torch.equal(compiled(argument), function(argument))


def test_a_backends_error_reaches_a_handler_of_the_program() -> None:
    def fails(gm: Any, inputs: Any) -> Any:
        raise ValueError("no")

    def f(x: torch.Tensor) -> torch.Tensor:
        try:
            print(end="")
            return x * 2
        except BackendError as e:
            return x * 3 if "no" in str(e) else x

    assert dynamo.compile(f, backend=fails)(torch.ones(3)).tolist() == [3.0, 3.0, 3.0]
