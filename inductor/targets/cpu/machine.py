"""Facts of this machine, in one table, and what the compiler makes of them. `dynamo-debug doctor` shows it.

Read at start-up: processors this process may use, caches (sysfs), widest vectors (cpuinfo). Measured once per machine and kept in
the cache folder: what it costs to have all threads of torch's pool begin and end together. Code depends on the former
only, so it is the same in every process; the latter decides while the program runs which kernels are shared out.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

import torch

from inductor.runtime import cache
from inductor.runtime.pool import cpus

KB = 1024
WORK_PER_US = 10_000  # additions that one processor does in a microsecond
SERIAL_WORK = 60_000  # below, no team pays: not even eager, which shares out from 32,768 elements on, would
WORK_PER_THREAD = 25_000  # least share of a thread that takes part; the team is always whole, whoever has nothing to do waits
TWO_THREADS = 400_000  # work times threads from which on a small team pays also where the second processor is often busy
MOST_WORK = 2_000_000  # more than this is shared out whatever was measured: 200 us
ROUNDS, REGIONS = 48, 5  # of the measurement, whose least round counts: 48 * 5 * 5 us
LONGEST = 0.02  # seconds of it: where others have the processors, a region waits for its turn
DOUBTFUL = 10  # times the rule from which on a measurement is not kept: threads that sleep cost so much, and a busy machine


@dataclass(frozen=True)
class Machine:
    """What generated code depends on. Sizes of caches are bytes of the data cache that one processor sees."""

    cpus: int = 2
    l1: int = 48 * KB
    l2: int = 2048 * KB
    l3: int = 0
    vector_bits: int = 0  # 0: what the C compiler prefers

    @property
    def tile_bytes(self) -> int:
        """Largest intermediate of a kernel on the stack: it shares L2 with what the loops read."""
        return min(64 * KB, max(16 * KB, self.l2 // 4))

    @property
    def stream_bytes(self) -> int:
        """From this size on a buffer is not expected in the cache next to the processor."""
        return min(4096 * KB, max(256 * KB, self.l2 // 2))

    @property
    def row_bytes(self) -> int:
        """Most bytes of a row that is fetched as a whole: it shares L1 with what else the loop reads."""
        return max(16 * KB, self.l1 * 2 // 3)

    @property
    def least_blocks(self) -> int:
        """Pieces that a loop should be cut into where it is cut at all, so that every processor gets one."""
        return max(8, self.cpus)


REFERENCE = Machine()  # what golden files are printed for

_used: list[Machine] = []
_forked = False


def machine() -> Machine:
    """The facts in force."""
    return _used[-1] if _used else found()


@contextlib.contextmanager
def use(other: Machine) -> Iterator[None]:
    """Compile for another machine for a while: tests of generated code."""
    _used.append(other)
    try:
        yield
    finally:
        _used.pop()


@functools.cache
def found() -> Machine:
    """This machine."""
    caches = read_caches(Path("/sys/devices/system/cpu/cpu0/cache"))
    assumed = Machine()
    return Machine(
        cpus(),
        caches.get(1, assumed.l1),
        caches.get(2, assumed.l2),
        caches.get(3, assumed.l3),
        vector_bits(cpu_flags()),
    )


def read_caches(folder: Path) -> dict[int, int]:
    """Bytes of the data or unified cache of each level, as the kernel lists them; nothing where it does not."""
    sizes: dict[int, int] = {}
    for index in sorted(folder.glob("index*")):
        with contextlib.suppress(OSError, ValueError):
            if (index / "type").read_text().strip() in ("Data", "Unified"):
                text = (index / "size").read_text().strip()
                scale = {"K": KB, "M": KB * KB}.get(text[-1:], 1)
                sizes[int((index / "level").read_text())] = int(text.rstrip("KM")) * scale
    return sizes


@functools.cache
def cpu_flags() -> frozenset[str]:
    """Features of the first processor; Linux lists them per processor."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:  # written as it is read, so stop early
        for line in lines:
            if line.startswith(("flags", "Features")):
                return frozenset(line.partition(":")[2].split())
    return frozenset()


def vector_bits(flags: frozenset[str]) -> int:
    """512 where wide vectors come without a lower clock: the generations after the first with AVX-512, Intel's from Ice Lake on."""
    return 512 if {"avx512f", "avx512_vbmi2"} <= flags else 0


def key() -> str:
    """For keys of compiled graphs: the facts that code depends on."""
    return repr(astuple(machine()))


# what a team of threads costs


