"""The steps compiled graphs became: fused kernels and calls of operators, with the user lines they come from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from math import prod

from dynamo.trace import events as ev
from dynamo.trace.artefacts import belongs
from dynamo.trace.model import Compile, Run, plural, short
from tui.views import names
from tui.views.page import Page, columns
from tui.views.repeats import repeated

_BUFFER = re.compile(r"(?m)^(?:in|temp|made|const|object|return) (?P<name>\w+): (?P<dtype>[a-z]+\d*)\[(?P<size>[\d, ]*)\]")
_BITS = re.compile(r"\d+$")
_FUSED = "fused"
_LINES = 3


@dataclass(frozen=True)
class Needs:
    """registers and spills (bytes) of each thread, shared memory (bytes) of each block of `threads`; occupancy: the share of a processor's
    threads that its blocks fill. microseconds and copy_share (of the bandwidth of a plain copy) are None where nothing was measured."""

    name: str
    function: str
    registers: int
    spills: int
    shared: int
    threads: int
    programs: int
    occupancy: float
    microseconds: float | None
    copy_share: float | None


@dataclass(frozen=True)
class Kernel:
    """One step. what: kernel or extern. bytes: what it reads and writes, each buffer once, or None where sizes are not recorded.

    `device`: what it needs of the GPU it was loaded onto, or None.
    """

    graph_id: str
    name: str
    what: str
    ops: tuple[str, ...]
    lines: tuple[str, ...]
    reads: int
    writes: int
    bytes: int | None
    function: str
    device: Needs | None = None


@dataclass(frozen=True)
class Kernels:
    """Steps of every graph in the order they run. `cached` graphs show the steps of the run that made their entry."""

    kernels: int
    externs: int
    steps: tuple[Kernel, ...]


def view(run: Run, graph: str = "") -> Kernels:
    steps = tuple(k for item in run.compiles.values() for k in _of(run, item) if belongs(item.id, k.graph_id, graph))
    count = sum(s.what == "kernel" for s in steps)
    return Kernels(count, len(steps) - count, steps)


def _of(run: Run, item: Compile) -> list[Kernel]:
    if not item.steps:
        return []
    function = names.function_of(run, item).title
    sizes = {c.graph_id: _sizes(c.code) for c in item.code if c.name.rpartition(".")[2] == _FUSED}
    loaded = {(k.graph_id, k.name): k for k in item.loaded}
    return [_kernel(s, sizes.get(s.graph_id, {}), function, loaded.get((s.graph_id, s.name))) for s in item.steps]


@cache
def _sizes(text: str) -> dict[str, int]:
    """Bytes of every buffer that the loop IR declares."""
    return {m["name"]: prod(int(n) for n in m["size"].split(",") if n.strip()) * _width(m["dtype"]) for m in _BUFFER.finditer(text)}


def _width(dtype: str) -> int:
    bits = _BITS.search(dtype)
    return int(bits[0]) // 8 if bits else 1


def _kernel(s: ev.StepScheduled, sizes: dict[str, int], function: str, loaded: ev.KernelLoaded | None) -> Kernel:
    buffers = {*s.reads, *s.writes}
    known = [sizes[b] for b in buffers if b in sizes]
    moved = sum(known) if known and len(known) == len(buffers) else None
    needs = None if loaded is None else _needs(loaded, moved)
    return Kernel(s.graph_id, s.name, s.what, s.ops, s.lines, len(s.reads), len(s.writes), moved, function, needs)


def _needs(e: ev.KernelLoaded, moved: int | None) -> Needs:
    took = e.microseconds or None
    share = None if took is None or not e.copy or moved is None else round(moved / took / e.copy, 4)
    return Needs(e.device, e.function, e.registers, e.spills, e.shared, e.threads, e.programs, e.occupancy, took, share)


def largest(found: Kernels) -> Kernel | None:
    """The step that moves most, which says where to look first. Nothing is timed while a program runs."""
    return max((k for k in found.steps if k.bytes is not None), key=lambda k: k.bytes or 0, default=None)


def size(count: int) -> str:
    for unit, step in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= step:
            return f"{count / step:.1f} {unit}"
    return f"{count} B"


def lines(found: Kernels, page: Page) -> list[str]:
    """One row per step; equal graphs (layers, recompiles) once with how many there are."""
    out = [page.paint(f"{plural(found.kernels, 'kernel')}, {plural(found.externs, 'call')} of operators", "bold")]
    graphs: dict[str, list[Kernel]] = {}
    for k in found.steps:
        graphs.setdefault(k.graph_id, []).append(k)
    alike: dict[tuple[tuple[object, ...], ...], list[str]] = {}
    for graph_id, steps in graphs.items():
        alike.setdefault(tuple((k.name, k.what, k.ops, k.lines, k.bytes) for k in steps), []).append(graph_id)
    for ids in alike.values():
        steps = graphs[ids[0]]
        times = f" x {len(ids)}  ({' '.join(ids)})" if len(ids) > 1 else ""
        out += ["", page.clip(f"graph {ids[0]}  {steps[0].function}{times}")]
        needs = [_cells(k) for k in steps] if any(k.device for k in steps) else [()] * len(steps)
        rows = [
            (k.name, size(k.bytes) if k.bytes is not None else "", *cells, _origin(k), " ".join(_op(op) for op in k.ops))
            for k, cells in zip(steps, needs, strict=True)
        ]
        out += _repeats([page.clip(f"  {row}") for row in columns(rows, right=range(1, 2 + len(needs[0])))])
    return out


def _cells(k: Kernel) -> tuple[str, ...]:
    """Registers, spills, shared memory, occupancy, time and share of copy bandwidth."""
    d = k.device
    if d is None:
        return ("",) * 6
    took = f"{d.microseconds:.1f} us" if d.microseconds is not None else ""
    share = f"{d.copy_share:.0%} of copy" if d.copy_share is not None else ""
    spills, shared = f"{d.spills} B spilled" if d.spills else "", f"{size(d.shared)} shared" if d.shared else ""
    return f"{d.registers} regs", spills, shared, f"{d.occupancy:.0%} occ", took, share


def _origin(k: Kernel) -> str:
    shown = [short(line) for line in k.lines[:_LINES]]
    return " ".join(shown) + (" ..." if len(k.lines) > _LINES else "")


def _op(op: str) -> str:
    return op.removesuffix(".default").removesuffix(".Tensor")


_NUMBERED = re.compile(r"^(\s*)([a-z]+)\d+")


def _repeats(rows: list[str]) -> list[str]:
    """Steps of equal layers differ in their numbers only."""
    return repeated(rows, [_NUMBERED.sub(r"\1\2", row) for row in rows])
