"""The launch path in C, against a driver that records what it is asked: compiled kernels are real, what would run them is not."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from dynamo import config
from dynamo.decisions import compiling
from dynamo.peer.counting import counters
from dynamo.trace import session
from dynamo.trace.events import CodeGenerated, KernelLoaded, Note
from inductor import _host
from inductor.compile import compile_graph
from inductor.runtime import devices
from inductor.runtime.pool import Job
from inductor.targets import registry
from inductor.targets.triton import build, launcher, worker
from inductor.targets.triton.library import FAILED, Kernel
from inductor.targets.triton.machine import occupancy
from inductor.targets.triton.runtime import TritonRuntime
from inductor.targets.triton.target import TritonTarget
from tests.inductor.helpers import trace
from tests.inductor.triton.seam import kernels_of

STREAM = 0x5EED


class Record(ctypes.Structure):
    _fields_ = [
        ("function", ctypes.c_void_p),
        ("stream", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("threads", ctypes.c_uint),
        ("shared", ctypes.c_uint),
        ("cells", ctypes.c_uint64 * 8),
    ]


class FakeDriver:
    """What the driver was asked, and how it should fail."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def __getattr__(self, name: str) -> int:
        return ctypes.c_int.in_dll(self.library, f"fake_{name}").value

    def set(self, **values: int) -> None:
        for name, value in values.items():
            ctypes.c_int.in_dll(self.library, f"fake_{name}").value = value

    def launches(self) -> list[Record]:
        return list((Record * 64).in_dll(self.library, "fake_launches"))[: self.count]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("driver") / "libfakecuda.so"
    source = Path(__file__).with_name("fake_cuda.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(path), str(source)], check=True)
    return path


@pytest.fixture
def driver(library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeDriver]:
    """Graphs on the processor are compiled for a GPU of capability 9.0 and launched through the driver that records."""
    target, runtime = TritonTarget("cpu"), TritonRuntime()
    monkeypatch.setattr(launcher, "LIBRARY", str(library))
    monkeypatch.setattr(launcher, "CUDA", 0)
    monkeypatch.setattr(launcher, "capability", lambda index: 90)
    monkeypatch.setattr(launcher, "device_index", lambda recipe: 0)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: STREAM, raising=False)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "a GPU that is not there")
    monkeypatch.setattr(build, "has_device", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(registry, "target", lambda device: target)
    monkeypatch.setattr(devices, "runtime", lambda device: runtime)
    for cached in (launcher.driver, launcher.device):
        cached.cache_clear()
    fake = FakeDriver(ctypes.CDLL(str(library)))
    fake.set(count=0, loads=0, version=12040, fail_load=0, fail_launch=0, cells=2, sets_flag=0, shared=0)
    with config.patch(cache_dir=str(tmp_path / "cache"), cache=True, graph_cache=False):
        (tmp_path / "cache").mkdir(mode=0o700)
        yield fake
    for cached in (launcher.driver, launcher.device):
        cached.cache_clear()


def compiled(fn: Any, given: list[Any], **options: Any) -> Any:
    return compile_graph(trace(fn, given), given, **options)


def test_a_kernel_is_launched_with_its_buffers(driver: FakeDriver) -> None:
    x = torch.randn(1000)
    run = compiled(lambda x: (x + 1,), [x])
    (out,) = run([x])

    (launch,) = driver.launches()
    assert [*launch.cells[:2]] == [x.data_ptr(), out.data_ptr()]
    assert launch.stream == STREAM and launch.context == _host.device_context(0)
    assert launch.grid[0] * launch.threads >= 1000 // 8 and [*launch.grid[1:]] == [1, 1]
    assert type(run).__name__ == "Program"


def test_what_a_kernel_needs_is_in_the_record(driver: FakeDriver) -> None:
    x = torch.randn(1000)
    with session() as store, compiling("7/0"):
        compiled(lambda x: (x + 1,), [x])([x])
    (loaded,) = store.of(KernelLoaded)
    assert (loaded.compile_id, loaded.graph_id, loaded.name, loaded.device) == ("7/0", "7/0.fw", "k0", "a GPU that is not there")
    (launch,) = driver.launches()
    assert (loaded.threads, loaded.programs, loaded.capability) == (launch.threads, launch.grid[0], 90)
    assert (loaded.occupancy, loaded.microseconds) == (1.0, 0.0)
    texts = {c.name: c.code for c in store.of(CodeGenerated) if c.name.startswith("7/0.fw.k0.")}
    assert f".entry {loaded.function}" in texts["7/0.fw.k0.ptx"]
    assert f"tt.func public @{loaded.function}" in texts["7/0.fw.k0.ttir"]


@pytest.mark.parametrize(
    "capability, threads, registers, shared, share",
    [
        (90, 128, 32, 0, 1.0),
        (90, 128, 255, 0, 0.125),  # registers of two blocks
        (90, 256, 16, 100 << 10, 0.25),  # memory of two blocks
        (90, 32, 16, 0, 0.5),  # 32 blocks
        (86, 256, 40, 0, 1.0),
        (103, 1024, 64, 0, 0.5),
    ],
)
def test_occupancy(capability: int, threads: int, registers: int, shared: int, share: float) -> None:
    assert occupancy(capability, threads, registers, shared) == share


def test_a_second_process_needs_neither_triton_nor_files(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    (_, text), *_ = kernels_of(lambda x: torch.softmax(x, -1), [torch.randn(64, 100)])
    image = Kernel(text).compile(90)

    def refuse(*args: Any) -> Any:
        raise AssertionError("compiled again")

    monkeypatch.setattr(worker, "image_of", refuse)
    monkeypatch.setattr(worker, "load", refuse)
    again = Kernel(text)
    assert again.find(90) == image and again.facts.grid
    assert Kernel(text).find(80) is None


def test_kernels_are_compiled_by_processes_side_by_side(driver: FakeDriver) -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = (x + 1) @ w
        return torch.softmax(y, -1) @ w, y.sum(0)

    x, w = torch.randn(64, 64), torch.randn(64, 64)
    source = "".join("# ==== kernel ====\n" + text for _, text in kernels_of(fn, [x, w]))
    job = build.start(source)
    assert isinstance(job, Job)
    kernels = job.result()
    assert len(kernels) >= 2
    assert all(k.images[90, 0].code.startswith(b"\x7fELF") for k in kernels)
    assert isinstance(build.start(source), list)


def test_a_buffer_that_begins_elsewhere_has_its_own_form(driver: FakeDriver) -> None:
    x = torch.randn(1001)
    run = compiled(lambda x: (x + 1,), [x[1:]])
    run([x[1:]])
    run([x[1:]])
    run([x[:1000]])
    odd, again, even = driver.launches()
    assert odd.cells[0] == x.data_ptr() + 4
    assert odd.function == again.function != even.function
    assert driver.loads == 2


def test_a_kernel_that_the_driver_refuses_runs_as_aten_calls(driver: FakeDriver) -> None:
    x = torch.randn(1000)
    driver.set(fail_load=2)
    with session() as store:
        (out,) = compiled(lambda x: (x + 1,), [x])([x])
    assert driver.launches() == []
    assert torch.equal(out, x + 1)
    (note,) = [n for n in store.of(Note) if n.id == FAILED]
    assert "CUDA_ERROR_OUT_OF_MEMORY" in note.message and "runs as ATen calls" in note.message


def test_a_kernel_that_triton_refuses_runs_as_aten_calls(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "ask", lambda *args: worker.read('{"error": "CompilationError: at 3:4"}'))
    x = torch.randn(1000)
    with session() as store:
        (out,) = compiled(lambda x: (x + 1,), [x])([x])
    assert torch.equal(out, x + 1)
    (note,) = [n for n in store.of(Note) if n.id == FAILED]
    assert "CompilationError: at 3:4" in note.message


def test_kernels_that_are_refused_are_counted(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "ask", lambda *args: worker.read('{"error": "CompilationError: at 3:4"}'))
    counters.clear()
    x = torch.randn(100)
    compiled(lambda x: (x + 1,), [x])([x])
    assert counters["notes"][FAILED] == 1


def test_a_compiler_that_dies_costs_its_kernel(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "dies.py"
    script.write_text("import os, signal\ninput()\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setattr(worker, "__file__", str(script))
    monkeypatch.setattr(build, "_idle", [])
    x = torch.randn(1000)
    with session() as store:
        (out,) = compiled(lambda x: (x + 1,), [x])([x])
    assert torch.equal(out, x + 1)
    (note,) = [n for n in store.of(Note) if n.id == FAILED]
    assert "ended with status -11" in note.message


@pytest.mark.parametrize("version, text", [(11030, "11.3"), (0, "no CUDA driver")])
def test_without_a_driver_kernels_are_launched_from_python(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, version: int, text: str
) -> None:
    driver.set(version=version)
    if not version:
        monkeypatch.setattr(launcher, "LIBRARY", "/nowhere/libcuda.so.1")
    with session() as store:
        assert text in launcher.driver()
        launcher.driver()
    assert [n.id for n in store.of(Note)] == [launcher.NO_DRIVER]
    assert type(compiled(lambda x: (x + 1,), [torch.randn(10)])).__name__ == "PythonHost"


def test_a_failing_launch_says_which_kernel(driver: FakeDriver) -> None:
    x = torch.randn(1000)
    run = compiled(lambda x: (x + 1,), [x])
    driver.set(fail_launch=700)
    with pytest.raises(RuntimeError, match=r"could not launch \w*add\w*: CUDA_ERROR_ILLEGAL_ADDRESS \(700\).*sanitize.*DI023") as caught:
        run([x])
    assert caught.value.is_final  # type: ignore[attr-defined]  # set in C


def test_a_launch_that_may_succeed_again_leaves_the_device(driver: FakeDriver) -> None:
    x = torch.randn(1000)
    run = compiled(lambda x: (x + 1,), [x])
    driver.set(fail_launch=2)
    with pytest.raises(RuntimeError, match=r"could not launch \w*add\w*: CUDA_ERROR_OUT_OF_MEMORY \(2\)") as caught:
        run([x])
    assert "DI023" not in str(caught.value) and not hasattr(caught.value, "is_final")
    driver.set(fail_launch=0)
    run([x])


def test_a_lost_device_is_no_reason_for_aten_calls(driver: FakeDriver) -> None:
    x = torch.randn(1000)
    driver.set(fail_load=700)
    with session() as store, pytest.raises(RuntimeError, match=r"could not load \w*add\w*: CUDA_ERROR_ILLEGAL_ADDRESS \(700\).*DI023"):
        compiled(lambda x: (x + 1,), [x])([x])
    assert [n for n in store.of(Note) if n.id == FAILED] == []
    driver.set(fail_load=0)
    compiled(lambda x: (x + 1,), [x])([x])
    assert len(driver.launches()) == 1


def test_an_index_out_of_range_is_raised_once_and_not_run_again(driver: FakeDriver) -> None:
    w, i = torch.randn(4, 3), torch.tensor([1, 3])
    run = compiled(lambda w, i: (torch.nn.functional.embedding(i, w) + 1,), [w, i])
    driver.set(cells=4, sets_flag=1)
    with pytest.raises(IndexError, match="out of range") as caught:
        run([w, i])
    assert caught.value.is_final  # type: ignore[attr-defined]  # set in C
    driver.set(sets_flag=0)
    run([w, i])


def test_a_batch_is_one_launch_for_each_row(driver: FakeDriver) -> None:
    given = [torch.randn(300), torch.randn(700), torch.randn(5)]
    run = compiled(lambda *xs: tuple(torch._foreach_add(list(xs), 1.0)), given)
    run(given)
    launches = driver.launches()
    assert len({launch.function for launch in launches}) == 1
    assert {launch.cells[0] for launch in launches} == {x.data_ptr() for x in given}


def test_other_threads_use_the_context_of_the_device(driver: FakeDriver) -> None:
    x = torch.randn(1000)
    run = compiled(lambda x: (x + 1,), [x])
    thread = threading.Thread(target=run, args=([x],))
    thread.start()
    thread.join()
    assert [launch.context for launch in driver.launches()] == [_host.device_context(0)]


def test_backward_graphs_take_gradients_in_any_strides(driver: FakeDriver) -> None:
    x = torch.randn(8, 16)
    run = compiled(lambda x: (x * 2,), [x], is_backward=True)
    given = [torch.ones(1).expand(8, 16)]
    run(given)
    (launch,) = driver.launches()
    assert launch.cells[0] not in (x.data_ptr(), 0)
