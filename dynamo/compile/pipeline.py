"""The pipeline: from one frame and its inputs to an entry, as a list of stages.

Stage names are those of `dynamo/trace/stages.py`; the timer, the record and the command line use them, too.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from dynamo import _C, config, internal_errors
from dynamo.backends.registry import is_own
from dynamo.bytecode.decode import decode
from dynamo.compile.capture import Captured, Uncapturable, capture
from dynamo.compile.context import CodeState, Context, EntryInfo
from dynamo.compile.entry import EntryWriter
from dynamo.compile.finish import Finished, finish
from dynamo.compile.reports import report_bytecode, report_capture, report_entry
from dynamo.decisions import compiling
from dynamo.errors import BackendError, GraphBreakError
from dynamo.fake.tensor import FakeTensor
from dynamo.graph.lazy import READS_GRAPHS_ONLY, forward_of
from dynamo.guards.build import BuiltGuards, build
from dynamo.guards.lifetimes import Lifetime
from dynamo.skipped import user_place
from dynamo.surroundings.signals import let_through
from dynamo.symbolic.attempt.tracer import Decisions
from dynamo.symbolic.protocols.changing import often
from dynamo.symbolic.values.errors import BreakError, CannotAssume, CannotRebuild, RestartTrace
from dynamo.trace import emit, events, stage


def convert(ctx: Context, fn: types.FunctionType, state: CodeState, inputs: tuple[Any, ...], compile_id: str) -> _C.Entry:
    """Compile one variant of one frame: the stages from bytecode to the entry that `state`'s cache gets."""
    with stage("bytecode", compile_id):
        decode(fn.__code__)
    report_bytecode(fn.__code__, compile_id)

    captured, finished = _capture(ctx, fn, state, inputs, compile_id)  # stages capture and codegen, as often as it takes
    report_capture(captured, finished, compile_id)

    with stage("backend", compile_id):
        graph_fn = _run_backend(ctx, finished, compile_id)

    with stage("guards", compile_id):
        guards, lifetime = _build_guards(captured)

    with stage("codegen", compile_id):
        entry_fn, text = finished.make(graph_fn)

    with stage("install", compile_id):
        _forget_constants(finished.gm)
        info = EntryInfo(compile_id, guards, finished.gm, text, _kept(captured.reason) if captured.result is None else None, lifetime)
        info.relies_at = captured.frame.instr.orig if captured.relies else -1
        entry = _C.Entry(guards.tree, entry_fn, info)

    report_entry(captured, guards, text, compile_id, inputs)
    captured.tx.forget()
    return entry


# ---- capture ------------------------------------------------------------------------------------------------


def _capture(ctx: Context, fn: types.FunctionType, state: CodeState, inputs: tuple[Any, ...], compile_id: str) -> tuple[Captured, Finished]:
    """Trace the frame until its end can be written: what the end can't rebuild, the next capture breaks before or takes as input."""
    infos = [entry.info for entry in state.cache.entries if isinstance(entry.info, EntryInfo)]
    settled = frozenset(info.relies_at for info in infos)
    known = Decisions(inputs=_promoted(state), changing=often(info.changing for info in infos), settled=settled)
    while True:
        with stage("capture", compile_id):
            try:
                captured = capture(fn, inputs, fullgraph=ctx.fullgraph or config.error_on_break, known=known)
            except BreakError as e:
                raise GraphBreakError(e) from e.cause
        with stage("codegen", compile_id):
            writer = EntryWriter(captured.tx, len(inputs))
            try:
                return captured, finish(ctx, captured, writer, compile_id)
            except CannotRebuild as e:
                _earlier_break(ctx, captured, known, e)
            except CannotAssume:
                known.plain_branches = True
                captured.tx.forget()
            except RestartTrace:
                captured.tx.forget()


def _earlier_break(ctx: Context, captured: Captured, known: Decisions, e: CannotRebuild) -> None:
    """A live value can't be rebuilt at this break: break where it was made."""
    if ctx.fullgraph:
        captured.tx.locate(e)
        raise GraphBreakError(e)
    step = e.born - 1
    if captured.result is None and known.break_at is not None and step >= known.break_at:
        raise Uncapturable(e)
    if step < 0:
        raise Uncapturable(e)
    known.break_at = step
    known.reason = known.reason or e
    captured.tx.forget()


def _promoted(state: CodeState) -> set[str]:
    """Tensors baked into earlier entries whose identity has changed since: the next entry takes them as inputs."""
    found = set(state.promote)
    for entry in state.cache.entries:
        info: Any = entry.info
        found |= getattr(info, "promote", set())
    return found


# ---- backend ------------------------------------------------------------------------------------------------


def _run_backend(ctx: Context, finished: Finished, compile_id: str) -> Callable[..., Any] | None:
    if finished.gm is None:
        return None
    if not hasattr(ctx.backend, READS_GRAPHS_ONLY):
        forward_of(finished.gm)
    try:
        with _no_compile(), compiling(compile_id):
            compiled = ctx.backend(finished.gm, finished.example_inputs, **({"options": ctx.options} if ctx.options else {}))
    except Exception as e:  # whatever a backend raises is told as the backend's
        let_through(e)
        if ctx.fullgraph or not config.suppress_errors or not is_own(ctx.backend):
            raise BackendError(ctx.backend_name, e) from e
        message = f"backend {ctx.backend_name!r} failed on graph {compile_id}, which runs in eager: {type(e).__name__}: {e} [DD091]"
        emit(events.Note("DD091", message, "error"))
        internal_errors.report("DD091", e, f"graph {compile_id}", compile_id, *user_place(), text=message.removesuffix(" [DD091]"))
        return forward_of(finished.gm)
    if not callable(compiled):
        raise BackendError(ctx.backend_name, TypeError(f"returned {type(compiled).__name__}, which can't be called"))
    return compiled


@contextlib.contextmanager
def _no_compile() -> Iterator[None]:
    """Compiled objects run natively inside: a backend may call them."""
    old = _C.set_stance(2)
    try:
        yield
    finally:
        _C.set_stance(old)


# ---- guards and installation --------------------------------------------------------------------------------


def _build_guards(captured: Captured) -> tuple[BuiltGuards, Lifetime]:
    tx, lifetime = captured.tx, Lifetime()
    guards = build(list(tx.guards.records.values()), captured.distinct, captured.state, tx.guards.definitions, lifetime)
    for baked in tx.baked:
        lifetime.bake(*baked)
    return guards, lifetime


def _forget_constants(gm: GraphModule | None) -> None:
    """The graph is kept for people to look at. The values of `torch.tensor(data)` were for the capture only."""
    for node in gm.graph.nodes if gm is not None else ():
        for fake in tree_leaves(node.meta.get("val")):
            if isinstance(fake, FakeTensor):
                fake.forget_constant()


def _kept(reason: BreakError | None) -> BreakError | None:
    """The break without what keeps the trace, and through it the caller's objects, alive."""
    if reason is not None:
        reason.cause = reason.because = reason.__cause__ = reason.__context__ = reason.__traceback__ = None
    return reason
