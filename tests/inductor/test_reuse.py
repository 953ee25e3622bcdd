"""Results written over values that nothing reads again."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from dynamo import decisions
from dynamo.trace import session
from dynamo.trace.events import Decided
from inductor.runtime.python_host import PythonHost
from inductor.targets.cpu import host
from inductor.targets.cpu.target import LIMITS, CpuTarget
from tests.inductor.helpers import assert_same, check, compiled

A, B = torch.randn(64, 48), torch.randn(48, 64)
SQUARE = torch.randn(48, 48)
LONG, NARROW, WIDE = torch.randn(32, 20_000), torch.randn(32, 8), torch.randn(8, 20_000)  # rows that no tile holds


def exponentials(x):
    return (x - x.amax(1, keepdim=True)).exp()


def shares(e):
    return e / e.sum(1, keepdim=True)


# name: (program, inputs, how many of its results are written in place)
PROGRAMS = {
    "pointwise after a product": (lambda a, b: F.gelu(a @ b), (A, B), 1),
    "over one of two": (lambda a, b: (a @ b) * (a @ b).sin().cumsum(0)[0], (A, B), 1),
    "rows read twice": (lambda a, b: (a @ b).softmax(1) @ a, (A, B), 1),
    "columns": (lambda a, b: (a @ b).softmax(0) @ a, (A, B), 1),
    "norm, a row at a time": (lambda a, b: F.layer_norm(a @ b, (64,)), (A, B), 1),
    "chain": (lambda a, b: (((a @ b).relu() @ a).relu() @ b).relu(), (A, B), 3),
    "two results of one value": (lambda a, b: (lambda v: (v.sin(), v.cos()))(a @ b), (A, B), 1),
    "two results of two values": (lambda a, b: (lambda v, w: (v * w, v + w))(a @ b, a.sin() @ b), (A, B), 2),
    "another shape": (lambda a, b: (a @ b).relu().view(32, 128) @ torch.ones(128, 3), (A, B), 1),
    "the value is a result too": (lambda a, b: (lambda v: (v, v.sin()))(a @ b), (A, B), 0),
    "the value is read again": (lambda a, b: (lambda v: v.sin() @ v)(a @ b), (SQUARE, SQUARE), 0),
    "read the other way round": (lambda a, b: (lambda v: v + v.flip(0))(a @ b), (A, B), 0),
    "read transposed": (lambda a, b: (lambda v: v + v.t())(a @ b), (SQUARE, SQUARE), 0),
    "read shifted": (lambda a, b: (lambda v: v[1:] + v[:-1])(a @ b), (A, B), 0),
    "rows normed by another row": (lambda a, b: (lambda v: v / v.abs().amax(1, keepdim=True).roll(1, 0))(a @ b), (A, B), 1),
    "an input": (lambda a, b: a.sin() * 2, (A, B), 0),
    "another type": (lambda a, b: (a @ b).double(), (A, B), 0),
    "padded": (lambda a, b: F.pad(a @ b, (1, 1)), (A, B), 0),
    "indexed": (lambda a, b: (lambda v: v[torch.arange(63, -1, -1)] + v)(a @ b), (A, B), 0),
    "broadcast": (lambda a, b: (lambda v: v[:1] + v)(a @ b), (A, B), 0),
    "made by the kernel itself": (lambda x: shares(exponentials(x)), (LONG,), 1),
    "made by the kernel itself, over its operand": (lambda a, b: shares(exponentials(a @ b)), (NARROW, WIDE), 2),
    "made by the kernel itself, a result too": (lambda x: (lambda e: (e, shares(e)))(exponentials(x)), (LONG,), 0),
    "made by the kernel itself, two results": (lambda x: (lambda e: (shares(e), e / e.amax(1, keepdim=True)))(exponentials(x)), (LONG,), 1),
    "made by the kernel itself, read shifted": (lambda x: (lambda e: shares(e) + e.roll(1, 1))(exponentials(x)), (LONG,), 0),
    "made by the kernel itself, read in the next row": (lambda x: (lambda e: shares(e) + e.roll(1, 0))(exponentials(x)), (LONG,), 0),
    "a view lives on": (lambda a, b: (lambda v: (v.relu() + 1, torch.ops.aten.alias(v)))(a @ b), (A, B), 0),
}


def pairs(fn, inputs) -> list[tuple[str, str]]:
    with session() as store:
        compiled(fn, inputs)
    found = [re.fullmatch(r"\w+: (\w+) over (\w+)", e.what) for e in store.of(Decided) if e.stage == "reuse" and e.taken]
    return [m.groups() for m in found]


@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_in_place(name, size, monkeypatch):
    if size == "large":
        monkeypatch.setattr(CpuTarget, "limits", replace(LIMITS, large_program=0))
    fn, inputs, count = PROGRAMS[name]
    assert len(pairs(fn, inputs)) == count
    check(fn, *inputs)


@pytest.mark.parametrize("name", PROGRAMS)
def test_in_place_with_the_program_in_python(name, monkeypatch):
    monkeypatch.setattr(host, "is_connected", lambda: False)
    fn, inputs, _ = PROGRAMS[name]
    assert isinstance(host.make_host(_recipe(), None), PythonHost)
    assert_same(compiled(fn, inputs)(*inputs), fn(*inputs))


def _recipe():
    from inductor.runtime.recipe import Recipe

    return Recipe({}, (), {}, (), (), {}, {}, 0, {})


def test_results_do_not_share_memory():
    fn = PROGRAMS["two results of two values"][0]
    run = compiled(fn, (A, B))
    first, second = run(A, B), run(A, B)
    assert len({t.data_ptr() for t in (*first, *second)}) == 4
    assert not any(t._is_view() for t in first)


def test_a_result_in_another_layout_is_no_view():
    (out,) = compiled(lambda a, b: ((a @ b).relu().view(32, 128),), (A, B))(A, B)
    assert not out._is_view() or out._base.shape == (64, 64)


def test_the_choice_has_fuel():
    fn, inputs, _ = PROGRAMS["chain"]
    with decisions.limited("-reuse"):
        assert not pairs(fn, inputs)
    with decisions.limited("reuse:2"):
        assert len(pairs(fn, inputs)) == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_in_place_on_threads(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x, w = torch.randn(1024, 64), torch.randn(64, 1024)
        check(lambda x, w: (F.gelu(x @ w).softmax(1) @ x).relu(), x, w, rtol=1e-4, atol=1e-5)
    finally:
        torch.set_num_threads(before)
