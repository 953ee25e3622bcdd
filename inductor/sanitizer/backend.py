"""The backend `sanitizer`: compiled graphs run kernel by kernel in interpreters that check every access to memory.

A kernel's loops run in the interpreter of the IR, and its printed Triton text, where it has one, in Triton's under guard. Results are those
of the loops; an access that memory does not allow reads and writes nothing, is told once, and the program goes on. Nothing is launched on
a GPU, so a program that loses its device compiled goes on to its end here.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo import config
from dynamo.aot import aot_module, rng
from dynamo.decisions import compiling, current_compile
from dynamo.trace import emit
from dynamo.trace.events import MemoryFault, Note
from inductor.backend import SPLITS, arrange, prepare
from inductor.compile import as_tuple, device_of
from inductor.errors import BuildError, InductorError, Unsupported
from inductor.ir.attention import Attention
from inductor.ir.interp import Memory, run_extern
from inductor.ir.nest import Batch, Extern, Nest
from inductor.lowering.graph import lower_graph
from inductor.passes.rewrite import rewrite
from inductor.report import Reporter
from inductor.sanitizer.faults import Fault
from inductor.sanitizer.loops import Checker, TooLarge, stages_of
from inductor.sanitizer.printed import Printed
from inductor.schedule.kernel import Kernel
from inductor.schedule.plan import Plan, schedule
from inductor.targets import registry
from inductor.targets.protocol import Target
from inductor.targets.triton.bundle import parted
from inductor.targets.triton.library import check_triton
from inductor.targets.triton.target import TritonTarget

UNCHECKED = "DI025"

Found = Callable[[Fault], None]


class FaultsFound(InductorError):
    """Kernels touch memory that they must not."""

    id = "DI024"


def sanitizer(gm: GraphModule, example_inputs: Sequence[torch.Tensor], *, options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """Check a captured graph, and its backward."""
    return aot_module(gm, example_inputs, decompositions=SPLITS, fw_compiler=checked, bw_compiler=checked, prepare=prepare, arrange=arrange)


def checked(gm: GraphModule, example_inputs: Sequence[Any], *, is_backward: bool = False) -> Callable[..., Any]:
    """One ATen graph."""
    graph_id = f"{current_compile()}.{'bw' if is_backward else 'fw'}"

    def eager(values: Sequence[Any]) -> tuple[Any, ...]:
        return as_tuple(gm(*values))

    try:
        with compiling(current_compile(), graph_id):
            plan, sources = planned(gm, config.sanitizer_kernels)
    except Unsupported as reason:
        unchecked(f"graph {graph_id} is not checked: {reason}")
        return eager
    told: set[tuple[str, ...]] = set()

    def found(fault: Fault) -> None:
        key = (fault.kind, fault.form, fault.kernel, fault.buffer, fault.access)
        if key not in told:
            told.add(key)
            tell(fault, graph_id)

    Reporter(current_compile(), graph_id if is_backward else current_compile()).scheduled(plan)
    left = [config.sanitizer_calls]

    def run(values: list[Any]) -> tuple[Any, ...]:
        if not left[0]:
            return eager(values)
        left[0] -= 1
        try:
            return tuple(Run(plan, sources, found).run(values))
        except TooLarge as reason:
            unchecked(f"graph {graph_id} is not checked: {reason}")
            left[0] = 0
            return eager(values)

    return run


def planned(gm: GraphModule, kernels: str) -> tuple[Plan, dict[str, str]]:
    """The schedule of a graph, and the texts of its Triton kernels by name. Raises Unsupported."""
    device = device_of(gm)
    program, _ = lower_graph(rewrite(gm), str(device), draws=device.type in rng.DEVICES)
    program.steps = [s.as_call() if isinstance(s, Attention) else s for s in program.steps]  # its kernels have no loops to compare with
    target = target_of(kernels or device.type, device.type)
    plan = schedule(program, target)
    if (kernels or device.type) != "cuda":
        return plan, {}
    try:
        check_triton()
    except BuildError as reason:
        unchecked(f"printed kernels are not checked, only their loops: {reason}")
        return plan, {}
    texts = parted(target.source(plan))
    return plan, {k.name: text for k, text in zip(plan.kernels, texts, strict=True)}


def target_of(kernels: str, device: str) -> Target:
    if kernels == "cuda" and device != "cuda":
        return TritonTarget(device)
    return registry.target(kernels)


def tell(fault: Fault, graph_id: str) -> None:
    compile_id = graph_id.rpartition(".")[0]
    where = (fault.kernel, fault.buffer, fault.access, fault.index, fault.size, fault.place, fault.lines)
    emit(MemoryFault(compile_id, graph_id, fault.kind, fault.form, *where))
    warnings.warn(f"{fault} [{FaultsFound.id}]", stacklevel=2)


def unchecked(why: str) -> None:
    emit(Note(UNCHECKED, why))


class Run:
    """One call of a graph. `texts`: Triton kernels by name."""

    def __init__(self, plan: Plan, texts: dict[str, str], found: Found) -> None:
        self.plan, self.texts, self.found = plan, texts, found
        self.memory = Memory(plan.program.device)
        self.bad_index = ""

    def on(self, memory: Memory) -> Run:
        """The same, on memory that is there already."""
        self.memory = memory
        return self

    def run(self, values: list[Any]) -> list[Any]:
        """The outputs. Raises IndexError where eager does, TooLarge where the loops don't fit into memory."""
        program = self.plan.program
        self.memory.begin(program, values)
        for step in self.plan.steps:
            if isinstance(step, Extern):
                run_extern(step, program, self.memory)
            else:
                self.kernel(step)
        outputs = self.memory.end(program, values)
        if self.bad_index:
            error = IndexError(self.bad_index)
            if program.device != "cpu":
                error.is_final = True  # type: ignore[attr-defined]  # see dynamo/graph/rescue.py: eager would lose the device
            raise error
        return outputs

    def kernel(self, kernel: Kernel) -> None:
        buffers = {*kernel.reads, *kernel.writes, *kernel.over.values()}
        before = {b: self.memory.data[b].clone() for b in buffers} if kernel.name in self.texts else {}
        checker = Checker(kernel.name, kernel.outer, self.stored_by(kernel), self.memory, self.found)
        for result, old in kernel.over.items():
            self.fits(checker, result, old)
        checker.run(self.stages(kernel))
        self.bad_index = self.bad_index or checker.bad_index
        self.memory.old |= set(kernel.writes) & self.plan.program.mutated
        if kernel.name in self.texts:
            printed = Printed(kernel, self.texts[kernel.name], self.plan.program, self.found)  # type: ignore[arg-type]  # these have texts
            printed.run(before, checker.stored, checker.scattered)

    def stages(self, kernel: Kernel) -> list[list[Nest]]:
        if not kernel.is_batch:
            return stages_of(kernel)
        batch = next(s for s in self.plan.program.steps if isinstance(s, Batch) and s.writes() <= frozenset(kernel.writes))
        return [list(batch.unrolled())]

    def stored_by(self, kernel: Kernel) -> frozenset[str]:
        return frozenset().union(*(nest.writes() for members in self.stages(kernel) for nest in members))

    def fits(self, checker: Checker, result: str, old: str) -> None:
        """A result that takes the memory of a value that dies must have room there."""
        buffers = self.plan.program.buffers
        needed, there = int(buffers[result].nbytes), int(buffers[old].nbytes)
        if needed > there:
            checker.report("out of bounds", old, f"{result} of {needed} bytes takes its memory", there, "the end", ())
