"""CUDA graphs on a GPU: what replays must not change. Plain functions, for machines without pytest: `python -m tests.gpu.test_graphs`."""

from __future__ import annotations

import gc
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dynamo
from dynamo.trace import session
from dynamo.trace.events import Note
from inductor.runtime import graphs

pytestmark = pytest.mark.gpu

Check = Callable[[], None]


def forget() -> None:
    dynamo.reset()
    gc.collect()


def compiled(fn: Any, **options: Any) -> Any:
    forget()
    return dynamo.compile(fn, backend="inductor", **(options or {"mode": "reduce-overhead"}))


def recordings() -> list[int]:
    """How many graphs each program has captured."""
    return [len(r.recordings) for r in list(graphs._recorders)]


def refusals(store: Any) -> list[str]:
    return [f"{n.id}: {n.message}" for n in store.of(Note) if "CUDA graph" in n.message or n.id in ("DI001", "DI002", "DI021")]


def same(found: Any, expected: Any, atol: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=atol)


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda")


def test_inputs_that_change() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.softmax((x @ w).relu() + 1, -1) @ w

    with session() as store, torch.no_grad():
        run, w = compiled(f), rand(64, 64)
        for _ in range(10):
            x = rand(32, 64)
            same(run(x, w), f(x, w))
    assert not refusals(store), refusals(store)
    assert recordings() == [1]


def test_several_shapes() -> None:
    f = lambda x: torch.softmax(x.sin(), -1).sum(0)  # noqa: E731  compiled and called
    run = compiled(f)
    for step in range(18):
        x = rand(16 * (1 + step % 3), 100)
        same(run(x), f(x))
    assert sorted(recordings()) == [1, 1, 1]


def test_results_that_are_kept() -> None:
    f = lambda x: (x * 2, x.softmax(-1).cumsum(0))  # noqa: E731  compiled and called
    run = compiled(f)
    inputs = [rand(33, 50) for _ in range(20)]
    found = [run(x) for x in inputs]
    for x, pair in zip(inputs, found, strict=True):
        same(pair, f(x))
    y = inputs[0]
    z = inputs[0]
    for _ in range(10):
        y, z = run(y)[1], f(z)[1]
    same(y, z)


def test_two_streams() -> None:
    f = lambda x: torch.softmax(x @ x, -1).sin()  # noqa: E731  compiled and called
    run = compiled(f)
    inputs = [rand(256, 256) for _ in range(24)]
    expected = [f(x) for x in inputs]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.current_stream()]
    found = []
    for k, x in enumerate(inputs):
        with torch.cuda.stream(streams[k % 3]):
            found.append(run(x))
    torch.cuda.synchronize()
    for f_, e in zip(found, expected, strict=True):
        same(f_, e)


def test_several_graphs_alive() -> None:
    fs = [lambda x, k=k: (torch.softmax(x + k, -1) @ x).relu() for k in range(4)]
    runs = []
    forget()
    for f in fs:
        runs.append(dynamo.compile(f, backend="inductor", mode="reduce-overhead"))
    for _ in range(8):
        x = rand(64, 64)
        found = [run(x) for run in runs]
        for y, f in zip(found, fs, strict=True):
            same(y, f(x))
        chained, expected = x / 8, x / 8
        for run, f in zip(runs, fs, strict=True):
            chained, expected = run(chained), f(expected)
        same(chained, expected, atol=1e-4)


class Net(nn.Module):
    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        self.a, self.bn, self.b, self.p = nn.Linear(32, 64, bias=False), nn.BatchNorm1d(64), nn.Linear(64, 10), p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(F.dropout(self.bn(self.a(x)).relu(), self.p, self.training))


def train(model: nn.Module, run: Any, steps: int, accumulate: int, zero_between: bool) -> list[float]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    torch.manual_seed(3)
    for step in range(steps):
        x, target = rand(48, 32), torch.randint(0, 10, (48,), device="cuda")
        if not zero_between and step % accumulate == 0:
            optimizer.zero_grad()
        loss = F.cross_entropy(run(x), target)
        if zero_between and step % accumulate == 0:
            optimizer.zero_grad()
        loss.backward()
        if step % accumulate == accumulate - 1:
            optimizer.step()
        losses.append(loss.detach())
    return [float(x) for x in losses]


