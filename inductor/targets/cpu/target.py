"""Compiles for processors: kernels as loops with vectors and threads, one C translation unit per graph."""

from __future__ import annotations

from collections.abc import Iterator

from inductor.ir.nest import Batch, Extern, Program
from inductor.schedule.group import Group
from inductor.schedule.limits import Limits
from inductor.schedule.plan import Plan
from inductor.targets.cpu.batch import BatchKernel, batch_kernel
from inductor.targets.cpu.build import command_for
from inductor.targets.cpu.c.unit import print_unit
from inductor.targets.cpu.kernel import Builder, LoopKernel
from inductor.targets.cpu.script import print_script
from inductor.targets.protocol import Text

LIMITS = Limits(
    members=48,
    few_iterations=16,
    small_work=16384,
    piece=65536,
    few_results=32,
    long_reduction=32768,
    programs=0,
    columns=1,
    large=16384,  # a few us of work, 10 times what an allocation takes
    large_program=1 << 20,  # a hundred us of work
    align=64,  # a cache line
)


class CpuTarget:
    name = "cpu"
    limits = LIMITS

    def kernel(self, name: str, group: Group, program: Program, needed: frozenset[str]) -> LoopKernel:
        return Builder(name, group, program, needed).build()

    def batch(self, name: str, batch: Batch, program: Program) -> BatchKernel:
        return batch_kernel(name, batch, program)

    def extern(self, name: str, step: Extern, program: Program) -> tuple[()]:
        return ()

    def source(self, plan: Plan) -> str:
        return print_unit([k for k in plan.kernels if isinstance(k, LoopKernel)], plan.program, plan.slots)

    def texts(self, plan: Plan, source: str, graph_id: str) -> Iterator[Text]:
        """The C unit, a script that runs the graph through it, and the command that builds it."""
        yield Text("kernels", "c", "c", source)
        yield Text("kernels", "py", "python", print_script(plan, graph_id))
        yield Text("build", "sh", "shell", " ".join(command_for("output_code.c", "output_code.so")) + "\n")
