"""Gradients exactly where a formula changes: the kernels of torch decide on which side such a point lies."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import dynamo

POINTS = torch.tensor([k / 2 for k in range(-14, 15)] + [-0.0, 20.0, 20.5])

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    **{
        name: getattr(F, name)
        for name in (
            "celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish", "relu",
            "relu6", "selu", "silu", "softplus", "softshrink", "softsign", "tanhshrink",
        )
    },
    "abs": torch.abs,
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp_min": lambda x: x.clamp_min(0),
    "fmod": lambda x: x.fmod(2),
    "glu": lambda x: F.glu(torch.stack([x, x]), 0),
    "hardtanh of two": lambda x: F.hardtanh(x, -2, 2),
    "hinge": lambda x: F.hinge_embedding_loss(x, torch.ones_like(x), reduction="none"),
    "huber": lambda x: F.huber_loss(x, torch.zeros_like(x), reduction="none"),
    "hypot": lambda x: torch.hypot(x, torch.zeros_like(x)),
    "l1": lambda x: F.l1_loss(x, torch.zeros_like(x), reduction="none"),
    "logit": lambda x: torch.logit(x, 0.25),
    "maximum": lambda x: torch.maximum(x, torch.ones_like(x)),
    "norm": lambda x: x.nan_to_num(0).norm(1),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.25], dtype=x.dtype)),
    "remainder": lambda x: x.remainder(2),
    "smooth_l1": lambda x: F.smooth_l1_loss(x, torch.zeros_like(x), reduction="none"),
    "threshold": lambda x: F.threshold(x, 1.0, 2.0),
}  # fmt: skip


def gradient(
    fn: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype, points: torch.Tensor = POINTS
) -> tuple[torch.Tensor, torch.Tensor]:
    x = points.to(dtype, copy=True).requires_grad_()
    out = fn(x)
    weights = torch.arange(1, out.numel() + 1, dtype=dtype).view(out.shape)
    (out * weights).sum().backward()
    assert x.grad is not None
    return out.detach(), x.grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_both_sides_of_a_kink_are_eagers(name: str, dtype: torch.dtype) -> None:
    fn = FUNCTIONS[name]
    expected, found = gradient(fn, dtype), gradient(dynamo.compile(fn, backend="inductor", fullgraph=True), dtype)
    torch.testing.assert_close(found, expected, equal_nan=True)


# With a number that no 16-bit type holds: some kernels round it to the type of their operand, others compare in float32.
BOUNDED: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "celu": F.celu,
    "clamp": lambda x, t: x.clamp(-t, t),
    "clamp_max": lambda x, t: x.clamp_max(t),
    "clamp_min": lambda x, t: x.clamp_min(t),
    "elu": F.elu,
    "eq": lambda x, t: torch.where(x == t, x * 2, x),
    "fmod": lambda x, t: x.fmod(t),
    "ge": lambda x, t: x.masked_fill(x >= t, t),
    "hardshrink": F.hardshrink,
    "hardtanh": lambda x, t: F.hardtanh(x, -t, t),
    "hinge": lambda x, t: F.hinge_embedding_loss(x, -torch.ones_like(x), t, reduction="none"),
    "huber": lambda x, t: F.huber_loss(x, torch.zeros_like(x), reduction="none", delta=t),
    "isclose": lambda x, t: torch.where(torch.isclose(x, torch.full_like(x, t), t, t), x * 2, x),
    "leaky_relu": F.leaky_relu,
    "logit": torch.logit,
    "lt": lambda x, t: torch.where(x < t, x * 2, x),
    "margin": lambda x, t: F.margin_ranking_loss(x, torch.zeros_like(x), -torch.ones_like(x), t, reduction="none"),
    "nan_to_num": lambda x, t: x.nan_to_num(t, t, -t),
    "remainder": lambda x, t: x.remainder(t),
    "smooth_l1": lambda x, t: F.smooth_l1_loss(x, torch.zeros_like(x), reduction="none", beta=t),
    "softplus": lambda x, t: F.softplus(x, 1.0, t),
    "softplus of a slope": lambda x, t: F.softplus(x, t, t),
    "softshrink": F.softshrink,
    "threshold": lambda x, t: F.threshold(x, t, -t),
}


def around(bound: float, dtype: torch.dtype) -> torch.Tensor:
    """The bound as `dtype` has it, its neighbours, and the same on the other sides of 0 and 1. No -0.0: ATen divides by it in two ways."""
    ends = torch.tensor([float("inf"), -float("inf")], dtype=dtype)
    own = torch.tensor(bound, dtype=dtype)
    near = torch.stack([own, *torch.nextafter(own, ends)])
    rest = torch.tensor([0.0, 0.5, 1.0, -1.0, 3.0, -3.0, *ends], dtype=dtype)
    return torch.cat([near, -near, 1 - near, 1 + near, near * 2, near / 2, rest]) + 0.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_that_a_type_rounds_are_eagers(name: str, dtype: torch.dtype) -> None:
    for bound in (1e-9, 0.1, 0.3, 0.4567):

        def fn(x: torch.Tensor, bound: float = bound) -> torch.Tensor:
            return BOUNDED[name](x, bound)

        expected = gradient(fn, dtype, around(bound, dtype))
        found = gradient(dynamo.compile(fn, backend="inductor", fullgraph=True), dtype, around(bound, dtype))
        torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("correction", [0, 1])
@pytest.mark.parametrize("dims", [(0, 1), (1,), (0,)], ids=str)
def test_the_variance_of_nothing_is_eagers(dims: tuple[int, ...], correction: int) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.var(dims, correction=correction), x.std(dims, correction=correction), *torch.var_mean(x, dims, correction=correction)

    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        x = torch.zeros(2, 0, dtype=dtype)
        torch.testing.assert_close(dynamo.compile(fn, backend="inductor", fullgraph=True)(x), fn(x), equal_nan=True)
