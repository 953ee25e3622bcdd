"""The end of a capture: from the tracer's last state to a GraphModule and the text of the entry function.

A frame that returns ends in its result. A frame that breaks ends in `Tail(native, state)`: the native step runs the
instruction that broke and tails into resume functions (see dynamo/compile/resume.py).
"""

from __future__ import annotations

import linecache
import operator
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo import _C, config
from dynamo.breaks import PROGRAM_RAISES
from dynamo.bytecode.analyse import After, live_slots, states_after, step_range
from dynamo.compile import makers  # noqa: F401  # fills the slot by which the writer makes an object again
from dynamo.compile.capture import Captured
from dynamo.compile.context import Context
from dynamo.compile.entry import EntryWriter
from dynamo.compile.resume import Exit, native_function, resume_function
from dynamo.errors import GraphBreakError
from dynamo.graph.invariant import watched
from dynamo.graph.lazy import lazy_module
from dynamo.graph.rescue import KEEPS_INPUTS, Generators, Rescue, can_fail, can_start_over, draws, undoing
from dynamo.ops.facts import ONE_HOT, writes
from dynamo.surroundings.kernel_warnings import without
from dynamo.surroundings.modes import open_blocks
from dynamo.symbolic.attempt.frame import Frame
from dynamo.symbolic.attempt.kinds_of_views import is_unwritable
from dynamo.symbolic.values.errors import ENTERS_DEBUGGER, BreakError, CannotAssume
from dynamo.symbolic.values.kinds import CellValue, Null, TensorValue, TupleValue, Value


@dataclass
class Finished:
    """A capture ready for the backend. `make(graph_fn)` gives the entry function and its text."""

    gm: GraphModule | None
    example_inputs: list[torch.Tensor]
    writer: EntryWriter
    result: str
    direct: tuple[tuple[int, ...], int | tuple[int, ...] | None] | None
    name: str
    placeholders: list[str] = field(default_factory=list)
    restore: Callable[[tuple[int, ...] | None], None] | None = None
    failing: Failing | None = None
    watch: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    said: frozenset[tuple[str, type[Warning]]] = frozenset()  # warnings that the entry gives in place of the graph

    def make(self, graph_fn: Callable[..., Any] | None) -> tuple[Callable[..., Any], str]:
        call = None
        failing = self.failing
        if self.gm is not None and graph_fn is not None:
            if failing is not None:
                graph_fn = failing.undone(graph_fn)
            if self.said:
                graph_fn = without(graph_fn, self.said)
            if self.restore is not None:
                graph_fn = restoring_modes(graph_fn, self.restore)
            if self.watch is not None:
                graph_fn = self.watch(graph_fn)
            self.writer.names.globals["graph"] = graph_fn
            call = [f"g = graph({', '.join(self.placeholders)})"]
            if failing is not None:
                call = failing.around(call[0], self.writer)
        text = self.writer.source_text(self.name, self.result, call)
        if self.direct is not None and graph_fn is not None and not (failing is not None and failing.draws):
            args, out = self.direct
            return _C.Direct(graph_fn, args, out, failing.rescue if failing is not None else None), text
        filename = f"<entry {self.name} {id(self):x}>"
        scope = self.writer.names.globals
        exec(compile(text, filename, "exec"), scope)
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        fn: types.FunctionType = scope.pop(self.name)
        weakref.finalize(fn, linecache.cache.pop, filename, None).atexit = False
        return fn, text


