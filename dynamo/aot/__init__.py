"""Ahead-of-time graphs: from a captured FX graph to compiled forward and backward ATen graphs behind one callable."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.fx import GraphModule

from dynamo.aot import partition as partitions
from dynamo.aot import runtime
from dynamo.aot.errors import AotError
from dynamo.aot.joint import trace_joint
from dynamo.aot.report import report
from dynamo.aot.trace import Decompositions
from dynamo.decisions import compiling, current_compile
from dynamo.fake import FakeError
from dynamo.trace import emit, stage
from dynamo.trace.events import Note

__all__ = ["AotError", "GraphCompiler", "aot_eager", "aot_module", "interpret", "trace_joint"]


class GraphCompiler(Protocol):
    """Compiles one functional ATen graph. The result takes its inputs as one list and returns a tuple."""

    def __call__(
        self, gm: GraphModule, example_inputs: Sequence[Any], *, is_backward: bool
    ) -> Callable[[list[Any]], Sequence[Any]]: ...


_numbers = itertools.count()


@dataclass(frozen=True)
class Compilers:
    """Who compiles which graph, and how the joint graph is split."""

    forward: GraphCompiler
    backward: GraphCompiler
    inference: GraphCompiler
    partition: str
    decompositions: Decompositions | None


def aot_module(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    fw_compiler: GraphCompiler,
    bw_compiler: GraphCompiler,
    inference_compiler: GraphCompiler | None = None,
    partition: str = "min_cut",
    decompositions: Decompositions | None = None,
    compile_id: str = "",
) -> Callable[..., Any]:
    """Compile `gm` for inputs like `example_inputs` (real tensors and constants), with gradients where they are needed.

    The result is called like `gm.forward` and behaves like it, including writes to inputs and buffers, aliasing of outputs, and
    autograd history. Parameters and buffers are those of `gm`, by identity. `partition` is `min_cut` or `save_all`.
    A program that can't be made functional runs as it is, with a note in the record.
    """
    compile_id = compile_id or current_compile() or f"aot{next(_numbers)}"
    compilers = Compilers(fw_compiler, bw_compiler, inference_compiler or fw_compiler, partition, decompositions)
    call, depends = _compile(gm, example_inputs, compilers, compile_id)
    if not depends:
        return call
    variants = {runtime.sharing(example_inputs): call}

    def by_sharing(*args: Any) -> Any:
        key = runtime.sharing(args)
        if key not in variants:
            variants[key] = _compile(gm, args, compilers, compile_id)[0]
        return variants[key](*args)

    return by_sharing


def _compile(gm: GraphModule, inputs: Sequence[Any], compilers: Compilers, compile_id: str) -> tuple[Callable[..., Any], bool]:
    """The stages in order: trace, split, compile, wrap. Also whether the result holds only for arguments that share memory alike."""
    with compiling(compile_id):
        with stage("aot", compile_id):
            try:
                joint = trace_joint(gm, inputs, compilers.decompositions)
            except (AotError, FakeError) as error:
                emit(Note("AOT001", f"{error}; this graph runs without ahead-of-time tracing"))
                return gm.forward, False
        with stage("partition", compile_id):
            parts = partitions.partition(joint, compilers.partition) if joint.needs_backward else partitions.inference(joint)
        if parts.backward is None:
            report(parts.forward.graph, f"{compile_id}.fw", compile_id, "aot")
            run = runtime.single(compilers.inference(parts.forward, examples(parts.forward), is_backward=False))
        else:
            report(joint.graph, f"{compile_id}.aot", compile_id, "aot")
            report(parts.forward.graph, f"{compile_id}.fw", compile_id, "partition")
            report(parts.backward.graph, f"{compile_id}.bw", compile_id, "partition")
            forward = compilers.forward(parts.forward, examples(parts.forward), is_backward=False)
            backward = compilers.backward(parts.backward, examples(parts.backward), is_backward=True)
            run = runtime.pair(joint, parts, forward, backward)
        return runtime.wrap(joint, run), joint.sharing_matters()


def examples(gm: GraphModule) -> list[Any]:
    """The fakes a graph's placeholders stand for."""
    return [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]


def interpret(gm: GraphModule, example_inputs: Sequence[Any], *, is_backward: bool) -> Callable[[list[Any]], Sequence[Any]]:
    """A graph compiler that compiles nothing: ATen ops run one by one in eager's kernels."""
    forward = gm.forward

    def call(inputs: list[Any]) -> Sequence[Any]:
        return forward(*inputs)

    return call


def aot_eager(gm: GraphModule, example_inputs: Sequence[torch.Tensor], **options: Any) -> Callable[..., Any]:
    """Backend: ahead-of-time graphs, run by eager's kernels. Tells tracing problems from code generation problems."""
    return aot_module(gm, example_inputs, fw_compiler=interpret, bw_compiler=interpret, **options)
