"""What the C compiler gets to do stays in proportion: machine code per kernel, and text for programs that repeat themselves."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dynamo
from dynamo import config
from dynamo.trace import session
from dynamo.trace.events import CodeGenerated
from inductor.errors import BuildError
from inductor.runtime import pool
from inductor.schedule.fuse import Before, Group
from inductor.targets.cpu import build, machine
from inductor.targets.cpu.c import unit
from tests.inductor.code_size import built_sizes
from tests.inductor.helpers import assert_same, check, compiled, texts

CHANNELS_LAST = torch.channels_last


def space_to_depth_mean(x: torch.Tensor) -> torch.Tensor:
    n, c, h, w = x.shape
    return x.view(n, c, h // 2, 2, w // 2, 2).mean((3, 5)).permute(0, 2, 3, 1).contiguous()


def quarters(x: torch.Tensor) -> torch.Tensor:
    """The patches of a window transformer's merging: four strided slices side by side."""
    parts = [x[..., 0::2, 0::2], x[..., 1::2, 0::2], x[..., 0::2, 1::2], x[..., 1::2, 1::2]]
    return (parts[0] + parts[1] * parts[2] - parts[3]).permute(0, 2, 3, 1).contiguous()


def column_sums(x: torch.Tensor) -> torch.Tensor:
    """Turns of the loop over rows are what gcc joins."""
    n, c, h, w = x.shape
    return (x.permute(0, 2, 3, 1) * x.view(n, h, w, c)).sum((0, 1, 2))


def norm_gradient(x: torch.Tensor) -> torch.Tensor:
    """The gradient of the weights of a norm over patches, which come out of a convolution."""
    rows, weight = x.flatten(2).transpose(1, 2), torch.ones(x.shape[1], requires_grad=True)
    with torch.enable_grad():
        out = F.layer_norm(rows, [x.shape[1]], weight)
    return torch.autograd.grad(out, weight, x.view(out.shape) / rows.shape[1])[0]


TRANSPOSED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "2x2 average, stored transposed": lambda x: F.avg_pool2d(x, 2).permute(0, 2, 3, 1).clone(memory_format=torch.contiguous_format),
    "2x2 average, channels last": lambda x: F.avg_pool2d(x, 2).to(memory_format=CHANNELS_LAST),
    "4x4 average, stored transposed": lambda x: F.avg_pool2d(x, 4).permute(0, 2, 3, 1).contiguous(),
    "3x3 average, overlapping": lambda x: F.avg_pool2d(x, 3, 2, 1).permute(0, 2, 3, 1).contiguous(),
    "2x2 maximum, stored transposed": lambda x: F.max_pool2d(x, 2).permute(0, 2, 3, 1).contiguous(),
    "mean over blocks": space_to_depth_mean,
    "strided slices": quarters,
    "neighbours in a row": lambda x: (x[..., 1:] - x[..., :-1]).transpose(1, 3).contiguous(),
    "neighbours in a column": lambda x: (x[:, :, 1:] * x[:, :, :-1]).permute(0, 3, 2, 1).contiguous(),
    "sums of columns": column_sums,
    "maxima of columns": lambda x: (x.permute(0, 2, 3, 1) + x.view(x.shape[0], *x.shape[2:], x.shape[1])).amax((0, 1, 2)),
    "gradient of a norm": norm_gradient,
    "bilinear, channels last": lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear").to(memory_format=CHANNELS_LAST),
}


