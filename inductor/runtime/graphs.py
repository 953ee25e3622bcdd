"""CUDA graphs: a program is run once to warm up, then captured, then replayed.

`Recorder.__call__` names the steps; it runs where no recording fits. Calls that fit one never reach Python (`inductor/csrc/graphs.c`).

An input is *fixed* where a recording reads it from the address it came at: parameters, buffers, what another graph made, what the
program writes to, and whatever was at the same address in two calls. Every call compares these addresses. Other inputs are copied
into memory of the recording, all at once. An input that moves makes a second call run as it is, then it is recorded again, copied.

Results stay valid as long as somebody holds them: a graph is replayed only while nothing that it would overwrite is alive (the head of
`graphs.c` says how that is known). A result that was still alive is copied out by later replays.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo.aot.facts import attribute
from dynamo.backends.registry import when_reset
from dynamo.ops.facts import is_random
from dynamo.surroundings.collector import paused
from inductor import _host
from inductor.ir.dims import numel, span
from inductor.ir.nest import Extern, View
from inductor.runtime.capturable import MOVES, NO_MEMORY, NO_REPLAY, NOT_CAPTURED, ON_PROCESSOR, WRITES_ELSEWHERE, Refusal, place_of
from inductor.runtime.layout import dtype_number
from inductor.runtime.recipe import KernelCall, Recipe

Compiled = Callable[[Sequence[Any]], tuple[Any, ...]]
Layout = tuple[tuple[int, ...], tuple[int, ...]]  # shape, strides

UNREAD, FIXED, COPIED = range(3)  # kinds of inputs
RESULT, VALUE, INPUT = range(3)  # kinds of outputs

MOST = 8  # recordings of one program
ATTEMPTS = 2  # captures that may fail: the run after one loads what must not be loaded in the next
PATIENCE = 3  # calls that a recording may be in the way of results that somebody holds

_capturing = threading.Lock()  # one graph at a time: they share a stream and the pool of its allocations


@dataclass(frozen=True)
class Subject:
    """What is captured.

    `read` and `written` are about inputs. `layouts` has what inputs are laid out as that may come in any strides. `constants` are
    tensors that results may be. `generators` are those that are drawn from besides the device's own.
    """

    run: Compiled
    place: str
    read: tuple[bool, ...]
    written: frozenset[int] = frozenset()
    layouts: tuple[Layout | None, ...] = ()
    constants: tuple[torch.Tensor, ...] = ()
    generators: tuple[torch.Generator, ...] = ()
    draws: bool = False
    is_backward: bool = False


@dataclass(frozen=True)
class Captured:
    """A graph of the device. `replay`: called instead of launching `executable` from C, where the host has a part in it."""

    executable: int
    replay: Callable[[], Any] | None
    keep: object


def graphed(subject: Subject, where: tuple[Any, ...]) -> Compiled:
    """A callable like the subject's that replays it. `where`: (kind, index, context, flag, stream) of its device, as programs have it."""
    if not storage_uses_known():
        Refusal(NO_REPLAY, "the reference counts of this torch's tensors cannot be read", subject.place).note()
        return subject.run
    recorder = Recorder(subject, memory_for(where, subject.is_backward))
    _recorders.add(recorder)
    below = bool(getattr(subject.run, "is_below_autograd", False))
    lays_out = bool(getattr(subject.run, "lays_out_inputs", False))
    made: Compiled = _host.Graphed(subject.run, recorder.memory.pool, recorder.recordings, recorder, subject.is_backward, below, lays_out)
    return made


def of_recipe(recipe: Recipe, run: Compiled, where: tuple[Any, ...] | str) -> Compiled:
    """The program of a recipe, captured where that is asked for. `where` may say why it can't be."""
    wanted = recipe.capture
    if wanted is None or not recipe.steps:
        return run
    if wanted.refusal or isinstance(where, str):
        Refusal(wanted.refusal or NO_REPLAY, wanted.what or str(where), wanted.place).note()
        return run
    return graphed(subject_of(recipe, run), where)


