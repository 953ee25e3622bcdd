"""What a training step keeps alive, and in which layouts gradients may arrive."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
import torch
from torch import nn

import dynamo
from tests.benchmarks.compiler import run_worker


def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.sin() * y.cos()


GRADIENTS = {
    "contiguous": lambda dtype: torch.randn(6, 8, dtype=dtype),
    "one value": lambda dtype: torch.randn((), dtype=dtype).expand(6, 8),
    "one value in the middle": lambda dtype: torch.randn(7, 3, dtype=dtype)[2:3, 1:2].expand(6, 8),
    "rows repeated": lambda dtype: torch.randn(8, dtype=dtype).expand(6, 8),
    "columns repeated": lambda dtype: torch.randn(6, 1, dtype=dtype).expand(6, 8),
    "transposed": lambda dtype: torch.randn(8, 6, dtype=dtype).t(),
    "with gaps": lambda dtype: torch.randn(12, 24, dtype=dtype)[::2, ::3],
}


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_gradients_arrive_in_any_layout(name: str, dtype: torch.dtype) -> None:
    grad = GRADIENTS[name](dtype)
    x, y = (torch.randn(6, 8, dtype=dtype, requires_grad=True) for _ in range(2))
    expected = torch.autograd.grad(product(x, y), (x, y), grad)
    found = torch.autograd.grad(dynamo.compile(product, backend="inductor")(x, y), (x, y), grad)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("shape", [(3, 3), (2, 5)])
@pytest.mark.parametrize("body", [lambda x: x * 2.0, lambda x: (x * 2.0).t(), torch.exp])
def test_a_gradient_of_zeros_without_memory(body: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, int]) -> None:
    x = torch.randn(shape, requires_grad=True)
    result = dynamo.compile(body, backend="inductor")(x)
    result.backward(torch._efficientzerotensor(result.shape))
    assert torch.equal(x.grad, torch.zeros(shape))


def test_a_transposed_result_takes_a_gradient_of_one_value() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return x.sin().t()

    x = torch.randn(5, 7, requires_grad=True)
    dynamo.compile(fn, backend="inductor")(x).sum().backward()
    torch.testing.assert_close(x.grad, x.cos().detach())


def test_saved_values_go_with_the_backward_unless_it_is_kept() -> None:
    x = torch.randn(6, 8, requires_grad=True)
    out = dynamo.compile(lambda v: v.exp().sin(), backend="inductor")(x)
    out.sum().backward(retain_graph=True)
    first = x.grad.clone()
    out.sum().backward()
    torch.testing.assert_close(x.grad, 2 * first)
    with pytest.raises(RuntimeError, match="second time"):
        out.sum().backward()


def test_inputs_of_the_backward_are_freed_as_it_runs() -> None:
    """The last op is an ATen call on what is left by then."""
    alive: list[int] = []
    saved: list[weakref.ref[torch.Tensor]] = []

    class Watch(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            alive.append(sum(r() is not None for r in saved))
            return grad

    def pack(t: torch.Tensor) -> torch.Tensor:
        saved.append(weakref.ref(t))
        return t

    leaf = torch.randn(64, 64, requires_grad=True)
    w = torch.randn(64, 64, requires_grad=True)
    watched = Watch.apply(leaf)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = dynamo.compile(lambda v, w: (v @ w).sin() @ w, backend="inductor")(watched, w)
    out.sum().backward()
    gc.collect()
    assert alive
    assert alive[0] <= 2  # `watched` and `w`, which others hold


def test_old_gradients_are_gone_before_the_graph_runs() -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before: list[bool] = []

    def watching(gm, inputs):
        def run(*args):
            before.append(model.weight.grad is None)
            return gm(*args)

        return run

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        return model(x).square().mean()

    compiled = dynamo.compile(step, backend=watching)
    for _ in range(2):
        compiled(torch.randn(3, 4)).backward()
    assert before == [True, True]


def test_a_gradient_read_by_the_graph_is_dropped_after_it() -> None:
    w = torch.randn(4, requires_grad=True)

    def step(x: torch.Tensor) -> torch.Tensor:
        scaled = w.grad * 2
        w.grad = None
        return x + scaled

    compiled = dynamo.compile(step, backend="inductor")
    for _ in range(2):
        w.grad = torch.ones(4)
        torch.testing.assert_close(compiled(torch.zeros(4)), torch.full((4,), 2.0))
        assert w.grad is None


@pytest.mark.parametrize("name", ["mlp of 10 blocks with gradients", "rms_norm with gradients", "Adam over 200 tensors"])
def test_peak_memory_is_about_that_of_eager(name: str) -> None:
    """Bytes given out by the allocator, which are the same in every run."""
    peaks = {engine: (run_worker("memory", name, "--engine", engine) or {})["peak"] for engine in ("eager", "ours")}
    assert peaks["ours"] <= 1.03 * peaks["eager"], peaks


def test_constants_of_the_capture_do_not_outlive_it() -> None:
    graphs: list[torch.fx.GraphModule] = []

    def backend(gm: torch.fx.GraphModule, _: list[torch.Tensor]) -> torch.fx.GraphModule:
        graphs.append(gm)
        assert any(v is not None for v in constants(gm))
        return gm

    def constants(gm: torch.fx.GraphModule) -> list[torch.Tensor | None]:
        return [getattr(n.meta.get("val"), "constant", None) for n in gm.graph.nodes]

    dynamo.compile(lambda x: x + torch.tensor([1.0, 2.0, 3.0]), backend=backend)(torch.ones(3))
    assert not any(v is not None for v in constants(graphs[0]))
