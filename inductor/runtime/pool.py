"""Compilers that run beside Python: while one graph's C code is compiled, the next graph is lowered.

At most one compiler per CPU runs at a time. Threads wait for them, are daemons, and end when there is nothing left to do. At exit
running compilers are killed: their results are only worth keeping to somebody who waits. A forked child has none of the
threads, so it does what it needs itself, and so do functions that run at exit.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from dynamo.surroundings.locks import busy

T = TypeVar("T")

EXIT_PATIENCE = 2.0  # seconds that killed compilers get to end, so that their threads can clean up


def cpus() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Job(Generic[T]):
    """One piece of work in the background. `result` waits for it, and raises what it raised."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._pid = os.getpid()
        self.taken = False  # somebody has begun it, or is about to; guarded by the pool's lock
        self._done = threading.Event()
        self._value: list[T] = []
        self._error: BaseException | None = None
        self.began = self.ended = 0.0

    def run(self) -> None:
        self.compute()
        if _pool.closed and _pool.is_worker():
            self._error = None  # its compiler was killed: a function at exit that waits for it begins anew
        self._done.set()

    def compute(self) -> None:
        self.began = time.perf_counter()
        try:
            self._value = [self._work()]
        except BaseException as error:  # noqa: BLE001  # whoever waits gets it
            self._error = error
        self.ended = time.perf_counter()

    @property
    def finished(self) -> bool:
        return bool(self._value) or self._error is not None

    def wait(self) -> None:
        """Until it is done, one way or the other."""
        if not self.finished:
            self._done.wait()

    def result(self) -> T:
        if not self.finished:
            if self._pid == os.getpid():
                _wait_for(self)
            if not self.finished:
                self.compute()  # where this process was forked, the event may be in any state: another thread had it
        if self._error is not None:
            raise self._error
        return self._value[0]


class Pool:
    """Threads that take jobs from a queue, as many as there are CPUs."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.queue: deque[Job[object]] = deque()
        self.threads: set[threading.Thread] = set()
        self.running: set[subprocess.Popen[str]] = set()
        self.closed = False

    def add(self, job: Job[object]) -> None:
        with self.lock:
            self.queue.append(job)
            if len(self.threads) < cpus() and not self.closed:
                thread = threading.Thread(target=self.serve, name="dynamo-build", daemon=True)
                with contextlib.suppress(RuntimeError):  # an interpreter that ends starts no threads (CPython 3.12)
                    thread.start()
                    self.threads.add(thread)

    def is_worker(self) -> bool:
        return threading.current_thread() in self.threads

    def is_served(self) -> bool:
        return bool(self.threads) and not self.closed

    def first(self, job: Job[object]) -> None:
        """Somebody waits for this one."""
        with self.lock, contextlib.suppress(ValueError):
            self.queue.remove(job)
            self.queue.appendleft(job)

    def take(self, job: Job[object]) -> bool:
        """Whether nobody had begun the job, and it is now the caller's to do."""
        with self.lock:
            if job.taken:
                return False
            job.taken = True
            with contextlib.suppress(ValueError):
                self.queue.remove(job)
            return True

    def serve(self) -> None:
        while True:
            with self.lock:
                if not self.queue or self.closed:
                    self.threads.discard(threading.current_thread())
                    return
                job = self.queue.popleft()
                job.taken = True
            with busy():
                job.run()

    def close(self) -> None:
        with self.lock:
            self.closed = True
            self.queue.clear()
            threads, running = list(self.threads), list(self.running)
        for child in running:
            kill(child)
        end = time.monotonic() + EXIT_PATIENCE
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))


_pool = Pool()


def start(work: Callable[[], T]) -> Job[T]:
    """Do `work` in the background."""
    job = Job(work)
    _pool.add(job)  # type: ignore[arg-type]  # the pool never looks at results
    return job


def _wait_for(job: Job[T]) -> None:
    if _pool.is_served():
        _pool.first(job)  # type: ignore[arg-type]  # the pool never looks at results
        job.wait()
    else:
        help_with(job)


def help_with(job: Job[T]) -> None:
    """Wait for a job, and do it here when nobody has begun it: a job that waits for others must not keep a thread from them."""
    if _pool.take(job):  # type: ignore[arg-type]  # the pool never looks at results
        job.run()
    else:
        job.wait()


def run(command: list[str], timeout: float, folder: Path) -> tuple[int, str]:
    """Exit code and error text of a process that ends with us: when we are interrupted, time out or exit, so do its children.
    Their temporary files lie in `folder`: those that are killed leave them.

    Raises OSError when it can't be started and `subprocess.TimeoutExpired`.
    """
    # a group of its own: Ctrl-C reaches us first, and killing a compiler driver takes the programs it runs along
    env = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", process_group=0, env=env
    ) as child:
        with _pool.lock:
            _pool.running.add(child)
            late = _pool.closed and _pool.is_worker()
        try:
            if late:
                kill(child)
            _, errors = child.communicate(timeout=timeout)
        except BaseException:
            kill(child)
            raise
        finally:
            with _pool.lock:
                _pool.running.discard(child)
    return child.returncode, errors


def watch(child: subprocess.Popen[str]) -> None:
    """A compiler that stays between jobs ends with us. It leads a group of processes."""
    with _pool.lock:
        _pool.running.add(child)


def kill(child: subprocess.Popen[str]) -> None:
    if child.returncode is None:
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)


def _forget() -> None:
    """In a forked child: the threads and compilers are the parent's."""
    global _pool
    _pool = Pool()


def _close() -> None:
    _pool.close()


os.register_at_fork(after_in_child=_forget)
atexit.register(_close)
