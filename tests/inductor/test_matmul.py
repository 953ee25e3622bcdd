"""Which library computes a matrix product, and that the choice changes nothing but the rounding."""

from __future__ import annotations

import pytest
import torch

from dynamo import decisions
from inductor.lowering import matmul
from tests.inductor.helpers import check, texts

X, W, B = torch.randn(64, 300), torch.randn(300, 600), torch.randn(600)


@pytest.fixture
def onednn(monkeypatch):
    """As on a processor where oneDNN is preferred; it computes the same on the others."""
    monkeypatch.setattr(matmul, "prefers_onednn", lambda: True)


def calls(fn, *args):
    return [line.split()[3].partition("(")[0] for line in texts(fn, args)["lower"].splitlines() if line.startswith("extern")]


@pytest.mark.parametrize(
    "fn, args",
    [
        (lambda x, w: x @ w, (X, W)),
        (lambda x, w: x @ w.t(), (X, torch.randn(600, 300))),
        (lambda x, w: x.t() @ w, (torch.randn(300, 64), W)),
        (lambda x, w, b: torch.addmm(b, x, w), (X, W, B)),
        (lambda x, w: (x[:, 1:] * 2) @ w[1:], (X, W)),
        (lambda x, w, b: torch.nn.functional.linear(x.view(4, 16, 300), w, b).relu(), (X, torch.randn(600, 300), B)),
    ],
)
def test_large_products_go_to_onednn(onednn, fn, args):
    assert calls(fn, *args) == ["mkldnn._linear_pointwise.default"]
    check(fn, *args, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "fn, args, expected",
    [
        (lambda x, w: x @ w, (X[:8, :8], W[:8, :8].contiguous()), "aten.mm.default"),  # the call would cost more than it saves
        (lambda x, w: x @ w, (torch.randn(2, 3000), torch.randn(3000, 3000)), "aten.mm.default"),  # too few rows
        (lambda x, w: x.double() @ w.double(), (X, W), "aten.mm.default"),
        (lambda x, w, b: torch.addmm(b, x, w, alpha=2), (X, W, B), "aten.addmm.default"),
        (lambda x, w, b: torch.addmm(b, x, w), (X, W, torch.randn(64, 600)), "aten.addmm.default"),
    ],
)
def test_other_products_stay(onednn, fn, args, expected):
    assert calls(fn, *args) == [expected]


def test_the_choice_has_fuel(onednn):
    with decisions.limited("-lower"):
        assert calls(lambda x, w: x @ w, X, W) == ["aten.mm.default"]
