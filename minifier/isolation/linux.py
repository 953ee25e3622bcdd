"""The few things of Linux that Python has no name for."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_PAGE = os.sysconf("SC_PAGESIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


def become_subreaper() -> None:
    """From now on, processes below this one that lose their parent become children of this one. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def parents() -> dict[int, int]:
    """Parent of every process that is visible here."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                stat = Path("/proc", name, "stat").read_text(errors="replace")
                found[int(name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def below(top: int) -> list[int]:
    """All processes below a process, near ones first."""
    parent_of = parents()
    found = [top]
    for pid in found:
        found += [child for child, parent in parent_of.items() if parent == pid]
    return found[1:]


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads its group, the group, and what left that but is still below the process; reap it."""
    apart = below(process.pid)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pid in apart:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def resident(pids: list[int]) -> int:
    """Bytes of memory those processes have in use, together; what they share is counted for each."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += int(Path("/proc", str(pid), "statm").read_text().split()[1]) * _PAGE
    return total


def cpu_seconds(top: int) -> float:
    """CPU time that a process and all below it have used, with that of those below which have ended and were waited for."""
    ticks = 0
    for pid in (top, *below(top)):
        with contextlib.suppress(OSError, ValueError, IndexError):
            stat = Path("/proc", str(pid), "stat").read_text(errors="replace")
            ticks += sum(map(int, stat.rpartition(")")[2].split()[11:15]))
    return ticks / _TICKS


def own_cpu_seconds(pid: int) -> float:
    """CPU time that a process itself has used. Raises OSError where there is none."""
    stat = Path("/proc", str(pid), "stat").read_text(errors="replace")
    return sum(map(int, stat.rpartition(")")[2].split()[11:13])) / _TICKS


def seconds_queued(pids: list[int]) -> float:
    """The longest time that one of those processes could have run and had no core; 0 where the kernel doesn't count it."""
    longest = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            longest = max(longest, int(Path("/proc", str(pid), "schedstat").read_text().split()[1]))
    return longest / 1e9


def data_bytes() -> int:
    """What RLIMIT_DATA is compared with, of this process, now."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * _PAGE


def end_all_below(patience: float = 5.0) -> None:
    """Kill and reap everything below this process, which must be a subreaper. Gives up after `patience` seconds."""
    give_up = time.monotonic() + patience
    while time.monotonic() < give_up:
        for pid in below(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)
