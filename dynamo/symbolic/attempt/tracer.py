"""The state of one capture: the FX graph so far, guards, identities, effects, and the stack of inlined frames.

A `Tracer` is made per attempt. Operations on values live in sibling modules and take the tracer as `tx`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from dynamo import fake
from dynamo.guards.kinds import GuardRecord
from dynamo.ops.below import BELOW
from dynamo.ops.facts import facts_of
from dynamo.source import Source
from dynamo.surroundings.kernel_warnings import Said
from dynamo.symbolic.attempt.effects import Effects, Warned
from dynamo.symbolic.attempt.frame import Frame
from dynamo.symbolic.attempt.graph import GraphBuilder, target_name
from dynamo.symbolic.attempt.guards import GuardSet
from dynamo.symbolic.attempt.identity import Identities
from dynamo.symbolic.attempt.kinds_of_views import CUT_OFF, HOOKS, NO_VIEW, UNWRITABLE, kind_of_view, leads_nowhere
from dynamo.symbolic.attempt.warned import ALERT, can_wait, give, place_of, rely_on_waiting
from dynamo.symbolic.values.errors import BreakError, NotConstant, Raised, RestartTrace
from dynamo.symbolic.values.keys import object_key
from dynamo.symbolic.values.kinds import (
    ArrayValue,
    BuiltinValue,
    ClassValue,
    DictValue,
    ExceptionValue,
    FunctionValue,
    Lazy,
    ListValue,
    OpaqueValue,
    TensorValue,
    TupleValue,
    Value,
)
from dynamo.symbolic.values.slots import slots


@dataclass
class Decisions:
    """What earlier attempts at the same frame learned; grows from attempt to attempt, so attempts end.

    break_at: stop before this root step, for this reason. inputs: tensor sources to pass in instead of baking in.
    plain_branches: no branch on a tensor is assumed to be taken. changing: sources of numbers that differ from call to call.
    plain_choices: max() and min() of tensors branch. facts: what led to `break_at` and may hold for this call only. settled: original
    instructions at which entries break that rely on such facts already.
    """

    break_at: int | None = None
    reason: BreakError | None = None
    inputs: set[str] = field(default_factory=set)
    plain_branches: bool = False
    changing: frozenset[str] = frozenset()
    plain_choices: bool = False
    facts: list[GuardRecord] = field(default_factory=list)
    settled: frozenset[int] = frozenset()


class Policy(Protocol):
    """What becomes of calls: see `policy.py`. None is no verdict."""

    def python_function(self, tx: Tracer, fn: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value | None: ...

    def c_function(self, tx: Tracer, fn: BuiltinValue, args: list[Value], kwargs: dict[str, Value]) -> Value | None: ...

    def c_method(self, tx: Tracer, raw: Any, self_: Value, rest: list[Value], kwargs: dict[str, Value]) -> Value | None: ...

    def class_call(self, tx: Tracer, fn: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value | None: ...

    def callable_object(self, fn: Value) -> Callable[..., Value] | None: ...


@dataclass(frozen=True)
class Above:
    """The layers above the tracer, as far as those below them call them."""

    wrap: Callable[[Tracer, object, Source | None], Value]  # real objects into values
    run: Callable[[Tracer, Frame], Value]  # interprets a frame
    policy: Policy


class Tracer:
    """One attempt to capture one root frame: what it consists of, and the operations that need several of its parts."""

    def __init__(self, known: Decisions, above: Above) -> None:
        self.known = known
        self.above = above
        self.builder = GraphBuilder()
        self.guards = GuardSet(self.where)
        self.effects = Effects()
        self.identities = Identities()
        self.guard = self.guards.add
        self.lookup = self.guards.lookup
        self.rely_on_apart = self.guards.differ
        self.touch = self.effects.touch
        self.globals: dict[int, Source] = {}  # sources of the dicts of modules, by id
        self.frames: list[Frame] = []
        self.root_step = 0
        self.step_of_handler = 0  # root step at which the root frame last entered an exception handler
        self.fullgraph = False
        self.assumed = False  # whether the graph checks which side of a branch is taken
        self.switched: set[object] = set()  # setters of global modes that the trace has called
        self.baked: list[tuple[object, str, str, torch.Tensor]] = []  # tensors that are part of the graph: module, table, name
        self.arrays: list[ArrayValue] = []  # NumPy's, that came in
        self.arrays_written = False  # whether tensors over one of them may be written to
        self.has_choices = False  # whether there are values of which tensors decide which one they are
        self.chosen: list[Any] = []  # fakes of the choices that are arguments of the operator at hand
        self.generators: dict[Source, tuple[torch.Generator, Node]] = {}  # those that change: what the graph draws from instead
        self.numbers: dict[Source, TensorValue] = {}  # inputs made of Python numbers that change
        self.has_numbers = False  # whether there are Python numbers that the graph computes, or that change

    def forget(self) -> None:
        """Drop everything once the entry is made: values refer to their tracer, so only the collector would free them and the inputs."""
        self.identities.forget()
        vars(self).clear()

    # ---- where we are -------------------------------------------------------------------------------------

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def user_stack(self) -> tuple[tuple[str, int, str], ...]:
        """Frames from the root inwards, without torch's own and our polyfills."""
        out = [(f.code.co_filename, f.line, f.code.co_qualname) for f in self.frames if not f.internal]
        return tuple(out)

    def where(self) -> tuple[str, int]:
        for f in reversed(self.frames):
            if not f.internal:
                return f.code.co_filename, f.line
        return "", 0

    def note_asked(self, name: str) -> None:
        """A fact of a tensor became a constant of the trace. What torch's own code asks for changes no result."""
        if self.frames and not self.frames[-1].internal:
            self.guards.asked.add(name)

    # ---- values from real objects -------------------------------------------------------------------------

    def realize(self, child: Value | Lazy) -> Value:
        if isinstance(child, Lazy):
            return self.wrap(child.obj, child.source)
        return child

    def wrap(self, obj: object, source: Source | None) -> Value:
        """The value of a real object. With a source its type is guarded, deeper facts when they are read."""
        return self.above.wrap(self, obj, source)

    def item(self, items: list[Value | Lazy], i: int) -> Value:
        child = items[i]
        if isinstance(child, Lazy):
            child = items[i] = self.wrap(child.obj, child.source)
        return child

    def items(self, items: list[Value | Lazy]) -> list[Value]:
        return [self.item(items, i) for i in range(len(items))]

    def make_list(self, items: Iterable[Value]) -> ListValue:
        return ListValue(list(items))

    def make_tuple(self, items: Iterable[Value]) -> TupleValue:
        return TupleValue(list(items))

    # ---- known Python objects -----------------------------------------------------------------------------

    def as_python(self, v: Value) -> Any:
        """The Python object of a value that is fully known, or NotConstant. Containers come out as fresh copies."""
        return slots(v).as_python(self, v)

    def try_python(self, *vs: Value) -> list[Any] | None:
        try:
            return [self.as_python(v) for v in vs]
        except NotConstant:
            return None

    # ---- leaving ------------------------------------------------------------------------------------------

    def throw(self, cls: type[BaseException], *args: object) -> Raised:
        """The exception to raise for an exception of the program: `raise tx.throw(ValueError, "...")`."""
        return Raised(ExceptionValue(cls, [a if isinstance(a, Value) else self.wrap(a, None) for a in args]))

    def break_(self, id: str, what: str, hint: str = "", cause: BaseException | None = None) -> BreakError:
        """The exception to raise for a graph break: `raise tx.break_("DD003", "...")`."""
        e = BreakError(id, what, hint, cause)
        self.locate(e)
        return e

    def locate(self, e: BreakError) -> None:
        if not e.stack and self.frames:
            e.stack = self.user_stack()
            f = next((f for f in reversed(self.frames) if not f.internal), self.frames[-1])
            e.span = f.span()

    # ---- graph --------------------------------------------------------------------------------------------

    def call_function(self, target: Callable[..., Any], args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self._leaf("call_function", BELOW.get(target, target), args, kwargs)

    def call_method(self, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return self._leaf("call_method", name, args, kwargs)

    def _leaf(self, op: str, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if self.has_numbers and len(args) == 2 and not kwargs:
            take = next((found for v in args if (found := slots(v).operands) is not None), None)
            args = take(self, target_name(target), args) if take is not None else args
        outer, self.chosen = self.chosen, []
        fx_args = tuple(self.to_fx(a) for a in args)
        fx_kwargs = {k: self.to_fx(v) for k, v in kwargs.items()}
        chosen = {f.untyped_storage()._cdata for f in self.chosen}
        self.chosen = outer
        out = self.builder.propagate(op, target, fx_args, fx_kwargs)
        if self.builder.said:
            self._warned(op, target, fx_args, fx_kwargs)
        if chosen and (_writes(op, target) or any(t.untyped_storage()._cdata in chosen for t in _tensors(out))):
            raise self.restart_plainly()
        if target_name(target).partition(".")[0] in _READS_OFFSET:
            self._guard_offset(args[0])
        if not _has_tensor(out):
            if not _is_plain(out):
                raise self.break_("DD010", f"{target_name(target)} gives a {type(out).__name__}")
            if "out" not in kwargs and not _writes(op, target):
                self.note_asked(target_name(target))
                return self.wrap(out, None)
        written = self._written(out, args, kwargs)
        if written is not None or (args and _writes(op, target)):
            self._guard_write(written or args[0])
        elif "out" in kwargs:
            self._guard_write(kwargs["out"])
        elif not torch.is_grad_enabled():
            self._guard_views(out)
        if isinstance(out, torch.Tensor) and out.layout is not torch.strided:
            raise self.break_("DD008", f"{target_name(target)} gives a tensor of layout {out.layout}")
        if written is None and _is_new_leaf(out):
            raise self.break_("DD027", f"{target_name(target)} makes a leaf")
        node = self.add_node(op, target, fx_args, fx_kwargs, out)
        if written is None:
            known = {id(v.fake): v for v in self._tensors_in((*args, *kwargs.values()))} if isinstance(out, (tuple, list)) else {}
            return self.wrap_output(node, out, known, "out" in kwargs or _writes(op, target))
        self.builder.now_at(written, node)
        return written

    def _tensors_in(self, args: Iterable[Value]) -> Iterator[TensorValue]:
        for v in args:
            if isinstance(v, TensorValue):
                yield v
            elif isinstance(v, (TupleValue, ListValue)):
                yield from self._tensors_in(self.items(v.items))

    def _warned(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The entry gives what an operator warns about. Where a warning is an error it is raised where it stands, and what writes warns
        there: the kernel says what it found before it wrote. Under `fullgraph` the kernels of the graph say the latter."""
        of_kernel = "out" in kwargs or _writes(op, target) or any(ALERT in s.text for s in self.builder.said)
        is_seen = self.effects.raises_warnings() or not can_wait(self.identities, self.effects)
        if is_seen or (of_kernel and not self.fullgraph):
            raise self.break_("DD004", f"a warning of {target_name(target)}")
        if of_kernel:
            return
        rely_on_waiting(self.guard, self.identities)
        each_time, now = self.builder.said_each_time(op, target, args, kwargs)
        filters = self.effects.filters()
        for said in now:
            give(said.text, said.category, place_of(said, self.frames), filters)
        for said in each_time:
            self.says(said)

    def says(self, said: Said) -> None:
        """An operator that is about to become a node warns at every call."""
        place, early = place_of(said, self.frames), not self.builder.has_ops
        self.effects.warned.append(Warned(self.wrap(said.text, None), said.category, place, self.effects.filters(), early))
        self.effects.said.add((said.text, said.category))

    def _guard_offset(self, v: Value) -> None:
        """Where a tensor begins in its storage is no fact of inputs otherwise: few programs can see it."""
        storage = v.fake.untyped_storage()._cdata if isinstance(v, TensorValue) else None
        for _, given in self.builder.placeholders:
            if given.source is not None and given.fake.untyped_storage()._cdata == storage:
                self.guard(given.source.step("call", torch._C.TensorBase.storage_offset), "eq", given.obj.storage_offset())

    def _guard_write(self, v: Value) -> None:
        """What `retain_grad` keeps is the gradient of what was written last, also where the graph computes more from it. A write to a view
        leaves the view's hooks behind, and has the gradient of the rest pass by them."""
        for t in self._tensors_in((v,)):
            for given, source in self._sharing(t.fake):
                if type(given.obj) is torch.nn.Parameter and given.obj.is_leaf:  # nothing is retained for a leaf
                    continue
                if t.fake.requires_grad:
                    self.guard(source.attr("retains_grad"), "eq", given.obj.retains_grad)
                    if given.obj.retains_grad:
                        raise self.break_("DD022", f"a write to {given.describe()}, which keeps its gradient")
                self.guard_leaf(given)
                kind = self._guard_kind_of_view(given, source)
                if t.fake.requires_grad and HOOKS in kind:
                    raise self.break_("DD022", f"a write to {given.describe()}, a view with hooks")
                if CUT_OFF in kind:
                    raise self.break_("DD022", f"a write to {given.describe()}, a view of a leaf that is a view itself")
                if UNWRITABLE in kind:
                    raise self.break_("DD022", f"a write to {given.describe()}, a view from under no_grad or one of several made at once")

    def _guard_views(self, out: Any) -> None:
        """A view made under `no_grad` takes the flag from its base, which for a view is another tensor."""
        for t in _tensors(out):
            for given, source in self._sharing(t) if t._is_view() else ():
                self._guard_kind_of_view(given, source)

    def guard_leaf(self, v: TensorValue) -> None:
        """Gradients for an input accumulate in it or go on to what it was computed from: no graph keeps as little as eager for others."""
        if v.obj is None or v.source is None or not v.obj.requires_grad or type(v.obj) is torch.nn.Parameter or not v.obj.is_leaf:
            return
        if leads_nowhere(v.obj):
            raise self.break_("DD027", f"{v.describe()} is a view from under no_grad of what needs a gradient")
        self.guard(v.source.step("call", leads_nowhere), "eq", False)

    def _sharing(self, fake: torch.Tensor) -> Iterator[tuple[TensorValue, Source]]:
        """The inputs that need a gradient and share the memory of a tensor."""
        storage = fake.untyped_storage()._cdata
        for _, given in self.builder.placeholders:
            if given.source is not None and given.fake.untyped_storage()._cdata == storage and given.obj.requires_grad:
                yield given, given.source

    def _guard_kind_of_view(self, given: TensorValue, source: Source) -> str:
        if type(given.obj) is torch.nn.Parameter:  # which is made without being a view
            return NO_VIEW
        kind = kind_of_view(given.obj)
        self.guard(source.step("call", kind_of_view), "eq", kind)
        return kind

    def _written(self, out: Any, args: list[Value], kwargs: dict[str, Value]) -> TensorValue | None:
        """The argument that an op gave back: in-place methods, `out=`, conversions that had nothing to do."""
        if isinstance(out, torch.Tensor):
            for v in (*args, *kwargs.values()):
                if isinstance(v, TensorValue) and v.fake is out:
                    return v
        return None

    def add_node(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], val: Any) -> Node:
        """A node that knows the user lines that it comes from."""
        node = self.builder.add_node(op, target, args, kwargs, val)
        file, line = self.where()
        node.meta["source"] = (file, line, tuple(f"{f}:{ln} {fn}" for f, ln, fn in self.user_stack()))
        return node

    def to_fx(self, v: Value) -> Any:
        """A graph argument: nodes for tensors, Python objects for everything known."""
        return slots(v).to_fx(self, v)

    def attribute_for(self, obj: object, source: Source | None) -> Node:
        """A non-tensor object a graph op needs (a generator, a process group): an attribute of the GraphModule."""
        if source is not None:
            self.guard(source, "is", obj)
        name = self.builder.fresh_name(source.name if source is not None else type(obj).__name__)
        return self.builder.node_here(self.builder.add_attribute(name, obj, obj))

    def wrap_output(self, node: Node, out: Any, known: dict[int, TensorValue] | None = None, wrote: bool = False) -> Value:
        """Values for what a graph op returned; members of sequences get `getitem` nodes.

        `known`: tensors by the fakes they have, which an op that gives several may give back as they are, or as it `wrote` them.
        """
        known = {} if known is None else known
        if isinstance(out, torch.Tensor):
            node.meta["val"] = out
            value = known.setdefault(id(out), TensorValue(node, out, torch.Tensor))
            if wrote and value.node is not node:
                self.builder.now_at(value, node)
            return value
        if isinstance(out, tuple | list):
            parts: list[Value | Lazy] = []
            for i, x in enumerate(out):
                if id(x) in known and not wrote:
                    parts.append(known[id(x)])
                elif _has_tensor(x):
                    sub = self.add_node("call_function", operator.getitem, (node, i), {}, x)
                    parts.append(self.wrap_output(sub, x, known, wrote))
                else:
                    parts.append(self.wrap(x, None))
            return TupleValue(parts, type(out)) if isinstance(out, tuple) else ListValue(parts)
        if isinstance(out, dict):
            d = DictValue()
            for k, x in out.items():
                sub = self.add_node("call_function", operator.getitem, (node, k), {}, x)
                d.table[object_key(k)] = (self.wrap(k, None), self.wrap_output(sub, x))
            return d
        return self.wrap(out, None)

    def add_input(self, t: torch.Tensor, source: Source, baked: bool) -> Value:
        """A tensor that existed before the frame: a get_attr node guarded by identity (`baked`), or a placeholder guarded by its facts.

        Kinds of tensors that fakes don't cover are opaque: reading them must not break, or a resume function could not take them.
        """
        try:
            fake_t = self.builder.mode.from_real(t)
        except fake.Unsupported:
            self.guard(source, "type", type(t))
            return OpaqueValue(type(t), t, source)
        if baked:
            name = self.builder.fresh_name(source.name)
            node = self.builder.add_attribute(name, t, fake_t)
            self.guard(source, "is", t)
            self.guard(source, "tensor", t)
        else:
            name = self.builder.fresh_name(source.name) + "_"
            node = self.builder.new_placeholder(name, fake_t)
            self.guard(source, "tensor", t)
        node.meta["source"] = (*self.where(), tuple(f"{f}:{ln} {fn}" for f, ln, fn in self.user_stack()))
        v = TensorValue(node, fake_t, type(t), t, source)
        if not baked:
            self.builder.placeholders.append((node, v))
        self.identities.remember(t, v)
        return v

    # ---- starting over -----------------------------------------------------------------------------------

    def restart_plainly(self) -> RestartTrace:
        """The exception to raise for a use of what max() or min() gives that must have the object itself."""
        self.known.plain_choices = True
        return RestartTrace("the object that max() or min() gives")

    def restart_as_input(self, source: Source) -> RestartTrace:
        self.known.inputs.add(source.name)
        return RestartTrace(source.name)


def _has_tensor(x: Any) -> bool:
    if isinstance(x, torch.Tensor):
        return True
    if isinstance(x, tuple | list):
        return any(_has_tensor(y) for y in x)
    if isinstance(x, dict):
        return any(_has_tensor(y) for y in x.values())
    return False


def _tensors(x: Any) -> list[torch.Tensor]:
    return [t for t in tree_leaves(x) if isinstance(t, torch.Tensor)]


def _is_new_leaf(x: Any) -> bool:
    # a view made under no_grad has no history either and takes the flag from its base
    return isinstance(x, torch.Tensor) and x.requires_grad and x.is_leaf and not x._is_view()


PLAIN = (int, float, bool, str, type(None), complex, torch.dtype, torch.device, torch.layout, torch.memory_format)


def _is_plain(x: Any) -> bool:
    if isinstance(x, tuple | list):
        return all(_is_plain(y) for y in x)
    return isinstance(x, PLAIN)


def _writes(op: str, target: Any) -> bool:
    """Ops kept for their effect although they return nothing of interest."""
    if isinstance(target, torch._ops.OpOverload):
        facts = facts_of(target)
        return bool(facts.writes) or not facts.has_results
    if isinstance(target, torch._ops.OpOverloadPacket):
        return any(_writes(op, getattr(target, name)) for name in target.overloads())
    name = target_name(target)
    return (name.endswith("_") and not name.endswith("__")) or name in _KEPT


_READS_OFFSET = frozenset({"storage_offset", "as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter"})
_KEPT = frozenset({"__setitem__", "setitem", "_assert_async", "_functional_assert_async", "_assert_scalar"})
