"""GlobalState: every mode a capture depends on is noticed when it changes, and when it changes back."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from dynamo import _C

from .kit import tree


class Mode(TorchFunctionMode):
    pass


class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def setting(set_to: Callable[[Any], object], inside: object, outside: object) -> Iterator[None]:
    set_to(inside)
    try:
        yield
    finally:
        set_to(outside)


def matmul_flag(value: object) -> None:
    torch.backends.cuda.matmul.allow_tf32 = value


MODES: dict[str, tuple[Callable[[], Any], str]] = {
    "no_grad": (torch.no_grad, "grad mode: expected on, got off"),
    "inference": (torch.inference_mode, "grad mode"),
    "autocast cpu": (lambda: torch.autocast("cpu"), "autocast cpu: expected off (bfloat16, cache on), got bfloat16, cache on"),
    "autocast cuda": (lambda: torch.autocast("cuda"), "autocast"),
    "type of autocast": (
        lambda: setting(partial(torch.set_autocast_dtype, "cpu"), torch.float16, torch.bfloat16),
        "autocast cpu: expected off (bfloat16, cache on), got off (float16, cache on)",
    ),
    "cache of autocast": (lambda: setting(torch.set_autocast_cache_enabled, False, True), "autocast cpu"),
    "default dtype": (
        lambda: setting(torch.set_default_dtype, torch.float64, torch.float32),
        "default dtype: expected float32, got float64",
    ),
    "deterministic": (lambda: setting(torch.use_deterministic_algorithms, True, False), "deterministic algorithms: expected off, got on"),
    "precision high": (lambda: setting(torch.set_float32_matmul_precision, "high", "highest"), "float32 matmul"),
    "precision medium": (lambda: setting(torch.set_float32_matmul_precision, "medium", "highest"), "float32 matmul"),
    "default device": (lambda: torch.device("meta"), "torch function modes: expected none"),
    "function mode": (Mode, "torch function modes: expected none"),
    "dispatch mode": (Dispatch, "torch dispatch modes: expected 0, got 1"),
    "no torch function": (torch._C.DisableTorchFunctionSubclass, "torch function: expected enabled, got disabled for subclasses"),
    "no torch function at all": (torch._C.DisableTorchFunction, "torch function: expected enabled, got disabled"),
}


@pytest.fixture(autouse=True)
def _settled_precision() -> Iterator[None]:
    # The first explicit setting differs from "never set"; start from an explicit one.
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("name", MODES)
@pytest.mark.filterwarnings("ignore:User provided device_type of 'cuda'")
def test_modes(name: str) -> None:
    enter, why = MODES[name]
    state = _C.GlobalState()
    guards = tree((5, "state", state))
    if name == "autocast cuda" and not torch.cuda.is_available():
        enter = lambda: setting(lambda on: torch.set_autocast_enabled("cuda", on), True, False)  # noqa: E731 - a variant of the row
    for _ in range(2):
        assert state.check()
        assert state.why() == ""
        assert guards.check(())
        assert guards.explain(()) is None
        with enter():
            assert not state.check()
            assert state.why().startswith(why)
            assert not guards.check(())
            assert guards.explain(()) == (5, state.why())
            inner = _C.GlobalState()
            assert inner.check()
        assert not inner.check()


def test_modes_inside_modes() -> None:
    with torch.no_grad():
        state = _C.GlobalState()
        with torch.enable_grad():
            assert not state.check()
        with torch.no_grad():
            assert state.check()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        state = _C.GlobalState()
        with torch.autocast("cpu", dtype=torch.float16):
            assert not state.check()
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            assert not state.check()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert state.check()


def test_default_devices_are_told_apart() -> None:
    with torch.device("meta"):
        state = _C.GlobalState()
    with torch.device("meta"):
        assert state.check()
    with torch.device("cpu"):
        assert not state.check()
        assert "device(type='cpu')" in state.why()
    with Mode():
        assert not state.check()
    torch.set_default_device("meta")
    try:
        assert state.check()
    finally:
        torch.set_default_device(None)


def test_modes_are_those_of_the_calling_thread() -> None:
    state = _C.GlobalState()
    seen: list[bool] = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(state.check()))
        thread.start()
        thread.join()
        assert not state.check()
    assert seen == [True]


def test_vmap_is_another_state() -> None:
    state = _C.GlobalState()
    seen: list[bool] = []

    def inside(x: torch.Tensor) -> torch.Tensor:
        seen.append(state.check())
        return x + 1

    torch.vmap(inside)(torch.zeros(3))
    assert seen == [False]
    assert state.check()


def test_describe() -> None:
    words = _C.GlobalState().describe()
    assert words["grad mode"] == "on"
    assert words["autocast cpu"] == "off (bfloat16, cache on)"
    assert words["default dtype"] == "float32"
    assert all(isinstance(k, str) and isinstance(v, str) for k, v in words.items())
