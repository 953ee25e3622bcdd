"""Host programs for processors: kernels by their addresses, temporaries in arenas, work shared among threads."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from dynamo import config
from dynamo.faults import is_planted
from inductor import _host
from inductor.ir.nest import Buffer, View
from inductor.runtime.layout import is_connected
from inductor.runtime.python_host import PythonHost
from inductor.runtime.recipe import KernelCall, Recipe
from inductor.runtime.writer import KERNEL, HostWriter, Platform, Step
from inductor.targets.cpu import machine
from inductor.targets.cpu.python_host import kernels_of

LARGEST_TEAM = 256  # threads, as in run.c
RELEASE_WORK = 500_000  # additions (about 50 us) from which on other Python threads should run meanwhile

FRESH_PAGES = 4 << 20  # bytes from which on malloc mostly maps fresh memory, and a product is written to memory of ours

measured: dict[int, float] = {}  # microseconds of a region, by threads


def new_arena(size: int) -> torch.Tensor:
    """Fresh storage for temporaries, on a cache line."""
    base = torch.empty(size + 64, dtype=torch.uint8)
    arena = base[-base.data_ptr() % 64 :]
    if is_planted():  # what reads too early is not to find values of another program by chance: 3.004, as float32
        arena.fill_(0x40)
    _arenas[id(arena)] = arena
    return arena


_arenas: weakref.WeakValueDictionary[int, torch.Tensor] = weakref.WeakValueDictionary()


def spoil_arenas() -> None:
    """Fill all arenas with NaN, so that a kernel that reads what nothing wrote is seen. Only while no program runs."""
    for arena in list(_arenas.values()):
        arena.fill_(255)


def views_over(views: list[tuple[View, Buffer, int]], base: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors over an arena that the operators of one program are called with; `views` have their buffer's offset in bytes."""
    out = []
    for view, buffer, offset in views:
        typed = base[offset : offset + buffer.nbytes].view(buffer.dtype)
        out.append(typed.as_strided(view.shape, view.strides, typed.storage_offset() + view.offset))
    return tuple(out)


def kernel_addresses(library: ctypes.CDLL | None, count: int) -> list[int]:
    if library is None or not count:
        return []
    return [address or 0 for address in (ctypes.c_void_p * count).in_dll(library, "dd_kernels")]


@functools.cache
def keep_freed_memory() -> None:
    """Once per process: results of several MB then lie in pages that the process already has."""
    if config.keep_freed_memory:
        _host.keep_freed_memory()


@functools.cache
def know_teams(threads: int) -> None:
    """Tell the program which kernels to share out, by what a team costs: measured for the threads in use, by rule for others."""
    measured[threads] = machine.region_us(threads)
    costs = (measured.get(team, machine.assumed_region_us(team)) for team in range(LARGEST_TEAM + 1))
    _host.set_team_work(tuple(machine.team_work(team, cost) for team, cost in enumerate(costs)))


class TellsSizes:
    """A program whose kernels are told sizes: those that the inputs of a call have."""

    def __init__(self, program: Callable[[Sequence[Any]], tuple[Any, ...]], recipe: Recipe) -> None:
        self.program = program
        self.places = tuple((recipe.inputs.index(name) - 1, dim) for name, dim in recipe.sizes)

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        return self.program([torch.tensor([inputs[i].shape[dim] for i, dim in self.places]), *inputs])


def make_host(recipe: Recipe, library: ctypes.CDLL | None) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The callable of a recipe."""
    run = host_program(recipe, library)
    return TellsSizes(run, recipe) if recipe.sizes else run


def host_program(recipe: Recipe, library: ctypes.CDLL | None) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The C program of a recipe, or the Python one where C cannot read tensors."""
    if not is_connected():
        return PythonHost(recipe, kernels_of(recipe, library))
    keep_freed_memory()
    if any(isinstance(s, KernelCall) and s.work >= machine.SERIAL_WORK for s in recipe.steps):
        know_teams(torch.get_num_threads())
    addresses = kernel_addresses(library, recipe.kernels)

    def kernel(number: int, step: KernelCall, slots: Mapping[str, int]) -> list[Step]:
        return [(KERNEL, addresses[number], int(step.work > RELEASE_WORK), int(step.work))]

    platform = Platform(kernel, make_base=new_arena, make_views=views_over, fresh_pages=FRESH_PAGES, keep=library)
    return HostWriter(recipe, platform).run()
