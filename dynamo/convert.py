"""From a call that fits no entry to a new entry: the pipeline, and the compile context that keeps its state.

convert = bytecode -> capture -> backend -> guards -> codegen -> install
"""

from __future__ import annotations

import contextlib
import dis
import functools
import itertools
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from dynamo import _C, config, internal_errors, marks
from dynamo.backends.registry import Backend, is_own, lookup_backend
from dynamo.breaks import REASONS
from dynamo.bytecode.decode import decode, forget
from dynamo.capture import Captured, Uncapturable, capture
from dynamo.codegen import EntryWriter
from dynamo.collector import paused
from dynamo.debug_output import attach
from dynamo.decisions import compiling
from dynamo.errors import BackendError, CompileError, GraphBreakError, RecompileLimitError
from dynamo.fake.tensor import FakeTensor
from dynamo.finish import Finished, finish
from dynamo.guards import BuiltGuards, build, failure
from dynamo.inspection import attributes_of, given, is_a
from dynamo.invariant import unchanged
from dynamo.lazy import READS_GRAPHS_ONLY, forward_of
from dynamo.lifetimes import Lifetime
from dynamo.locks import Lock, busy
from dynamo.modes import watcher
from dynamo.pristine import pristine_builtins
from dynamo.skipped import skip_file, user_place
from dynamo.source import read
from dynamo.symbolic.changing import KINDS, RESULTS, number_at, often
from dynamo.symbolic.errors import PROGRAM_RAISES, BreakError, CannotAssume, CannotRebuild, RestartTrace
from dynamo.symbolic.tracer import Decisions, GuardRecord
from dynamo.trace import emit, events, is_watched, stage
from dynamo.trace.events import GraphNode

_frame_numbers = itertools.count()


@dataclass
class EntryInfo:
    """The Python side of a C entry: for explain, recompile reasons and tests."""

    compile_id: str
    guards: BuiltGuards
    graph: torch.fx.GraphModule | None
    code: str
    broke: BreakError | None
    lifetime: Lifetime
    promote: set[str] = field(default_factory=set)  # baked tensors that some call had others in place of
    changing: set[str] = field(default_factory=set)  # numbers that some call had others in place of


@dataclass(eq=False)
class CodeState:
    """What a context knows about one code object (with one globals dict)."""

    cache: _C.Cache
    number: int
    globals: dict[str, Any]
    lock: Lock = field(default_factory=Lock)
    compiles: int = 0
    parent: str = ""
    fullgraph: bool = False
    promote: set[str] = field(default_factory=set)  # tensors to take as inputs, from entries that are gone
    pending: BreakError | None = None  # a break to report if this continuation is ever reached
    nested: bool = False  # reached from a broken frame, not named by the user
    watchers: set[str] = field(default_factory=set)  # modes under which it was seen to run natively


