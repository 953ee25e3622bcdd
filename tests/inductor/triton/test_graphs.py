"""CUDA graphs without a device: a capture runs the program and keeps where its results are, a replay writes them there again."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dynamo
from dynamo import config
from dynamo.trace import session
from dynamo.trace.events import CacheLooked, Note
from inductor.ir.dims import span
from inductor.ir.nest import Buffer, View
from inductor.runtime import capturable, devices, graphs
from inductor.runtime.capturable import REASONS
from inductor.runtime.recipe import Capture, KernelCall, Recipe
from inductor.targets import registry
from inductor.targets.cpu.runtime import CpuRuntime
from inductor.targets.cpu.target import CpuTarget
from inductor.targets.triton import launcher
from tests.inductor.triton.test_launch import STREAM, FakeDriver, driver, library

__all__ = ["driver", "library"]

Run = Callable[[list[Any]], list[torch.Tensor]]
REPLAY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Device:
    """What graphs run on here. `streams` are those that they were replayed on."""

    def __init__(self, fake: FakeDriver) -> None:
        self.fake = fake
        self.graphs: list[Callable[[], None]] = []
        self.streams: list[int] = []
        self.stream = STREAM
        self.error: Exception | None = None
        self.replay = REPLAY(self.replayed)
        ctypes.c_void_p.in_dll(fake.library, "fake_replay").value = ctypes.cast(self.replay, ctypes.c_void_p).value

    def replayed(self, graph: int, stream: int) -> None:
        self.streams.append(stream)
        self.graphs[graph - 1]()

    def capture(self, subject: graphs.Subject, given: list[Any], memory: graphs.Memory) -> tuple[graphs.Captured, list[Any]]:
        if self.error is not None:
            raise self.error
        before = {i: given[i].detach().clone() for i in subject.written}
        outputs = list(subject.run(list(given)))
        for i, value in before.items():  # a device executes nothing while it captures
            given[i].detach().copy_(value)
        given = [at_address(t) if isinstance(t, torch.Tensor) else t for t in given]
        places = [graphs.whole(o) if isinstance(o, torch.Tensor) else o for o in outputs]
        storages = [p.untyped_storage()._cdata for p in places if isinstance(p, torch.Tensor)]
        spots = [(p.data_ptr(), p.nbytes) for p in places if isinstance(p, torch.Tensor)]

        def again() -> None:
            made = [graphs.whole(o) for o in subject.run(list(given)) if isinstance(o, torch.Tensor)]
            for new, (place, size) in zip(made, spots, strict=True):
                if new.data_ptr() != place:
                    ctypes.memmove(place, new.data_ptr(), size)

        del places, storages
        self.graphs.append(again)
        return graphs.Captured(len(self.graphs), None, None), outputs

    @property
    def replays(self) -> int:
        return len(self.streams)


def at_address(t: torch.Tensor) -> torch.Tensor:
    """The same memory as a device knows it: by its address, without holding it."""
    size = span(t.shape, t.stride()) * t.element_size()
    if not size:
        return torch.empty_like(t)
    flat = torch.frombuffer((ctypes.c_char * size).from_address(t.data_ptr()), dtype=t.dtype)
    return flat.as_strided(t.shape, t.stride())


@pytest.fixture
def device(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    assert launcher.driver() == ""
    made = Device(driver)
    driver.set(copies=0, waits=0, graphs=0, capturing=0)
    monkeypatch.setattr(graphs, "_memories", weakref.WeakValueDictionary())
    monkeypatch.setattr(graphs, "capture", made.capture)
    monkeypatch.setattr(graphs, "is_capturing", lambda: bool(made.fake.capturing))
    yield made
    ctypes.c_void_p.in_dll(driver.library, "fake_replay").value = None


def graphed(device: Device, run: Run, count: int, **facts: Any) -> Any:
    calls = lambda inputs: tuple(run(inputs))  # noqa: E731  a program returns a tuple
    subject = graphs.Subject(calls, "model.py:3", (True,) * count, **facts)
    on = launcher.device(0)
    return graphs.graphed(subject, (0, 0, on.context, 0, lambda index: device.stream))


class Captured(CpuRuntime):
    """Programs of the processor with graphs in front of them."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def program(self, recipe: Recipe, library: Any) -> Any:
        where = (0, 0, launcher.device(0).context, 0, lambda index: self.device.stream)
        return graphs.of_recipe(recipe, super().program(recipe, library), where)