@dataclass(frozen=True)
class Failing:
    """What happens when the graph raises: see graph/rescue.py. `positions` and `held` are the tensors of others that it writes to."""

    rescue: Rescue
    draws: bool
    positions: tuple[int, ...]
    held: tuple[torch.Tensor, ...]

    def undone(self, graph_fn: Callable[..., Any]) -> Callable[..., Any]:
        if not (self.positions or self.held) or getattr(graph_fn, KEEPS_INPUTS, False):
            return graph_fn
        return undoing(graph_fn, self.positions, self.held)

    def around(self, call: str, writer: EntryWriter) -> list[str]:
        """The statements that call the graph."""
        writer.names.globals |= {"rescue": self.rescue, "random_states": self.rescue.generators.states}
        state = "random" if self.draws else "None"
        inputs = "".join(f", i{i}" for i in range(writer.inputs))
        lines = ["random = random_states()"] if self.draws else []
        return [*lines, "try:", f"    {call}", "except Exception as error:", f"    return Tail(rescue, (error, {state}{inputs}))"]


def failing_of(captured: Captured, writer: EntryWriter, placeholders: list[TensorValue], compile_id: str) -> Failing | None:
    """None: the graph has done something that can't be done again."""
    tx, ran = captured.tx, captured.tx.builder.mode.ran
    if not can_start_over(ran):
        return None
    targets = [n.target for n in tx.builder.graph.nodes]
    mode = tx.builder.mode
    written = [v for v in placeholders if is_written(v) or mode.has_written(v.fake)]
    refused = any(map(is_refused, written))
    fails = may_fail(captured)
    held: list[TensorValue] = []
    if fails or refused:
        inside = [tx.identities.by_id.get(id(obj)) for obj in tx.builder.attributes.values() if isinstance(obj, torch.Tensor)]
        held = [v for v in inside if isinstance(v, TensorValue) and (is_written(v) or mode.has_written(v.fake))]
    moves = (fails or refused) and (draws(ran) or any(map(sets_random_state, targets)))
    if not fails and (not refused or sum(ran[op] for op in ran if writes(op)) == 1):
        written, held = [], []  # what is refused has written nothing, and nothing else writes
    code = captured.frame.code
    rescue = Rescue(code, captured.frame.globals, compile_id, Generators(tx.builder.attributes.values()))
    return Failing(rescue, moves, tuple(map(placeholders.index, written)), tuple(v.obj for v in held))


def starts_over(captured: Captured) -> bool:
    """Whether the program may make the graph raise, and plain Python then begins anew."""
    tx = captured.tx
    fails = tx.assumed or may_fail(captured) or any(is_refused(v) for _, v in tx.builder.placeholders)
    return fails and can_start_over(tx.builder.mode.ran)


def may_fail(captured: Captured) -> bool:
    """May the graph raise where capture has seen no error?"""
    builder = captured.tx.builder
    ran = builder.mode.ran
    if can_fail(ran) or any(n.target in ONE_HOT or is_guarded(n.meta.get("val")) for n in builder.graph.nodes):
        return True
    tensors = len(builder.placeholders) + sum(isinstance(t, torch.Tensor) for t in builder.attributes.values())
    return tensors > 1 and any(map(may_be_view, builder.placeholders)) and any(map(writes, ran))


def is_guarded(value: Any) -> bool:
    """Autograd refuses to look at this view once what it is a view of is written: an argument that shares its memory may be, unseen."""
    return isinstance(value, torch.Tensor) and value.requires_grad and value._is_view() and is_unwritable(value)


def may_be_view(placeholder: tuple[Node, TensorValue]) -> bool:
    """Of such an argument no fake tells whether it is `is_guarded`. A write to itself asks for that, one to another may come unseen."""
    v = placeholder[1]
    return v.fake.requires_grad and type(v.obj) is not torch.nn.Parameter


def is_refused(v: TensorValue) -> bool:
    """Autograd refuses writes to views of leaves."""
    return is_written(v) and v.fake.requires_grad and not v.fake.is_leaf


def sets_random_state(target: Any) -> bool:
    return getattr(target, "__module__", "") == "torch.random"


def is_written(v: TensorValue) -> bool:
    return v.fake.is_inference() or v.fake._version > 0  # inference tensors count no writes