class Context:
    """One use of the compiler: backend and options, and the caches of every code object compiled under them."""

    def __init__(self, backend: str | Backend, *, fullgraph: bool = False, options: dict[str, Any] | None = None) -> None:
        self.backend_name, self.backend = lookup_backend(backend)
        self.fullgraph = fullgraph
        self.options = dict(options or {})
        self._states: weakref.WeakValueDictionary[tuple[int, int], CodeState] = weakref.WeakValueDictionary()
        self._kept: list[CodeState] = []  # of code that lives as long as its module
        self._lock = Lock()
        _contexts.add(self)

    def compiled(self, fn: types.FunctionType, *, nested: bool = False, owned: bool = False) -> _C.Compiled:
        """The vectorcall object for a function under this context; it keeps what is compiled for it alive.

        owned: nothing else does, as the code was made for this object; otherwise other functions of the code find it, too.
        """
        state = self.state(fn, nested=nested, owned=owned)
        return _C.Compiled(fn, state.cache, functools.partial(self.miss, state), self)

    def state(self, fn: types.FunctionType, *, nested: bool = False, owned: bool = False) -> CodeState:
        key = (id(fn.__code__), id(fn.__globals__))
        with self._lock:
            state = self._states.get(key)
            if state is None:
                state = self._states[key] = CodeState(_C.Cache(fn.__code__), next(_frame_numbers), fn.__globals__, nested=nested)
                if owned or not _is_of_module(fn):
                    weakref.finalize(state, forget, fn.__code__).atexit = False
                else:
                    self._kept.append(state)
                if decode(fn.__code__).is_generator:
                    state.cache.mode = _C.Cache.SKIP
                    code = fn.__code__
                    reason = "a generator or coroutine frame is run by CPython"
                    emit(events.FrameSkipped(code.co_qualname, code.co_filename, code.co_firstlineno, "DD025", reason))
            return state

    def reset(self) -> None:
        with self._lock:
            for state in list(self._states.values()):
                state.cache.clear()
                state.cache.mode = _C.Cache.ACTIVE
                state.compiles = 0

    def states(self) -> Iterator[CodeState]:
        return iter(list(self._states.values()))

    # ---- misses -------------------------------------------------------------------------------------------

    def miss(self, state: CodeState, compiled: _C.Compiled, inputs: tuple[Any, ...]) -> Callable[..., Any] | None:
        """Called by C when no entry fits. None: run the function natively."""
        fn: Any = compiled.fn
        with pristine_builtins():
            if config.disable or not debug_filter(fn.__code__) or self._is_watched(fn.__code__, state):
                return None
        with state.lock, busy():
            for entry in state.cache.entries:  # another thread may have made it while we waited; guards see the program's own builtins
                if entry.guards.check(inputs):
                    return entry.fn
            reasons = why_missed(state.cache, inputs) if state.cache.entries else []
            self._drop_stale(state)
            with pristine_builtins():
                if state.cache.mode != _C.Cache.ACTIVE or (state.nested and not mentions_tensors(inputs)):
                    return None
                made = self._compile(fn, state, inputs) if self._may_compile(fn, state, reasons) else None
                if made is None:
                    return None
                assert isinstance(made.info, EntryInfo)
                made.info.lifetime.begin(state.cache, made)
                return made.fn

    def _drop_stale(self, state: CodeState) -> None:
        """Take out entries that hold tensors which their modules have replaced; the next entry takes those as inputs."""
        for entry in state.cache.entries:
            info = entry.info
            if isinstance(info, EntryInfo) and info.promote and info.lifetime.is_stale():
                state.promote |= info.promote
                info.lifetime.end()

    def _is_watched(self, code: types.CodeType, state: CodeState) -> bool:
        """Whether something is active that no graph may hide operations from; told once per frame and mode."""
        by = watcher()
        if by and by not in state.watchers:
            state.watchers.add(by)
            emit(events.FrameSkipped(code.co_qualname, code.co_filename, code.co_firstlineno, "DD022", by))
        return bool(by)

    def _may_compile(self, fn: types.FunctionType, state: CodeState, reasons: list[MissReason]) -> bool:
        """Count and explain the recompile; False when the limit is reached."""
        if not state.cache.entries:
            return True
        reason = reasons[0] if reasons else MissReason("no entry fits", -1, "", "", 0)
        code = fn.__code__
        frame = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
        if len(state.cache.entries) >= config.recompile_limit:
            state.cache.mode = _C.Cache.RUN_ONLY
            emit(events.LimitHit(frame, config.recompile_limit, reason.text))
            message = (
                f"recompile_limit ({config.recompile_limit}) reached for {frame}: this code now runs from its cache, and in eager "
                f"for calls that fit no entry. last change: {reason.text}. make the changing value a tensor, keep it fixed, or "
                f"raise dynamo.config.recompile_limit [DD026]"
            )
            if self.fullgraph:
                raise RecompileLimitError(message)
            warnings.warn_explicit(message, UserWarning, code.co_filename, code.co_firstlineno)
            emit(events.Note("DD026", message))
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
            )
        )
        return True

    def _compile(self, fn: types.FunctionType, state: CodeState, inputs: tuple[Any, ...]) -> _C.Entry | None:
        attach()
        compile_id = f"{state.number}/{state.compiles}"
        state.compiles += 1
        code = fn.__code__
        is_resume = "__resume_at_" in code.co_name
        if state.pending is not None:
            emit(break_event(state.pending, state.parent))
            state.pending = None
        emit(events.CompileStarted(compile_id, code.co_qualname, code.co_filename, code.co_firstlineno, state.parent, is_resume))
        try:
            with paused(), unchanged(f"compiling {code.co_qualname}", compile_id) if config.check_surroundings else _NOTHING:
                return convert(self, fn, state, inputs, compile_id)
        except GraphBreakError as e:
            emit(events.CompileEnded(compile_id, "error", str(e).splitlines()[0]))
            raise
        except Uncapturable as e:
            state.cache.mode = _C.Cache.SKIP
            emit(events.FrameSkipped(code.co_qualname, code.co_filename, code.co_firstlineno, e.reason.id, e.reason.what))
            emit(events.CompileEnded(compile_id, "skipped", e.reason.what))
            return None
        except RecursionError:
            if self.fullgraph or not config.suppress_errors:
                raise
            state.cache.mode = _C.Cache.SKIP
            what = REASONS["DD028"].title
            emit(events.FrameSkipped(code.co_qualname, code.co_filename, code.co_firstlineno, "DD028", what))
            emit(events.CompileEnded(compile_id, "skipped", what))
            return None
        except Exception as e:  # an error of ours or of the backend must not take the user's program down
            emit(events.CompileEnded(compile_id, "error", f"{type(e).__name__}: {e}"))
            if self.fullgraph or not config.suppress_errors or isinstance(e, BackendError):
                raise
            state.cache.mode = _C.Cache.SKIP
            where = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
            emit(events.Note("DD090", f"{where}: {type(e).__name__}: {e}", "error"))
            internal_errors.report("DD090", e, where, compile_id, code.co_filename, code.co_firstlineno)
            return None