@pytest.fixture
def everywhere(device: Device, monkeypatch: pytest.MonkeyPatch) -> Device:
    """What is compiled with graphs is captured, on the processor."""
    runtime, target = Captured(device), CpuTarget()
    monkeypatch.setattr(registry, "target", lambda device: target)
    monkeypatch.setattr(devices, "runtime", lambda device: runtime)
    monkeypatch.setattr(capturable, "GPU", "cpu")
    dynamo.reset()
    return device


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 9), nn.BatchNorm1d(9), nn.Linear(9, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.norm(self.first(x)).relu())


def trained(model: nn.Module, run: Any, accumulate: int, zero_between: bool) -> list[torch.Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(3)
    losses = []
    for step in range(20):
        x, target = torch.randn(8, 6), torch.randint(0, 3, (8,))
        first = step % accumulate == 0
        if first and not zero_between:
            optimizer.zero_grad()
        loss = nn.functional.cross_entropy(run(x), target)
        if first and zero_between:
            optimizer.zero_grad()
        loss.backward()
        if step % accumulate == accumulate - 1:
            optimizer.step()
        losses.append(loss.detach())
    return losses


@pytest.mark.parametrize("accumulate", [1, 4])
@pytest.mark.parametrize("zero_between", [False, True])
def test_training_is_that_of_eager(everywhere: Device, accumulate: int, zero_between: bool) -> None:
    torch.manual_seed(0)
    model, other = Net(), Net()
    other.load_state_dict(model.state_dict())
    run = dynamo.compile(model, backend="inductor", mode="reduce-overhead")
    found, expected = trained(model, run, accumulate, zero_between), trained(other, other, accumulate, zero_between)
    torch.testing.assert_close(found, expected)
    for p, q in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(p, q)
    assert everywhere.replays > 24


def test_two_forwards_before_a_backward(everywhere: Device) -> None:
    model, other = Net().eval(), Net().eval()
    other.load_state_dict(model.state_dict())
    run = dynamo.compile(model, backend="inductor", mode="reduce-overhead")
    for _ in range(10):
        x, y = torch.randn(4, 6), torch.randn(4, 6)
        for m, call in ((model, run), (other, other)):
            m.zero_grad()
            (call(x).square().sum() + call(y).exp().sum()).backward()
        for p, q in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad)
    assert everywhere.replays > 12


@pytest.mark.parametrize(
    "options, captures",
    [
        ({"mode": "reduce-overhead"}, True),
        ({"mode": "max-autotune"}, True),
        ({"mode": "max-autotune-no-cudagraphs"}, False),
        ({"mode": "default"}, False),
        ({}, False),
        ({"options": {"triton.cudagraphs": True}}, True),
        ({"mode": "reduce-overhead", "options": {"triton.cudagraphs": False}}, False),
    ],
)
def test_who_asks_for_graphs(everywhere: Device, options: dict[str, Any], captures: bool) -> None:
    run = dynamo.compile(lambda x: x.sin() + 1, backend="inductor", **options)
    for _ in range(4):
        run(torch.ones(3))
    assert bool(everywhere.replays) == captures


def test_the_configuration_asks_for_graphs(everywhere: Device) -> None:
    assert config.triton.cudagraphs is False
    with config.patch(cudagraphs=True):
        assert config.triton.cudagraphs is True
        run = dynamo.compile(lambda x: x.sin() + 1, backend="inductor")
        for _ in range(4):
            run(torch.ones(3))
    assert everywhere.replays


def waits(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)) * 2


def seeds(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)
    return torch.rand_like(x) + x


@pytest.mark.parametrize("fn, reason", [(waits, "DI031"), (seeds, "DI032")])
def test_what_no_graph_can_hold_is_noted_with_its_line(everywhere: Device, fn: Any, reason: str) -> None:
    line = fn.__code__.co_firstlineno + 1
    with session() as store:
        run = dynamo.compile(fn, backend="inductor", mode="reduce-overhead")
        for _ in range(4):
            run(torch.ones(3))
    (note,) = {n.message: n for n in store.of(Note) if n.id in REASONS}.values()
    assert note.id == reason
    assert f"test_graphs.py:{line}" in note.message


