"""Masks of attention that depend on nothing: which are left out, which become `is_causal`, which stay."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import dynamo
from dynamo.trace import session
from dynamo.trace.events import Decided
from inductor.passes.masks import leave_out_masks, number_of

N = 6
Make = Callable[[torch.Tensor], torch.Tensor]


def heads() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(2, 3, N, 8)


def positions(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(N, device=device)[None, None, :, None], (torch.arange(N, device=device) + 0)[None, None, None, :]


def everything(q: torch.Tensor) -> torch.Tensor:
    rows, _ = positions(q.device)
    return (rows >= 0).expand(2, -1, N, N)


def triangle(q: torch.Tensor) -> torch.Tensor:
    rows, columns = positions(q.device)
    return (torch.ones((), dtype=torch.bool) & (columns <= rows).to(q.device)).expand(2, -1, N, N)


def tril(q: torch.Tensor) -> torch.Tensor:
    return torch.ones(N, N, dtype=torch.bool, device=q.device).tril()


def window(q: torch.Tensor) -> torch.Tensor:
    rows, columns = positions(q.device)
    return (columns <= rows) & (columns > rows - 3)


def of_numbers(q: torch.Tensor) -> torch.Tensor:
    return q.sum((0, 1, 3)).expand(N, N) == q.sum((0, 1, 3)).expand(N, N)


def added(q: torch.Tensor) -> torch.Tensor:
    return torch.zeros(N, N, device=q.device)


def without(make: Make) -> tuple[Callable[[torch.Tensor], torch.Tensor], bool]:
    """The attention with this mask, and whether the mask was left out of it."""

    def attend(q: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, q * 0.5, q + 1, attn_mask=make(q), dropout_p=0.0, scale=0.3)

    with session() as store:
        found = dynamo.compile(attend, backend="inductor", fullgraph=True)(heads())
    torch.testing.assert_close(found, attend(heads()), rtol=1e-5, atol=1e-5)
    return attend, any(d.taken for d in store.of(Decided) if d.what.startswith("leave out mask"))


@pytest.mark.parametrize("make", [everything, triangle, tril])
def test_left_out(make: Make) -> None:
    assert without(make)[1]


@pytest.mark.parametrize("make", [window, of_numbers, added])
def test_kept(make: Make) -> None:
    assert not without(make)[1]


def test_large_ones_are_not_computed() -> None:
    graph = torch.fx.Graph()
    rows, columns = (graph.call_method("unsqueeze", (graph.call_function(torch.arange, (1 << 16,)), dim)) for dim in (0, 1))
    mask = graph.call_function(operator.le, (rows, columns))  # 4 GB
    graph.output(mask)
    assert number_of(rows, {}) is not None
    assert number_of(mask, {}) is None


def test_gradients_equal_eager() -> None:
    attend, _ = without(triangle)
    q, twin = heads().requires_grad_(), heads().requires_grad_()
    dynamo.compile(attend, backend="inductor")(q).square().sum().backward()
    attend(twin).square().sum().backward()
    torch.testing.assert_close(q.grad, twin.grad, rtol=1e-4, atol=1e-4)


def test_the_captured_graph_stays_as_it_was() -> None:
    graph = torch.fx.Graph()
    q = graph.placeholder("q")
    mask = graph.call_method("tril", (graph.call_function(torch.ones, (N, N), {"dtype": torch.bool}),))
    graph.output(graph.call_function(F.scaled_dot_product_attention, (q, q, q, mask)))
    gm = torch.fx.GraphModule({}, graph)
    new = leave_out_masks(gm)
    assert new is not gm and [n.target for n in gm.graph.nodes if n.args[3:4] == (mask,)] == [F.scaled_dot_product_attention]
    torch.testing.assert_close(new(heads()), gm(heads()))