_NOTHING: contextlib.AbstractContextManager[None] = contextlib.nullcontext()


def _is_of_module(fn: types.FunctionType) -> bool:
    """Whether the globals of a function are those of an imported module, which keeps the code alive that its text has made."""
    module = sys.modules.get(str(fn.__globals__.get("__name__")))
    return module is not None and attributes_of(module) is fn.__globals__


_contexts: weakref.WeakSet[Context] = weakref.WeakSet()


def contexts() -> list[Context]:
    return list(_contexts)


# ---- the pipeline -------------------------------------------------------------------------------------------


def convert(ctx: Context, fn: types.FunctionType, state: CodeState, inputs: tuple[Any, ...], compile_id: str) -> _C.Entry:
    """Compile one variant of one frame. Reads as the list of stages in dynamo/trace/stages.py."""
    with stage("bytecode", compile_id):
        decode(fn.__code__)
    if is_watched():
        emit(events.CodeGenerated(compile_id, "bytecode", "bytecode", "text", dis.Bytecode(fn.__code__).dis()))
    infos = [entry.info for entry in state.cache.entries if isinstance(entry.info, EntryInfo)]
    known = Decisions(inputs=set(_promoted(state)), changing=often(info.changing for info in infos))
    while True:
        with stage("capture", compile_id):
            captured = run_capture(ctx, fn, inputs, known)
        with stage("codegen", compile_id):
            writer = EntryWriter(captured.tx, len(inputs))
            try:
                finished = finish(ctx, captured, writer, compile_id)
                break
            except CannotRebuild as e:
                _earlier_break(ctx, captured, known, e)
            except CannotAssume:
                known.plain_branches = True
                captured.tx.forget()
            except RestartTrace:
                captured.tx.forget()
    report_capture(captured, finished, compile_id)
    with stage("backend", compile_id):
        graph_fn = run_backend(ctx, finished, compile_id)
    with stage("guards", compile_id):
        tx, lifetime = captured.tx, Lifetime()
        guards = build(list(tx.guards.values()), captured.distinct, captured.state, tx.definitions, lifetime)
        for baked in tx.baked:
            lifetime.bake(*baked)
    with stage("codegen", compile_id):
        entry_fn, text = finished.make(graph_fn)
    with stage("install", compile_id):
        _forget_constants(finished.gm)
        info = EntryInfo(compile_id, guards, finished.gm, text, _kept(captured.reason) if captured.result is None else None, lifetime)
        entry = _C.Entry(guards.tree, entry_fn, info)
    report_entry(captured, guards, text, compile_id)
    captured.tx.forget()
    return entry


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


def run_capture(ctx: Context, fn: types.FunctionType, inputs: tuple[Any, ...], known: Decisions) -> Captured:
    fullgraph = ctx.fullgraph or config.error_on_break
    try:
        return capture(fn, inputs, fullgraph=fullgraph, known=known)
    except BreakError as e:
        raise GraphBreakError(e) from e.cause


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