def test_graphs_of_eagers_kernels(everywhere: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: STREAM, raising=False)
    model, other = Net(), Net()
    other.load_state_dict(model.state_dict())
    run = dynamo.compile(model, backend="cudagraphs")
    torch.testing.assert_close(trained(model, run, 1, False), trained(other, other, 1, False))
    assert everywhere.replays > 24


def test_reset_gives_the_memory_back(everywhere: Device) -> None:
    run = dynamo.compile(lambda x: x.sin() + 1, backend="inductor", mode="reduce-overhead")
    for _ in range(4):
        run(torch.ones(3))
    pools = [m.pool for m in list(graphs._memories.values())]
    assert [len(p) for p in pools] == [1]
    dynamo.reset()
    assert [len(p) for p in pools] == [0]


def test_first_warm_up_then_capture_then_replays(device: Device) -> None:
    run = graphed(device, lambda i: [i[0] * 2 + i[1]], 2)
    w = torch.randn(5)
    for call in range(6):
        x = torch.randn(5)
        (out,) = run([x, w])
        assert torch.equal(out, x * 2 + w), call
        del out
    assert len(device.graphs) == 1 and device.replays == 5


def test_results_stay_valid_while_somebody_holds_them(device: Device) -> None:
    run = graphed(device, lambda i: [i[0] * 2, i[0] + 1], 1)
    held, expected = [], []
    for _ in range(20):
        x = torch.randn(7)
        held += run([x])
        expected += [x * 2, x + 1]
    assert all(torch.equal(h, e) for h, e in zip(held, expected, strict=True))
    assert device.replays > 10, "results that are held are copied out, they don't end the replays"


def test_a_view_keeps_a_result_alive(device: Device) -> None:
    run = graphed(device, lambda i: [i[0] * 2], 1)
    views = []
    for k in range(12):
        (out,) = run([torch.full((4,), float(k))])
        views.append(out.detach()[1:3])
        del out
    assert [v.tolist() for v in views] == [[2.0 * k, 2.0 * k] for k in range(12)]


def test_the_last_result_is_alive_when_the_next_is_made(device: Device) -> None:
    run = graphed(device, lambda i: [i[0] + 1], 1)
    x = torch.zeros(3)
    for _ in range(10):
        (x,) = run([x])
    assert x.tolist() == [10.0] * 3
    assert device.replays >= 6


def test_inputs_that_stay_are_read_where_they_are(device: Device) -> None:
    run = graphed(device, lambda i: [i[0] @ i[1]], 2)
    w, x = torch.randn(4, 4), torch.randn(4, 4)
    for _ in range(5):
        run([x, w])
    assert device.fake.copies == 0
    for _ in range(5):
        y = torch.randn(4, 4)
        assert torch.equal(run([y, w])[0], y @ w)
    assert len(device.graphs) == 2, "an input that moves is copied from then on"


def test_an_input_that_moves_once_is_read_at_its_new_place(device: Device) -> None:
    run = graphed(device, lambda i: [i[0] * 2], 1)
    keep = [torch.full((3,), float(k)) for k in range(3)]
    for x in keep[:2]:
        for _ in range(6):
            assert torch.equal(run([x])[0], x * 2)
    assert device.fake.copies == 0 and len(device.graphs) == 2
    for _ in range(6):
        assert torch.equal(run([keep[2]])[0], keep[2] * 2)
    assert device.fake.copies == 5, "it moved a second time"


def test_many_inputs_are_copied_at_once(device: Device) -> None:
    run = graphed(device, lambda i: [sum(i, torch.zeros(3))], 6)
    for _ in range(5):
        given = [torch.randn(3) for _ in range(6)]
        (out,) = run(list(given))
        assert torch.equal(out, sum(given, torch.zeros(3)))
        del out
    assert device.fake.copies == 0


