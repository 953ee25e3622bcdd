"""`config.check_surroundings`: what is left behind is named, counted and put right; what the program leaves is its own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import dynamo
from dynamo import config, internal_errors


@pytest.fixture(autouse=True)
def checking() -> Iterator[None]:
    with config.patch(check_surroundings=True):
        yield


def _leaves(what: Any) -> Any:
    """A backend whose compiled graph does something to the process."""

    def backend(gm: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            out = gm(*args)
            what()
            return out

        return run

    return backend


def _failures(fn: Any, *args: Any) -> list[str]:
    internal_errors.forget()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fn(*args)
    found = [str(w.message) for w in caught if "[DD096]" in str(w.message)]
    assert sum(n for (i, *_), n in internal_errors.internal_errors().items() if i == "DD096") == len(found)
    internal_errors.forget()
    return found


def test_a_graph_that_leaves_a_mode_is_named_and_undone() -> None:
    f = dynamo.compile(lambda x: x + 1, backend=_leaves(lambda: torch.set_autocast_enabled("cpu", True)))
    (found,) = _failures(f, torch.ones(3))
    assert "autocast on cpu is True, not False" in found
    assert not torch.is_autocast_enabled("cpu")


def test_a_draw_that_the_program_does_not_make_is_named() -> None:
    (found,) = _failures(dynamo.compile(lambda x: x + 1, backend=_leaves(lambda: torch.rand(1))), torch.ones(3))
    assert "random state" in found


def test_a_compile_that_leaves_a_mode_is_named_and_undone() -> None:
    def backend(gm: Any, inputs: Any) -> Any:
        torch.set_default_dtype(torch.float64)
        return gm

    (found,) = _failures(dynamo.compile(lambda x: x + 1, backend=backend), torch.ones(3))
    assert "get_default_dtype" in found
    assert torch.get_default_dtype() is torch.float32


def test_what_the_program_leaves_is_its_own() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        torch.set_grad_enabled(False)
        torch.set_autocast_enabled("cpu", True)
        return x + torch.rand(3)

    run = dynamo.compile(f, backend="aot_eager")
    try:
        assert not _failures(run, torch.ones(3))
        assert not torch.is_grad_enabled() and torch.is_autocast_enabled("cpu")
    finally:
        torch.set_grad_enabled(True)
        torch.set_autocast_enabled("cpu", False)


def test_compiled_code_without_the_option_has_nothing_of_it() -> None:
    with config.patch(check_surroundings=False):
        f = dynamo.compile(lambda x: x + 1, backend=_leaves(lambda: torch.rand(1)))
        assert not _failures(f, torch.ones(3))