def run_backend(ctx: Context, finished: Finished, compile_id: str) -> Callable[..., Any] | None:
    if finished.gm is None:
        return None
    if not hasattr(ctx.backend, READS_GRAPHS_ONLY):
        forward_of(finished.gm)
    try:
        with no_compile(), compiling(compile_id):
            compiled = ctx.backend(finished.gm, finished.example_inputs, **_backend_options(ctx))
    except Exception as e:  # whatever a backend raises is told as the backend's
        if ctx.fullgraph or not config.suppress_errors or not is_own(ctx.backend):
            raise BackendError(ctx.backend_name, e) from e
        message = f"backend {ctx.backend_name!r} failed on graph {compile_id}, which runs in eager: {type(e).__name__}: {e} [DD091]"
        emit(events.Note("DD091", message, "error"))
        internal_errors.report("DD091", e, f"graph {compile_id}", compile_id, *user_place(), text=message.removesuffix(" [DD091]"))
        return forward_of(finished.gm)
    if not callable(compiled):
        raise BackendError(ctx.backend_name, TypeError(f"returned {type(compiled).__name__}, which can't be called"))
    return compiled


def _backend_options(ctx: Context) -> dict[str, Any]:
    return {"options": ctx.options} if ctx.options else {}


@contextlib.contextmanager
def no_compile() -> Iterator[None]:
    """Compiled objects run natively inside: a backend may call them."""
    old = _C.set_stance(2)
    try:
        yield
    finally:
        _C.set_stance(old)


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
        if record.kind == "is" and isinstance(given(record.arg), torch.Tensor) and record.source is not None:
            info.promote |= _replaced(info.guards.records, inputs)
        info.changing |= _changed(info.guards.records, inputs)
        out.append(MissReason(f"{info.compile_id}: {failure(record, seen)}", gid, source, record.file, record.line))
    return out


def _replaced(records: list[GuardRecord], inputs: tuple[Any, ...]) -> set[str]:
    """The baked tensors that this call has others in place of."""
    rows = [(r.source, given(r.arg)) for r in records if r.kind == "is" and r.source is not None]
    return {s.name for s, t in rows if isinstance(t, torch.Tensor) and read(s, inputs) is not t}


def _changed(records: list[GuardRecord], inputs: tuple[Any, ...]) -> set[str]:
    """The numbers that the entry was made for and this call has others in place of."""
    found = set()
    for r in records:
        if r.kind == "eq" and r.source is not None and type(r.arg) in RESULTS:
            at = number_at(r.source)
            if type(read(at, inputs)) in KINDS and read(r.source, inputs) != r.arg:
                found.add(at.name)
    return found


def debug_filter(code: types.CodeType) -> bool:
    """config.debug_function: compile only code whose name matches."""
    pattern = config.debug_function
    if not pattern:
        return True
    import fnmatch

    name = code.co_name.partition("__resume_at_")[0]
    return fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(code.co_qualname, pattern)


def mentions_tensors(inputs: tuple[Any, ...], depth: int = 2) -> bool:
    """Whether a frame reached from broken code could do tensor work at all."""
    for x in inputs:
        if is_a(x, torch.Tensor, torch.nn.Module):
            return True
        if is_a(x, types.CellType):
            try:
                x = x.cell_contents
            except ValueError:
                continue
            if is_a(x, torch.Tensor, torch.nn.Module):
                return True
        if not depth:
            continue
        members = _members(x)
        if members is not None and mentions_tensors(tuple(itertools.islice(members, 32)), depth - 1):
            return True
    return False


def _members(x: Any) -> Iterable[Any] | None:
    """What a container or an object holds, read without its own methods."""
    for cls, values in _READERS:
        if is_a(x, cls):
            return values(x)
    if is_a(x, type, types.ModuleType) or type(x).__module__ in ("builtins", "torch"):
        return None
    held = attributes_of(x)
    return held.values() if held is not None else None


_READERS: tuple[tuple[type, Callable[[Any], Iterable[Any]]], ...] = ((list, list.__iter__), (tuple, tuple.__iter__), (dict, dict.values))


# ---- frames reached from broken code ------------------------------------------------------------------------


