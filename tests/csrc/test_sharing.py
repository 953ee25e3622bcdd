"""Which arguments share memory: read from plain tensors directly, asked of others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from dynamo import _C


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


def _as_asked(arg: Any) -> Any:
    """A tensor whose memory is asked for, in place of one that is read directly."""
    return arg.as_subclass(Kind) if isinstance(arg, torch.Tensor) else arg


@pytest.mark.parametrize("args", cases())
def test_both_ways_agree(args: tuple[Any, ...]) -> None:
    made = {id(arg): _as_asked(arg) for arg in args}

    assert _C.sharing(tuple(made[id(arg)] for arg in args)) == _C.sharing(args)


def test_positions() -> None:
    base = torch.ones(4)
    found = _C.sharing((7, base, base[2:], base, torch.ones(1)))
    assert list(memoryview(found).cast("i")) == [1, 1, 1, 2, 1, 1, 4, 4]


def test_tensors_of_both_kinds_share() -> None:
    base = torch.ones(4)
    assert list(memoryview(_C.sharing((base, base.as_subclass(Kind)))).cast("i")) == [0, 0, 0, 1]


def test_a_tensor_without_storage_is_refused_as_torch_refuses_it() -> None:
    with pytest.raises(NotImplementedError, match="storage"):
        _C.sharing((torch.ones(2).to_sparse().as_subclass(Kind),))
