"""A printed kernel under guard: Triton's interpreter with pointers that know their buffer, so that a wrong mask, stride or grid shows.

Every buffer stands at an address of its own, far from all others; an access is translated where it is inside, and reported and left out
where it is not. For each element is kept which programs stored, loaded and added: programs run at once, so none may touch what another
one stores. Within a program, what one thread stored another one may load only behind a barrier.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import torch

SHIFT = 44  # bits of an address inside the space of one buffer, which begins in the middle of that
MOST_PROGRAMS = 384  # of a larger grid the first, the last and some between run
NOBODY, SEVERAL = -1, -2
LOAD, STORE, ADD = "loads", "stores", "adds to"


@dataclass(frozen=True)
class Stray:
    """A fault: what `access` (a line of the kernel) did to an element of a parameter, and which programs did it."""

    kind: str
    parameter: int
    access: str
    element: int
    programs: tuple[int, ...]


@dataclass
class Region:
    """A buffer: its elements, and per element the program that stored, loaded or added last."""

    parameter: int
    content: torch.Tensor
    is_scattered: bool = False  # the program says who wins: nobody
    stores: np.ndarray = field(init=False)
    loads: np.ndarray = field(init=False)
    adds: np.ndarray = field(init=False)
    fresh: np.ndarray = field(init=False)  # in which stretch between barriers it was stored

    def __post_init__(self) -> None:
        size = self.content.numel()
        self.stores, self.loads, self.adds, self.fresh = (np.full(size, NOBODY, dtype=np.int64) for _ in range(4))

    @property
    def base(self) -> int:
        return ((self.parameter + 1) << SHIFT) + (1 << (SHIFT - 1))


class Guard:
    """Watches the launches of one kernel, whose parameters are `regions`."""

    def __init__(self, regions: Sequence[Region], path: str, lines: Sequence[str], interpreter: Any) -> None:
        self.regions, self.path, self.lines, self.interpreter = regions, path, lines, interpreter
        self.program, self.stretch = 0, 0
        self.strays: dict[tuple[str, int, str], Stray] = {}

    # accesses

    def access(self, what: str, pointers: Any, mask: Any) -> tuple[Any, Any]:
        """Addresses of real memory, and the lanes at which they are any."""
        addresses = np.asarray(pointers.data)
        live = np.broadcast_to(np.asarray(mask.data, dtype=bool), addresses.shape)
        real, inside = np.zeros_like(addresses), np.zeros(addresses.shape, dtype=bool)
        for k in np.unique(addresses[live] >> np.uint64(SHIFT)):
            lanes = live & (addresses >> np.uint64(SHIFT) == k)
            region = self.region(int(k) - 1)
            offsets = addresses.astype(np.int64) - region.base
            size = region.content.element_size()
            elements = offsets // size
            fits = lanes & (elements >= 0) & (elements < region.content.numel())
            if (lanes & ~fits).any():
                self.tell("out of bounds", region, what, int(elements[lanes & ~fits].flat[0]))
            real[fits] = (region.content.data_ptr() + offsets[fits]).astype(np.uint64)
            inside |= fits
            self.note(what, region, elements[fits])
        return real, inside

    def region(self, parameter: int) -> Region:
        """An address so far off that it is in no space belongs to the nearest buffer's."""
        return self.regions[min(max(parameter, 0), len(self.regions) - 1)]

    def note(self, what: str, region: Region, elements: np.ndarray) -> None:
        if region.is_scattered and what == STORE:
            region.stores[elements] = self.program
            return
        me = self.program
        rivals = {LOAD: (region.stores, region.adds), STORE: (region.stores, region.loads, region.adds), ADD: (region.stores, region.loads)}
        for others in rivals[what]:
            found = others[elements]
            clash = (found != NOBODY) & (found != me)
            if clash.any():
                first = int(np.flatnonzero(clash)[0])
                self.tell("race", region, what, int(elements[first]), int(found[first]))
        if what == LOAD:
            unfenced = (region.stores[elements] == me) & (region.fresh[elements] == self.stretch)
            if unfenced.any():
                self.tell("race", region, "without a barrier loads", int(elements[unfenced][0]), me)
        own = {LOAD: region.loads, STORE: region.stores, ADD: region.adds}[what]
        before = own[elements]
        own[elements] = np.where((before == NOBODY) | (before == me), me, SEVERAL)
        if what == STORE:
            region.fresh[elements] = self.stretch
            unique, count = np.unique(elements, return_counts=True)
            if (count > 1).any():
                self.tell("race", region, "at once " + what, int(unique[count > 1][0]), me)

    def tell(self, kind: str, region: Region, what: str, element: int, other: int = NOBODY) -> None:
        line = self.line()
        who = (self.program,) if other in (NOBODY, SEVERAL, self.program) else tuple(sorted((other, self.program)))
        self.strays.setdefault((kind, region.parameter, line), Stray(kind, region.parameter, f"`{line}` {what}", element, who))

    def line(self) -> str:
        """The line of the kernel that is at work."""
        frame: Any = sys._getframe(1)
        number = 0
        while frame is not None:
            if frame.f_code.co_filename == self.path:
                number = frame.f_lineno
            frame = frame.f_back
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else "the kernel"

    # launches

    @contextlib.contextmanager
    def watching(self, chosen: Sequence[int], grid: int, given: Sequence[Region]) -> Iterator[None]:
        """The interpreter with what it does to memory going through here, its programs being the chosen ones. `given`: its parameters."""
        interpreter = self.interpreter
        builder = interpreter.InterpreterBuilder
        dims = builder.set_grid_dim
        patched = {
            "create_masked_load": self.loading(builder.create_masked_load),
            "create_masked_store": self.storing(builder.create_masked_store),
            "create_atomic_rmw": self.adding(builder.create_atomic_rmw),
            "create_barrier": lambda built: self.fence(),
            "set_grid_dim": lambda built, x, y, z: dims(built, grid, y, z),
            "set_grid_idx": self.numbered(builder.set_grid_idx, chosen),
        }
        before = {name: getattr(builder, name) for name in patched}
        convert, places = interpreter._implicit_cvt, iter(given)

        def standing(arg: Any) -> Any:
            made = convert(arg)
            if isinstance(arg, torch.Tensor):
                made.handle.data = np.array([next(places).base], dtype=np.uint64)
            return made

        for name, value in patched.items():
            setattr(builder, name, value)
        interpreter._implicit_cvt = standing
        try:
            yield
        finally:
            interpreter._implicit_cvt = convert
            for name, value in before.items():
                setattr(builder, name, value)

    def fence(self) -> None:
        self.stretch += 1

    def numbered(self, original: Callable[..., Any], chosen: Sequence[int]) -> Callable[..., Any]:
        def set_grid_idx(builder: Any, x: int, y: int, z: int) -> Any:
            self.program = chosen[x]
            self.fence()
            return original(builder, chosen[x], y, z)

        return set_grid_idx

    def loading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load(builder: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
            real, inside = self.access(LOAD, pointers, mask)
            return original(builder, self.handle(real, pointers.dtype), self.lanes(inside), *rest)

        return load

    def storing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def store(builder: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
            real, inside = self.access(STORE, pointers, mask)
            return original(builder, self.handle(real, pointers.dtype), value, self.lanes(inside), *rest)

        return store

    def adding(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def add(builder: Any, operation: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
            real, inside = self.access(ADD, pointers, mask)
            return original(builder, operation, self.handle(real, pointers.dtype), value, self.lanes(inside), *rest)

        return add

    def handle(self, data: np.ndarray, dtype: Any) -> Any:
        return self.interpreter.TensorHandle(data, dtype)

    def lanes(self, inside: np.ndarray) -> Any:
        return self.handle(inside, self.interpreter.tl.int1)


def programs(count: int) -> list[int]:
    """Which of so many programs run."""
    if count <= MOST_PROGRAMS:
        return list(range(count))
    third = MOST_PROGRAMS // 3
    between = np.linspace(third, count - third - 1, third).astype(int).tolist()
    return sorted({*range(third), *between, *range(count - third, count)})


def launch(
    module: ModuleType, path: str, regions: Sequence[Region], extra: Sequence[Any], grid: int, given: Sequence[Region] = ()
) -> tuple[list[Stray], bool]:
    """Run a kernel of an interpreted file. What it did wrong, and whether all of its programs ran. `given`: those of the regions that are
    its parameters, where it has the addresses of others (none: all)."""
    kernel, chosen = module.KERNEL, programs(grid)
    with open(path, encoding="utf-8") as file:
        guard = Guard(regions, path, file.read().splitlines(), kernel.interpreter)
    with guard.watching(chosen, grid, given or regions):
        kernel[(len(chosen),)](*(r.content for r in given or regions), *extra, **module.OPTIONS)
    return list(guard.strays.values()), len(chosen) == grid