def frame_handler(fn: types.FunctionType, ctx: Any) -> _C.Compiled | None:
    """Decide once per code and context what the frame hook does."""
    code = fn.__code__
    if not isinstance(ctx, Context) or marks.disabled(fn) is False:
        return None
    if marks.disabled(fn) or getattr(fn, "_torchdynamo_disable", False) is True:
        return _disabled(_without_closure(fn), ctx)
    if skip_file(code.co_filename) or decode(code).is_generator:
        return None
    return ctx.compiled(_without_closure(fn), nested=True)


def _without_closure(fn: types.FunctionType) -> types.FunctionType:
    """A function of the same code that keeps nothing alive: frames bring their own cells."""
    return types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, None, tuple(types.CellType() for _ in fn.__code__.co_freevars))


def _disabled(fn: types.FunctionType, ctx: Context) -> _C.Compiled:
    """A frame under `disable`: run with everything below it in eager, however it was reached."""
    code = fn.__code__
    npos, nkw = code.co_argcount, code.co_kwonlyargcount
    keywords = code.co_varnames[npos : npos + nkw]
    star, double_star = bool(code.co_flags & 4), bool(code.co_flags & 8)

    def run(compiled: _C.Compiled, inputs: tuple[Any, ...]) -> Callable[..., Any]:
        def eager(*inputs: Any) -> Any:
            at = npos + nkw
            args = (*inputs[:npos], *(inputs[at] if star else ()))
            kwargs = dict(zip(keywords, inputs[npos:at], strict=True)) | (inputs[at + star] if double_star else {})
            # Functions made by one `def` share this object; what tells them apart are their cells.
            cells = inputs[len(inputs) - len(code.co_freevars) :]
            own = types.FunctionType(code, fn.__globals__, fn.__name__, None, cells)
            return _C.disabled_call(own, args, kwargs)

        return eager

    return _C.Compiled(fn, _C.Cache(code), run, ctx)


# ---- events -------------------------------------------------------------------------------------------------


def graph_nodes(gm: torch.fx.GraphModule) -> tuple[GraphNode, ...]:
    """FX nodes as the record shows them."""
    out = []
    for n in gm.graph.nodes:
        file, line, stack = n.meta.get("source", ("", 0, ()))
        val = n.meta.get("val")
        shape = f"{str(val.dtype).removeprefix('torch.')}{list(val.shape)}" if isinstance(val, torch.Tensor) else ""
        target = n.target if isinstance(n.target, str) else getattr(n.target, "__name__", str(n.target))
        inputs = tuple(i.name for i in n.all_input_nodes)
        out.append(GraphNode(n.name, n.op, target, n.format_node() or str(n), shape, file, line, tuple(stack), inputs))
    return tuple(out)


def report_capture(captured: Captured, finished: Finished, compile_id: str) -> None:
    if finished.gm is not None:
        ops = sum(n.op in ("call_function", "call_method", "call_module") for n in finished.gm.graph.nodes)
        code, nodes = (finished.gm.code.strip(), graph_nodes(finished.gm)) if is_watched() else ("", ())
        emit(events.GraphCaptured(compile_id, compile_id, "capture", ops, code, nodes))
    reason = captured.reason
    if captured.result is None and reason is not None and reason.id not in PROGRAM_RAISES and not reason.consequence:
        emit(break_event(reason, compile_id))


def break_event(e: BreakError, compile_id: str) -> events.GraphBroke:
    file, line, col, end_line, end_col = e.span
    stack = tuple(f"{f}:{ln} {name}" for f, ln, name in e.stack)
    reason = f"{e.reason.title}: {e.what}" if e.what else e.reason.title
    return events.GraphBroke(compile_id, e.id, file, line, col, end_line, end_col, reason, e.reason.explanation, e.hint, stack)


def report_entry(captured: Captured, guards: BuiltGuards, text: str, compile_id: str) -> None:
    for gid, (record, (source, check)) in enumerate(zip(guards.records, guards.texts(), strict=True) if is_watched() else ()):
        emit(events.GuardInstalled(compile_id, gid, source, check, record.file, record.line))
    emit(events.CodeGenerated(compile_id, "codegen", "entry", "python", text))
    broke = captured.result is None
    has_graph = any(n.op.startswith("call_") for n in captured.tx.graph.nodes)
    outcome = "break" if broke else "ok" if has_graph else "empty"
    emit(events.CompileEnded(compile_id, outcome, captured.reason.what if broke and captured.reason is not None else ""))


__all__ = ["CompileError", "Context", "EntryInfo", "contexts", "convert", "frame_handler"]
