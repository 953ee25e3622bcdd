"""A call that fits no entry: whether to compile for it, why the entries there are didn't fit, and what an error does."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from dynamo import _C, config, internal_errors
from dynamo.backends.registry import OWN_LIMIT
from dynamo.breaks import REASONS
from dynamo.compile.capture import Uncapturable
from dynamo.compile.chosen import is_chosen
from dynamo.compile.context import CodeState, Context, EntryInfo
from dynamo.compile.debug_output import attach
from dynamo.compile.frames import mentions_tensors
from dynamo.compile.pipeline import convert
from dynamo.compile.reports import break_event, report_start
from dynamo.compile.wanted import compiles_wanted
from dynamo.errors import BackendError, GraphBreakError, RecompileError, RecompileLimitError
from dynamo.graph.invariant import unchanged
from dynamo.guards.difference import changes, gone
from dynamo.guards.kinds import GuardRecord, failure
from dynamo.inspection import given
from dynamo.recording.keep import keep_frame
from dynamo.skipped import user_place
from dynamo.source import read
from dynamo.surroundings.collector import paused
from dynamo.surroundings.locks import busy
from dynamo.surroundings.modes import watcher
from dynamo.surroundings.pristine import pristine_builtins
from dynamo.surroundings.signals import let_through, of_handler
from dynamo.symbolic.protocols.changing import KINDS, RESULTS, number_at
from dynamo.trace import emit, events, is_watched

_NOTHING: contextlib.AbstractContextManager[None] = contextlib.nullcontext()


def miss(ctx: Context, state: CodeState, compiled: _C.Compiled, inputs: tuple[Any, ...]) -> Callable[..., Any] | None:
    """Called by C when no entry fits. None: run the function natively."""
    fn: Any = compiled.fn
    with pristine_builtins():
        if config.disable or not is_chosen(fn.__code__, config.debug_function) or _is_watched(fn.__code__, state, inputs):
            return None
    with state.lock, busy():
        for entry in state.cache.entries:  # another thread may have made it while we waited; guards see the program's own builtins
            if entry.guards.check(inputs):
                return entry.fn
        reasons = why_missed(state.cache, inputs) if state.cache.entries else []
        _drop_stale(state)
        with pristine_builtins():
            if state.cache.mode != _C.Cache.ACTIVE or (state.nested and not mentions_tensors(inputs)):
                return None
            attach()
            if not compiles_wanted():
                raise _unwanted("the stance is fail_on_recompile", fn.__code__, reasons)
            made = _compile(ctx, fn, state, inputs) if _may_compile(ctx, fn, state, reasons, inputs) else None
            if made is None:
                return None
            assert isinstance(made.info, EntryInfo)
            made.info.lifetime.begin(state.cache, made)
            state.latest = (made.info.guards, made.info.lifetime)
            return made.fn


def _drop_stale(state: CodeState) -> None:
    """Take out entries that hold tensors which their modules have replaced; the next entry takes those as inputs."""
    for entry in state.cache.entries:
        info = entry.info
        if isinstance(info, EntryInfo) and info.promote and info.lifetime.is_stale():
            state.promote |= info.promote
            info.lifetime.end()


def _is_watched(code: types.CodeType, state: CodeState, inputs: tuple[Any, ...]) -> bool:
    """Whether something is active that no graph may hide operations from; told once per frame and mode, if it could be captured."""
    by = watcher()
    if by and by not in state.watchers and not (state.nested and not mentions_tensors(inputs)):
        state.watchers.add(by)
        emit(events.FrameSkipped(code.co_qualname, code.co_filename, code.co_firstlineno, "DD022", by))
    return bool(by)


def _may_compile(ctx: Context, fn: types.FunctionType, state: CodeState, reasons: list[MissReason], inputs: tuple[Any, ...]) -> bool:
    """Count and explain the recompile; False when the limit is reached. Errors that the program asked for come before that of the limit."""
    changed = _changes(state, inputs)
    if not state.cache.entries:
        if changed:
            reasons = [_gone(changed[0])]
        else:
            return True
    reason = reasons[0] if reasons else MissReason("no entry fits", -1, "", "", 0)
    code = fn.__code__
    limit = getattr(ctx.backend, OWN_LIMIT, config.recompile_limit)
    if len(state.cache.entries) >= limit and not config.error_on_recompile:
        _end_compiles(ctx, state, code, limit, reason.text)
        return False
    emit(
        events.Recompiled(
            f"{state.number}/{state.compiles}",
            code.co_qualname,
            reason.text,
            tuple(r.text for r in reasons),
            reason.guard_id,
            reason.source,
            reason.file,
            reason.line,
            tuple(changed),
            *user_place(),
        )
    )
    if config.error_on_recompile:
        raise _unwanted("error_on_recompile is set", code, reasons)
    return True


def _end_compiles(ctx: Context, state: CodeState, code: types.CodeType, limit: int, last: str) -> None:
    """The limit is reached. Under fullgraph, where nothing may run in eager, every call that fits no entry raises."""
    frame = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
    then = "raises" if ctx.fullgraph else "runs in eager"
    message = (
        f"recompile_limit ({limit}) reached for {frame}: this code now runs from its cache, and a call that fits no entry {then}. "
        f"last change: {last}. make the changing value a tensor, keep it fixed, or raise dynamo.config.recompile_limit [DD026]"
    )
    if not state.limited:
        state.limited = True
        emit(events.LimitHit(frame, limit, last, ctx.fullgraph))
    if ctx.fullgraph:
        raise RecompileLimitError(message)
    state.cache.mode = _C.Cache.RUN_ONLY
    internal_errors.warn(message, code.co_filename, code.co_firstlineno)
    emit(events.Note("DD026", message))


def _unwanted(why: str, code: types.CodeType, reasons: list[MissReason]) -> RecompileError:
    place = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
    changed = "".join(f"\n  - {reason.text}" for reason in reasons) or "\n  - nothing is compiled for it"
    return RecompileError(f"{place} would be compiled, and {why}; no entry fits:{changed}\n  warm it up first [DD030]")


def _changes(state: CodeState, inputs: tuple[Any, ...]) -> list[events.Change]:
    """What keeps the call from the nearest entry; or, where the last entry has gone with an object it was made for, which one that was."""
    if not state.cache.entries:
        return gone(state.latest[0]) if state.latest is not None and state.latest[1].over else []
    if not is_watched():
        return []
    found = [changes(entry.info.guards, inputs) for entry in state.cache.entries if isinstance(entry.info, EntryInfo)]
    return min((rows for rows in found if rows), key=len, default=[])


def _gone(change: events.Change) -> MissReason:
    text = f"{change.source}: the object that the last entry was compiled for has died, and the entry with it"
    return MissReason(text, change.guard_id, change.source, change.file, change.line)


def _compile(ctx: Context, fn: types.FunctionType, state: CodeState, inputs: tuple[Any, ...]) -> _C.Entry | None:
    compile_id = f"{state.number}/{state.compiles}"
    state.compiles += 1
    code = fn.__code__
    if state.pending is not None:
        emit(break_event(state.pending, state.parent))
        state.pending = None
    if config.replay_record_always:
        keep_frame(fn, inputs, None, ctx.fullgraph)
    report_start(code, compile_id, state.parent)
    try:
        with paused(), unchanged(f"compiling {code.co_qualname}", compile_id) if config.check_surroundings else _NOTHING:
            return convert(ctx, fn, state, inputs, compile_id)
    except GraphBreakError as e:
        _let_through(e, compile_id, code)
        keep_frame(fn, inputs, e, ctx.fullgraph)
        emit(events.CompileEnded(compile_id, "error", str(e).splitlines()[0], e.id, *e.broke.span[:2]))
        raise
    except Uncapturable as e:
        _let_through(e, compile_id, code)
        state.cache.mode = _C.Cache.SKIP
        emit(events.FrameSkipped(code.co_qualname, code.co_filename, code.co_firstlineno, e.reason.id, e.reason.what))
        emit(events.CompileEnded(compile_id, "skipped", e.reason.what))
        return None
    except RecursionError as e:
        _let_through(e, compile_id, code)
        keep_frame(fn, inputs, e, ctx.fullgraph)
        if ctx.fullgraph or not config.suppress_errors:
            raise
        state.cache.mode = _C.Cache.SKIP
        what = REASONS["DD028"].title
        emit(events.FrameSkipped(code.co_qualname, code.co_filename, code.co_firstlineno, "DD028", what))
        emit(events.CompileEnded(compile_id, "skipped", what))
        return None
    except Exception as e:  # an error of ours or of the backend must not take the user's program down
        _let_through(e, compile_id, code)
        keep_frame(fn, inputs, e, ctx.fullgraph)
        emit(events.CompileEnded(compile_id, "error", f"{type(e).__name__}: {e}"))
        if ctx.fullgraph or not config.suppress_errors or isinstance(e, BackendError):
            if not ctx.fullgraph:
                internal_errors.raising(e)
            raise
        state.cache.mode = _C.Cache.SKIP
        where = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
        emit(events.Note("DD090", f"{where}: {type(e).__name__}: {e}", "error"))
        internal_errors.report("DD090", e, where, compile_id, code.co_filename, code.co_firstlineno)
        return None


def _let_through(error: Exception, compile_id: str, code: types.CodeType) -> None:
    """A signal handler of the program ended the compile: its error is the program's, and the next call compiles again."""
    found = of_handler(error)
    if found is not None:
        what = f"a handler raised {type(found).__name__}"
        emit(events.FrameSkipped(code.co_qualname, code.co_filename, code.co_firstlineno, "DD032", what))
        emit(events.CompileEnded(compile_id, "skipped", REASONS["DD032"].title))
        let_through(error)