@pytest.mark.parametrize("size", [(1, 32, 64, 64), (2, 64, 32, 32)], ids=str)
@pytest.mark.parametrize("name", TRANSPOSED)
def test_reads_with_a_large_step(name: str, size: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """gcc joins reads a constant apart with one large constant step into an access of the whole step, 400 KB of code at 4,096."""
    fn, x = TRANSPOSED[name], torch.randn(size)
    with built_sizes(monkeypatch) as sizes:
        found = compiled(fn, (x,))(x)
    assert_same(found, fn(x), rtol=1e-5, atol=1e-5)
    assert max(sizes.values()) < 8 * 1024, max(sizes.items(), key=lambda kv: kv[1])


def test_steps_are_variables() -> None:
    source = texts(lambda x: F.avg_pool2d(x, 2).permute(0, 2, 3, 1).contiguous(), (torch.randn(1, 32, 64, 64),))["kernels"]
    assert 'long step4096 = 4096; __asm__("" : "+r"(step4096));' in source
    assert "step4096*" in source and "4096L*" not in source


def test_short_steps_stay_constant() -> None:
    """Up to 8 apart, reading all and choosing is the faster way."""
    source = texts(lambda x: x[:, 0::4] + x[:, 1::4], (torch.randn(64, 256),))["kernels"]
    assert "__asm__" not in source[source.index("static void k") :]


# programs that repeat themselves


def c_of(fn: Callable[..., object], *args: object) -> list[str]:
    with session() as store:
        fn(*args)
    return [e.code for e in store.of(CodeGenerated) if e.language == "c"]


def functions(sources: list[str]) -> int:
    return sum(len(re.findall(r"^static void \w+_part\(", source, re.MULTILINE)) for source in sources)


class Unrolled(nn.Module):
    def __init__(self, steps: int) -> None:
        super().__init__()
        self.cell, self.steps = nn.LSTMCell(8, 16), steps

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        out = []
        for i in range(self.steps):
            h, c = self.cell(x[i], (h, c))
            out.append(h.tanh() * 2)
        return torch.stack(out)


def unrolled(steps: int, *, train: bool) -> int:
    """How many loop functions the C compiler gets."""
    model = Unrolled(steps)
    x, state = torch.randn(steps, 4, 8), torch.zeros(4, 16)

    def run(x: torch.Tensor) -> torch.Tensor:
        with torch.set_grad_enabled(train):
            out = dynamo.compile(model)(x, state, state)
            if train:
                out.sum().backward()
            return out.detach()

    with session() as store:
        found = run(x)
    sources = [e.code for e in store.of(CodeGenerated) if e.language == "c"]
    torch.testing.assert_close(found, model(x, state, state).detach())
    return functions(sources)


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
def test_a_longer_loop_needs_no_more_functions(train: bool) -> None:
    assert unrolled(24, train=train) <= unrolled(12, train=train) + 2


def test_equal_blocks_share_their_code() -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.GELU(), nn.GroupNorm(2, 4)) for _ in range(6))).eval()
    x = torch.randn(2, 4, 12, 12)
    with torch.no_grad():
        sources = c_of(dynamo.compile(model), x)
        torch.testing.assert_close(dynamo.compile(model)(x), model(x))
    assert functions(sources) <= 4


