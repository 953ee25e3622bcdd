"""Planted faults: off they cost nothing, on they do what their row says, and fuel switches them off one by one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch

import dynamo
from dynamo.decisions import limited
from dynamo.faults import is_planted
from dynamo.faults.crashes import FaultError
from dynamo.faults.planting import UnknownFault, planted
from dynamo.faults.rows import FAULTS, POINTS
from dynamo.trace import session
from dynamo.trace.events import Decided
from dynamo.trace.stages import BY_NAME
from inductor.targets.cpu.host import new_arena


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    with dynamo.config.patch(suppress_errors=False):
        yield
    dynamo.reset()


def wave(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * 2 + (w - x).abs()


def chosen(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, x + 1, w)


def summed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    s = x.sin().sum(1)
    return s.flip(0)[:, None] * w


def differs(fn: Callable[..., torch.Tensor], shape: tuple[int, ...] = (4, 6), calls: int = 1) -> bool:
    """Whether the last of several calls gives something else than eager."""
    dynamo.reset()
    compiled = dynamo.compile(fn)
    for seed in range(calls):
        torch.manual_seed(seed)
        x, w = torch.randn(shape), torch.randn(shape)
        found = compiled(x, w)
    return not torch.allclose(found, fn(x, w), atol=1e-3, rtol=1e-3)


# fault as it is planted, program, shape, calls
WRONG = [
    ("wrong-capture", wave, (4, 6), 1),
    ("dropped-mask", chosen, (4, 6), 1),
    ("wrong-rewrite", wave, (4, 6), 1),
    ("wrong-lowering", wave, (4, 6), 1),
    ("wrong-lowering:numel=1024", wave, (25, 41), 1),
    ("nan", wave, (4, 6), 1),
    ("truncated", wave, (4, 6), 1),
    ("scaled", wave, (4, 6), 1),
    ("bad-inline", wave, (4, 6), 1),
    ("wrong-text", wave, (4, 6), 1),
    ("lost-bits", wave, (4, 6), 1),
    ("second-call", wave, (4, 6), 2),
]


@pytest.mark.parametrize("text, fn, shape, calls", WRONG, ids=[w[0] for w in WRONG])
def test_a_wrong_step_is_a_decision(text: str, fn: Callable[..., torch.Tensor], shape: tuple[int, ...], calls: int) -> None:
    with planted(text), session() as store:
        assert differs(fn, shape, calls)
    name = text.partition(":")[0]
    fault = FAULTS[name]
    taken = [e for e in store.of(Decided) if e.taken and (e.what.startswith(name) if fault.decides else True)]

    assert taken, "the fault acts without a decision"
    if fault.decides:
        assert all(e.stage == fault.stage for e in taken)
        with planted(text), limited(f"-{fault.stage}"):
            assert not differs(fn, shape, calls)


def test_conditions_decide_where_a_fault_acts() -> None:
    for text in ("wrong-lowering:numel=1024", "wrong-lowering:op=tanh", "wrong-lowering:backward=1", "wrong-lowering:dtype=float64"):
        with planted(text):
            assert not differs(wave, (32, 32)), text
    with planted("wrong-lowering:numel=1023"):
        assert differs(wave, (32, 32))


@pytest.mark.parametrize("place", ["aot", "passes", "lower", "schedule", "kernels", "build"])
def test_an_error_leaves_from_its_stage(place: str) -> None:
    with planted(f"{place}-error"), pytest.raises(dynamo.errors.BackendError) as caught:
        differs(wave)

    assert isinstance(caught.value.cause, FaultError)
    assert str(caught.value.cause).startswith(f"{place}: ")


def test_a_process_ends_as_asked() -> None:
    program = "import torch, dynamo; print(dynamo.compile(lambda x: torch.sin(x), backend='inductor')(torch.ones(3)))"
    environment = {**os.environ, "DYNAMO_FAULT": "run-abort"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, timeout=120)

    assert done.returncode == -signal.SIGABRT


def test_unknown_faults_are_refused() -> None:
    for text, hint in (("wrong-lowerin", "did you mean 'wrong-lowering'"), ("nan:numel=many", "numel and p are numbers")):
        with pytest.raises(UnknownFault, match=hint), planted(text):
            pass


def test_off_unless_asked() -> None:
    assert not is_planted()
    assert not differs(wave)


def test_rows_name_stages_and_points() -> None:
    for fault in FAULTS.values():
        assert fault.stage in (*BY_NAME, "run"), fault.name
        assert fault.acts and set(fault.acts) <= set(POINTS), fault.name


def test_memory_of_new_programs_has_no_values_of_old_ones() -> None:
    """What reads too early would be right by chance."""
    new_arena(256).fill_(0)
    with planted("bad-fusion"):
        arenas = [new_arena(256) for _ in range(4)]
    assert all(set(arena.tolist()) == {0x40} for arena in arenas)