# ---- reasons ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MissReason:
    text: str
    guard_id: int
    source: str
    file: str
    line: int


def why_missed(cache: _C.Cache, inputs: tuple[Any, ...]) -> list[MissReason]:
    """One line per entry: the first guard that fails for these inputs."""
    out = []
    for entry in cache.entries:
        found = entry.guards.explain(inputs)
        info = entry.info
        if found is None or not isinstance(info, EntryInfo):
            continue
        gid, seen = found
        record = info.guards.records[gid]
        source = record.source.name if record.source is not None else ""
        if record.kind == "is" and isinstance(given(record.arg), torch.Tensor | torch.Generator) and record.source is not None:
            info.promote |= _replaced(info.guards.records, inputs)
        info.changing |= _changed(info.guards.records, inputs)
        out.append(MissReason(f"{info.compile_id}: {failure(record, seen)}", gid, source, record.file, record.line))
    return out


def _replaced(records: list[GuardRecord], inputs: tuple[Any, ...]) -> set[str]:
    """The baked tensors and generators of random numbers that this call has others in place of."""
    rows = [(r.source, given(r.arg)) for r in records if r.kind == "is" and r.source is not None]
    return {s.name for s, t in rows if isinstance(t, torch.Tensor | torch.Generator) and read(s, inputs) is not t}


def _changed(records: list[GuardRecord], inputs: tuple[Any, ...]) -> set[str]:
    """The numbers that the entry was made for and this call has others in place of."""
    found = set()
    for r in records:
        if r.kind == "eq" and r.source is not None and type(r.arg) in RESULTS:
            at = number_at(r.source)
            if type(read(at, inputs)) in KINDS and read(r.source, inputs) != r.arg:
                found.add(at.name)
    return found
