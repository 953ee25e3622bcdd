"""The stages from a captured graph to compiled ATen graphs, in order: trace, split, compile.

Apart from the package's front because a process that finds its graphs in a cache never needs the tracer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo.aot import partition as partitions
from dynamo.aot.branches import Called
from dynamo.aot.compilers import Compiled, Compilers
from dynamo.aot.describing import describe
from dynamo.aot.errors import AotError
from dynamo.aot.facts import Facts
from dynamo.aot.joint import trace_joint
from dynamo.aot.report import report
from dynamo.fake import FakeError
from dynamo.fake.overlap import Overlap
from dynamo.trace import emit, stage
from dynamo.trace.events import Note


@dataclass(frozen=True)
class Made:
    """A compiled program: what it is, the tensors it holds, its forward and, where gradients are needed, its backward."""

    facts: Facts
    held: list[torch.Tensor]
    forward: Compiled
    backward: Compiled | None
    pairs: list[Called]


def make(gm: GraphModule, inputs: Sequence[Any], compilers: Compilers, compile_id: str) -> Made | None:
    """None: the program can't be made functional and runs as it is."""
    with stage("aot", compile_id):
        try:
            prepared = gm if compilers.prepare is None else compilers.prepare(gm)
            joint = trace_joint(prepared, inputs, compilers.decompositions)
        except (AotError, FakeError, Overlap) as error:  # the last where arguments share memory otherwise than when they were captured
            emit(Note("AOT001", f"{error}; this graph runs without ahead-of-time tracing"))
            return None
    _compile_branches(joint.pairs, compilers, compile_id)
    if compilers.arrange is not None:
        compilers.arrange(joint)
    with stage("partition", compile_id):
        parts = partitions.partition(joint, compilers.partition) if joint.needs_backward else partitions.inference(joint)
    facts, held = describe(joint, parts, gm)
    if parts.backward is None:
        report(parts.forward, f"{compile_id}.fw", compile_id, "aot")
        return Made(facts, held, compilers.inference(parts.forward, examples(parts.forward), is_backward=False), None, joint.pairs)
    report(joint.graph, f"{compile_id}.aot", compile_id, "aot", joint.root)
    report(parts.forward, f"{compile_id}.fw", compile_id, "partition")
    report(parts.backward, f"{compile_id}.bw", compile_id, "partition")
    forward = compilers.forward(parts.forward, examples(parts.forward), is_backward=False)
    backward = compilers.backward(parts.backward, examples(parts.backward), is_backward=True)
    return Made(facts, held, forward, backward, joint.pairs)


def _compile_branches(pairs: Sequence[Called], compilers: Compilers, compile_id: str) -> None:
    """Each graph that a conditional may run, inner ones first."""
    for n, pair in enumerate(pairs):
        for side, branch in pair.branches():
            report(branch.graph, f"{compile_id}.branch{n}.{side}", compile_id, "aot")
            branch.run = settled(compilers.inference(branch.graph, examples(branch.graph), is_backward=False))


def settled(compiled: Compiled) -> Compiled:
    """What is called from the first run on: it may still be being built."""
    run: Compiled = getattr(compiled, "settle", lambda: compiled)()
    return run


def examples(gm: GraphModule) -> list[Any]:
    """The fakes a graph's placeholders stand for."""
    return [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]
