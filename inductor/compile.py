"""The compiler as a list of stages: an ATen graph in, a callable out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo import config, internal_errors
from dynamo.aot import rng
from dynamo.decisions import compiling, current_compile
from dynamo.faults import through
from dynamo.skipped import user_place
from dynamo.surroundings.collector import paused
from dynamo.surroundings.locks import Lock
from dynamo.trace import emit, stage
from dynamo.trace.events import GraphLowered, Note
from inductor.errors import BuildError, Unsupported
from inductor.ir.verify import verify
from inductor.lowering.graph import lower_graph
from inductor.lowering.registry import summary
from inductor.passes.rewrite import rewrite
from inductor.report import Reporter
from inductor.runtime import devices
from inductor.runtime.capturable import UNCOMPILED, Refusal, capture_of
from inductor.runtime.pending import Pending
from inductor.runtime.recipe import Capture, recipe_of
from inductor.schedule.check import verify_plan
from inductor.schedule.plan import schedule
from inductor.targets import registry

Compiled = Callable[[Sequence[Any]], tuple[Any, ...]]

_lock = Lock()  # interned IR nodes are shared, so one graph is compiled at a time
_numbers = itertools.count()


def compile_graph(gm: GraphModule, example_inputs: Sequence[Any], *, is_backward: bool = False) -> Compiled:
    """Compile a functional ATen graph for the device its tensors are on.

    The result takes the inputs as one list and returns the outputs as a tuple; a backward graph empties the list. It assumes the
    shapes, strides and dtypes of the example inputs.
    """
    started = start_graph(gm, example_inputs, is_backward=is_backward)
    return started.settle() if isinstance(started, Pending) else started


def start_graph(
    gm: GraphModule, example_inputs: Sequence[Any], *, is_backward: bool = False, captures: bool = False, tunes: bool = False
) -> Compiled | Pending:
    """As `compile_graph`, but the C compiler may still be at work when this returns. `captures`: as a CUDA graph, where there is a GPU.
    `tunes`: shapes of kernels are measured there."""
    graph_id = current_compile() or f"graph{next(_numbers)}"
    with _lock, compiling(graph_id, f"{graph_id}.{'bw' if is_backward else 'fw'}"), paused():
        name, capture = f"{graph_id}.bw" if is_backward else graph_id, capture_of(gm) if captures else None
        return run_stages(gm, graph_id, name, is_backward, capture, tunes)


def run_stages(gm: GraphModule, graph_id: str, name: str, is_backward: bool, capture: Capture | None, tunes: bool) -> Compiled | Pending:
    reporter = Reporter(graph_id, name)
    with stage("passes", graph_id):
        rewritten = rewrite(gm)
    reporter.passes(rewritten)
    with stage("lower", graph_id):
        try:
            device = device_of(gm)
            target = registry.target(device.type)
            program, how = lower_graph(rewritten, str(device), draws=device.type in rng.DEVICES and capture is None)
        except Unsupported as reason:
            emit(Note(reason.id, f"{reason}; this graph runs uncompiled", "info"))
            if capture is not None:
                Refusal(capture.refusal or UNCOMPILED, capture.what, capture.place).note()
            return lambda inputs: as_tuple(gm(*inputs))
    emit(GraphLowered(graph_id, name, summary(rewritten.graph, how)))
    verify(program, "lower")
    reporter.lowered(program)
    with stage("schedule", graph_id):
        plan = schedule(program, target)
        plan.tunes = tunes
    verify(program, "schedule")
    through("check", verify_plan, plan)(plan)
    reporter.scheduled(plan)
    with stage("kernels", graph_id):
        source = target.source(plan)
    reporter.kernels(target, source, plan)
    try:
        library = devices.runtime(device.type).start(source) if plan.kernels else None
    except BuildError as error:
        return without_compiler(gm, graph_id, error)
    recipe = recipe_of(plan, owns_inputs=is_backward, device=device.type, capture=capture)
    return Pending(recipe, source, library, graph_id, lambda error: without_compiler(gm, graph_id, error))


def device_of(gm: GraphModule) -> torch.device:
    """The device of a graph's kernels: the GPU of its tensors, some of which may be the processor's, or the processor. Raises Unsupported
    where tensors are on devices of no target, or on several GPUs."""
    device = torch.device("cpu")
    for node in gm.graph.nodes:
        found = node.meta.get("val")
        for val in found if isinstance(found, list | tuple) else (found,):
            own = getattr(val, "device", device)
            if own.type not in devices.DEVICES:
                raise Unsupported(f"{node.name} is on {own}, and only graphs on {' and '.join(devices.DEVICES)} are compiled")
            if own.type == "cpu" or own == device:
                continue
            if device.type != "cpu":
                raise Unsupported(f"{node.name} is on {own} and others are on {device}: only graphs on one GPU are compiled")
            device = own
    return device


def without_compiler(gm: GraphModule, graph_id: str, error: BuildError) -> Compiled:
    """Run the ATen graph itself, with a warning; with `suppress_errors` off the error is the user's."""
    if not config.suppress_errors:
        raise error
    message = f"{error}; this graph runs uncompiled"
    emit(Note(error.id, message))
    internal_errors.warn(message, *user_place())
    return lambda inputs: as_tuple(gm(*inputs))


def as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)
