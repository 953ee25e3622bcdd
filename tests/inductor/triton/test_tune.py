"""Shapes by measuring: what is tried, what is taken, and what is kept. The times are made up, as there is no device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dynamo import config
from dynamo.trace import session
from dynamo.trace.events import Note
from inductor.backend import wants_tuning
from inductor.ir.nest import Program
from inductor.schedule.plan import Plan
from inductor.targets.triton import build, launcher, target, tune
from inductor.targets.triton.kernel import TritonKernel
from inductor.targets.triton.library import Kernel
from inductor.targets.triton.machine import Device, Shape
from inductor.targets.triton.worker import Image, Refused
from tests.inductor.triton.seam import compiled_for, program_of

RULES = [
    Shape("flat", 1024, 0, 4),
    Shape("row", 1, 1024, 2),
    Shape("row", 1, 512, 1),
    Shape("row", 8, 128, 8),
    Shape("looped row", 1, 2048, 8, is_looped=True),
    Shape("column", 32, 64, 4, is_looped=True, stages=3),
    Shape("walk", 2, 4096, 8, stages=3),
]


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """One that compiles everything but kernels of 8 warps. The texts of what was compiled."""
    compiled: list[str] = []

    def ask(kernel: Kernel, capability: int) -> Image:
        compiled.append(kernel.text)
        if '"num_warps": 8' in kernel.text:
            raise Refused("it has too many threads")
        return Image("k", 128, 0, b"code")

    monkeypatch.setattr(build, "ask", ask)
    monkeypatch.setattr(launcher, "capability", lambda index: 90)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    with config.patch(cache_dir=str(tmp_path)):
        yield compiled


def kernels() -> tuple[list[TritonKernel], Program]:
    return program_of(lambda x: (torch.softmax(x, -1), x + 1), [torch.empty(4096, 1024)])


def warps(kernel: Kernel) -> int:
    return int(kernel.text.partition('"num_warps": ')[2].partition(",")[0])


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_is_tried_first_and_others_differ_little(rule: Shape) -> None:
    found = tune.alternatives(rule)
    assert found[0] == rule
    assert 4 <= len(found) <= 14
    assert all(s.kind == rule.kind and s.is_looped == rule.is_looped and s.warps in tune.WARPS for s in found)


def test_the_fastest_is_taken_and_kept(device: list[str]) -> None:
    (kernel, *_), program = kernels()
    tune.tune([kernel], program, lambda form: {4: 5.0, 2: 10.0}.get(warps(form), 20.0))
    assert kernel.shape is not None
    assert kernel.shape.warps == 4
    tried = len(device)
    assert tried >= 4
    (again, *_), program = kernels()
    tune.tune([again], program, lambda form: 1 / 0)
    assert again.shape == kernel.shape
    assert len(device) == tried


@pytest.mark.parametrize("took", [9.9, 0.0, torch.OutOfMemoryError("no room")])
def test_what_is_about_as_fast_or_has_no_room_is_left_alone(device: list[str], took: float | Exception) -> None:
    (kernel, *_), program = kernels()
    rule = kernel.shape

    def measure(form: Kernel) -> float:
        if rule is not None and warps(form) == rule.warps:
            return 10.0
        if isinstance(took, Exception):
            raise took
        return took

    tune.tune([kernel], program, measure)
    assert kernel.shape == rule


@pytest.mark.parametrize("fits", [0, 2])
def test_shapes_without_room_are_counted_and_nothing_is_kept(device: list[str], fits: int) -> None:
    """The rules' shape is left where nothing could be measured; another compile measures again."""
    (kernel, *_), program = kernels()
    rule, measured = kernel.shape, []

    def measure(form: Kernel) -> float:
        measured.append(form)
        if len(measured) > fits:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 16.00 MiB")
        return 10.0 / len(measured)

    with session() as store:
        tune.tune([kernel], program, measure)
    (note,) = [n for n in store.of(Note) if n.id == tune.TUNED]
    refused = sum('"num_warps": 8' in text for text in device)
    assert f"{len(measured) - fits} of {len(device)} shapes left out: {tune.NO_ROOM}" in note.message
    assert f"{refused} of {len(device)} shapes left out: it has too many threads" in note.message
    assert ("the rules' shape" in note.message) is (kernel.shape == rule) is (not fits)
    (again, *_), program = kernels()
    tune.tune([again], program, lambda form: {4: 5.0}.get(warps(form), 20.0))
    assert again.shape is not None and again.shape.warps == 4


def test_shapes_are_measured_on_the_device_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    here: list[str] = ["cuda:0"]

    @contextlib.contextmanager
    def entered(device: str) -> Iterator[None]:
        here.append(device)
        yield
        here.pop()

    measured: list[str] = []
    _, program = kernels()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device", entered)
    monkeypatch.setattr(target, "this_device", Device)
    monkeypatch.setattr(target, "tune", lambda found, program: measured.append(here[-1]))
    target.TritonTarget().source(Plan(replace(program, device="cuda:1"), [], {}, tunes=True))
    assert measured == ["cuda:1"]


def test_other_shapes_are_taken_by_the_compiler(tmp_path: Path) -> None:
    found, program = kernels()
    for kernel in found:
        assert kernel.shape is not None
        for shape in tune.alternatives(kernel.shape)[1:3]:
            assert compiled_for(tune.printed(kernel, program, shape), 90, tmp_path) is not None


def test_who_wants_it() -> None:
    for options in ({"mode": "max-autotune"}, {"mode": "max-autotune-no-cudagraphs"}, {"max_autotune": True}):
        assert wants_tuning(options)
    for options in ({}, {"mode": "reduce-overhead"}, {"max_autotune": False, "mode": "max-autotune"}):
        assert not wants_tuning(options)
    with config.patch(max_autotune=True):
        assert wants_tuning({})
