"""Compiles the kernels of a graph side by side, in processes that have Triton and nothing else.

Triton's compiler holds Python's lock for most of the 0.2 s that a kernel takes, so threads would not help; and a compiler that crashes
takes no more along than its kernel, which then runs as ATen calls.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Sequence

import torch

from inductor.runtime import pool
from inductor.targets.triton import launcher, worker
from inductor.targets.triton.library import Kernel, check_triton, file_key, library_of, path_of
from inductor.targets.triton.worker import Image, Refused

PATIENCE = 300.0  # seconds that one kernel may take


def start(source: str) -> list[Kernel] | pool.Job[list[Kernel]]:
    """The kernels of a graph, or the job that compiles those that are in no cache. Raises BuildError where Triton is missing."""
    kernels = library_of(source)
    if not has_device() or launcher.driver():
        check_triton()
        return kernels
    capability = launcher.capability(torch.cuda.current_device())
    missing = [k for k in kernels if k.find(capability) is None]
    if not missing:
        return kernels
    check_triton()
    return pool.start(lambda: compiled(kernels, missing, capability))


def has_device() -> bool:
    return torch.cuda.is_available()


def compiled(kernels: list[Kernel], missing: Sequence[Kernel], capability: int) -> list[Kernel]:
    """All kernels, those that were missing compiled as far as Triton compiles them."""
    first = {file_key(k.text): k for k in missing if "\nKERNEL = None\n" not in k.text}
    jobs = [pool.start(lambda k=k: compile_one(k, capability)) for k in first.values()]  # type: ignore[misc]  # mypy has no type for a default that binds a loop variable
    for job in jobs:
        pool.help_with(job)
    for kernel in missing:
        twin = first.get(file_key(kernel.text), kernel)
        kernel.images.update(twin.images)
        kernel.refused.update(twin.refused)
    return kernels


def compile_one(kernel: Kernel, capability: int) -> None:
    try:
        kernel.keep(ask(kernel, capability), capability)
    except Refused as why:
        kernel.refused[capability, 0] = str(why)


def ask(kernel: Kernel, capability: int, misaligned: int = 0) -> Image:
    """A kernel from a process that compiles. Raises Refused."""
    path = str(path_of(file_key(kernel.text), kernel.text))
    child = take()
    answer = ""
    try:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps([path, capability, misaligned]) + "\n")
        child.stdin.flush()
        if not select.select([child.stdout], [], [], PATIENCE)[0]:
            raise Refused(f"its compiler found no end in {PATIENCE:.0f} s")
        answer = child.stdout.readline()
    except OSError:
        answer = ""  # the process is gone
    finally:
        give(child, is_well=bool(answer))
    if not answer:
        raise Refused(f"its compiler ended with status {child.wait()}")
    return worker.read(answer)


# processes


_idle: list[tuple[int, subprocess.Popen[str]]] = []  # with the process that started them: a forked child has its own
_lock = threading.RLock()


def take() -> subprocess.Popen[str]:
    """A process that waits for work, or a new one. There are as many as threads that ask."""
    with _lock:
        while _idle:
            pid, child = _idle.pop()
            if pid == os.getpid() and child.poll() is None:
                return child
    child = subprocess.Popen(
        [sys.executable, "-P", worker.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        process_group=0,
    )
    pool.watch(child)
    return child


def give(child: subprocess.Popen[str], *, is_well: bool) -> None:
    if is_well:
        with _lock:
            _idle.append((os.getpid(), child))
        return
    pool.kill(child)
    close(child)


def close(child: subprocess.Popen[str]) -> None:
    """A process whose input has ended ends."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    child.wait()


def close_all() -> None:
    while _idle:
        pid, child = _idle.pop()
        if pid == os.getpid():
            close(child)


atexit.register(close_all)
