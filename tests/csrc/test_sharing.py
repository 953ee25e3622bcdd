"""Which arguments share memory: read from tensors directly, and through attributes where that can't be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from dynamo import _C
from dynamo.aot import runtime


class Kind(torch.Tensor):
    pass


def cases() -> list[tuple[Any, ...]]:
    base, weight = torch.ones(4), nn.Parameter(torch.ones(3))
    return [
        (),
        (1, None, "same"),
        (base, base),
        (base, torch.ones(4)),
        (3, weight, base[1:], base, weight.detach(), base[:2], weight),
        tuple(t for k in range(40) for t in (base, torch.ones(k), torch.empty(2, k).t())),
    ]


@pytest.mark.parametrize("args", cases())
def test_both_ways_agree(args: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    directly = _C.sharing(args)
    assert isinstance(directly, bytes)
    monkeypatch.setattr(runtime, "_C", SimpleNamespace(sharing=lambda args: None))
    assert runtime.sharing(args) == directly


def test_positions() -> None:
    base = torch.ones(4)
    found = _C.sharing((7, base, base[2:], base, torch.ones(1)))
    assert found is not None
    assert list(memoryview(found).cast("i")) == [1, 1, 1, 2, 1, 1, 4, 4]


def test_other_tensors_are_left_to_attributes() -> None:
    base = torch.ones(4)
    other = base.as_subclass(Kind)
    assert _C.sharing((base, other)) is None
    assert list(memoryview(runtime.sharing((base, other))).cast("i")) == [0, 0, 0, 1]
