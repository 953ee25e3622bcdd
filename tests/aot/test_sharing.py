"""Which arguments overlap, and when a graph is made anew for it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch

import dynamo
from dynamo.aot import aot_module, interpret
from dynamo.aot.sharing import Sharing, is_within, overlapping

BASE = torch.arange(24.0)
BACKENDS = ("aot_eager", "aot_eager", "inductor")


def view(*layout: Any) -> torch.Tensor:
    return BASE.as_strided(*layout)


@pytest.mark.parametrize(
    ("layouts", "groups"),
    [
        ([((4,), (1,), 0), ((4,), (1,), 4)], []),
        ([((4,), (1,), 0), ((4,), (1,), 3)], [[0, 1]]),
        ([((4,), (1,), 8), ((4,), (1,), 0), ((4,), (1,), 5), ((4,), (1,), 4)], [[0, 2, 3]]),
        ([((3,), (2,), 0), ((3,), (2,), 1)], [[0, 1]]),  # between each other's elements
        ([((0,), (1,), 2), ((4,), (1,), 0)], []),
        ([((), (), 2), ((4,), (1,), 0)], [[0, 1]]),
        ([((2, 2), (12, 1), 0), ((2,), (1,), 4), ((2,), (1,), 20)], [[0, 1]]),
        ([((3,), (0,), 1), ((1,), (1,), 2)], []),
        ([((8,), (1,), 0), ((2,), (1,), 1), ((2,), (1,), 6), ((2,), (1,), 8)], [[0, 1, 2]]),
    ],
)
def test_overlapping(layouts: list[Any], groups: list[list[int]]) -> None:
    assert overlapping([view(*layout) for layout in layouts]) == groups


def test_element_sizes_count() -> None:
    halves = BASE.view(torch.int16)
    assert overlapping([BASE[:2], halves[4:6]]) == []
    assert overlapping([BASE[:2], halves[3:5]]) == [[0, 1]]


def test_views_with_a_history_are_one_group() -> None:
    base = torch.ones(8, requires_grad=True) * 1
    assert overlapping([base[:2], base[4:]]) == [[0, 1]]
    assert overlapping([base.detach()[:2], base.detach()[4:]]) == []


@pytest.mark.parametrize(
    ("base", "layout", "within"),
    [
        (BASE[2:6], ((4,), (1,)), True),
        (BASE[2:6], ((4,), (1,), 2), True),
        (BASE[2:6], ((4,), (1,), 1), False),
        (BASE[2:6], ((2,), (3,), 2), True),
        (BASE[2:6], ((2,), (4,), 2), False),
        (BASE[::2], ((2,), (2,), 0), False),  # gaps are not the base's own
        (BASE[:0], ((0,), (1,), 20), True),
        (BASE.view(4, 6).t(), ((24,), (1,)), True),
    ],
)
def test_is_within(base: torch.Tensor, layout: Any, within: bool) -> None:
    assert is_within(base, *layout) is within


def test_keys() -> None:
    rows = BASE.view(6, 4)
    sharing = Sharing([])
    apart = sharing.key((rows[0], rows[1]))
    assert sharing.key((rows[5], rows[2])) == apart
    assert sharing.key((rows[0], torch.ones(4))) != apart
    same = sharing.key((BASE[:4], BASE[2:6]))
    assert same != apart
    assert sharing.key((BASE[:4], BASE[2:6])) == same
    assert sharing.key((BASE[2:6], BASE[4:8])) != same
    assert sharing.key((BASE.clone()[:4], BASE[2:6])) not in (same, apart)
    assert sharing.key((torch.ones(80)[:4], BASE[:4])) == sharing.key((torch.ones(8)[:4], BASE[:4]))


def test_keys_of_held_tensors() -> None:
    held = torch.ones(8)
    sharing = Sharing([torch.ones(1), held])
    keys = [sharing.key((x,)) for x in (torch.ones(4), held[:4], held[4:], held[2:6])]
    assert len(set(keys)) == 4
    assert sharing.key((torch.ones(4),)) == keys[0]
    assert sharing.key((held[:4],)) == keys[1]
    assert sharing.key((held[:4].requires_grad_(),)) == keys[1]


def test_keys_of_many_places() -> None:
    """More than are remembered, and again."""
    base = torch.arange(1000.0)
    sharing = Sharing([])
    for _ in range(2):
        for i in range(400):
            assert sharing.key((base[i : i + 4], base[i + 4 : i + 8])) == sharing.key((base[:4], base[4:8]))
            assert sharing.key((base[i : i + 4], base[i + 2 : i + 6])) == sharing.key((base[i : i + 4], base[i + 2 : i + 6]))
            assert (sharing.key((base[i : i + 4], base[i + 2 : i + 6])) == sharing.key((base[:4], base[2:6]))) is (i == 0)


def test_one_graph_serves_all_pairs_of_rows() -> None:
    traced = []

    def backend(gm: Any, inputs: Any) -> Any:
        def counted(*args: Any, **options: Any) -> Any:
            traced.append(1)
            return interpret(*args, **options)

        return aot_module(gm, inputs, fw_compiler=counted, bw_compiler=counted)

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.add_(y).sum()

    buffer = torch.ones(6, 4)
    compiled = dynamo.compile(f, backend=backend)
    for i in range(6):
        for j in range(6):
            if i != j:
                compiled(buffer[i], buffer[j])
    assert len(traced) == 1
    compiled(torch.ones(4), torch.ones(4))
    compiled(buffer[0], buffer[0])
    compiled(buffer[1], buffer[1])
    assert len(traced) == 4


STATEMENTS = (
    "x.mul_(2)",
    "y.add_(x)",
    "x.copy_(y + 1)",
    "z = z + x * y",
    "y[1:].sub_(x[:-1])",
    "x.t_()",
    "z = z - y.sum()",
    "z.mul_(2)",
    "w.add_(1)",
    "z = z + w[:3, :2]",
    "y.unsqueeze_(0).squeeze_(0)",
    "x = x[:, :1] + y",
    "y = x.detach()",
)
RESULTS = ("z.clone()", "x", "y[1:]", "x.sum()", "(x, y.view_as(y))", "y.mT * 2", "w[0]")


def drawn_view(random: Random, base: torch.Tensor) -> torch.Tensor:
    """3 by 2, in rows, columns or with gaps, anywhere in the memory."""
    strides = random.choice([(2, 1), (2, 1), (1, 3), (4, 1), (4, 2)])
    extent = 1 + 2 * strides[0] + strides[1]
    return base.as_strided((3, 2), strides, random.randrange(base.numel() - extent + 1))


def outcome(f: Callable[..., Any], places: list[Any]) -> list[Any]:
    """What calls give and leave behind. A place is a seed: the same arguments for each caller."""
    seen: list[Any] = []
    base, w = torch.arange(24.0), torch.arange(16.0).view(4, 4)
    for place in places:
        random = Random(place)
        own = random.random() < 0.2
        x, y = drawn_view(random, base), drawn_view(random, base.clone() if own else base)
        x, y = (x, x) if random.random() < 0.1 else (x, y)
        z = drawn_view(random, w.view(-1)) if random.random() < 0.2 else torch.ones(3, 2)
        try:
            result = f(x, y, z, w)
        except RuntimeError as e:
            result = (str(e)[:40],)
        tensors = [t for t in (*(result if isinstance(result, tuple) else (result,)), x, y, z) if isinstance(t, torch.Tensor)]
        seen.append([(t.tolist(), t.stride(), t.storage_offset()) for t in tensors])
        seen.append([t._version for t in (x, y, z)])
        seen.append([i for i, t in enumerate(tensors) if t.untyped_storage()._cdata == base.untyped_storage()._cdata])
    return [seen, base.tolist(), w.tolist()]


@pytest.mark.parametrize("seed", range(150))
def test_drawn_programs(seed: int) -> None:
    """Writes and reads of views of one memory, which lie otherwise at each call."""
    random = Random(seed)
    lines = [random.choice(STATEMENTS) for _ in range(random.randint(1, 4))]
    text = "\n".join(f"    {line}" for line in (*lines, f"return {random.choice(RESULTS)}"))
    program: dict[str, Any] = {"torch": torch}
    exec(f"def f(x, y, z, w):\n{text}", program)  # the drawn program
    places = [seed * 100 + k for k in range(8)]
    expected = outcome(program["f"], places)
    found = outcome(dynamo.compile(program["f"], backend=BACKENDS[seed % len(BACKENDS)]), places)
    assert found == expected, text
