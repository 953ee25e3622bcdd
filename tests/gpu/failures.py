"""What goes wrong with a GPU, each provoked for real in a process of its own: `python -m tests.gpu.failures` runs all, with a NAME one.

A case says what the user must see. Programs that can go on give what eager gives, and say which kernels run as ATen calls; a device that
is lost ends the program with an error that names the way to find the kernel. Plain functions, for machines without pytest.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import dynamo
from dynamo import config
from dynamo.trace import session
from dynamo.trace.events import Note
from inductor.targets.triton import build, launcher, library, target, tune, worker

LONGEST = 100  # seconds of a case
NOTED = ("DI001", "DI002", "DI020", "DI021", "DI022")

Case = Callable[[], None]
CASES: dict[str, tuple[Case, dict[str, str]]] = {}


def case(**environment: str) -> Callable[[Case], Case]:
    def put(run: Case) -> Case:
        CASES[run.__name__] = run, environment
        return run

    return put


def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.softmax(x, -1) * 2, x.sum(0)


def noted(x: torch.Tensor, fn: Callable[..., Any] = program) -> dict[str, list[str]]:
    """Compiled equals eager; what was noted, by id."""
    with session() as store, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = dynamo.compile(fn, backend="inductor")(x)
    for f, e in zip(found, fn(x), strict=True):
        torch.testing.assert_close(f, e, rtol=1e-4, atol=1e-4)
    notes: dict[str, list[str]] = {}
    for n in store.of(Note):
        notes.setdefault(n.id, []).append(n.message)
    print("  noted:", notes, flush=True)
    return notes


@case(CUDA_VISIBLE_DEVICES="")
def no_gpu() -> None:
    """Programs of the processor don't notice."""
    assert not torch.cuda.is_available()
    assert not noted(torch.randn(100, 300)).keys() & set(NOTED)


@case()
def an_old_driver() -> None:
    launcher.OLDEST = 999_000
    (message,) = noted(torch.randn(100, 300, device="cuda"))["DI022"]
    assert "the CUDA driver is of CUDA" in message, message


@case()
def no_driver_library() -> None:
    launcher.LIBRARY = "/nowhere/libcuda.so.1"
    (message,) = noted(torch.randn(100, 300, device="cuda"))["DI022"]
    assert "no CUDA driver" in message, message


@case()
def no_triton() -> None:
    """The graph runs uncompiled, and says how to get Triton."""
    sys.modules["triton"] = None  # type: ignore[assignment]  # what makes Python refuse the import
    (message,) = noted(torch.randn(100, 300, device="cuda"))["DI001"]
    assert "pip install triton" in message and "runs uncompiled" in message, message


PTXAS = """#!/bin/sh
[ "$1" = --version ] && echo "Cuda compilation tools, release 12.8, V12.8.93" && exit 0
echo "ptxas fatal : out of luck" >&2
exit 1
"""


@case()
def no_assembler() -> None:
    """Every kernel runs as ATen calls."""
    script = Path(tempfile.mkdtemp(), "ptxas")
    script.write_text(PTXAS)
    script.chmod(0o755)
    os.environ["TRITON_PTXAS_PATH"] = os.environ["TRITON_PTXAS_BLACKWELL_PATH"] = str(script)
    messages = noted(torch.randn(100, 300, device="cuda"))["DI021"]
    assert all("runs as ATen calls" in m for m in messages), messages


@case()
def triton_refuses_one_kernel() -> None:
    """It runs as ATen calls, the others are launched."""
    ask = build.ask

    def refusing(kernel: library.Kernel, *args: Any) -> worker.Image:
        if re.search(r"(?m)\bsum$", kernel.text.partition("import torch")[0]):
            return worker.read('{"error": "CompilationError: at 3:4"}')
        return ask(kernel, *args)

    build.ask = refusing
    (message,) = noted(torch.randn(100, 300, device="cuda"))["DI021"]
    assert "CompilationError: at 3:4" in message, message


@case()
def a_compiler_that_dies() -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "dies.py")
        script.write_text("import os, signal\ninput()\nos.kill(os.getpid(), signal.SIGSEGV)\n")
        worker.__file__ = str(script)
        messages = noted(torch.randn(100, 300, device="cuda"))["DI021"]
        assert all("ended with status -11" in m for m in messages), messages


@case()
def out_of_memory() -> None:
    """The error is torch's own; when there is memory again, the same compiled code runs."""
    run = dynamo.compile(lambda x: x.unsqueeze(0) + torch.ones(64, 1, 1, device="cuda"), backend="inductor")
    x = torch.randn(4096, 4096, device="cuda")
    run(x)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(1e9 / torch.cuda.get_device_properties(0).total_memory)
    try:
        run(x)
    except torch.OutOfMemoryError as error:
        print("  raised:", str(error)[:200], flush=True)
    else:
        raise AssertionError("nothing was raised")
    torch.cuda.set_per_process_memory_fraction(1.0)
    assert run(x).shape == (64, 4096, 4096)


