"""What the stages of one graph put into the compile record, for people and tools. Nothing is printed while nobody looks."""

from __future__ import annotations

from collections.abc import Iterable

from torch.fx import GraphModule

from dynamo.aot.report import report
from dynamo.trace import emit, is_watched
from dynamo.trace.events import CodeGenerated, StepScheduled
from inductor.ir.affine import Axis
from inductor.ir.dims import dim_text
from inductor.ir.nest import Extern, Origin, Program
from inductor.ir.text import print_buffer, print_extern, print_nest, print_program, print_value
from inductor.schedule.kernel import Kernel
from inductor.schedule.plan import Plan
from inductor.targets.protocol import Target


class Reporter:
    """Writes for one graph. `name` is the prefix of its texts: the compile id, for a backward with `.bw`."""

    def __init__(self, compile_id: str, name: str) -> None:
        self.compile_id, self.name = compile_id, name
        self.graph_id = name if name.endswith(".bw") else f"{name}.fw"

    def text(self, stage: str, suffix: str, language: str, code: str) -> None:
        emit(CodeGenerated(self.compile_id, stage, f"{self.name}.{suffix}", language, code, self.graph_id))

    def passes(self, gm: GraphModule) -> None:
        """The graph as it is lowered."""
        report(gm, f"{self.graph_id}.passes", self.compile_id, "passes")

    def lowered(self, program: Program) -> None:
        if is_watched():
            self.text("lower", "lowered", "ir", print_program(program))

    def scheduled(self, plan: Plan) -> None:
        """The nests after inlining and splitting, then what was fused from them, then the steps for diagrams."""
        if not is_watched():
            return
        self.text("schedule", "scheduled", "ir", print_program(plan.program))
        self.text("schedule", "fused", "ir", print_plan(plan))
        for step in plan.steps:
            self.step(step)

    def step(self, step: Kernel | Extern) -> None:
        reads, writes = (step.reads, step.writes) if isinstance(step, Kernel) else (sorted(step.reads()), sorted(step.writes()))
        what = "kernel" if isinstance(step, Kernel) else "extern"
        ops = tuple(dict.fromkeys(o.op for o in step.origins))
        lines = tuple(dict.fromkeys(f"{o.file}:{o.line}" for o in step.origins if o.file))
        emit(StepScheduled(self.compile_id, self.graph_id, step.name, what, ops, tuple(reads), tuple(writes), lines))

    def kernels(self, target: Target, source: str, plan: Plan) -> None:
        """What the target made."""
        if is_watched():
            for text in target.texts(plan, source, self.graph_id):
                self.text(text.stage, text.suffix, text.language, text.code)


def print_plan(plan: Plan) -> str:
    """The program after fusion: kernels with the nests they run, calls of ATen operators, and where buffers live."""
    program = plan.program
    private = {b for k in plan.kernels for _, b in k.private()}
    lines = [f"{print_buffer(b)}{_place(plan, b.name)}" for b in program.buffers.values() if b.name not in private]
    for step in plan.steps:
        lines += _kernel_lines(step, program) if isinstance(step, Kernel) else [print_extern(step)]
    lines.append("return " + ", ".join(map(print_value, program.outputs)))
    return "\n".join(lines) + "\n"


def _place(plan: Plan, buffer: str) -> str:
    return f" ; arena at {plan.arena[buffer]}" if buffer in plan.arena else ""


def _kernel_lines(kernel: Kernel, program: Program) -> list[str]:
    how = kernel.how() + [f"{new} over {old}" for new, old in kernel.over.items()]
    moves = f"reads {' '.join(kernel.reads) or 'nothing'} writes {' '.join(kernel.writes) or 'nothing'}"
    head = f"kernel {kernel.name} {_loops(kernel.outer)} {', '.join([*how, moves])}{_origins(kernel.origins)}"
    lines = [head]
    lines += [f"  {home} {print_buffer(program.buffers[b])}" for home, b in kernel.private() if b in program.buffers]
    for number, stage in enumerate(kernel.stages):
        lines.append(f"  stage {number} {_loops(stage.axes)} {stage.how()}".rstrip())
        for nest in stage.members:
            lines += [f"    {line}" for line in print_nest(nest).splitlines()]
    return lines


def _loops(axes: Iterable[Axis]) -> str:
    return "(" + ", ".join(f"{a.name}:{dim_text(a.extent)}" for a in axes) + ")"


def _origins(origins: Iterable[Origin]) -> str:
    text = " | ".join(dict.fromkeys(map(str, origins)))
    return f" ; {text}" if text else ""
