"""The compiler cut off after each stage, the rest done by eager or the interpreter of the loop IR: where numbers first go wrong.

A rung is a backend. Each does what the one before does and one stage more, so the first rung with wrong numbers names the stage.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from dynamo.aot import aot_module, interpret, rng
from dynamo.graph.lazy import forward_of
from inductor.backend import SPLITS, arrange, prepare
from inductor.compile import as_tuple, compile_graph, device_of
from inductor.errors import Unsupported
from inductor.ir import interp
from inductor.ir.nest import Nest, Program
from inductor.lowering.graph import lower_graph
from inductor.passes.rewrite import rewrite
from inductor.schedule.kernel import Kernel
from inductor.schedule.plan import Plan, schedule
from inductor.targets import registry

MOST_POINTS = 20_000_000  # of a program that the interpreter is given: it holds values of whole nests

GraphCompiler = Callable[..., Callable[[list[Any]], Sequence[Any]]]
Backend = Callable[..., Callable[..., Any]]


class TooLarge(RuntimeError):
    """The interpreter would need too much memory or time."""


def eager(gm: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    return forward_of(gm)


def rewritten(gm: torch.fx.GraphModule, inputs: Sequence[Any], *, is_backward: bool = False) -> Callable[[list[Any]], Sequence[Any]]:
    """The ATen graph after its rewrites, in eager's kernels."""
    forward = forward_of(rewrite(gm))
    return lambda values: as_tuple(forward(*values))


def lowered(gm: torch.fx.GraphModule, inputs: Sequence[Any], *, is_backward: bool = False) -> Callable[[list[Any]], Sequence[Any]]:
    """The loop IR as lowering leaves it, in the interpreter."""
    return _interpreted(gm, lambda program: program)


def scheduled(gm: torch.fx.GraphModule, inputs: Sequence[Any], *, is_backward: bool = False) -> Callable[[list[Any]], Sequence[Any]]:
    """The loop IR after inlining, splits, fusion and ordering, in the interpreter."""
    target = registry.target(device_of(gm).type)
    return _interpreted(gm, lambda program: in_order(program, schedule(program, target)))


def printed(gm: torch.fx.GraphModule, inputs: Sequence[Any], *, is_backward: bool = False) -> Callable[[list[Any]], Sequence[Any]]:
    """Kernels, as they run."""
    return compile_graph(gm, inputs, is_backward=is_backward)


def _interpreted(gm: torch.fx.GraphModule, change: Callable[[Program], Program]) -> Callable[[list[Any]], Sequence[Any]]:
    try:
        device = device_of(gm)
        program, _ = lower_graph(rewrite(gm), str(device), draws=device.type in rng.DEVICES)
    except Unsupported:
        return lambda values: as_tuple(gm(*values))
    program = change(program)
    if sum(step.points for step in program.steps if isinstance(step, Nest)) > MOST_POINTS:
        raise TooLarge("the graph is too large to be interpreted")
    return lambda values: tuple(interp.run(program, values)[0])


def in_order(program: Program, plan: Plan) -> Program:
    """The program with its steps as the plan runs them."""
    steps: list[Any] = []
    for step in plan.steps:
        if not isinstance(step, Kernel):
            steps.append(step)
        elif step.is_batch:
            return program
        else:
            steps += [nest for stage in step.stages for nest in stage.members]
    return replace(program, steps=steps)


@dataclass(frozen=True)
class Rung:
    """`stage` is its name in `dynamo.trace.stages`; `graphs` compiles ATen graphs, None where there are none yet."""

    stage: str
    graphs: GraphCompiler | None

    def backend(self, watch: Watch | None = None) -> Backend:
        """Compiles captured graphs up to here. `watch` is told of every ATen graph."""
        if self.graphs is None:
            return eager
        one = self.graphs if watch is None else functools.partial(watch.compile, self.graphs)

        def compile_captured(gm: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
            return aot_module(gm, inputs, decompositions=SPLITS, fw_compiler=one, bw_compiler=one, prepare=prepare, arrange=arrange)

        return compile_captured


RUNGS: tuple[Rung, ...] = (
    Rung("capture", None),
    Rung("aot", interpret),
    Rung("passes", rewritten),
    Rung("lower", lowered),
    Rung("schedule", scheduled),
    Rung("kernels", printed),
)
FULL = RUNGS[-1]
# The rung to which the steps of each stage of decisions belong.
DECIDED = {"inline": "schedule", "fuse": "schedule", "split": "schedule", "reuse": "schedule", "interior": "kernels"}


@dataclass
class Part:
    """One ATen graph of a subject with the values it was called with first."""

    gm: torch.fx.GraphModule
    is_backward: bool
    inputs: list[Any] | None = None


@dataclass
class Watch:
    """Keeps the ATen graphs that are compiled and what they are called with."""

    parts: list[Part] = field(default_factory=list)

    def compile(
        self, compiler: GraphCompiler, gm: torch.fx.GraphModule, inputs: Sequence[Any], *, is_backward: bool
    ) -> Callable[[list[Any]], Sequence[Any]]:
        part = Part(gm, is_backward)
        self.parts.append(part)
        call = compiler(gm, inputs, is_backward=is_backward)

        def run(values: list[Any]) -> Sequence[Any]:
            if part.inputs is None:
                part.inputs = [v.detach().clone() if isinstance(v, torch.Tensor) else v for v in values]
            return call(values)

        return run

    def called(self) -> Iterator[Part]:
        """Graphs that ran, in order."""
        return (p for p in self.parts if p.inputs is not None)