def finish(ctx: Context, captured: Captured, writer: EntryWriter, compile_id: str) -> Finished:
    """Write the entry's end, replay effects, and close the graph.

    Raises CannotRebuild for a live value that can't be made again, CannotAssume for checks that can't hand over to plain Python.
    """
    tx = captured.tx
    if captured.result is not None:
        result = writer.value(captured.result)
    else:
        result = _tail(ctx, captured, writer, compile_id)
    writer.replay(starts_over(captured))
    gm, placeholders, examples = _close_graph(captured, writer)
    plain = captured.result is not None and not (writer.first_effects or writer.effects or tx.effects.replayed())
    direct = _direct(captured, writer, placeholders) if plain and gm is not None else None
    name = "".join(c if c.isalnum() else "_" for c in captured.frame.code.co_qualname.rpartition(".")[2]) or "entry"
    texts = [writer.load(p.source) for p in placeholders if p.source is not None]
    failing = failing_of(captured, writer, placeholders, compile_id) if gm is not None else None
    if tx.assumed and failing is None:
        raise CannotAssume
    restore = captured.restore if tx.effects.on_exit else None
    watch = _watching(captured, compile_id) if config.check_surroundings else None
    return Finished(gm, examples, writer, result, direct, f"entry_{name}", texts, restore, failing, watch, frozenset(tx.effects.said))


