"""CUDA graphs without a device: a capture runs the program and keeps where its results are, a replay writes them there again."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from dynamo.trace import session
from dynamo.trace.events import Note
from inductor.runtime import graphs
from inductor.runtime.capturable import REASONS
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
        before = {i: given[i].clone() for i in subject.written}
        outputs = list(subject.run(list(given)))
        for i, value in before.items():  # a device executes nothing while it captures
            given[i].copy_(value)
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


@pytest.fixture
def device(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    from inductor.targets.triton import launcher

    assert launcher.driver() == ""
    made = Device(driver)
    driver.set(copies=0, waits=0, graphs=0, capturing=0)
    monkeypatch.setattr(graphs, "_memories", weakref.WeakValueDictionary())
    monkeypatch.setattr(graphs, "capture", made.capture)
    monkeypatch.setattr(graphs, "is_capturing", lambda: bool(made.fake.capturing))
    yield made
    ctypes.c_void_p.in_dll(driver.library, "fake_replay").value = None


def graphed(device: Device, run: Run, count: int, **facts: Any) -> Any:
    from inductor.targets.triton import launcher

    calls = lambda inputs: tuple(run(inputs))  # noqa: E731  a program returns a tuple
    subject = graphs.Subject(calls, "model.py:3", (True,) * count, **facts)
    on = launcher.device(0)
    return graphs.graphed(subject, (0, 0, on.context, 0, lambda index: device.stream))


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
    from inductor.ir.nest import Buffer, View
    from inductor.runtime.recipe import Capture, KernelCall, Recipe

    def buffer(name: str, kind: str) -> Buffer:
        return Buffer(name, torch.float32, (4,), (1,), kind)

    buffers = {n: buffer(n, k) for n, k in (("x", "input"), ("unread", "input"), ("state", "input"), ("y", "temp"))}
    steps = (KernelCall(("x",), ("y",), 4), KernelCall(("y",), ("state",), 4))
    recipe = Recipe(buffers, ("x", "unread", "state"), {}, (View("y", (4,), (1,), 0),), steps, {}, {}, 0, {}, capture=Capture("a.py:1"))
    subject = graphs.subject_of(recipe, lambda inputs: ())
    assert subject.read == (True, False, True)
    assert subject.written == {2} and not subject.draws and subject.place == "a.py:1"
