"""What a compile leaves to Python's cycle collector."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import torch
import triton
from torch import nn
from triton._C import libtriton

import dynamo
from dynamo.surroundings import collector
from dynamo.surroundings.collector import paused


class Knot:
    def __init__(self) -> None:
        self.self = self


@pytest.fixture(autouse=True)
def _nothing_frozen(monkeypatch):
    """As in a program: what the tests of a run consist of is frozen."""
    monkeypatch.setattr(collector, "_has_frozen", [])
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.fixture
def uncollected():
    gc.collect(1)  # what other tests have left is old, and nothing here asks for it
    gc.disable()
    yield
    gc.enable()


def test_what_was_made_is_not_walked_inside_or_right_after():
    runs = []

    def note(phase, info):
        runs.append(info["generation"])

    with paused():
        gc.callbacks.append(note)
        try:
            made = [Knot() for _ in range(5000)]
        finally:
            gc.callbacks.remove(note)
    assert not runs
    assert gc.isenabled()
    assert not any(o is made[0] for young in (0, 1) for o in gc.get_objects(generation=young))


def test_the_programs_own_garbage_goes_first():
    knot = Knot()
    alive = weakref.ref(knot)
    del knot
    with paused():
        assert alive() is None


def test_a_switched_off_collector_stays_off(uncollected):
    with paused():
        pass
    assert not gc.isenabled()


def test_frozen_objects_stay_frozen():
    knot = Knot()
    gc.freeze()
    try:
        with paused():
            pass
        assert not any(o is knot for o in gc.get_objects())  # which lists all generations but the permanent one
    finally:
        gc.unfreeze()
    assert any(o is knot for o in gc.get_objects())


def with_break(x):
    y = x.sin()
    dynamo.graph_break()
    return y.cos()


def with_closure(x):
    held = [x, x * 2]

    def inner():
        return held[0] + held[1]

    return inner()


FUNCTIONS = {
    "function": lambda x: x.sin() + 1,
    "break": with_break,
    "closure": with_closure,
    "module": nn.Sequential(nn.Linear(8, 8), nn.ReLU()),
}


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "with gradients"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_inputs_are_freed_without_the_collector(name, backend, grad, uncollected):
    x = torch.randn(4, 8, requires_grad=grad)
    out = dynamo.compile(FUNCTIONS[name], backend=backend)(x)
    if out.requires_grad:
        out.sum().backward()
    seen = weakref.ref(x), weakref.ref(out)
    del x, out
    assert [ref() for ref in seen] == [None, None]


ENDS = """
import atexit, gc, sys
atexit.register(lambda: print("frozen" if gc.get_freeze_count() > 1000 else "collected", flush=True))
from dynamo.surroundings.collector import skip_at_exit
skip_at_exit()
class Cycle:
    def __init__(self, **kept):
        self.kept, self.me = kept, self
"""


FINALIZER = """
class Says(Cycle):
    def __del__(self):
        print("gone")
kept = Says()
del Says
"""
GENERATOR = """
def waits():
    try:
        yield
    finally:
        print("gone")
kept = Cycle(waiting=waits())
next(kept.kept["waiting"])
"""
FILE = """
import os
kept = Cycle(file=os.fdopen(os.dup(1), "w"))
print("gone", file=kept.kept["file"])
"""


MADE_WITH_NANOBIND = type(libtriton.ir.builder).__module__ == "nanobind"  # Triton 3.6 is made with pybind11


@pytest.mark.parametrize(
    ("rest", "printed"),
    [
        ("kept = Cycle()", "frozen"),
        (FINALIZER, "collected gone"),
        (GENERATOR, "collected gone"),
        (FILE, "collected gone"),
        (
            f"sys.path.append({str(Path(triton.__file__).parents[1])!r})\nimport triton._C.libtriton",
            "collected" if MADE_WITH_NANOBIND else "frozen",
        ),
    ],
    ids=["nothing waits", "finalizer", "generator", "file", "nanobind"],
)
def test_the_end_collects_only_where_something_waits_for_it(rest: str, printed: str) -> None:
    """Without `site`: the .pth files of an environment may leave objects with finalizers in every process."""
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    done = subprocess.run([sys.executable, "-S", "-c", ENDS + rest], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, printed.split(), "")