def _watching(captured: Captured, compile_id: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """For `check_surroundings`: what puts the comparison around a graph's calls."""
    moves = draws(captured.tx.builder.mode.ran) or any(sets_random_state(n.target) for n in captured.tx.builder.graph.nodes)
    free = ("random state",) if moves else ()
    return partial(watched, what=f"graph {compile_id}", compile_id=compile_id, left=captured.left, free=free)


# ---- graph --------------------------------------------------------------------------------------------------


def _close_graph(captured: Captured, writer: EntryWriter) -> tuple[GraphModule | None, list[TensorValue], list[torch.Tensor]]:
    """Add the output node, drop what nothing uses, and wrap the graph in a module. None when no operation is left."""
    tx = captured.tx
    graph = tx.builder.graph
    graph.output(tuple(writer.outputs))
    _drop_unused(graph)
    placeholders = [v for n, v in tx.builder.placeholders if n.users or n in writer.outputs]
    for n, _ in tx.builder.placeholders:
        if not n.users:
            graph.erase_node(n)
    if not any(n.op.startswith("call_") for n in graph.nodes):
        return None, [], []
    used = {n.target for n in graph.nodes if n.op == "get_attr"}
    root = torch.nn.Module()
    for name, obj in tx.builder.attributes.items():
        if name not in used:
            continue
        if isinstance(obj, torch.nn.Parameter):
            root.register_parameter(name, obj)
        elif isinstance(obj, torch.Tensor):
            root.register_buffer(name, obj)
        else:
            setattr(root, name, obj)
    gm = lazy_module(root, graph)
    gm.train(any(p.requires_grad for p in root.parameters()) or root.training)
    return gm, placeholders, [v.obj for v in placeholders]


def _drop_unused(graph: torch.fx.Graph) -> None:
    """Unread attributes and unread parts of tuple results; everything else may have effects and stays."""
    for n in reversed(list(graph.nodes)):
        if not n.users and (
            n.op == "get_attr" or (n.op == "call_function" and n.target is operator.getitem and isinstance(n.args[1], int))
        ):
            source = n.args[0] if n.op == "call_function" else None
            if source is None or isinstance(getattr(source, "meta", {}).get("val"), tuple | list):
                graph.erase_node(n)


def _direct(
    captured: Captured, writer: EntryWriter, placeholders: list[TensorValue]
) -> tuple[tuple[int, ...], int | tuple[int, ...] | None] | None:
    """The entry as a C plan, when it only passes inputs to the graph and picks outputs."""
    args = []
    for p in placeholders:
        if p.source is None or p.source.kind != "input":
            return None
        args.append(int(p.source.arg))

    def index(v: object) -> int | None:
        return writer.outputs.get(v.node) if isinstance(v, TensorValue) and not v.attrs and v.source is None else None

    result = captured.result
    if isinstance(result, TupleValue) and result.cls is tuple and result.source is None:
        picks = [index(x) for x in result.items]
        return (tuple(args), tuple(i for i in picks if i is not None)) if None not in picks and picks else None
    i = index(result)
    return (tuple(args), i) if i is not None else None


def restoring_modes(graph_fn: Callable[..., Any], restore: Callable[[tuple[int, ...] | None], None]) -> Callable[..., Any]:
    """A graph that switches global modes puts them back when it raises, as `with` blocks in the program would.

    What to put back is known at compile time: the guard on the global state holds at each entry.
    """

    def run(*args: Any) -> Any:
        blocks = open_blocks()
        try:
            return graph_fn(*args)
        except BaseException:
            restore(blocks)
            raise

    return run


# ---- breaks -------------------------------------------------------------------------------------------------


def _tail(ctx: Context, captured: Captured, writer: EntryWriter, compile_id: str) -> str:
    """`Tail(native, (stack..., slots...), True)` for the instruction at which the frame stopped."""
    frame = captured.frame
    program = frame.program
    first, last = step_range(program, frame.instr.orig)
    tested = frame.in_comparison
    shape = tuple(isinstance(v, Null) for v in frame.stack)
    live = live_slots(program)
    bound = _bound(frame)
    if captured.reason is not None and captured.reason.id == ENTERS_DEBUGGER and not captured.tx.fullgraph:
        here = tuple(sorted(bound))
        return _pending(writer, frame, resume_function(frame.code, frame.globals, first, shape, here), here)
    states = states_after(program, first, last, shape, bound, tested)
    exits: dict[int, Exit] = {}
    needed = live[first] & bound
    for after in states:
        slots = tuple(sorted(live[after.index] & after.bound))
        needed |= frozenset(slots) & bound
        exits[after.index] = Exit(_continuation(ctx, captured, after, slots, compile_id), slots, after.stack_shape)
    here = tuple(sorted(needed))
    native = native_function(frame.code, frame.globals, first, last, shape, here, exits, _C.Tail, tested)
    return _pending(writer, frame, native, here)


def _pending(writer: EntryWriter, frame: Frame, native: types.FunctionType, slots: tuple[int, ...]) -> str:
    parts = [writer.value(v) for v in frame.stack if not isinstance(v, Null)]
    for slot in slots:
        v = frame.slots[slot]
        assert v is not None
        parts.append(writer.value(v))
    name = writer.names.const(native)
    return f"Tail({name}, ({', '.join(parts)}{',' if parts else ''}), True)"


def _continuation(ctx: Context, captured: Captured, after: After, slots: tuple[int, ...], compile_id: str) -> Any:
    """What runs behind the native step: the compiled resume function. Under fullgraph only a step that raises may be native."""
    reason = captured.reason
    if captured.tx.fullgraph and reason is not None:
        return _refuse(reason)
    frame = captured.frame
    fn = resume_function(frame.code, frame.globals, after.index, after.stack_shape, slots)
    state = ctx.state(fn, owned=True)
    state.parent = compile_id
    if reason is not None and reason.id in PROGRAM_RAISES:
        state.pending = reason
    return ctx.compiled(fn, owned=True)


def _refuse(reason: BreakError) -> Callable[..., Any]:
    def refuse(*state: Any) -> Any:
        raise GraphBreakError(reason)

    return refuse


def _bound(frame: Frame) -> frozenset[int]:
    """The slots that hold something; cell and free slots hold their cells."""
    slots = frame.program.slots
    return frozenset(
        i
        for i, v in enumerate(frame.slots)
        if v is not None and (slots[i].kind == "local" or not isinstance(v, Value) or isinstance(v, CellValue))
    )
