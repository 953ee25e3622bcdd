"""Whole graphs: compiled, interpreted and eager results agree."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynamo import config, decisions
from dynamo.trace import session
from dynamo.trace.events import Note, StageTimed
from inductor.compile import compile_graph
from tests.inductor.helpers import assert_same, check, compiled, trace

torch.manual_seed(0)


def rand(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype)


def norm_backward(g, x, w, b):
    shape = [x.shape[-1]]
    _, mean, rstd = torch.ops.aten.native_layer_norm(x, shape, w, b, 1e-5)
    return torch.ops.aten.native_layer_norm_backward(g, x, shape, mean, rstd, w, b, [True, True, True])


def batch_norm(x, w, b, m, v):
    out = torch.ops.aten._native_batch_norm_legit_functional(x, w, b, m, v, True, 0.1, 1e-5)
    return tuple(out)


GRAPHS = {
    "pointwise chain": (lambda x, y: ((x + y).relu() * 2 - y.sigmoid()).tanh(), [(33, 65), (65,)]),
    "softmax of a view": (lambda x: torch.softmax(x.transpose(0, 1).reshape(6, -1), -1), [(4, 6, 10)]),
    "softmax over the first dim": (lambda x: torch.softmax(x, 0), [(70, 40)]),
    "log_softmax": (lambda x: torch.log_softmax(x * 3, 1), [(5, 1000)]),
    "layer norm": (lambda x, w, b: F.layer_norm(x + 1, (100,), w, b), [(4, 9, 100), (100,), (100,)]),
    "layer norm backward": (norm_backward, [(40, 64), (40, 64), (64,), (64,)]),
    "group norm": (lambda x: F.group_norm(x, 4), [(2, 8, 5, 7)]),
    "batch norm": (batch_norm, [(4, 6, 5, 5), (6,), (6,), (6,), (6,)]),
    "several reductions of one row": (lambda x: (x.sum(1), x.amax(1), (x - x.mean(1, keepdim=True)).square().sum(1)), [(20, 300)]),
    "rows and columns": (lambda x: (x.exp().sum(0), x.exp().sum(1), x.exp()), [(130, 70)]),
    "full reductions": (lambda x: (x.sum(), x.amax(), x.mean(), x.var()), [(300, 410)]),
    "reduce then use": (lambda x: x / x.norm(), [(200, 300)]),
    "middle dim": (lambda x: x.sum(1) + x.amax(1), [(6, 50, 33)]),
    "two outer dims": (lambda x: x.sum((0, 2)), [(6, 50, 33)]),
    "cumsum": (lambda x: (x.cumsum(1) * 2, x.cumsum(0)), [(30, 40)]),
    "cat and split": (lambda x, y: torch.cat([x.exp(), y, x * y], 1).split(7, 1), [(5, 7), (5, 7)]),
    "pad": (lambda x: F.pad(x.exp(), (1, 2, 0, 3), value=-1.0) + 1, [(4, 5)]),
    "flip and roll": (lambda x: x.flip(1) + x.roll(2, 0), [(6, 5)]),
    "strides": (lambda x: x[::2, 1::3].t() + 1, [(9, 10)]),
    "matmul in between": (lambda x, w: torch.softmax((x @ w).relu() + 1, -1) @ w.t(), [(12, 16), (16, 20)]),
    "conv bn relu": (
        lambda x, w, g, b, m, v: F.relu(F.batch_norm(F.conv2d(x, w, padding=1), m, v.abs(), g, b)),
        [(2, 3, 8, 8), (4, 3, 3, 3), (4,), (4,), (4,), (4,)],
    ),
    "max pool": (lambda x: F.max_pool2d(x * 2, 3, 2, 1, return_indices=True), [(2, 3, 9, 9)]),
    "avg pool": (lambda x: F.avg_pool2d(x, 2) + 1, [(2, 3, 8, 8)]),
    "channels last": (lambda x: (x.to(memory_format=torch.channels_last) * 2).relu(), [(2, 3, 4, 5)]),
    "a size of zero": (lambda x: (x.exp(), x.sum(0), torch.cat([x, x])), [(0, 4)]),
    "scalars": (lambda x: (x * 2 + 1).exp(), [()]),
    "broadcast both ways": (lambda x, y: (x + y).sum(0), [(5, 1), (1, 7)]),
    "repeat": (lambda x: x.repeat(2, 3) * 2, [(3, 4)]),
    "std": (lambda x: (x.std(0), x.std(1, correction=0)), [(30, 20)]),
    "view outputs": (lambda x: (x.exp().t(), x.exp()[1:], x.t()), [(4, 6)]),
    "same output twice": (lambda x: ((y := x.exp()), y), [(4, 6)]),
    "bounds of nan": (lambda x: [x.clamp(max=math.nan), x.clamp(min=math.nan), x.clamp(-1, math.nan), x.clamp_max(math.nan)], [(6, 40)]),
    "nan and inf": (lambda x: torch.where(x > 0, (x / 0).amax(1, keepdim=True), (x * math.nan).relu()), [(6, 40)]),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graph(name):
    fn, shapes = GRAPHS[name]
    check(fn, *(rand(*s) for s in shapes), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["pointwise chain", "layer norm", "softmax over the first dim", "rows and columns", "cat and split"])
def test_float_types(name, dtype):
    fn, shapes = GRAPHS[name]
    tolerance = {torch.float64: 1e-10, torch.bfloat16: 5e-2, torch.float16: 5e-3}[dtype]
    check(fn, *(rand(*s, dtype=dtype) for s in shapes), rtol=tolerance, atol=tolerance)


INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_types(dtype):
    x, y = torch.randint(0, 100, (20, 33)).to(dtype), torch.randint(0, 3, (33,)).to(dtype)
    check(lambda a, b: (a + b, a * b, a > b, a & b, torch.where(b > 1, a, b)), x, y)
    check(lambda a: (a.sum(1), a.sum(0), a.amax(1), a.any(), a.float().mean(0)), x)


def test_casts_agree_with_eager():
    values = torch.tensor([0.0, -0.0, 1.5, -2.5, 3.5, 1e30, -1e30, 250.7, -3.9, math.inf, -math.inf, 1e-40, 65504.0, 65520.0, 1e-8])
    finite = torch.tensor([0.0, -0.0, 1.5, -2.5, 3.5, 100.7, -3.9])
    check(lambda x: (x.bfloat16(), x.half(), x.double(), x.bool(), x.bfloat16().float(), x.half().float()), values)
    check(lambda x: (x.long(), x.int(), x.short(), x.char(), x.byte()), finite)


def test_nan_survives_every_reduction():
    x = torch.randn(8, 100)
    x[3, 50] = math.nan
    check(lambda t: (t.sum(1), t.amax(1), t.amin(0), t.argmax(1), t.argmin(0), t.mean(), t.softmax(1)), x, rtol=1e-5, atol=1e-5)


def test_argmax_takes_the_first_of_equals():
    x = torch.zeros(5, 130)
    x[1, 70:] = 4
    x[2] = -math.inf
    check(lambda t: (t.argmax(1), t.argmin(1), t.argmax(0), t.argmax()), x)


def test_index_out_of_range_raises():
    run = compiled(lambda w, i: F.embedding(i, w), [rand(4, 8), torch.tensor([0, 3])])
    assert_same(run(w := rand(4, 8), torch.tensor([1, 3])), w[[1, 3]])
    with pytest.raises(IndexError, match="out of range"):
        run(rand(4, 8), torch.tensor([0, 4]))


def test_inputs_are_written_back_after_everything_read_them():
    def step(p, g, m):
        m2 = m * 0.9 + g
        p2 = p - 0.1 * m2
        out = (p * m).sum()
        p.copy_(p2)
        m.copy_(m2)
        return out

    args, other = [rand(40, 30) for _ in range(3)], []
    other = [a.clone() for a in args]
    gm = trace(step, [a.clone() for a in args])
    (found,) = compile_graph(gm, args)(args)
    expected = step(*other)
    assert_same([found, *args], [expected, *other], rtol=1e-5, atol=1e-5)


def test_random_numbers_come_in_eager_order():
    def fn(x):
        a, b = torch.rand_like(x), torch.rand_like(x)
        return (b * 2).sum(), a + x

    x = rand(10, 10)
    run = compiled(fn, [x])
    torch.manual_seed(3)
    expected = fn(x)
    torch.manual_seed(3)
    assert_same(run(x), expected, rtol=1e-5, atol=1e-5)


def test_data_dependent_sizes_run_uncompiled_with_a_note():
    x = torch.tensor([0.0, 1.0, 2.0])
    with session() as store:
        run = compiled(lambda t: t.nonzero() + 1, [x])
    assert_same(run(x), x.nonzero() + 1)
    assert [n.id for n in store.of(Note)] == ["DI002"]


def test_every_stage_is_timed():
    with session() as store, config.patch(cache=False):
        compiled(lambda x: x.exp(), [rand(3)])
    assert {e.stage for e in store.of(StageTimed)} == {"passes", "lower", "schedule", "kernels", "build"}


@pytest.mark.parametrize("name", ["layer norm backward", "batch norm", "cat and split", "rows and columns", "matmul in between", "pad"])
def test_correct_without_any_optional_step(name):
    fn, shapes = GRAPHS[name]
    args = [rand(*s) for s in shapes]
    with decisions.limited("0"):
        assert_same(compiled(fn, args)(*args), fn(*args), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("fuel", range(1, 12, 2))
def test_correct_at_every_fuel_level(fuel):
    fn, shapes = GRAPHS["layer norm backward"]
    args = [rand(*s) for s in shapes]
    with decisions.limited(str(fuel)):
        assert_same(compiled(fn, args)(*args), fn(*args), rtol=2e-5, atol=2e-5)


# ---- random programs ----

VIEWS = (lambda t: t.t(), lambda t: t[:, ::2])
UNARY = (torch.sin, torch.exp, torch.relu, torch.neg, torch.sigmoid, torch.abs, lambda t: t.clamp(-1, 1), *VIEWS)
BINARY = (torch.add, torch.mul, torch.sub, torch.maximum, lambda a, b: torch.where(a > b, a, b))
REDUCE = (
    lambda t: t.sum(0, keepdim=True),
    lambda t: t.sum(1, keepdim=True),
    lambda t: t.amax(1, keepdim=True),
    lambda t: t.mean(0, keepdim=True),
    lambda t: t.softmax(1),
    lambda t: t.softmax(0),
)

extent = st.sampled_from([1, 2, 3, 7, 16, 33, 70])
choice = st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))


@given(extent, extent, st.lists(choice, min_size=1, max_size=9), st.sampled_from([torch.float32, torch.float64]))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs(rows, columns, choices, dtype):
    def program(x, y):
        values = [x, y]
        for kind, first, second in choices:
            a = values[first % len(values)]
            if kind % 3 == 0:
                values.append(UNARY[kind % len(UNARY)](a).clamp(-50, 50))
            elif kind % 3 == 1:
                fits = [v for v in values if all(p == q or 1 in (p, q) for p, q in zip(v.shape, a.shape, strict=True))]
                values.append(BINARY[kind % len(BINARY)](a, fits[second % len(fits)]).clamp(-50, 50))
            else:
                values.append(REDUCE[kind % len(REDUCE)](a))
        return values[2:]

    torch.manual_seed(rows * 100 + columns)
    args = [rand(rows, columns, dtype=dtype), rand(rows, columns, dtype=dtype)]
    tolerance = 2e-4 if dtype == torch.float32 else 1e-9
    check(program, *args, rtol=tolerance, atol=tolerance)
