"""Every row of the table: it fires on its pattern, stays away from near misses, keeps every bit, and can be refused."""

from __future__ import annotations

import pytest
import torch

from dynamo import decisions
from dynamo.trace import session
from dynamo.trace.events import Decided
from inductor.passes.rewrite import TABLE, rewrite
from tests.inductor.helpers import assert_same, compiled, flat, trace

ODD = torch.tensor([0.0, -0.0, 1.5, -2.5, torch.nan, torch.inf, -torch.inf, 1e-40])
X = torch.cat([ODD, torch.randn(16)]).view(4, 6)
I = torch.arange(-12, 12).view(4, 6)  # noqa: E741
P = torch.randn(4, 6)
aten = torch.ops.aten


def fired(fn, args):
    with session() as store:
        rewrite(trace(fn, args))
    return [d.what.rsplit(" ", 1)[0] for d in store.of(Decided) if d.stage == "passes" and d.taken]


def targets(fn, args):
    return [str(n.target).removeprefix("aten.") for n in rewrite(trace(fn, args)).graph.nodes if n.op == "call_function"]


def bits(t):
    """NaNs are equal to one another; zeros are not."""
    if not t.dtype.is_floating_point:
        return t
    return torch.where(t.isnan(), torch.zeros_like(t), t).view({4: torch.int32, 8: torch.int64, 2: torch.int16}[t.element_size()])


FIRES = [
    ("times one", lambda x: (x * 1).sin(), (X,), ["sin.default"]),
    ("times one", lambda x: (x / 1.0).sin(), (X,), ["sin.default"]),
    ("minus zero", lambda x: (x - 0).sin(), (X,), ["sin.default"]),
    ("minus zero", lambda x: (x + 0) * 2, (I,), ["mul.Tensor"]),
    ("small power", lambda x: x**2, (X,), ["mul.Tensor"]),
    ("small power", lambda x: (x**1).sin(), (X,), ["sin.default"]),
    ("inverse twice", lambda x: (-(-x)).sin(), (X,), ["sin.default"]),
    ("inverse twice", lambda x: (~~x) * 2, (I,), ["mul.Tensor"]),
    ("inverse twice", lambda x: (x > 0).logical_not().logical_not().sum(), (X,), ["gt.Scalar", "sum.default"]),
    ("idempotent", lambda x: x.relu().relu() * 2, (X,), ["relu.default", "mul.Tensor"]),
    ("idempotent", lambda x: x.abs().abs().floor().floor() * 2, (X,), ["abs.default", "floor.default", "mul.Tensor"]),
    ("same choice", lambda x: torch.where(x > 0, x, x) * 2, (X,), ["mul.Tensor"]),
    ("never negative", lambda x: x.exp().relu() * 2, (X,), ["exp.default", "mul.Tensor"]),
    ("view of view", lambda x: x.view(24).view(2, 12).exp(), (X,), ["view.default", "exp.default"]),
    ("permuted twice", lambda x: x.t().t().exp(), (X,), ["exp.default"]),
    (
        "permuted twice",
        lambda x: aten.permute(x.view(2, 2, 6).transpose(0, 1), [2, 0, 1]).exp(),
        (X,),
        ["view.default", "permute.default", "exp.default"],
    ),
    ("cast of cast", lambda x: x.bfloat16().float().bfloat16() * 2, (X,), ["_to_copy.default", "mul.Tensor"]),
    ("cast of cast", lambda x: x.double().half() * 2, (X,), ["_to_copy.default", "mul.Tensor"]),
    ("cast of cast", lambda x: (x > 0).float().int() * 2, (X,), ["gt.Scalar", "_to_copy.default", "mul.Tensor"]),
    ("no-op", lambda x: x.clone().exp(), (X,), ["exp.default"]),
    ("no-op", lambda x: aten.constant_pad_nd(x, [0, 0]).exp(), (X,), ["exp.default"]),
    ("cat of one", lambda x: torch.cat([x]).exp(), (X,), ["exp.default"]),
    ("cat of split", lambda x: torch.cat(x.split(2, 1), 1).exp(), (X,), ["exp.default"]),
    ("piece of cat", lambda x, y: torch.cat([x, y], 1)[:, 6:].exp(), (X, P), ["slice.Tensor", "exp.default"]),
    ("piece of cat", lambda x, y: torch.cat([x.sin(), y], 1).split(6, 1)[1].exp(), (X, P), ["exp.default"]),
    ("copy for product", lambda x, y: x.t().contiguous() @ y, (P, P), ["t.default", "mm.default"]),
    ("constant", lambda x: x * (torch.full((6,), 2.0) * 3), (X,), ["full.default", "mul.Tensor"]),
    ("constant", lambda x: x * torch.arange(6).cumsum(0), (X,), ["mul.Tensor"]),
    ("common", lambda x: x.exp() + x.exp(), (X,), ["exp.default", "add.Tensor"]),
]