def test_shared_code_keeps_places_apart() -> None:
    """One body, run on other buffers, other offsets and other types."""
    xs = [torch.randn(4, 33) for _ in range(4)]

    def fn(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        return torch.cat([a.sin(), b.sin(), c.sin(), d.sin(), (a + b).double().sin().float()], 1)

    check(fn, *xs)


def test_a_use_of_shared_code_is_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that gathers the pointers of each use costs gcc more than the loops, and the more the further they are apart in the table."""
    model, x, state = Unrolled(40), torch.randn(40, 4, 8), torch.zeros(4, 16)
    with built_sizes(monkeypatch) as sizes, config.patch(cache=False), torch.no_grad():
        torch.testing.assert_close(dynamo.compile(model)(x, state, state), model(x, state, state))
    uses = sorted(size for name, size in sizes.items() if re.search(r":k\d+$", name))
    assert len(uses) >= 80
    assert uses[len(uses) * 9 // 10] <= 48, uses


# large units


def many_loops(x: torch.Tensor) -> list[torch.Tensor]:
    """Loops that do not fuse: each needs all of the one before it."""
    out = [x.sin()]
    for k in range(1, 8):
        out.append((out[-1].t().contiguous().cumsum(1) * k).flip(0) + out[-1].sum())
    return out


@pytest.fixture
def _short_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit, "SECTION", 800)


@pytest.mark.usefixtures("_short_sections")
def test_a_large_unit_is_compiled_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cpus", lambda: 3)
    x = torch.randn(9, 9)
    source = texts(many_loops, (x,))["kernels"]
    assert build.sections(source) > 2
    commands, run = [], pool.run
    monkeypatch.setattr(pool, "run", lambda command, *rest: commands.append(command) or run(command, *rest))
    with config.patch(cache=False):
        found = compiled(many_loops, (x,))(x)
    assert len(commands) >= 4  # three parts and the link
    assert_same(found, many_loops(x), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("_short_sections")
def test_one_processor_takes_the_unit_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cpus", lambda: 1)
    x = torch.randn(9, 9)
    with config.patch(cache=False):
        assert_same(compiled(many_loops, (x,))(x), many_loops(x), rtol=1e-5, atol=1e-5)


def test_a_failing_part_fails_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cpus", lambda: 3)
    parts = [f"{build.section(n)}\n{text}\n#endif" for n, text in enumerate(("int a;", "int b;", "oops"))]
    source = "\n".join(["#ifndef FIRST\n#define FIRST 0\n#define LAST 9\n#endif", *parts])
    with pytest.raises(BuildError, match="oops"), config.patch(cache=False):
        build.build(source)


def test_a_compiler_that_takes_too_long_tries_again_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that it explodes on costs speed, not the graph."""
    commands: list[list[str]] = []
    run = pool.run

    def slow(command: list[str], timeout: float, folder: Path) -> tuple[int, str]:
        commands.append(command)
        if len(commands) == 1:
            raise subprocess.TimeoutExpired(command, timeout)
        return run(command, timeout, folder)

    monkeypatch.setattr(pool, "run", slow)
    x = torch.randn(7, 11)
    with config.patch(cache=False):
        assert_same(compiled(lambda a: a.sin() * 3.25, (x,))(x), x.sin() * 3.25)
    assert len(commands) == 2
    assert "-O1" in commands[1] and "-O1" not in commands[0]


def lines_run(steps: int) -> int:
    """Lines of our Python that one first call executes."""
    folder = str(Path(dynamo.__file__).parents[1])
    ours = {f"{folder}/{name}" for name in ("dynamo", "inductor")}
    count = 0

    def inside(frame: FrameType, event: str, arg: object) -> object:
        nonlocal count
        count += event == "line"
        return inside

    def entered(frame: FrameType, event: str, arg: object) -> object:
        file = frame.f_code.co_filename
        return inside if any(file.startswith(root) for root in ours) else None

    x, state = torch.randn(steps, 4, 8), torch.zeros(4, 16)
    compiled = dynamo.compile(Unrolled(steps))
    before = sys.gettrace()
    sys.settrace(entered)
    try:
        with torch.no_grad():
            compiled(x, state, state)
    finally:
        sys.settrace(before)
    return count


def test_work_grows_with_the_steps() -> None:
    """Counted, not timed: twice the steps of a loop run at most 2.2 times the lines of the compiler."""
    lines_run(2)  # what happens once per process
    short, long = lines_run(16), lines_run(32)
    assert long <= 2.2 * short, (short, long, long / short)


def test_a_chain_of_fusions_looks_at_what_it_can_reach() -> None:
    """The order between steps is kept up to date without walking all of them, also where a group gets a younger member."""
    names = "abcdef"
    groups = {n: Group((), []) for n in names}
    before = Before()
    before.add(groups["a"], [])
    before.add(groups["b"], [groups["a"]])
    before.add(groups["c"], [])
    before.add(groups["d"], [groups["c"]])
    before.fuse(groups["a"], groups["d"])  # now b needs c as well, which is younger than b
    assert before.includes(groups["b"], groups["c"])
    before.add(groups["e"], [])
    before.fuse(groups["c"], groups["e"])
    assert before.includes(groups["b"], groups["c"])
    assert before.includes(groups["a"], groups["c"])
    assert not before.includes(groups["c"], groups["a"])
    before.add(groups["f"], [groups["c"]])
    assert before.includes(groups["f"], groups["c"]) and not before.includes(groups["f"], groups["b"])
