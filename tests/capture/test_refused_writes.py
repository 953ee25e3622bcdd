"""Autograd refuses writes to views of leaves, which a later input may be. Inputs are kept only where another write might come before."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import dynamo
from dynamo.compile import finish


def once(x: torch.Tensor) -> torch.Tensor:
    return x.relu_() + 1


def twice(x: torch.Tensor) -> torch.Tensor:
    return x.relu_().mul_(2)


def unseen_by_autograd(x: torch.Tensor) -> torch.Tensor:
    x.data.relu_()
    return x.relu_() + 1


def checked(x: torch.Tensor) -> torch.Tensor:
    torch.linalg.inv(x)
    return x.relu_() + 1


@pytest.mark.parametrize("fn, copies", [(once, False), (twice, True), (unseen_by_autograd, True), (checked, True)])
def test_what_is_copied(monkeypatch: pytest.MonkeyPatch, fn: Callable[..., torch.Tensor], copies: bool) -> None:
    seen = []
    undoing = finish.undoing
    monkeypatch.setattr(finish, "undoing", lambda graph, positions, held: seen.append(positions) or undoing(graph, positions, held))
    compiled = dynamo.compile(fn, backend="eager")
    leaf = torch.eye(3, requires_grad=True)

    assert torch.equal(compiled(leaf * 2), fn(leaf * 2))
    assert bool(seen) is copies
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        compiled(leaf.view(3, 3))
    assert torch.equal(leaf, torch.eye(3))
