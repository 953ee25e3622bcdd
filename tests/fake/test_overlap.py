"""Memory in common, found by arithmetic on layouts, beside the sets of bytes themselves."""

from __future__ import annotations

import random

import torch

from dynamo.fake.overlap import meet, overlaps_itself


def places(t: torch.Tensor) -> list[int]:
    """Where the elements of a tensor begin, in bytes."""
    found = [t.storage_offset()]
    for size, stride in zip(t.shape, t.stride(), strict=True):
        found = [start + i * stride for start in found for i in range(size)]
    return [start * t.element_size() for start in found]


def a_view(draw: random.Random, base: torch.Tensor) -> torch.Tensor:
    given = base.view(torch.int16) if draw.random() < 0.2 else base
    rank = draw.randint(0, 3)
    shape = [draw.randint(0 if draw.random() < 0.1 else 1, 4) for _ in range(rank)]
    return given.as_strided(shape, [draw.randint(0, 9) for _ in range(rank)], draw.randint(0, 40))


def test_meet_is_exact() -> None:
    draw = random.Random(1)
    base = torch.empty(200)
    for _ in range(3000):
        a, b = a_view(draw, base), a_view(draw, base)
        of_a, of_b = ({p + i for p in places(t) for i in range(t.element_size())} for t in (a, b))
        assert meet(a, b) == bool(of_a & of_b), (a.shape, a.stride(), b.shape, b.stride())


def test_no_overlap_goes_unseen() -> None:
    draw = random.Random(2)
    base = torch.empty(200)
    for _ in range(3000):
        a = a_view(draw, base)
        if len(set(places(a))) < a.numel():
            assert overlaps_itself(a.shape, a.stride()), (a.shape, a.stride())


def test_chunks_of_large_tensors_are_told_apart() -> None:
    x = torch.empty(64, 128, 64, 64, device="meta")
    assert not meet(x[:, :64], x[:, 64:]) and not meet(x[..., ::2], x[..., 1::2])
    assert meet(x[:, :65], x[:, 64:]) and meet(x[..., ::2], x[..., 1::3])