def test_an_input_that_the_graph_writes_to_is_never_copied(device: Device) -> None:
    def step(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        inputs[0].add_(inputs[1])
        return [inputs[0] * 1]

    run = graphed(device, step, 2, written=frozenset({0}))
    caches, one = [torch.zeros(3), torch.zeros(3)], torch.ones(3)
    counts = [0, 0]
    for call in range(16):
        which = call % 2
        counts[which] += 1
        (out,) = run([caches[which], one])
        del out
    assert [c[0].item() for c in caches] == counts
    assert len(device.graphs) == 2


def test_addresses_that_never_come_back_end_the_captures(device: Device) -> None:
    run = graphed(device, lambda i: [i[0].add_(1) * 1], 1, written=frozenset({0}))
    keep = [torch.zeros(3) for _ in range(60)]
    with session() as store:
        for x in keep:
            run([x])
    (note,) = [n for n in store.of(Note) if n.id == "DI034"]
    assert "model.py:3" in note.message
    assert len(device.graphs) == graphs.MOST


@pytest.mark.parametrize(
    "error, reason",
    [
        (RuntimeError("CUDA error: operation not permitted when stream is capturing"), "DI036"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), "DI037"),
    ],
)
def test_a_capture_that_fails_is_noted_and_the_program_runs(device: Device, error: Exception, reason: str) -> None:
    device.error = error
    run = graphed(device, lambda i: [i[0] * 2], 1)
    with session() as store:
        for k in range(5):
            assert run([torch.full((2,), float(k))])[0].tolist() == [2.0 * k] * 2
    (note,) = [n for n in store.of(Note) if n.id in REASONS]
    assert note.id == reason and "model.py:3" in note.message and str(error)[:20] in note.message


def test_a_program_is_not_replayed_into_another_capture(device: Device) -> None:
    run = graphed(device, lambda i: [i[0] * 2], 1)
    x = torch.ones(2)
    for _ in range(4):
        run([x])
    before = device.replays
    device.fake.set(capturing=1)
    assert run([x])[0].tolist() == [2.0, 2.0]
    device.fake.set(capturing=0)
    assert device.replays == before


def test_replays_on_several_streams_follow_each_other(device: Device) -> None:
    run = graphed(device, lambda i: [i[0] * 2], 1)
    x = torch.ones(2)
    for stream in (STREAM, STREAM, STREAM, 7, 7, STREAM):
        device.stream = stream
        run([x])
    assert device.streams[-3:] == [7, 7, STREAM]
    assert device.fake.waits == 2