def check_training(accumulate: int, zero_between: bool) -> None:
    torch.manual_seed(0)
    models = [Net().cuda(), Net().cuda()]
    models[1].load_state_dict(models[0].state_dict())
    forget()
    run = dynamo.compile(models[0], backend="inductor", mode="reduce-overhead")
    with session() as store:
        found = train(models[0], run, 20, accumulate, zero_between)
    expected = train(models[1], models[1], 20, accumulate, zero_between)
    assert not refusals(store), refusals(store)
    same(torch.tensor(found), torch.tensor(expected), atol=1e-3)
    for (name, p), (_, q) in zip(models[0].state_dict().items(), models[1].state_dict().items(), strict=True):
        assert (p.double() - q.double()).abs().max() < 5e-3, name
    assert recordings() and all(recordings()), recordings()


def test_training() -> None:
    check_training(1, zero_between=False)


def test_training_that_zeroes_gradients_after_the_forward() -> None:
    check_training(1, zero_between=True)


def test_training_that_accumulates() -> None:
    check_training(4, zero_between=False)


def test_two_forwards_before_a_backward() -> None:
    torch.manual_seed(0)
    model, other = Net().cuda().eval(), Net().cuda().eval()
    other.load_state_dict(model.state_dict())
    forget()
    run = dynamo.compile(model, backend="inductor", mode="reduce-overhead")
    for _ in range(10):
        xs = [rand(16, 32), rand(16, 32)]
        (run(xs[0]).square().sum() + run(xs[1]).exp().sum()).backward()
        (other(xs[0]).square().sum() + other(xs[1]).exp().sum()).backward()
        for p, q in zip(model.parameters(), other.parameters(), strict=True):
            same(p.grad, q.grad, atol=1e-3)
        model.zero_grad()
        other.zero_grad()


def test_a_cache_that_is_written_in_place() -> None:
    def step(cache: torch.Tensor, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(0, at, x)
        return cache.sum(0) * 2

    caches = [torch.zeros(32, 8, device="cuda") for _ in range(2)]
    plain = [c.clone() for c in caches]
    run = compiled(step)
    with torch.no_grad():
        for k in range(24):
            x, at = rand(1, 8), torch.tensor([k], device="cuda")
            same(run(caches[k % 2], x, at), step(plain[k % 2], x, at))
            same(caches[k % 2], plain[k % 2])


def test_dropout_draws_and_follows_the_seed() -> None:
    f = lambda x: F.dropout(x, 0.5)  # noqa: E731  compiled and called
    run, x = compiled(f), torch.ones(1 << 14, device="cuda")
    drawn = [run(x) for _ in range(8)]
    assert all(0.4 < (d == 0).float().mean().item() < 0.6 for d in drawn)
    assert all(not torch.equal(drawn[0], d) for d in drawn[1:])
    torch.manual_seed(5)
    first = [run(x), run(x)]
    torch.manual_seed(5)
    second = [run(x), run(x)]
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    torch.manual_seed(5)
    plain = compiled(f, options={"triton.cudagraphs": False})
    for a in first:
        assert torch.equal(a, plain(x)), "replays draw what launches draw"
    assert torch.rand(3, device="cuda").shape == (3,)


def test_memory_is_given_back() -> None:
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    f = lambda x: (torch.softmax(x @ x, -1) @ x).relu()  # noqa: E731  compiled and called
    run, x = compiled(f), rand(1024, 1024)
    for _ in range(5):
        run(x)
    held = run(x)
    assert recordings() == [1]
    dynamo.reset()
    assert not any(recordings())
    same(held, f(x), atol=1e-2)
    del held, x, run
    gc.collect()
    torch.cuda.empty_cache()
    left = torch.cuda.memory_reserved() - before
    assert left <= 40 << 20, f"{left} bytes stay"  # workspaces of cuBLAS


def test_a_dropped_function_drops_its_graphs() -> None:
    forget()

    def use() -> None:
        model = Net().cuda().eval()
        run, x = dynamo.compile(model, backend="inductor", mode="reduce-overhead"), rand(64, 32)
        with torch.no_grad():
            for _ in range(4):
                run(x)
        assert recordings() == [1]

    use()
    gc.collect()
    assert not any(recordings()), "an entry ends with the module that it is for"


def test_out_of_memory_while_capturing() -> None:
    f = lambda x: (x[:, None] * x[None]).softmax(-1).cumsum(0).sum(1)  # noqa: E731  compiled and called
    run, x = compiled(f), rand(4096)
    expected = f(x)
    with session() as store:
        same(run(x), expected, atol=1e-2)
        capture = graphs.capture

        def full(*args: Any) -> Any:
            _, total = torch.cuda.mem_get_info()
            torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (8 << 20)) / total)
            try:
                return capture(*args)
            finally:
                torch.cuda.set_per_process_memory_fraction(1.0)

        graphs.capture = full
        try:
            for _ in range(3):
                same(run(x), expected, atol=1e-2)
        finally:
            graphs.capture = capture
    assert [r for r in refusals(store) if "DI037" in r and "test_graphs.py" in r], refusals(store)
    other = compiled(lambda x: torch.rand_like(x) + x.sin())
    for _ in range(4):
        other(x)
    assert recordings()[-1:] == [1]


