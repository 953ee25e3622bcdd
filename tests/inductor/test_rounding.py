"""16-bit types: a value that stays in a register is rounded as eager rounds it when it stores it, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import dynamo
from inductor.ir.affine import ZERO
from inductor.ir.expr import call, cast, const, holds, load
from inductor.lowering.context import as_stored

HALVES = (torch.bfloat16, torch.float16)
CHAINS: dict[str, Callable[..., Any]] = {
    "sum of products": lambda x, y: x * y + x,
    "long chain": lambda x, y: ((x * 1.1 + y) * 0.9 - x) * y,
    "numbers added are rounded": lambda x, y: (x + 0.1, 0.3 - x, x - 0.3, torch.rsub(x, y, alpha=0.3), torch.add(x, y, alpha=0.3)),
    "numbers multiplied are not": lambda x, y: (x * 0.3, x / 0.3, x * torch.tensor(0.3)),
    "wider operands": lambda x, y: (x + torch.arange(600) * 1001, x * (torch.arange(600) * 1001), x > torch.tensor(0.3)),
    "remainder": lambda x, y: x % 0.3,
    "floored quotients": lambda x, y: tuple(torch.div(x, d, rounding_mode="floor") for d in (y, 0.3, y[0], torch.tensor(0.3))),
    "truncated quotients": lambda x, y: tuple(torch.div(x, d, rounding_mode="trunc") for d in (y, 0.3, y[0], torch.tensor(0.3))),
    "quotients of numbers": lambda x, y: (0.7 // y, torch.div(torch.tensor(7.7), y, rounding_mode="trunc"), x // y, y % x),
    "logarithms": lambda x, y: (torch.xlogy(x, y.abs()), torch.special.xlog1py(x, y.abs()), torch.special.entr(x.abs())),
    "logit": lambda x, y: x.sigmoid().logit(),
    "logit with bounds": lambda x, y: torch.logit(x, eps=0.1),
    "ldexp": lambda x, y: torch.ldexp(x, y * 3),
    "powers": lambda x, y: (x**3, x**-2, x.abs() ** 1.7, x.abs() ** y),
    "casts of the user": lambda x, y: (x.float() * 1.1).to(x.dtype).float() - x,
    "reduced": lambda x, y: ((x * y).sum(-1) + x.mean(-1), (x * y).amax(0)),
    "log_softmax": lambda x, y: F.log_softmax(x * 3, -1),
    "log_softmax over columns": lambda x, y: F.log_softmax(x * 3, 0),
    "logsumexp": lambda x, y: x.logsumexp(-1),
    "norms": lambda x, y: (F.layer_norm(x, (600,), y[0], y[1]), F.rms_norm(x, (600,), y[0])),
    "batch_norm in evaluation": lambda x, y: F.batch_norm(x, y[0], y[1].abs() + 0.1, y[2], y[3]),
    "losses": lambda x, y: (F.mse_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y), F.mse_loss(x, y, reduction="none")),
    "binary_cross_entropy_with_logits": lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid(), y),
    "cross": lambda x, y: torch.linalg.cross(x.view(8, 3, 200), y.view(8, 3, 200), dim=1),
    "glu": lambda x, y: (F.glu(x), torch.ops.aten.glu_backward(x, torch.cat([x * 3, y * 3], -1), -1)),
    "dropout": lambda x, y: F.dropout(x, 0.3) + y,
}
# Other sums or logarithms, off by some 2^-24, round a near tie the other way: one unit, in at most one of so many elements.
INEXACT = {"norms": 1000, "logarithms": 1000, "logit": 500, "logit with bounds": 500}


def as_list(value: Any) -> list[torch.Tensor]:
    return list(value) if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", CHAINS)
def test_chain_equals_eager(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(8, 600).to(dtype), torch.randn(8, 600).to(dtype)
    torch.manual_seed(1)
    expected = as_list(CHAINS[name](x, y))
    torch.manual_seed(1)
    found = as_list(dynamo.compile(CHAINS[name], backend="inductor", fullgraph=True)(x, y))
    for e, f in zip(expected, found, strict=True):
        differing = int((e != f).sum())
        if differing <= e.numel() // INEXACT.get(name, e.numel() + 1):
            torch.testing.assert_close(f, e, rtol=torch.finfo(dtype).eps, atol=0)
        else:
            assert differing == 0, f"{differing} of {e.numel()}"


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_every_kind_of_float_is_rounded_as_torch_rounds_it(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    halves = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype).float()
    bits = torch.randint(-(2**31), 2**31, (200_000,), dtype=torch.int64).to(torch.int32)
    between = (halves[:-1].double() + halves[1:].double()).div(2).float()  # ties
    x = torch.cat([halves, between, bits.view(torch.float32), torch.tensor([65519.996, 65520.0, 3.4e38, 2**-25, 2**-25 * 1.01])])

    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.to(dtype).float() + 0.0

    torch.testing.assert_close(dynamo.compile(fn, backend="inductor")(x), fn(x), rtol=0, atol=0, equal_nan=True)


def test_values_that_a_half_type_holds_are_not_rounded_again() -> None:
    x = cast(load("a0", "bf16", ZERO), "f32")
    assert holds(call("max", x, const(0, "f32")), "bf16")
    assert holds(call("where", call("lt", x, const(1, "f32")), x, call("neg", x)), "bf16")
    assert not holds(call("add", x, x), "bf16")
    assert not holds(x, "f16")
    numbers = {0.5: (True, True), 0.1: (False, False), 257.0: (False, True), 2.0**17: (True, False), float("inf"): (True, True)}
    for number, expected in numbers.items():
        assert (holds(const(number, "f32"), "bf16"), holds(const(number, "f32"), "f16")) == expected
    assert as_stored(x, torch.bfloat16) is x
    assert as_stored(call("add", x, x), torch.float32).op == "add"