class Recorder:
    """What a program does in calls that fit none of its recordings."""

    def __init__(self, subject: Subject, memory: Memory) -> None:
        self.subject, self.memory = subject, memory
        self.recordings: list[_host.Recording] = []  # tried last first
        self.before: list[int] | None = None  # where the inputs of the last call here were
        self.moved: set[int] = set()  # inputs that were at another address than a recording had them
        self.copied: set[int] = set()  # those of them that are copied now
        self.kept: tuple[bool, ...] = ()  # results that are copied out
        self.made = self.moves = self.blocks = self.failures = 0
        self.is_refused = False

    def __call__(self, inputs: Sequence[Any], blocked: _host.Recording | None) -> tuple[Any, ...]:
        """Warm up, then record and replay; run as it is what may not be replayed now."""
        if self.is_refused or is_capturing():
            return self.subject.run(inputs)
        if not isinstance(inputs, list):
            inputs = list(inputs)
        places = self.places(inputs)
        warm = self.before is not None
        again = self.stays_blocked(blocked) if blocked is not None else not self.recordings or self.moves_again(inputs, places)
        made = self.record(inputs, places) if warm and again and not self.is_refused else None
        self.before = places
        if made is None:
            return self.subject.run(inputs)
        self.recordings.append(made)
        outputs = made.replay(inputs)
        if outputs is None:
            return self.subject.run(inputs)
        if self.subject.is_backward:
            inputs.clear()
        return outputs

    def forget(self) -> None:
        """Give the memory back. Later calls warm up again."""
        self.recordings.clear()
        self.before = None

    def refuse(self, reason: str, what: str = "") -> None:
        self.recordings.clear()
        self.is_refused = True
        Refusal(reason, what, self.subject.place).note()

    # whether to record

    def places(self, inputs: Sequence[Any]) -> list[int]:
        return [_host.data_ptr(t) if isinstance(t, torch.Tensor) else 0 for t in inputs]

    def stays_blocked(self, recording: _host.Recording) -> bool:
        """Whether somebody has held for several calls what the recording would overwrite. What it made is copied out from now on."""
        self.kept = recording.kept
        self.blocks += 1
        if self.blocks < PATIENCE:
            return False
        self.blocks = 0
        self.recordings.remove(recording)
        return True

    def moves_again(self, inputs: list[Any], places: list[int]) -> bool:
        """Whether it is the second call with inputs at other addresses: one such call may stay alone.

        An input that is where it was in that call may have moved for good; one that moves a second time is copied.
        """
        self.moves += 1
        if self.moves % 2:
            return False
        moved = set(self.recordings[-1].moved(inputs)) - self.subject.written
        if moved:
            assert self.before is not None
            self.copied |= {i for i in moved if i in self.moved or places[i] != self.before[i]}
            self.moved |= moved
            self.kept = self.recordings[-1].kept
            self.recordings.clear()
        return True

    # recording

    def record(self, inputs: list[Any], places: list[int]) -> _host.Recording | None:
        """None where another thread captures; and with a note, where the graph can't be captured, or was too often."""
        if not _capturing.acquire(blocking=False):
            return None
        try:
            return self.record_alone(inputs, places)
        finally:
            _capturing.release()

    def record_alone(self, inputs: list[Any], places: list[int]) -> _host.Recording | None:
        subject = self.subject
        self.made += 1
        if self.made > MOST:
            names = ", ".join(f"input {i}" for i in sorted(subject.written))
            self.refuse(WRITES_ELSEWHERE if names else MOVES, names)
            return None
        foreign = next((t for t, read in zip(inputs, subject.read, strict=True) if read and not on_device(t, self.memory)), None)
        if foreign is not None:
            self.refuse(ON_PROCESSOR, "an input")
            return None
        try:
            given, rows = self.inputs_of(inputs, places)
            captured, outputs = capture(subject, given, self.memory)
            results, rows_out = results_of(outputs, given, subject, self.kept)
            outputs.clear()
            copy = None if any(overlaps(row[2]) for row in rows if row[0] == COPIED) else torch._foreach_copy_
            return _host.Recording(
                self.memory.pool, captured.keep, captured.executable, captured.replay, copy, tuple(rows), tuple(results), tuple(rows_out)
            )
        except torch.OutOfMemoryError as error:
            self.refuse(NO_MEMORY, first_line(error))
        except RuntimeError as error:
            self.failures += 1
            if self.failures == ATTEMPTS:
                self.refuse(NOT_CAPTURED, first_line(error))
        return None

    def inputs_of(self, inputs: list[Any], places: list[int]) -> tuple[list[Any], list[tuple[Any, ...]]]:
        """What the graph is captured with, and a row for each input: kind, address, buffer, bytes, strides that must be checked."""
        subject = self.subject
        given: list[Any] = []
        rows: list[tuple[Any, ...]] = []
        for i, (t, place) in enumerate(zip(inputs, places, strict=True)):
            if not subject.read[i]:
                given.append(t)
                rows.append((UNREAD, 0, None, 0, None))
                continue
            layout = subject.layouts[i] if subject.layouts else None
            strides = t.stride() if layout is None else layout[1]
            checked = None if layout is None else strides
            if self.is_fixed(i, t, place) and t.stride() == strides:
                given.append(t)
                rows.append((FIXED, place, None, 0, checked))
                continue
            buffer = torch.empty_strided(t.shape, strides, dtype=t.dtype, device=t.device)
            given.append(buffer)
            rows.append((COPIED, buffer.data_ptr(), buffer, span(t.shape, strides) * t.element_size(), checked))
        return given, rows

    def is_fixed(self, i: int, t: torch.Tensor, place: int) -> bool:
        if i in self.subject.written:
            return True
        if i in self.copied:
            return False
        return self.before is None or self.before[i] == place or owned(t)


