"""Operators that address a tensor by its storage: the arena of temporaries must not shift what they read."""

from __future__ import annotations

import pytest
import torch

import dynamo

WINDOWS = [
    ((2, 8), (8, 1), 0),
    ((2, 3), (5, 2), 1),
    ((3,), (4,), 2),
    ((2, 2), (1, 2), 3),
    ((2, 2), (1, 1), 0),  # overlaps itself
    ((4, 4), (4, 1), None),
    ((), (), 5),
]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("base", [torch.arange(16.0), torch.arange(16.0).view(4, 4).t()], ids=["flat", "transposed"])
def test_as_strided_scatter_into_a_temporary(window: tuple[tuple[int, ...], tuple[int, ...], int | None], base: torch.Tensor) -> None:
    size, stride, offset = window

    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.as_strided_scatter(a * 2, b * 3, size, stride, offset)

    source = torch.randn(size)
    dynamo.reset()
    torch.testing.assert_close(dynamo.compile(f, backend="inductor")(base, source), f(base, source))


def test_gradient_of_pooling_to_one_pixel_in_channels_last() -> None:
    """Eager gives the pooled tensor channels-last strides with as_strided_, so its gradient passes as_strided_scatter."""

    def gradient(backend: str | None) -> torch.Tensor:
        torch.manual_seed(0)
        x = torch.randn(2, 8, 2, 2).to(memory_format=torch.channels_last).requires_grad_()
        dynamo.reset()

        def f(x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.adaptive_avg_pool2d(x * 2, 1) * 3

        (dynamo.compile(f, backend=backend) if backend else f)(x).sum().backward()
        assert x.grad is not None
        return x.grad

    torch.testing.assert_close(gradient("inductor"), gradient(None))


@pytest.mark.parametrize("offset", [0, 3])
def test_operators_get_views_of_inputs_that_begin_inside_their_storage(offset):
    """Views handed to calls, of inputs and of pieces of them."""
    x = torch.randn(50)[offset : offset + 32].view(2, 2, 2, 4)
    y = torch.randn(60)[offset : offset + 32].view(8, 4)

    def fn(x, y):
        return x @ x.transpose(2, 3), torch.mm(y[2:4], y.t()), torch.mm(y[:, 1:3].t(), y), x[1, 1] @ y.t()

    torch.testing.assert_close(dynamo.compile(fn, backend="inductor")(x, y), fn(x, y))


def test_gradients_that_begin_inside_their_storage():
    w = torch.randn(4, 4, requires_grad=True)
    grad = torch.randn(40)[3:19].view(4, 4)

    def fn(w):
        return w.sin() @ w

    found, expected = (torch.autograd.grad(f(w), w, grad) for f in (dynamo.compile(fn, backend="inductor"), fn))
    torch.testing.assert_close(found, expected)
