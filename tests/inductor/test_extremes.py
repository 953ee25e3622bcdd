"""A value compared with an extreme of it: the backward must meet the very numbers that the forward has chosen from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
import torch.nn.functional as F

import dynamo


def chosen(select: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], tuple[torch.Tensor, ...]]:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.atan(x)
        return y * select(y), x.exp()

    return fn


FUNCTIONS: dict[str, Callable[[torch.Tensor], Sequence[torch.Tensor]]] = {
    "amax": lambda x: (torch.atan(x).amax(0),),
    "amax of a difference": lambda x: (F.tanhshrink(x).amax(0, keepdim=True), F.leaky_relu(x)),
    "amax of a view": lambda x: (torch.atan(x).t().amax(1),),
    "amin": lambda x: (torch.sinh(x).amin(1),),
    "aminmax": lambda x: (*torch.aminmax(torch.atan(x), dim=0),),
    "max": lambda x: (F.tanhshrink(x).max(), x * 2),
    "largest norm": lambda x: (torch.linalg.vector_norm(torch.atan(x), float("inf"), 1),),
    "smallest norm": lambda x: (torch.linalg.vector_norm(torch.atan(x), float("-inf"), 0),),
    "a mask": chosen(lambda y: y == y.amax(0)),
    "a mask of those below": chosen(lambda y: y < y.amax(0)),
    "a mask through cheap operators": chosen(lambda y: y >= (y * 2).amax(0) / 2),
    "a mask of what was doubled": chosen(lambda y: (y * 2).exp2() == (y * 2).exp2().amax(1, keepdim=True) * 1.0),
    "a mask of a difference": chosen(lambda y: (y - (y * 2).amax(0) / 2) == 0),
    "a mask through a minimum": chosen(lambda y: -y <= (-y).t().amin(1) + 0.0),
    "the larger of both": lambda x: (torch.maximum(torch.atan(x), (torch.atan(x) * 2).amax(0) / 2), x.exp()),
    "clamped at its extreme": lambda x: (torch.atan(x).clamp(max=(torch.atan(x) * 2).amax(0) / 2), x.exp()),
    "a mask of the first two": chosen(lambda y: y >= y.topk(2, 1).values[:, -1:] if y.shape[1] > 1 else y > 0),
}


def gradient(fn: Callable[[torch.Tensor], Sequence[torch.Tensor]], shape: tuple[int, int], step: int) -> torch.Tensor:
    drawn = torch.randn(shape[0], shape[1] * step, generator=torch.Generator().manual_seed(0))
    x = drawn[:, ::step].requires_grad_()
    return torch.autograd.grad([out.sum() for out in fn(x)], [x])[0]


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("shape", [(5, 33), (33, 5), (7, 1)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_extreme_is_found_again(name: str, shape: tuple[int, int], step: int) -> None:
    """A loop of vectors and one of single elements round `atan` otherwise."""
    fn = FUNCTIONS[name]
    made = dynamo.compile(fn, backend="inductor", fullgraph=True)
    try:
        expected = gradient(fn, shape, step)
    except RuntimeError as refused:  # torch 2.11 has no derivative of `aminmax`
        with pytest.raises(RuntimeError, match=str(refused)):
            gradient(made, shape, step)
    else:
        torch.testing.assert_close(gradient(made, shape, step), expected)
