"""Dropout in kernels draws what eager's kernel for GPUs draws: the generator, the place of a number in it, and its state."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from dynamo.aot import rng
from inductor.ir.affine import Axis, of_atom
from inductor.ir.expr import Expr, call, const
from inductor.ir.nest import Extern
from inductor.ir.philox import number_of, philox, words
from inductor.lowering.graph import lower_graph
from inductor.lowering.random import place
from inductor.targets.triton.shortcuts import WORDS, count_below, words_below
from tests.inductor.helpers import compiled
from tests.inductor.triton.seam import interpreted

KNOWN = [(0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)), (-1, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD))]  # of Random123
SEED = 0x1234_5678_9ABC

_library = torch.library.Library("dynamo_tests", "FRAGMENT")
_library.define("philox_state(int numbers, Device device) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))


class Generator:
    """A GPU's, as far as dropout sees it."""

    def __init__(self) -> None:
        self.offset = 8

    def take(self, numbers: int, device: torch.device) -> torch.Tensor:
        state = torch.tensor([SEED, self.offset // rng.WORDS])
        self.offset += numbers
        return state


_generator = Generator()
_library.impl("philox_state", lambda numbers, device: _generator.take(numbers, device), "CompositeExplicitAutograd")


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Generator]:
    monkeypatch.setattr(rng, "DEVICES", frozenset({"cpu"}))
    monkeypatch.setattr(rng, "PHILOX_STATE", torch.ops.dynamo_tests.philox_state.default)
    _generator.offset = 8
    return _generator


def sequential(x: torch.Tensor, p: float, offset: int) -> torch.Tensor:
    """The mask as eager's kernel makes it, thread by thread as it is written there."""
    count, flat = x.numel(), []
    threads, width = rng.threads_of(x.device, count), 16 // x.dtype.itemsize
    while count % width:
        width //= 2
    drawn = torch.zeros(count)
    for thread in range(threads):
        step, at = 0, thread * width
        while at < count:
            steps = max(width // 4, 1)
            four = [words(*map(torch.tensor, (SEED, offset // 4 + step + k, thread))) for k in range(steps)]
            flat = [w for f in four for w in f]
            spread = [at + k for k in range(width)] if width > 1 else [at + k * threads for k in range(4)]
            for k, element in enumerate(e for e in spread if e < count):
                drawn[element] = flat[k].to(torch.float32) * 2.0**-32 + 2.0**-33
            step, at = step + steps, at + threads * (width if width > 1 else 4)
    return (drawn < torch.tensor(1 - p)).view(x.shape)


@pytest.mark.parametrize(("number", "expected"), KNOWN)
def test_the_generator_is_philox(number: int, expected: tuple[int, ...]) -> None:
    assert tuple(int(w) for w in words(*[torch.tensor(number)] * 3)) == expected


@pytest.mark.parametrize(("count", "dtype"), [(2048, torch.float32), (2048, torch.bfloat16), (1002, torch.float64), (1001, torch.float32)])
def test_every_element_has_the_number_that_eager_gives_it(
    count: int, dtype: torch.dtype, generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rng, "threads_of", lambda device, count: 64)  # so that threads have several turns
    x = torch.arange(1, count + 1).to(dtype)
    expected = sequential(x, 0.3, generator.offset)
    with interpreted():
        out, mask = compiled(lambda x: torch.native_dropout(x, 0.3, True), [x])(x)
    assert torch.equal(mask, expected)
    assert generator.offset == 8 + rng.numbers_of(count, 64)
    torch.testing.assert_close(out, (x * mask) / 0.7)


MORE: dict[str, tuple[Callable[..., torch.Tensor], tuple[int, ...]]] = {
    "rows": (lambda x: torch.native_dropout(torch.softmax(x, -1), 0.5, True)[1], (20, 256)),
    "long rows": (lambda x: torch.native_dropout(x - x.amax(-1, keepdim=True), 0.5, True)[1], (3, 40960)),
    "odd rows": (lambda x: torch.native_dropout(x - x.amax(-1, keepdim=True), 0.5, True)[1], (140, 5001)),
    "images": (lambda x: torch.native_dropout(x.to(memory_format=torch.channels_last), 0.5, True)[1], (2, 8, 4, 4)),
}


@pytest.mark.parametrize("name", MORE)
def test_kernels_of_any_kind_draw_the_same(name: str, generator: Generator) -> None:
    fn, shape = MORE[name]
    x = torch.rand(shape)
    with interpreted():
        (mask,) = compiled(lambda x: (fn(x),), [x])(x)
    count = x.numel()
    index = of_atom(Axis("e", count))
    at = torch.arange(count)
    threads = rng.threads_of(x.device, count)
    parts = [torch.tensor(0) + value_of(i, at) for i in place(index, count, 4, threads)]
    expected = philox(torch.tensor(SEED), parts[0] + 2, parts[1], parts[2]) < 0.5
    found = mask.permute(0, 2, 3, 1) if name == "images" else mask
    assert torch.equal(found.reshape(-1), expected)


def value_of(index: object, at: torch.Tensor) -> torch.Tensor:
    """An index over elements, in numbers."""
    text = repr(index)
    return eval(text, {"e": at}) + torch.zeros_like(at)  # indices print as Python


def test_the_next_drawing_differs_and_a_state_repeats_it(generator: Generator) -> None:
    x = torch.ones(4096)
    with interpreted():
        run = compiled(lambda x: torch.native_dropout(x, 0.1, True), [x])
        first, second = run(x)[1], run(x)[1]
        generator.offset = 8
        again = run(x)[1]
    assert not torch.equal(first, second)
    assert torch.equal(first, again)
    assert 0.88 < first.float().mean() < 0.92


def test_two_drawings_in_a_graph_are_in_order(generator: Generator) -> None:
    x = torch.ones(4096)
    with interpreted():
        a, b = compiled(lambda x: (torch.native_dropout(x, 0.1, True)[1], torch.native_dropout(x, 0.1, True)[1]), [x])(x)
    assert not torch.equal(a, b)
    assert torch.equal(a, sequential(x, 0.1, 8))
    assert torch.equal(b, sequential(x, 0.1, 8 + rng.numbers_of(4096, rng.threads_of(x.device, 4096))))


def test_the_position_of_the_largest_is_looked_for_among_the_same_numbers(generator: Generator) -> None:
    """The eight neighbours that have it begin at no multiple of a tile."""
    x = torch.rand(2, 9000)

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, _ = torch.native_dropout(x, 0.5, True)
        return out.argmax(-1), out

    with interpreted():
        at, out = compiled(fn, [x])(x)
    assert torch.equal(at, out.argmax(-1))


def test_a_graph_for_a_gpu_has_one_kernel_and_reads_the_state_there() -> None:
    with FakeTensorMode():
        gm = make_fx(lambda x: torch.native_dropout(x, 0.1, True)[0])(torch.empty(4096, device="cuda:0"))
    program, _ = lower_graph(gm, "cuda:0", draws=True)
    externs = [s for s in program.steps if isinstance(s, Extern)]
    assert [s.target for s in externs] == [rng.PHILOX_STATE]
    assert {program.buffers[b].device for s in externs for b in s.writes()} == {"cuda:0"}


@pytest.mark.parametrize("limit", [0.9, 0.5, 0.1, 1 / 3, 2.0**-32, 1 - 2.0**-24, 0.25 + 2.0**-30])
def test_words_below_a_number_are_counted_exactly(limit: float) -> None:
    limit = float(torch.tensor(limit, dtype=torch.float32))
    count = count_below(limit)
    near = torch.arange(max(count - 300, 0), min(count + 300, WORDS))
    assert torch.equal(number_of(near) < limit, near < count)


def test_all_and_none_are_left_to_the_comparison() -> None:
    assert (count_below(0.0), count_below(1.5)) == (0, WORDS)
    number = Expr("philox", "f32", tuple(const(k, "i64") for k in (1, 2, 3, 0)))
    found = [words_below(call("lt", number, const(p, "f32"))) for p in (0.0, 0.5, 1.5)]
    assert found == [None, (1 << 31) - 64, None]  # float32 has nothing nearer to 2**31
