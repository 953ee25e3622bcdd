"""Embedding bags: which become gathered rows, and that results and gradients are eager's either way."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import dynamo
from dynamo import decisions
from dynamo.trace import session
from dynamo.trace.events import Decided

I = torch.randint(0, 20, (6, 5))  # noqa: E741
FLAT, STARTS = torch.randint(0, 20, (12,)), torch.tensor([0, 3, 3, 10])

ROWS = {
    "mean": (lambda w: F.embedding_bag(I, w), True),
    "sum": (lambda w: F.embedding_bag(I, w, mode="sum"), True),
    "weights": (lambda w: F.embedding_bag(I, w, mode="sum", per_sample_weights=w[:6, :5].contiguous()), True),
    "module": (lambda w: torch.func.functional_call(torch.nn.EmbeddingBag(20, 8, mode="sum"), {"weight": w}, (I,)), True),
    "double": (lambda w: F.embedding_bag(I, w.double()), True),
    "max": (lambda w: F.embedding_bag(I, w, mode="max"), False),
    "bags of other sizes": (lambda w: F.embedding_bag(FLAT, w, STARTS), False),
    "padding": (lambda w: F.embedding_bag(I, w, mode="sum", padding_idx=3), False),
    "by frequency": (lambda w: F.embedding_bag(I, w, mode="sum", scale_grad_by_freq=True), False),
    "empty": (lambda w: F.embedding_bag(I[:0], w), False),
}


@pytest.mark.parametrize("fuel", ["all", "-passes"])
@pytest.mark.parametrize("name", ROWS)
def test_bags(name: str, fuel: str) -> None:
    fn, is_gathered = ROWS[name]
    w = torch.randn(20, 8, requires_grad=True)
    expected = fn(w)
    with session() as store, decisions.limited(fuel):
        found = dynamo.compile(fn, backend="inductor")(w)
    assert any(d.what == "bags" and d.taken for d in store.of(Decided)) is (is_gathered and fuel == "all")
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), w), torch.autograd.grad(expected.sum(), w))


def test_an_index_out_of_range_raises_as_in_eager() -> None:
    def bags(w: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(I + 20, w)

    w = torch.randn(20, 8)
    with pytest.raises(Exception, match=r"(?i)index") as expected:
        bags(w)
    with pytest.raises(expected.type):
        dynamo.compile(bags, backend="inductor")(w)
