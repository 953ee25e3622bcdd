"""The cache on disk: a second process skips the compiler, and nothing that changes the result is missing from the key."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dynamo
from dynamo import config, decisions
from dynamo.trace import session
from dynamo.trace.events import CacheLooked, CodeGenerated, Decided, GraphCaptured, Note, StageTimed
from inductor.runtime import cache, pool
from inductor.targets.cpu import build

SKIPPED = {"aot", "partition", "passes", "lower", "schedule", "kernels", "build"}

SCRIPT = """
import json, sys
import torch
import dynamo
from dynamo.trace import session
from dynamo.trace.events import CacheLooked, CodeGenerated, StageTimed

started = []
sys.addaudithook(lambda event, args: started.append(args[0]) if event == "subprocess.Popen" else None)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16))
x = torch.randn(4, 8, requires_grad=True)

def step(model):
    net.zero_grad()
    x.grad = None
    model(x).exp().sum().backward()  # of squares the gradient is nothing but rounding
    return [x.grad, *[p.grad for p in net.parameters()]]

expected = [g.clone() for g in step(net)]
with session() as store:
    found = step(dynamo.compile(net, backend="inductor"))
modules = [m for m in ("inductor.lowering.graph", "dynamo.aot.joint", "sympy") if m in sys.modules]
torch.testing.assert_close(found, expected)
print(json.dumps({
    "outcomes": [e.outcome for e in store.of(CacheLooked)],
    "reasons": [e.reason for e in store.of(CacheLooked)],
    "stages": sorted({e.stage for e in store.of(StageTimed)}),
    "compilers": len(started),
    "code": [[e.stage, e.name, len(e.code)] for e in store.of(CodeGenerated) if e.stage != "codegen"],
    "modules": modules,
}))
"""


@pytest.fixture(autouse=True)
def cache_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNAMO_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("DYNAMO_GRAPH_CACHE", "1")
    return tmp_path / "cache"


def start(script: Path, **environment: str) -> subprocess.Popen[str]:
    env = {k: v for k, v in os.environ.items() if k != "DYNAMO_FUEL"} | {"PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"} | environment
    return subprocess.Popen([sys.executable, str(script)], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return json.loads(out.splitlines()[-1])


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def looked(fn: Any, *args: Any) -> CacheLooked:
    """What the cache says to a fresh compile of `fn`."""
    dynamo.reset()
    with session() as store:
        found = dynamo.compile(fn, backend="inductor")(*args)
    torch.testing.assert_close(found, fn(*args), equal_nan=True)
    (event,) = store.of(CacheLooked)
    return event


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("graphs/*/*.graph"))


# a second process


def test_second_process_skips_tracing_lowering_and_the_compiler(script):
    first, second = finish(start(script)), finish(start(script))
    assert first["outcomes"] == ["miss"] and first["compilers"] == 2
    assert second["outcomes"] == ["hit"] and second["compilers"] == 0
    assert not SKIPPED & set(second["stages"])
    assert second["modules"] == []
    assert second["code"] == first["code"] and {name for name, _, _ in first["code"]} >= {"lower", "schedule", "kernels"}


def test_evicted_libraries_are_built_from_the_entry(script, cache_dir):
    finish(start(script))
    for library in cache_dir.glob("kernels/*/*.so"):
        library.unlink()
    again = finish(start(script))
    assert again["outcomes"] == ["hit"] and again["compilers"] == 2


DAMAGES = (lambda b: b[:200], lambda b: b"", lambda b: b[:-1], lambda b: b.replace(b"temp", b"tamp"), lambda b: b + b"x")


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_entries_are_made_again(damage, cache_dir):
    def fn(x):
        return (x.sin() + 1).softmax(1)

    x = torch.randn(5, 6)
    assert looked(fn, x).outcome == "miss"
    (entry,) = entries(cache_dir)
    entry.write_bytes(damage(entry.read_bytes()))
    assert looked(fn, x).reason.startswith("the entry is damaged")
    assert looked(fn, x).outcome == "hit"


def test_processes_may_start_together(script, cache_dir):
    both = [start(script) for _ in range(2)]
    assert [finish(p)["outcomes"] for p in both]
    assert finish(start(script))["outcomes"] == ["hit"]
    assert len(entries(cache_dir)) == 1
    assert not list(cache_dir.glob("*/*/.new-*"))


def test_decisions_keep_their_numbers(cache_dir):
    def fn(x):
        return (x + 1).relu().sum(), (x * 2).exp()

    def numbers() -> list[tuple[int, str, str]]:
        dynamo.reset()
        with session() as store:
            dynamo.compile(fn, backend="inductor")(torch.ones(30, 40))
        return [(e.number, e.stage, e.what) for e in store.of(Decided) if e.number]

    first, second = numbers(), numbers()
    assert first and [row[1:] for row in second] == [row[1:] for row in first]
    assert second[0][0] > first[-1][0] and second[-1][0] - second[0][0] == first[-1][0] - first[0][0]


def test_the_record_of_a_hit_shows_graphs_and_code(cache_dir):
    def fn(x):
        return x.cos().sum(0)

    texts = []
    for _ in range(2):
        dynamo.reset()
        with session() as store:
            dynamo.compile(fn, backend="inductor")(torch.ones(3, 4))
        ids = {e.compile_id for e in store.of(CacheLooked)}
        assert {e.compile_id for e in store.of(CodeGenerated)} == ids
        texts.append([(e.stage, e.language, e.code) for e in store.of(CodeGenerated)])
        assert [e.stage for e in store.of(GraphCaptured)][:2] == ["capture", "aot"]
    assert texts[0] == texts[1]


def test_other_lines_of_source_are_not_shown_as_these(cache_dir):
    """A graph that came from elsewhere has the same kernels, but a record must name the lines of this program."""

    def here(x):
        return x.tan() * 3

    def there(x):
        return x.tan() * 3

    x = torch.ones(3, 4)
    assert looked(here, x).outcome == "miss"
    assert looked(there, x).reason == "made for other lines of source"
    dynamo.reset()
    hits = cache.info().hits
    dynamo.compile(here, backend="inductor")(x)  # nobody watches: which lines does not matter
    assert cache.info().hits == hits + 1


# the key


class Net(nn.Module):
    def __init__(self, bias: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6, bias=bias)
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu() * self.scale


def base(x, y):
    return x.sin() + y * 2


BASE = (torch.ones(4, 6), torch.ones(4, 6))
_shared = torch.ones(9, 6)

CHANGES: dict[str, Any] = {
    "shape": lambda: looked(base, torch.ones(5, 6), torch.ones(5, 6)),
    "strides": lambda: looked(base, torch.ones(6, 4).t(), BASE[1]),
    "offset": lambda: looked(base, torch.ones(9, 6)[2:6], BASE[1]),
    "dtype": lambda: looked(base, BASE[0].double(), BASE[1]),
    "requires_grad": lambda: looked(base, BASE[0].clone().requires_grad_(), BASE[1]),
    "same tensor twice": lambda: looked(base, BASE[0], BASE[0]),
    "shared memory": lambda: looked(base, _shared[:4], _shared[5:]),
    "constant": lambda: looked(lambda x, y: x.sin() + y * 3, *BASE),
    "kind of constant": lambda: looked(lambda x, y: x.sin() + y * 2.0, *BASE),
    "operator": lambda: looked(lambda x, y: x.cos() + y * 2, *BASE),
    "order of operands": lambda: looked(lambda x, y: x.sin() * 2 + y, *BASE),
    "outputs": lambda: looked(lambda x, y: (z := y * 2, x.sin() + z), *BASE),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_decides_the_result_is_in_the_key(change):
    before = looked(base, *BASE)
    after = CHANGES[change]()
    assert before.outcome == "miss" and after.outcome == "miss" and after.key != before.key


def test_names_are_not_in_the_key():
    before = looked(base, *BASE)

    def other(a, b):
        return a.sin() + b * 2

    assert looked(other, *BASE).key == before.key


@pytest.mark.parametrize(
    "on, off",
    [
        (lambda: torch.set_grad_enabled(False), lambda: torch.set_grad_enabled(True)),
        (lambda: torch.use_deterministic_algorithms(True), lambda: torch.use_deterministic_algorithms(False)),
        (lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)),
        (lambda: torch.set_autocast_enabled("cpu", True), lambda: torch.set_autocast_enabled("cpu", False)),
        (lambda: torch.set_float32_matmul_precision("medium"), lambda: torch.set_float32_matmul_precision("highest")),
        (lambda: setattr(config, "c_optimize", 1), lambda: config.reset()),
    ],
    ids=["grad mode", "deterministic", "default dtype", "autocast", "matmul precision", "configuration"],
)
def test_global_state_is_in_the_key(on, off):
    before = looked(base, *BASE)
    on()
    try:
        after = looked(base, *BASE)
    finally:
        off()
    assert after.outcome == "miss" and after.key != before.key


def test_versions_are_in_the_key(monkeypatch):
    before = looked(base, *BASE)
    monkeypatch.setattr(build, "compiler_identity", lambda command: "another compiler")
    assert looked(base, *BASE).key != before.key


def test_modules_find_their_own_parameters():
    torch.manual_seed(0)
    x = torch.randn(3, 6)
    first, second = Net(), Net()
    with torch.no_grad():
        assert looked(first, x).outcome == "miss"
        assert looked(second, x).outcome == "hit"  # values are not in the key: each module's own are used
        assert looked(Net(bias=False), x).outcome == "miss"


def test_writes_views_and_saved_values_come_back():
    def fn(x, w):
        x.add_(1)
        y = (x * w).sin()
        return y.view(-1), x[0], {"sum": y.sum(), "none": None}, y.shape[0]

    def run(model):
        x, w = torch.arange(6.0).reshape(2, 3), torch.full((2, 3), 0.5, requires_grad=True)
        flat, row, named, size = model(x, w)
        (flat.sum() + named["sum"]).backward()
        row.fill_(7)
        return x, w.grad, flat, named["sum"], size

    expected = run(fn)
    outcomes = []
    for _ in range(2):
        dynamo.reset()
        with session() as store:
            torch.testing.assert_close(run(dynamo.compile(fn, backend="inductor")), expected)
        outcomes += [e.outcome for e in store.of(CacheLooked)]
    assert outcomes == ["miss", "hit"]


def test_constants_come_back():
    def fn(x):
        return x + torch.tensor([1.0, float("inf"), -0.0]) * 2

    assert looked(fn, torch.ones(3)).outcome == "miss"
    assert looked(fn, torch.ones(3)).outcome == "hit"


def test_dropout_draws_anew():
    def fn(x):
        return F.dropout(x, 0.5)

    results = []
    for _ in range(2):
        dynamo.reset()
        torch.manual_seed(3)
        results.append(dynamo.compile(fn, backend="inductor")(torch.ones(100)))
    torch.testing.assert_close(results[0], results[1])


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_functions_of_the_program_are_not_kept(cache_dir):
    event = looked(lambda x: Double.apply(x).sin(), torch.ones(3, requires_grad=True))
    assert event.outcome == "bypass" and "program's own" in event.reason
    assert not entries(cache_dir)


def test_limited_decisions_bypass():
    with decisions.limited("all"):
        event = looked(base, *BASE)
    assert event.outcome == "bypass" and "decisions" in event.reason


# the folder


@pytest.mark.parametrize("option, value", [("cache", False), ("force_disable_caches", True)])
def test_switched_off(option, value, cache_dir):
    with config.patch(**{option: value}):
        event = looked(base, *BASE)
    assert event.outcome == "bypass" and not cache_dir.exists()


def test_graphs_switched_off_leaves_libraries(cache_dir):
    with config.patch(graph_cache=False):
        assert looked(base, *BASE).outcome == "bypass"
    assert cache.info().graphs == 0 and cache.info().libraries == 1


def test_the_peers_switch_is_honoured(monkeypatch, cache_dir):
    monkeypatch.setenv("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")
    assert looked(base, *BASE).outcome == "bypass" and not cache_dir.exists()


def test_folders_that_others_can_write_to_are_not_used(cache_dir):
    cache_dir.mkdir()
    cache_dir.chmod(0o777)
    event = looked(base, *BASE)
    assert event.outcome == "bypass" and "chmod go-w" in event.reason
    assert not list(cache_dir.iterdir())


def test_a_disk_that_takes_nothing(monkeypatch, cache_dir):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert looked(base, *BASE).outcome == "miss"
    assert not [p for p in cache_dir.rglob("*") if p.is_file()]


def test_the_size_is_limited(monkeypatch, cache_dir):
    looked(base, *BASE)
    one = cache.info()
    assert (one.graphs, one.libraries) == (1, 1)
    for path in cache_dir.glob("*/*/*"):
        os.utime(path, (1, 1))
    monkeypatch.setattr(cache, "limit", lambda: one.bytes + 2000)
    looked(lambda x, y: x.cos() - y, *BASE)
    assert cache.info().bytes <= one.bytes + 2000
    assert looked(base, *BASE).outcome == "miss"


def test_a_new_entry_does_not_look_through_the_others(monkeypatch, cache_dir):
    looked = []
    monkeypatch.setattr(cache, "_entries", lambda: looked.append(1) or [])
    for i in range(20):
        assert cache.put_parts(cache.graph_path(f"{i:02}" + "0" * 62), [b"x" * 1000])
    assert not looked
    monkeypatch.setattr(cache, "limit", lambda: 100_000)
    assert cache.put_parts(cache.graph_path("f" * 64), [b"x" * 1000])
    assert len(looked) == 1  # 20 pages are more than a share of the limit
    assert cache.put_parts(cache.graph_path("e" * 64), [b"x" * 1000])
    assert len(looked) == 2


def test_clear_leaves_other_files(cache_dir):
    looked(base, *BASE)
    (cache_dir / "notes.txt").write_text("mine")
    assert cache.clear() == 2
    assert [p.name for p in cache_dir.iterdir()] == ["notes.txt"]
    assert looked(base, *BASE).outcome == "miss"


# building in the background


@pytest.fixture
def slow_compiler(tmp_path, monkeypatch):
    """A compiler that takes its time."""
    real = " ".join(build.compiler())
    path = tmp_path / "slow-cc"
    path.write_text(f'#!/bin/sh\nsleep 0.5\nexec {real} "$@"\n')
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))
    return path


def pair(x):
    return (x.sin() * x).sum()


def test_a_backward_is_built_while_the_program_goes_on(slow_compiler):
    dynamo.reset()
    x = torch.randn(30, requires_grad=True)
    with session() as store:
        loss = dynamo.compile(pair, backend="inductor")(x)
        loss.backward()
    builds = [e for e in store.of(StageTimed) if e.stage == "build"]
    assert len(builds) == 2 and builds[1].start < builds[0].start + builds[0].seconds
    torch.testing.assert_close(x.grad, (x.cos() * x + x.sin()).detach())


def test_a_backward_that_cannot_be_built_runs_uncompiled(tmp_path, monkeypatch):
    real, marker = " ".join(build.compiler()), tmp_path / "once"
    path = tmp_path / "half-cc"
    path.write_text(f'#!/bin/sh\nmkdir {marker} 2>/dev/null || {{ echo broken >&2; exit 5; }}\nexec {real} "$@"\n')
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))
    monkeypatch.setattr(pool, "cpus", lambda: 1)
    for suppressed in (True, False):
        dynamo.reset()
        marker.rmdir() if marker.exists() else None
        x = torch.randn(30, requires_grad=True)
        with config.patch(suppress_errors=suppressed, cache=False):
            loss = dynamo.compile(pair, backend="inductor")(x)
            if suppressed:
                with pytest.warns(UserWarning, match=r"exit code 5[\s\S]*runs uncompiled"):
                    loss.backward()
                torch.testing.assert_close(x.grad, (x.cos() * x + x.sin()).detach())
            else:
                with pytest.raises(RuntimeError, match="exit code 5"):
                    loss.backward()


def test_at_most_one_compiler_per_cpu(monkeypatch):
    monkeypatch.setattr(pool, "cpus", lambda: 2)
    running, most, lock = 0, 0, threading.Lock()

    def work():
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return running

    jobs = [pool.start(work) for _ in range(8)]
    assert len([j.result() for j in reversed(jobs)]) == 8
    assert most == 2


FORK = """
import os, warnings
import torch, dynamo
warnings.simplefilter("ignore")
x = torch.randn(31, requires_grad=True)
loss = dynamo.compile(lambda x: (x.sin() * x).sum(), backend="inductor")(x)
child = os.fork()
loss.backward()
torch.testing.assert_close(x.grad, (x.cos() * x + x.sin()).detach())
if child:
    raise SystemExit(os.waitpid(child, 0)[1])