@case()
def out_of_memory_while_autotuning() -> None:
    """Shapes that have no room are counted and left out, and the rules' shape is taken. With memory the same program is measured."""
    x = torch.randn(4096, 4096, device="cuda")
    expected = torch.softmax(x, -1)
    total = torch.cuda.get_device_properties(0).total_memory
    for room, is_measured in ((3 * x.nbytes // 2, False), (total // 2, True)):
        dynamo.reset()
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + room) / total)
        run = dynamo.compile(lambda x: torch.softmax(x, -1), backend="inductor", mode="max-autotune-no-cudagraphs")
        with session() as store, config.patch(graph_cache=False):
            found = run(x)
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        (said,) = [n.message for n in store.of(Note) if n.id == tune.TUNED]
        print("  noted:", said, flush=True)
        assert (" us with " in said) is is_measured
        assert (tune.NO_ROOM in said) is not is_measured


@case()
def no_memory_to_load_a_kernel() -> None:
    """With a full device a kernel is loaded, or runs as ATen calls, or torch has no memory for the results: nothing else."""
    x, held = torch.randn(100, 300, device="cuda"), []
    size = 1 << 36
    while size >= 1 << 20:
        try:
            held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            size //= 2
    print(f"  {sum(h.numel() for h in held) >> 20} MB held", flush=True)
    try:
        notes = noted(x)
        assert not notes.keys() & {"DI001", "DI002", "DI022"}, notes
    except (torch.OutOfMemoryError, torch.AcceleratorError) as error:  # the latter where eager cannot load a kernel of its own
        if "out of memory" not in str(error):
            raise
        print("  raised:", str(error)[:200], flush=True)
    held.clear()
    torch.cuda.empty_cache()
    noted(torch.randn(100, 301, device="cuda"))


def stray(text: str) -> str:
    """A kernel's text with loads far outside."""
    return text.replace("tl.load(", "tl.load((1 << 44) + ") if "KERNEL = None" not in text else text


@case()
def an_illegal_access() -> None:
    """The device is lost. The next launch says so, and names the way on; the program is not run again."""
    parted = target.joined
    target.joined = lambda files: parted([stray(f) for f in files])
    x = torch.randn(1000, device="cuda")
    with config.patch(cache=False, graph_cache=False):
        run = dynamo.compile(lambda x: (x * 2).relu() + 1, backend="inductor")
        run(x)
        lost(lambda: torch.cuda.synchronize(), "illegal memory access")
        lost(lambda: run(x), "sanitize", "DI023")
        lost(lambda: dynamo.compile(lambda x: x * 3, backend="inductor")(x), "CUDA")


@case()
def a_failed_assertion_of_eager() -> None:
    """As above, with a kernel of torch's own."""
    x = torch.randn(1000, device="cuda")
    run = dynamo.compile(lambda x: x * 2 + 1, backend="inductor")
    run(x)
    torch.nn.functional.embedding(torch.tensor([7], device="cuda"), torch.randn(3, 3, device="cuda"))
    lost(lambda: torch.cuda.synchronize(), "device-side assert")
    lost(lambda: run(x), "sanitize", "DI023")


@case()
def an_index_out_of_range() -> None:
    """Raised by a later call; the device stays usable."""
    w, i = torch.randn(10, 8, device="cuda"), torch.tensor([1, 11], device="cuda")
    run = dynamo.compile(lambda w, i: torch.nn.functional.embedding(i, w) + 1, backend="inductor")
    run(w, i)
    torch.cuda.synchronize()
    try:
        run(w, i)
    except IndexError as error:
        print("  raised:", error, flush=True)
    else:
        raise AssertionError("nothing was raised")
    torch.cuda.synchronize()
    assert torch.equal(run(w, i % 10), torch.nn.functional.embedding(i % 10, w) + 1)


def lost(action: Callable[[], Any], *words: str) -> None:
    try:
        action()
    except Exception as error:  # noqa: BLE001  torch's class for it differs between versions
        print(f"  raised: {type(error).__name__}: {' '.join(str(error).split())[:400]}", flush=True)
        missing = [word for word in words if word not in str(error)]
    else:
        raise AssertionError("nothing was raised")
    assert not missing, missing


def run_apart(name: str) -> tuple[int, str]:
    """(exit status, what it printed) of one case."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "DYNAMO_CACHE_DIR": cache, **CASES[name][1]}
        command = [sys.executable, "-m", "tests.gpu.failures", name]
        try:
            ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LONGEST)
        except subprocess.TimeoutExpired as error:
            return -9, f"not done after {LONGEST} s\n{error.stdout}"
    return ended.returncode, ended.stdout


def main(arguments: list[str]) -> int:
    if arguments:
        try:
            CASES[arguments[0]][0]()
        except BaseException:  # noqa: BLE001  the process must end here: a lost device may hang what runs at exit
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)
    wrong = 0
    for name in CASES:
        began = time.perf_counter()
        code, said = run_apart(name)
        wrong += code != 0
        print(f"{'ok' if not code else f'WRONG ({code})'} {name} ({time.perf_counter() - began:.1f} s)\n{said}", flush=True)
    print(f"{len(CASES) - wrong} of {len(CASES)} as they should be", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
