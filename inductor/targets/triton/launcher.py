"""Launches kernels from C through the CUDA driver: loads them, and writes the host program of a graph.

The driver is looked for when the first graph is run. Where there is none that serves, graphs run kernel by kernel in Python, and a note
says so once.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo import config
from dynamo.decisions import current_compile, current_graph
from dynamo.trace import emit, is_watched
from dynamo.trace.events import CodeGenerated, KernelLoaded, Note
from inductor import _host
from inductor.runtime import graphs
from inductor.runtime.capturable import NO_REPLAY, Refusal, place_of, refusal_of, values_of
from inductor.runtime.layout import is_connected
from inductor.runtime.python_host import PythonHost
from inductor.runtime.recipe import KernelCall, Recipe
from inductor.runtime.writer import CALL, LAUNCH, HostWriter, Platform, Step
from inductor.targets.triton import timing
from inductor.targets.triton.library import Kernel, Reference, Started, note_refused
from inductor.targets.triton.machine import occupancy
from inductor.targets.triton.worker import Image, Refused

NO_DRIVER = "DI022"
LIBRARY = "libcuda.so.1"
CUDA = 1  # torch's number of the kind of device
OLDEST = 11040  # of drivers, as they tell it: 11.4

Compiled = Callable[[Sequence[Any]], tuple[Any, ...]]


@functools.cache
def driver() -> str:
    """Opens the driver. Why kernels cannot be launched through it ('': they can); noted once."""
    why = "" if is_connected() else "the C host program cannot read the tensors of this torch"
    if not why:
        try:
            found = _host.open_driver(LIBRARY)
        except (OSError, RuntimeError) as error:
            why = str(error)
        else:
            if found < OLDEST:
                why = f"the CUDA driver is of CUDA {found // 1000}.{found % 1000 // 10}, and 11.4 is the oldest that is known to serve"
    if why:
        emit(Note(NO_DRIVER, f"kernels are launched one by one from Python: {why}"))
    return why


def capability(index: int) -> int:
    """Of a device, as Triton counts: 90 for 9.0."""
    major, minor = torch.cuda.get_device_capability(index)
    return int(major * 10 + minor)


@dataclass(frozen=True)
class Loaded:
    """A kernel on a device, and what it needs there."""

    function: int
    image: Image
    registers: int
    spills: int


@dataclass
class Device:
    """A GPU and the kernels on it, which stay as long as the process: equal kernels of several graphs are one."""

    index: int
    capability: int
    context: int
    loaded: dict[str, Loaded] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self, kernel: Kernel, misaligned: int = 0) -> Loaded:
        """Raises Refused where Triton or the driver has no code for it."""
        key = kernel.key(self.capability, misaligned)
        with self.lock:
            found = self.loaded.get(key)
            if found is None:
                image = kernel.compile(self.capability, misaligned)
                try:
                    function, registers, spills, most = _host.load_kernel(image.code, image.name, image.shared, self.context, self.index)
                except RuntimeError as error:
                    if hasattr(error, "is_final"):  # the device is lost, and no other form of the kernel would run there
                        raise
                    raise Refused(str(error)) from error
                if image.threads > most:
                    raise Refused(f"it has {image.threads} threads, and with {registers} registers each there is room for {most}")
                found = self.loaded[key] = Loaded(function, image, registers, spills)
            elif not kernel.find(self.capability, misaligned):
                kernel.images[self.capability, misaligned] = found.image
            return found


@functools.cache
def device(index: int) -> Device:
    return Device(index, capability(index), _host.device_context(index))


def program(recipe: Recipe, kernels: Sequence[Kernel]) -> Compiled:
    """The callable of a recipe on a GPU."""
    index = device_index(recipe)
    if driver():
        return graphs.of_recipe(recipe, PythonHost(recipe, [Started(k) for k in kernels]), driver())
    torch.cuda.init()
    return graphs.of_recipe(recipe, Writer(recipe, kernels, device(index)).run(), where(device(index)))


def operators(gm: GraphModule, run: Compiled, is_backward: bool) -> Compiled:
    """`run`, which is an ATen graph in eager's kernels, captured as a CUDA graph where it can be."""
    refusal = refusal_of(gm)
    if refusal is None and driver():
        refusal = Refusal(NO_REPLAY, driver(), place_of(gm))
    if refusal is not None:
        refusal.note()
        return run
    torch.cuda.init()
    found = {v.device.index for node in gm.graph.nodes for v in values_of(node)}
    index = next((i for i in found if i is not None), None)
    on = device(torch.cuda.current_device() if index is None else index)
    return graphs.graphed(graphs.subject_of_operators(gm, run, is_backward), where(on))