def openmp_library() -> Path | None:
    """The OpenMP runtime that torch loaded: kernels must share its thread pool."""
    folder = Path(torch.__file__).parent / "lib"
    libraries = sorted([*folder.glob("libgomp*.so*"), *(folder.parent.parent / "torch.libs").glob("libgomp*.so*")])
    return libraries[0] if libraries else None


def assumed_region_us(threads: int) -> float:
    """Microseconds of a region of this many threads, where nothing was measured: 1.7 for 2, 3.3 for 8, 5 for 16 on a Xeon."""
    return 1.3 + 0.23 * threads


@functools.cache
def region_us(threads: int) -> float:
    """Microseconds that a parallel region of this many threads takes, from the cache folder or measured."""
    if threads < 2:
        return 0.0
    kept = _kept()
    if str(threads) not in kept:
        measured = None if _forked or threads > cpus() else measure_region(threads)
        if measured is None:
            return assumed_region_us(threads)
        if measured > DOUBTFUL * assumed_region_us(threads):
            return measured
        kept[str(threads)] = measured
        _keep(kept)
    return kept[str(threads)]


def measure_region(threads: int) -> float | None:
    """The least of some rounds of regions that do nothing; None without the OpenMP runtime that this knows."""
    path = openmp_library()
    try:
        begin = ctypes.CDLL(str(path)).GOMP_parallel if path is not None else None
        nothing = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p)
    except (OSError, AttributeError):
        return None
    if begin is None:
        return None
    begin.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    begin.restype = None

    def round_us(team: int) -> float:
        began = time.perf_counter()
        for _ in range(REGIONS):
            begin(nothing, None, team, 0)
        return (time.perf_counter() - began) * 1e6 / REGIONS

    round_us(threads)  # starts the threads
    alone, end = min(round_us(1) for _ in range(3)), time.perf_counter() + LONGEST
    least = round_us(threads)
    for _ in range(ROUNDS - 1):
        if time.perf_counter() > end:
            break
        least = min(least, round_us(threads))
    return round(max(0.1, least - alone), 2)


def team_work(threads: int, cost_us: float) -> int:
    """Additions from which on a kernel is shared out: the time saved is twice what beginning and ending together takes."""
    if threads < 2:
        return MOST_WORK
    pays = 2 * cost_us * WORK_PER_US * threads / (threads - 1)
    return int(min(MOST_WORK, max(SERIAL_WORK, TWO_THREADS / threads, pays)))


def _file() -> Path:
    return cache.root() / "machine.json"


def _identity() -> str:
    return f"{platform.node()} {platform.machine()} {len(cpu_flags())} {cpus()} {torch.__version__}"


def _kept() -> dict[str, float]:
    with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
        if not cache.refusal():
            content = json.loads(_file().read_text())
            return {str(k): float(v) for k, v in content.get(_identity(), {}).items()}
    return {}


def _keep(measured: dict[str, float]) -> None:
    with contextlib.suppress(OSError):
        if not cache.refusal():
            _file().parent.mkdir(parents=True, exist_ok=True)
            cache.write(_file(), json.dumps({_identity(): measured}).encode())


def rows() -> dict[str, str]:
    """The table for people: each fact, where it is from and what follows from it."""
    here = found()
    listed = read_caches(Path("/sys/devices/system/cpu/cpu0/cache"))
    threads = torch.get_num_threads()
    known = _kept()

    def cache_row(level: int, size: int, use: str) -> str:
        return f"{size // KB} KB ({'sysfs' if level in listed else 'assumed'}){use}"

    table = {
        "processors": f"{here.cpus} (affinity); loops are cut into at least {here.least_blocks} pieces",
        "l1 data cache": cache_row(1, here.l1, f"; rows of at most {here.row_bytes // KB} KB are fetched whole"),
        "l2 cache": cache_row(2, here.l2, f"; tiles of at most {here.tile_bytes // KB} KB, streams from {here.stream_bytes // KB} KB on"),
        "l3 cache": cache_row(3, here.l3, ""),
        "vectors": f"{here.vector_bits} bits (cpuinfo)" if here.vector_bits else "what the C compiler prefers (cpuinfo)",
    }
    for team in sorted({threads, *(int(t) for t in known if t.isdigit())} - {0, 1}):
        cost = known.get(str(team))
        how = "measured" if cost is not None else "assumed, measured at the first graph"
        cost = assumed_region_us(team) if cost is None else cost
        from_on = team_work(team, cost) // 1000
        table[f"team of {team} threads"] = f"{cost:.1f} us ({how}); kernels are shared out from {from_on}k additions on"
    return table


def _no_more_threads() -> None:
    """A forked child has none of the pool's threads, and OpenMP would wait for them."""
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_no_more_threads)