def test_a_capture_that_the_device_refuses() -> None:
    @torch.library.custom_op("graph_tests::waits", mutates_args=())
    def waits(x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()

    waits.register_fake(lambda x: torch.empty_like(x))
    f = lambda x: waits(x + 1) * 2  # noqa: E731  compiled and called
    run, x = compiled(f), rand(100)
    with session() as store:
        for _ in range(5):
            same(run(x), f(x), atol=1e-3)
    print(refusals(store))
    assert any("DI036" in r for r in refusals(store)), refusals(store)
    same(torch.dropout(torch.ones(100, device="cuda"), 0.5, True).unique(), torch.tensor([0.0, 2.0], device="cuda"))
    again = compiled(lambda x: F.dropout(x, 0.5) + x)
    for _ in range(4):
        again(x)
    assert recordings()[-1:] == [1]


def waits(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)) * 2


def seeds(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)
    return torch.rand_like(x) + x


def mixes(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + torch.ones(())


def test_reasons_name_the_line() -> None:
    for fn, reason in ((waits, "DI031"), (seeds, "DI032"), (mixes, "DI030")):
        x = rand(50)
        with session() as store:
            run = compiled(fn)
            for _ in range(4):
                same(run(x), fn(x))
        noted = set(refusals(store))
        line = fn.__code__.co_firstlineno + 1
        assert [n.partition(":")[0] for n in noted] == [reason], noted
        assert f"test_graphs.py:{line}:" in "".join(noted), noted


def test_programs_of_the_processor_have_no_graphs_and_no_notes() -> None:
    x = torch.randn(50)
    with session() as store:
        run = compiled(lambda x: x + 1)
        for _ in range(4):
            same(run(x), x + 1)
    assert not refusals(store), refusals(store)
    assert recordings() == []


def test_backends() -> None:
    for name in ("cudagraphs", "aot_cudagraphs"):
        torch.manual_seed(0)
        model = Net().cuda()
        other = Net().cuda()
        other.load_state_dict(model.state_dict())
        forget()
        run = dynamo.compile(model, backend=name)
        with session() as store:
            found = train(model, run, 12, 1, zero_between=False)
        same(torch.tensor(found), torch.tensor(train(other, other, 12, 1, zero_between=False)), atol=1e-3)
        assert not refusals(store), refusals(store)
        assert recordings() and all(recordings()), recordings()


def test_a_program_that_captures_itself() -> None:
    f = lambda x: torch.softmax(x, -1) + 1  # noqa: E731  compiled and called
    run, x = compiled(f), rand(64, 64)
    for _ in range(4):
        run(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run(x)
    x.copy_(rand(64, 64))
    graph.replay()
    same(out, f(x))


def main() -> int:
    wrong = 0
    for name, check in list(globals().items()):
        if not name.startswith("test_") or (sys.argv[1:] and sys.argv[1] not in name):
            continue
        began = time.perf_counter()
        try:
            check()
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001  the next check may tell more
            wrong += 1
            print(f"WRONG {name}: {type(error).__name__}: {' '.join(str(error).split())[:900]}", flush=True)
            print("".join(traceback.format_exc().splitlines(keepends=True)[-10:]), flush=True)
        else:
            print(f"right {name} {time.perf_counter() - began:.1f} s, recordings {recordings()}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