def where(on: Device, flag: int = 0) -> tuple[Any, ...]:
    """A device as programs have it. `flag`: the address where kernels note an index out of range."""
    return CUDA, on.index, on.context, flag, torch._C._cuda_getCurrentRawStream


def device_index(recipe: Recipe) -> int:
    found = (torch.device(b.device).index for b in recipe.buffers.values() if b.device.startswith("cuda"))
    index = next((i for i in found if i is not None), None)
    return torch.cuda.current_device() if index is None else index


class Writer:
    """The C program of a recipe, with a launch for every kernel that has a compiled form."""

    def __init__(self, recipe: Recipe, kernels: Sequence[Kernel], on: Device) -> None:
        self.recipe, self.kernels, self.device = recipe, kernels, on
        self.loaded = [self.load(k) for k in kernels]
        if is_watched():
            for kernel, loaded in zip(kernels, self.loaded, strict=True):
                if loaded is not None:
                    tell(kernel, loaded, on)
        notes = any(k.facts.takes_bad for k in kernels)
        self.bad = torch.zeros(1, dtype=torch.int32, pin_memory=torch.cuda.is_available()) if notes else None

    def run(self) -> Compiled:
        place = where(self.device, self.bad.data_ptr() if self.bad is not None else 0)
        compiled: Compiled = HostWriter(self.recipe, Platform(self.steps, place, keep=(self.bad, self.kernels))).run()
        return compiled

    def load(self, kernel: Kernel) -> Loaded | None:
        """None where it runs as ATen calls, which is noted unless it has no Triton form, which was."""
        try:
            return self.device.load(kernel)
        except Refused as why:
            if kernel.module.KERNEL is not None:
                note_refused(kernel.module, str(why))
            return None

    def steps(self, number: int, step: KernelCall, slots: Mapping[str, int]) -> Iterable[Step]:
        kernel, loaded = self.kernels[number], self.loaded[number]
        at = [slots[name] for name in (*step.reads, *step.writes)]
        if loaded is None:
            yield (CALL, Reference(kernel, self.bad), tuple(_host.Ref(slot) for slot in at), (-1,), 1)
            return
        flag = (0,) if kernel.facts.takes_bad else ()
        form = functools.partial(other_form, self.device, kernel)
        for positions, numbers, grid in kernel.facts.launches(len(at)):
            buffers = (*(at[k] for k in positions), *flag)
            whole = (*grid, 1, 1)[:3]
            image = loaded.image
            yield (LAUNCH, image.name, loaded.function, image.shared, whole, image.threads, buffers, numbers, form)


LANGUAGES = {"ttir": "mlir", "ttgir": "mlir", "ptx": "ptx"}


def tell(kernel: Kernel, loaded: Loaded, on: Device) -> None:
    """What a kernel needs of the device, and what Triton made on the way to it, for the record."""
    compile_id, graph_id, image = current_compile(), current_graph(), loaded.image
    name = kernel.step
    programs = sum(math.prod(grid) for _, _, grid in kernel.facts.launches(len(kernel.facts.grid)))
    filled = occupancy(on.capability, image.threads, loaded.registers, image.shared)
    took, copy = times(kernel, on) if config.kernel_times else (0.0, 0.0)
    needs = (loaded.registers, loaded.spills, image.shared, image.threads, programs, round(filled, 4), round(took, 3), round(copy, 1))
    emit(KernelLoaded(compile_id, graph_id, name, image.name, torch.cuda.get_device_name(on.index), on.capability, *needs))
    for kind, text in image.texts.items():
        emit(CodeGenerated(compile_id, "kernels", f"{graph_id}.{name}.{kind}", LANGUAGES[kind], text, graph_id))


def times(kernel: Kernel, on: Device) -> tuple[float, float]:
    """Microseconds of a kernel and the bytes that a copy moves in one; 0.0 where there is no memory to measure."""
    try:
        with torch.cuda.device(on.index):
            return timing.microseconds(kernel), timing.copy_rate(on.index, kernel)
    except torch.OutOfMemoryError:
        return 0.0, 0.0


def other_form(on: Device, kernel: Kernel, misaligned: int) -> tuple[int, int]:
    """(function, bytes of shared memory) of a kernel for buffers of which some begin at no multiple of 16 bytes."""
    loaded = on.load(kernel, misaligned)
    return loaded.function, loaded.image.shared
