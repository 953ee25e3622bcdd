"""Ahead-of-time graphs: from a captured FX graph to compiled forward and backward ATen graphs behind one callable."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule

from dynamo.aot import runtime
from dynamo.aot.again import Again
from dynamo.aot.compilers import Compiled, Compilers, GraphCache, GraphCompiler, Lookup
from dynamo.aot.errors import AotError
from dynamo.aot.facts import attribute
from dynamo.aot.plan import Plan
from dynamo.aot.sharing import Sharing
from dynamo.decisions import compiling, current_compile
from dynamo.graph.lazy import forward_of
from dynamo.graph.rescue import KEEPS_INPUTS, undoing

if TYPE_CHECKING:  # not needed where the cache has the graph
    from dynamo.aot.joint import Joint
    from dynamo.aot.trace import Decompositions

__all__ = ["AotError", "GraphCache", "GraphCompiler", "Lookup", "aot_eager", "aot_module", "interpret"]

_numbers = itertools.count()


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
    cache: GraphCache | None = None,
    prepare: Callable[[GraphModule], GraphModule] | None = None,
    arrange: Callable[[Joint], None] | None = None,
) -> Callable[..., Any]:
    """Compile `gm` for inputs like `example_inputs` (real tensors and constants), with gradients where they are needed.

    The result is called like `gm.forward` and behaves like it, including writes to inputs and buffers, aliasing of outputs, and
    autograd history. Parameters and buffers are those of `gm`, by identity. `partition` is `min_cut` or `save_all`.
    A program that can't be made functional runs as it is, with a note in the record. `cache` belongs to these compilers and
    options: it may answer instead of them. `prepare` rewrites the captured graph before it is traced and differentiated, `arrange`
    the joint graph before it is split.
    """
    compile_id = compile_id or current_compile() or f"aot{next(_numbers)}"
    inference = inference_compiler or fw_compiler
    compilers = Compilers(fw_compiler, bw_compiler, inference, partition, decompositions, cache, prepare, arrange)
    call, asked = _compile(gm, example_inputs, compilers, compile_id)
    if asked is None:
        return call
    sharing = Sharing(asked)
    variants = {sharing.key(example_inputs): call}

    def by_sharing(*args: Any) -> Any:
        key = sharing.key(args)
        if key not in variants:
            made = _compile(gm, args, compilers, compile_id)[0]
            positions = [i for i, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
            variants[key] = made if hasattr(made, KEEPS_INPUTS) else undoing(made, positions, list(gm.buffers()))
        return variants[key](*args)

    setattr(by_sharing, KEEPS_INPUTS, hasattr(call, KEEPS_INPUTS))
    return by_sharing


def _compile(
    gm: GraphModule, inputs: Sequence[Any], compilers: Compilers, compile_id: str
) -> tuple[Callable[..., Any], list[torch.Tensor] | None]:
    """From the cache, or made. With the held tensors that count where the result holds only for arguments that share memory alike."""
    with compiling(compile_id):
        lookup = compilers.cache.look_up(gm, inputs, compile_id) if compilers.cache is not None else None
        if lookup is not None and lookup.found is not None:
            facts, forward, backward = lookup.found
            held = [attribute(gm, path) for path in facts.held]
            pairs = []  # a graph with conditionals is not kept
        else:
            from dynamo.aot.pipeline import make  # noqa: PLC0415  # the tracer and its tables: not needed after a hit

            made = make(gm, inputs, compilers, compile_id)
            if made is None:
                return forward_of(gm), None
            facts, held, forward, backward, pairs = made.facts, made.held, made.forward, made.backward, made.pairs
            if lookup is not None and not pairs:
                lookup.keep(facts, forward, backward)
        # a backward may go on being built until it is called
        forward = getattr(forward, "settle", lambda: forward)()
        asked = [held[i] for i in facts.sharing] if facts.sharing is not None else None
        if pairs:
            forward, backward = holding(forward, pairs), holding(backward, pairs) if backward is not None else None
        if backward is None:
            return runtime.wrap(facts, held, runtime.single(forward)), asked
        again, plan = Again(gm, facts, held, inputs), Plan(gm, facts)
        run = runtime.pair(facts, forward, backward, again, plan)
        return runtime.wrap(facts, held, run, (again, plan) if plan.levels else None), asked


def holding(compiled: Compiled, things: object) -> Compiled:
    """`compiled`, which keeps `things` alive: what its operators look up by number."""

    def call(flat: list[Any]) -> Sequence[Any]:
        return compiled(flat)

    vars(call).update(is_below_autograd=getattr(compiled, "is_below_autograd", False), things=things)
    return call


def interpret(gm: GraphModule, example_inputs: Sequence[Any], *, is_backward: bool) -> Compiled:
    """A graph compiler that compiles nothing: ATen ops run one by one in eager's kernels."""
    forward = forward_of(gm)

    def call(inputs: list[Any]) -> Sequence[Any]:
        return forward(*inputs)

    return call


def aot_eager(gm: GraphModule, example_inputs: Sequence[torch.Tensor], **options: Any) -> Callable[..., Any]:
    """Backend: ahead-of-time graphs, run by eager's kernels. Tells tracing problems from code generation problems."""
    return aot_module(gm, example_inputs, fw_compiler=interpret, bw_compiler=interpret, **options)