"""


def test_a_fork_with_a_build_under_way(slow_compiler):
    """In a process of its own: autograd refuses to work in forks once its threads for GPUs have started."""
    env = os.environ | {"PYTHONPATH": os.getcwd(), "DYNAMO_CACHE": "0"}
    done = subprocess.run([sys.executable, "-c", FORK], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_exit_does_not_wait_for_compilers(tmp_path, monkeypatch):
    real = " ".join(build.compiler())
    slow, begun = tmp_path / "never-cc", tmp_path / "begun"
    # the cosine is in the backward graph only: the compiler of the forward graph works, whichever comes first
    asked = f'for f; do case $f in *.c) grep -q cos "$f" && touch {begun} && sleep 100;; esac; done'
    slow.write_text(f'#!/bin/sh\n{asked}\nexec {real} "$@"\n')
    slow.chmod(0o755)
    script = tmp_path / "exit.py"
    script.write_text(
        "import torch, dynamo, os, time, json\n"
        "x = torch.ones(5, requires_grad=True)\n"
        "dynamo.compile(lambda x: (x.sin() * x).sum(), backend='inductor')(x)\n"
        f"while not os.path.exists({str(begun)!r}): time.sleep(0.01)\n"
        "print(json.dumps(time.time()))\n"
    )
    process = start(script, CC=str(slow), TMPDIR=str(tmp_path))
    before = finish(process)
    assert time.time() - float(before) < 15  # type: ignore[arg-type]
    assert not list(tmp_path.glob("dynamo-build-*"))


def test_notes_say_why_a_graph_is_not_kept(monkeypatch):
    from inductor.runtime import codec

    monkeypatch.setattr(codec, "MAX_CONSTANT", 0)

    def fn(x):
        return x + torch.tensor([1.0, 2.0, 3.0])

    dynamo.reset()
    with session() as store:
        dynamo.compile(fn, backend="inductor")(torch.ones(3))
    assert any(e.id == "DI010" and "constant tensor" in e.message for e in store.of(Note))