def results_of(
    outputs: list[Any], given: Sequence[Any], subject: Subject, kept: tuple[bool, ...]
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """(rows of the storages that the graph fills, rows of its outputs). Neither holds an output itself."""
    inputs = {t.untyped_storage()._cdata: i for i, t in enumerate(given) if isinstance(t, torch.Tensor)}
    constants = {t.untyped_storage()._cdata for t in subject.constants}
    numbers: dict[int, int] = {}
    results: list[tuple[Any, ...]] = []
    rows: list[tuple[Any, ...]] = []
    for out in outputs:
        storage = out.untyped_storage()._cdata if isinstance(out, torch.Tensor) else None
        if storage is None or storage in constants:
            rows.append((VALUE, 0, (), (), 0, out))
            continue
        layout = (tuple(out.shape), out.stride())
        if storage in inputs:
            i = inputs[storage]
            is_same = out is given[i]
            rows.append((INPUT, i, *layout, out.storage_offset() - given[i].storage_offset(), is_same))
            continue
        if storage not in numbers:
            number = numbers[storage] = len(results)
            base = whole(out)
            is_kept = number < len(kept) and kept[number]
            results.append((base, storage, base.nbytes, base.numel(), dtype_number(out.dtype), is_kept))
        rows.append((RESULT, numbers[storage], *layout, out.storage_offset(), None))
    return results, rows


def on_device(t: Any, memory: Memory) -> bool:
    return isinstance(t, torch.Tensor) and t.device.type == memory.kind and (t.device.index or 0) == memory.index


def whole(t: torch.Tensor) -> torch.Tensor:
    """All of a tensor's storage as one row of its dtype."""
    storage = t.untyped_storage()
    return torch.empty(0, dtype=t.dtype, device=t.device).set_(storage, 0, (storage.nbytes() // t.element_size(),), (1,))


def overlaps(t: torch.Tensor) -> bool:
    return span(t.shape, t.stride()) < t.numel()


def first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


# memory


@dataclass(eq=False)
class Memory:
    """What graphs of one direction on one device share: memory for temporaries, and the stream that captures.

    Gradients often live through the next forward, so forward and backward graphs don't share: see `is_blocked` in graphs.c.
    """

    kind: str
    index: int
    pool: _host.Pool
    handle: Any = None  # torch's, of the pool
    anchor: Any = None  # a graph without work: torch ends a pool with its last graph
    stream: Any = None


_memories: weakref.WeakValueDictionary[tuple[int, bool], Memory] = weakref.WeakValueDictionary()
_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()
_invalid: list[Any] = []  # see `clean_up`


def memory_for(where: tuple[Any, ...], is_backward: bool) -> Memory:
    kind, index, context, _, stream_of = where
    key = (index, is_backward)
    found = _memories.get(key)
    if found is None:
        pool = _host.Pool(kind, index, context, stream_of, unused_uses())
        found = _memories[key] = Memory("cuda" if kind else "cpu", index, pool)
    return found


def owned(t: torch.Tensor) -> bool:
    """Whether a graph's result is there."""
    storage = t.untyped_storage()._cdata
    return any(memory.pool.owns(storage) for memory in list(_memories.values()))


def release() -> None:
    """Drop all recordings. What callers hold of their results stays."""
    for recorder in list(_recorders):
        recorder.forget()


when_reset.append(release)


@functools.cache
def unused_uses() -> int:
    """The reference count of a storage of which only the tensor over all of it is left."""
    t = torch.empty(4)
    base = whole(t)
    del t
    return _host.storage_uses(base.untyped_storage()._cdata)


@functools.cache
def storage_uses_known() -> bool:
    """Whether reference counts of storages are where C looks for them: torch does not promise it."""
    t = torch.empty(4)
    base = whole(t)
    del t
    storage, none = base.untyped_storage()._cdata, unused_uses()
    view = base[1:]
    one = _host.storage_uses(storage)
    other = view.detach()
    two = _host.storage_uses(storage)
    del view, other
    return (none, one, two, _host.storage_uses(storage)) == (none, none + 1, none + 2, none) and none < 8


# the device


def is_capturing() -> bool:
    return torch.cuda.is_current_stream_capturing()


def capture(subject: Subject, given: list[Any], memory: Memory) -> tuple[Captured, list[Any]]:
    """The graph of one run, of which nothing is executed, and its outputs. Raises RuntimeError.

    Workspaces of cuBLAS would stay in the pool for good; without them each capture makes its own, and they end with it.
    """
    with torch.cuda.device(memory.index), paused():
        if memory.handle is None:
            memory.stream = torch.cuda.Stream()
            begin_pool(memory)
        graph = torch.cuda.CUDAGraph()
        for generator in subject.generators:
            graph.register_generator_state(generator)
        torch._C._cuda_clearCublasWorkspaces()
        try:
            with torch.cuda.stream(memory.stream), recording(graph, memory):
                outputs = list(subject.run(list(given)))
        finally:
            torch._C._cuda_clearCublasWorkspaces()
    direct = getattr(graph, "raw_cuda_graph_exec", None)
    if subject.draws or direct is None:
        return Captured(0, graph.replay, graph), outputs
    return Captured(direct(), None, graph), outputs


@contextlib.contextmanager
def recording(graph: Any, memory: Memory) -> Iterator[None]:
    """Launches inside become nodes of the graph. After an error the allocator and the generators are as before."""
    graph.capture_begin(pool=memory.handle, capture_error_mode="thread_local")
    try:
        yield
    except BaseException:
        end_failed(graph, memory)
        raise
    try:
        graph.capture_end()
    except RuntimeError:
        clean_up(graph, memory)
        raise


def end_failed(graph: Any, memory: Memory) -> None:
    with quiet():
        try:
            graph.capture_end()
        except RuntimeError:
            clean_up(graph, memory)


def clean_up(graph: Any, memory: Memory) -> None:
    """What `capture_end` leaves undone when the capture is invalid: allocations still go to the pool, generators wait for the end.

    The allocator of pinned memory cannot be told, and asks the graph for good; so the graph stays, and the next gets another pool.
    """
    _invalid.append(graph)
    with contextlib.suppress(RuntimeError):
        torch._C._cuda_endAllocateToPool(memory.index, memory.handle)
        torch._C._cuda_releasePool(memory.index, memory.handle)
    begin_pool(memory)


def begin_pool(memory: Memory) -> None:
    """A pool of torch's, with a graph that keeps it. The end of its capture is what generators wait for after one that failed."""
    memory.handle = torch.cuda.graph_pool_handle()
    memory.anchor = torch.cuda.CUDAGraph()
    with torch.cuda.stream(memory.stream), quiet():
        memory.anchor.capture_begin(pool=memory.handle, capture_error_mode="thread_local")
        memory.anchor.capture_end()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Nobody has to know that a graph is empty."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The CUDA Graph is empty")
        yield


# what is captured


def subject_of(recipe: Recipe, run: Compiled) -> Subject:
    """A program of ours."""
    assert recipe.capture is not None
    calls = [s for s in recipe.steps if isinstance(s, Extern)]
    read = frozenset().union(*(s.reads if isinstance(s, KernelCall) else s.reads() for s in recipe.steps))
    written = frozenset().union(*(s.writes for s in recipe.steps if isinstance(s, KernelCall)))
    used = read | written | {o.buffer for o in recipe.outputs if isinstance(o, View)}
    buffers = [recipe.buffers[n] for n in recipe.inputs]
    layouts = tuple((tuple(b.shape), tuple(b.strides)) if b.kind == "input" and numel(b.shape) > 1 else None for b in buffers)
    return Subject(
        run,
        recipe.capture.place,
        tuple(b.kind == "input" and b.name in used for b in buffers),
        frozenset(i for i, n in enumerate(recipe.inputs) if n in written),
        layouts if recipe.owns_inputs else (),
        tuple(recipe.constants.values()),
        tuple({id(g): g for s in calls for g in (*s.args, *s.kwargs.values()) if isinstance(g, torch.Generator)}.values()),
        any(is_random(s.target) for s in calls),
        recipe.owns_inputs,
    )


def subject_of_operators(gm: GraphModule, run: Compiled, is_backward: bool) -> Subject:
    """An ATen graph whose operators run one by one."""
    nodes = list(gm.graph.nodes)
    inputs = [n for n in nodes if n.op == "placeholder"]
    values = [n.meta.get("val") for n in inputs]
    calls = [n for n in nodes if n.op == "call_function"]
    held = [attribute(gm, str(n.target)) for n in nodes if n.op == "get_attr"]
    return Subject(
        run,
        place_of(gm),
        tuple(isinstance(v, torch.Tensor) and bool(n.users) for n, v in zip(inputs, values, strict=True)),
        frozenset(inputs.index(n) for call in calls for n in changed(call) if n in inputs),
        tuple((tuple(v.shape), v.stride()) if isinstance(v, torch.Tensor) else None for v in values) if is_backward else (),
        tuple(h for h in held if isinstance(h, torch.Tensor)),
        tuple({id(g): g for c in calls for g in (*c.args, *c.kwargs.values()) if isinstance(g, torch.Generator)}.values()),
        any(is_random(c.target) for c in calls),
        is_backward,
    )


def changed(call: Node) -> list[Node]:
    """The arguments that an operator writes to."""
    schema = getattr(call.target, "_schema", None)
    if schema is None:
        return []
    given = {**dict(zip((a.name for a in schema.arguments), call.args, strict=False)), **call.kwargs}
    written = [given.get(a.name) for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    return [n for n in written if isinstance(n, Node)]