def test_a_backward_takes_its_inputs(device: Device) -> None:
    layout = ((4, 3), (3, 1))

    def backward(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        saved, tangent = inputs
        inputs.clear()
        return [saved * tangent]

    run = graphed(device, backward, 2, is_backward=True, layouts=(layout, layout))
    for k in range(6):
        saved, tangent = torch.randn(4, 3), torch.ones(1).expand(4, 3) if k % 2 else torch.randn(3, 4).t()
        given = [saved, tangent]
        (grad,) = run(given)
        assert torch.equal(grad, saved * tangent)
        assert not any(isinstance(g, torch.Tensor) for g in given)
        del grad
    assert device.replays == 5


def test_graphs_of_one_pool_spare_each_others_results(device: Device) -> None:
    first, second = (graphed(device, run, 1) for run in (lambda i: [i[0] * 2], lambda i: [i[0] * 3]))
    x = torch.ones(3)
    for _ in range(3):
        first([x])
        second([x])
    before = device.replays
    (held,) = second([x])
    first([x])
    assert device.replays == before + 1, "temporaries of the first may lie where the second has its results"
    (other,) = second([x])
    assert device.replays == before + 1, "and its own result is still held"
    del held
    first([x])
    second([x])
    assert device.replays == before + 3 and other.tolist() == [3.0] * 3


def test_what_is_dropped_is_given_back(device: Device) -> None:
    run = graphed(device, lambda i: [i[0] * 2, i[0] * 3], 1)
    x = torch.ones(3)
    for _ in range(4):
        run([x])
    pool = graphs.memory_for((0, 0, 0, 0, None), False).pool
    assert len(pool) == 2
    held = run([x])[0]
    graphs.release()
    assert len(pool) == 1 and held.tolist() == [2.0] * 3
    for _ in range(3):
        run([x])
    del held
    run([x])
    assert len(pool) == 2
    del run
    gc.collect()
    assert len(pool) == 0


def test_results_that_are_inputs_or_constants_or_none_stay_what_they_are(device: Device) -> None:
    constant = torch.arange(3.0)
    run = graphed(device, lambda i: [i[0], i[0][1:], constant, None, i[0] + 1], 1, constants=(constant,))
    for k in range(6):
        x = torch.full((3,), float(k))
        same, view, fixed, nothing, made = run([x])
        assert same is x and view.data_ptr() == x.data_ptr() + 4 and fixed is constant and nothing is None
        assert made.tolist() == [k + 1.0] * 3
        del same, view, fixed, made


def test_two_results_over_one_storage(device: Device) -> None:
    def both(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        y = inputs[0] * 2
        return [y, y[1:]]

    run = graphed(device, both, 1)
    for k in range(8):
        y, part = run([torch.full((3,), float(k))])
        assert part.data_ptr() == y.data_ptr() + 4 and part.tolist() == [2.0 * k] * 2


def test_a_program_of_ours(device: Device) -> None:
    """The subject of a recipe: what it reads, writes and draws."""

    def buffer(name: str, kind: str) -> Buffer:
        return Buffer(name, torch.float32, (4,), (1,), kind)

    buffers = {n: buffer(n, k) for n, k in (("x", "input"), ("unread", "input"), ("state", "input"), ("y", "temp"))}
    steps = (KernelCall(("x",), ("y",), 4), KernelCall(("y",), ("state",), 4))
    recipe = Recipe(buffers, ("x", "unread", "state"), {}, (View("y", (4,), (1,), 0),), steps, {}, {}, 0, {}, capture=Capture("a.py:1"))
    subject = graphs.subject_of(recipe, lambda inputs: ())
    assert subject.read == (True, False, True)
    assert subject.written == {2} and not subject.draws and subject.place == "a.py:1"


def test_threads_share_a_program(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = torch._foreach_copy_

    def slow(*args: Any) -> None:
        copy(*args)
        time.sleep(0.0005)  # another thread goes on here

    monkeypatch.setattr(torch, "_foreach_copy_", slow)
    run = graphed(device, lambda i: [sum(i, torch.zeros(3))], 5)
    wrong: list[int] = []

    def work(number: int) -> None:
        for k in range(5000):
            if k >= 60 and device.replays > 40:  # how many of the calls that is depends on how the threads take turns
                break
            given = [torch.full((3,), float(number * 10000 + k + n)) for n in range(5)]
            (out,) = run(list(given))
            if not torch.equal(out, sum(given, torch.zeros(3))):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert device.replays > 40


def test_an_entry_that_ends_drops_its_graphs(everywhere: Device) -> None:
    model = Net().eval()
    run = dynamo.compile(model, backend="inductor", mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(4):
            run(torch.ones(2, 6))
    pools = [m.pool for m in list(graphs._memories.values())]
    assert [len(p) for p in pools] == [1]
    del model, run
    gc.collect()
    assert [len(p) for p in pools] == [0]


def test_tensors_of_the_processor_are_no_part_of_a_graph(everywhere: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capturable, "GPU", "cuda")
    with session() as store:
        run = dynamo.compile(lambda x: x.sin() + 1, backend="inductor", mode="reduce-overhead")
        line = sys._getframe().f_lineno - 1
        for _ in range(4):
            run(torch.ones(3))
    (note,) = [n for n in store.of(Note) if n.id in REASONS]
    assert note.id == "DI030" and f"test_graphs.py:{line}" in note.message
    assert not everywhere.replays


def test_a_graph_from_the_cache_is_captured_too(everywhere: Device, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir(mode=0o700)
    with config.patch(cache_dir=str(tmp_path / "kept"), graph_cache=True):
        for process in range(2):
            dynamo.reset()
            with session() as store:
                run = dynamo.compile(waits, backend="inductor", mode="reduce-overhead")
                run(torch.ones(3))
                run = dynamo.compile(lambda x: x.cos() + 1, backend="inductor", mode="reduce-overhead")
                before, x = everywhere.replays, torch.ones(3)  # an address that moves is recorded again
                for _ in range(4):
                    run(x)
            assert everywhere.replays == before + 3, process
            assert [c.outcome for c in store.of(CacheLooked)][-1] == ("hit" if process else "miss")
            assert {n.id for n in store.of(Note) if n.id in REASONS} == {"DI031"}