@pytest.mark.parametrize("name, fn, args, kept", FIRES, ids=[f"{i}-{row[0]}" for i, row in enumerate(FIRES)])
def test_rows_fire(name, fn, args, kept):
    assert name in fired(fn, args)
    found = targets(fn, args)
    assert found == kept or name == "piece of cat"
    assert "aten.cat.default" not in found
    for f, e in zip(flat(compiled(fn, args)(*args)), flat(fn(*args)), strict=True):
        exact = not any(t in str(kept) for t in ("sin", "exp", "mm"))
        assert_same(bits(f) if exact else f, bits(e) if exact else e)


MISSES = [
    ("times one", lambda x: x * 1, (X,)),  # the result is the caller's own memory
    ("times one", lambda x: (x * 1.0).sin(), (I,)),  # another dtype
    ("times one", lambda x: (x / 1).sin(), (I,)),
    ("times one", lambda x: (x * -1).sin(), (X,)),
    ("minus zero", lambda x: (x + 0).sin(), (X,)),  # -0.0 + 0 is 0.0
    ("minus zero", lambda x: (0 - x).sin(), (X,)),
    ("small power", lambda x: x**3, (X,)),
    ("small power", lambda x: x**0.5, (X,)),
    ("small power", lambda x: x**2.0, (I,)),  # another dtype
    ("inverse twice", lambda x: x.logical_not().logical_not().sum(), (X,)),  # 2.0 becomes True
    ("idempotent", lambda x: x.sin().sin() * 2, (X,)),
    ("idempotent", lambda x: x.abs().floor() * 2, (X,)),
    ("same choice", lambda x: torch.where(x > 0, x, x + 1) * 2, (X,)),
    ("never negative", lambda x: x.sin().relu() * 2, (X,)),
    ("cast of cast", lambda x: x.half().float() * 2, (X,)),  # rounds
    ("cast of cast", lambda x: x.int().float() * 2, (torch.randn(4, 6),)),
    ("cast of cast", lambda x: x.bfloat16().half() * 2, (X,)),  # rounds
    ("permuted twice", lambda x: x.t().sin().t().exp(), (X,)),
    ("no-op", lambda x: aten.constant_pad_nd(x, [0, 1]).exp(), (X,)),
    ("no-op", lambda x: x.t().contiguous().exp(), (X,)),  # other strides
    ("cat of one", lambda x: torch.cat([x]), (X,)),  # the caller's own memory
    ("cat of split", lambda x: torch.cat(x.split(2, 1)[::-1], 1).exp(), (X,)),
    ("cat of split", lambda x: torch.cat(x.split(2, 1)[:2], 1).exp(), (X,)),
    ("cat of split", lambda x: torch.cat(x.split(2, 1), 0).exp(), (X,)),
    ("piece of cat", lambda x, y: torch.cat([x, y], 1)[:, 5:11].exp(), (X, P)),
    ("piece of cat", lambda x, y: torch.cat([x, y], 1)[:, 6:12:2].exp(), (X, P)),
    ("piece of cat", lambda x, y: torch.cat([x, y], 0).split(3, 1)[1].exp(), (X, P)),
    ("piece of cat", lambda x, y: torch.cat([x.sin(), y], 1)[:, :6], (X, P)),  # a view that the caller gets
    ("copy for product", lambda x, y: (lambda c: (c @ y, c.exp()))(x.t().contiguous()), (P, P)),
    ("constant", lambda x: x * torch.arange(6), (X,)),  # index arithmetic
    ("constant", lambda x: x * (torch.arange(6) * 2 > 3), (X,)),
    ("constant", lambda x: (x, torch.full((6,), 2.0) * 3), (X,)),  # the caller's own memory
    ("constant", lambda x: x * (torch.rand(6) * 2), (X,)),
    ("constant", lambda x: x.sum() * (torch.full((300, 300), 2.0) * 3), (X,)),  # large
    ("common", lambda x: torch.rand_like(x) + torch.rand_like(x), (X,)),
]


@pytest.mark.parametrize("name, fn, args", MISSES, ids=[f"{i}-{row[0]}" for i, row in enumerate(MISSES)])
def test_near_misses_stay(name, fn, args):
    assert name not in fired(fn, args)
    if "rand" not in str(trace(fn, args).graph):
        assert_same(compiled(fn, args)(*args), fn(*args))


def test_every_row_is_tested():
    assert {row.name for row in TABLE} == {row[0] for row in FIRES} == {row[0] for row in MISSES} | {"view of view"}


@pytest.mark.parametrize("name, fn, args, kept", FIRES[::5], ids=[row[0] for row in FIRES[::5]])
def test_rows_have_fuel(name, fn, args, kept):
    with decisions.limited("-passes"):
        assert fired(fn, args) == []
        assert_same(compiled(fn, args)(*args), fn(*args))


def test_a_written_input_is_not_read_late():
    def fn(x, y):
        before = x.clone()
        aten.copy_(x, y)
        return before.exp()

    gm = trace(fn, (P.clone(), P))
    assert "clone" in rewrite(gm).code


def test_constants_are_not_shared_with_the_caller():
    fn = lambda x: (x * torch.arange(6.0).cumsum(0)) + 1  # noqa: E731
    run = compiled(fn, (P,))
    (first,) = run(P)
    first.zero_()
    assert_same(run(P), fn(P))
