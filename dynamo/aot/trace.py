"""Recording a functional ATen graph while ordinary torch code runs on fakes.

The tracer is a dispatch mode below autograd, so it sees forward and backward ops alike. Every fake it hands out is *tracked*:
it is either the root of its storage, or a view step away from another tracked fake. A root has one current value, a node.
A write computes a new value for the written fake and undoes its view steps up to the root; other views of that root notice
by the root's version that their value is old, and are recomputed from it when next used.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Graph, Node

from dynamo.aot.errors import AotError
from dynamo.aot.facts import Step
from dynamo.aot.functionalise import (
    HIDDEN_VIEWS,
    UNDO,
    VIEW_OF_IN_PLACE,
    Cloned,
    alias_source,
    flat,
    form_of_call,
    is_multi,
    laid_out_as,
    missing_arguments,
    options_from_out,
    part_steps,
)
from dynamo.aot.rng import draw
from dynamo.aot.sharing import is_within
from dynamo.aot.track import Track
from dynamo.aot.zeros import LIKE, ZEROS, computed, is_absent
from dynamo.decisions import decide
from dynamo.fake import FakeMode, FakeTensor, NoMeta, plain_shapes
from dynamo.fake import mode as fake_mode
from dynamo.fake.convert import modes_off
from dynamo.fake.layout import is_dense
from dynamo.fake.overlap import overlaps_itself
from dynamo.faults import through
from dynamo.ops.facts import Facts, facts_of, overload

aten = torch.ops.aten
OpOverload = torch._ops.OpOverload
Writes = tuple[int | str, ...]  # positions and keyword names of what an operator writes to
Source = tuple[str, int, tuple[str, ...]]
Decompositions = Mapping[Any, Callable[..., Any]]


def val_of(fake: FakeTensor) -> FakeTensor:
    """The facts of a fake at this moment: no history, and a meta tensor of its own, since `t_` and its like change that."""
    return FakeTensor(torch.Tensor._make_subclass(torch.Tensor, fake.meta), fake.fake_device)


class Tracer(FakeMode):
    """A FakeMode that also records. Raises `AotError` for what it can't make functional, and what FakeMode raises."""

    def __init__(self, decompositions: Decompositions | None = None) -> None:
        super().__init__()
        self.graph = Graph()
        self.root = torch.nn.Module()
        self.decompositions = decompositions or {}
        self.phase = "forward"
        self.region: int | None = None
        self.source: Source = ("", 0, ())
        self.lifted: list[tuple[torch.Tensor, FakeTensor]] = []
        self.has_zeros = False  # without memory
        self.hides_shape = False  # whether one with a history got another shape in place where autograd does not record it
        self.reaches_out = False  # to elements of memory that only `as_strided` shows
        self.makers: list[tuple[Node, Any]] = []  # in a backward pass, the node of autograd that a call is made for
        self._starts: list[int] = []
        self._sources: list[Source] = []
        self._names: dict[str, int] = {}
        self._generators: dict[torch.Generator, Node] = {}

    # provenance

    def at(self, source: Source) -> None:
        """Ops recorded from now on come from this user line; so do their backward ops."""
        self.source = source
        self._starts.append(torch._C._autograd._get_sequence_nr())
        self._sources.append(source)

    @contextmanager
    def at_line_of(self, node: Node) -> Iterator[None]:
        """Ops recorded meanwhile belong to the line that made `node`: copies and writes that the program never wrote down."""
        before, self.source = self.source, node.meta.get("source") or self.source
        try:
            yield
        finally:
            self.source = before

    def source_now(self, operands: Iterable[Any] = ()) -> Source:
        """The user line of the op being recorded; in backward, of the forward op whose gradient is computed."""
        if self.phase == "forward" or not self._starts:
            return self.source
        node = torch._C._current_autograd_node()
        if node is None:
            # the engine itself adds up the gradients of a value used twice: they belong where the last of them came from
            known = [n.meta["source"] for n in _nodes_in(operands) if "source" in n.meta]
            return known[-1] if known else self.source
        i = bisect_right(self._starts, node._sequence_nr()) - 1
        return self._sources[i] if i >= 0 else self.source

    # recording

    def placeholder(self, name: str, real: torch.Tensor, fake: FakeTensor, source: Source | None = None) -> Track:
        node = self.graph.placeholder(name)
        node.meta["val"] = val_of(fake)
        if source is not None:
            node.meta["source"] = source
        node.meta["phase"] = "input"
        return self.track(fake, node)

    def track(self, fake: FakeTensor, node: Node, parent: Track | None = None, step: Step | None = None) -> Track:
        fake.track = track = Track(fake, node, parent, step)
        return track

    def track_of(self, fake: FakeTensor) -> Track:
        track: Track | None = getattr(fake, "track", None)
        if track is None:
            raise AotError(f"{fake!r} was made outside of the graph and reaches an op inside")
        if track.made < track.root.resized:
            self._look_again(track)
        return track

    def _look_again(self, track: Track) -> None:
        """What shared memory with a tensor that got another shape keeps its own, and sees the memory as it is now."""
        root, fake = track.root, track.fake
        node = self._current(root)
        shape, strides, offset = list(fake.shape), list(fake.stride()), int(fake.storage_offset())
        last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        val = node.meta["val"]
        if val.dtype is not fake.dtype or (fake.numel() and not (val.is_contiguous() and last < val.numel())):
            raise AotError("a view is used whose memory was resized")
        step = Step(aten.as_strided.default, (shape, strides, offset if fake.numel() else 0))
        track.parent, track.step, track.made, track.version = root, step, root.resized, root.writes
        track.node = self._replay(step, node, root.fake)

    def emit(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """Record one functional op over nodes (and fakes). Returns its node, or a nested tuple of nodes."""
        node_args = tuple(self.lower(a) for a in args)
        node_kwargs = {k: self.lower(v) for k, v in kwargs.items()}
        values = tuple(_value(a) for a in node_args)
        value_kwargs = {k: _value(v) for k, v in node_kwargs.items()}
        if isinstance(op, OpOverload):
            with modes_off():  # between the program's own calls this mode is on, and must not see what the meta kernel calls
                out = fake_mode.run(self, op, values, value_kwargs)
        else:
            with FakeMode():
                out = op(*values, **value_kwargs)
        return self.record(op, node_args, node_kwargs, out)

    def record(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        node = self.new_node(op, args, kwargs)
        if isinstance(out, FakeTensor):
            node.meta["val"] = val_of(out)
            return node
        return self._unpack(node, out)

    def new_node(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Node:
        node = self.graph.create_node("call_function", op, args, kwargs)
        node.meta |= {"source": self.source_now(args), "phase": self.phase}
        if self.region is not None:
            node.meta["region"] = self.region
        if self.phase == "backward" and (maker := torch._C._current_autograd_node()) is not None:
            self.makers.append((node, maker))
        return node

    def _unpack(self, node: Node, out: Any) -> Any:
        if not isinstance(out, (list, tuple)):
            node.meta["val"] = out
            return node
        parts: list[Any] = []
        vals: list[Any] = []
        for i, item in enumerate(out):
            if isinstance(item, FakeTensor) or (isinstance(item, (list, tuple)) and item):
                part = self.record(operator.getitem, (node, i), {}, item)
                parts.append(part)
                vals.append(val_of(item) if isinstance(item, FakeTensor) else item)
            else:
                parts.append(item)
                vals.append(item)
        node.meta["val"] = tuple(vals)
        return tuple(parts)

    def lower(self, value: Any) -> Any:
        """Fakes become the nodes of their current values."""
        if type(value) is FakeTensor:
            return self.node_of(value)
        if isinstance(value, (list, tuple)):
            return [self.lower(v) for v in value] if isinstance(value, list) else tuple(self.lower(v) for v in value)
        if isinstance(value, torch.Tensor):
            return self.node_of(self.lift(value))
        if isinstance(value, torch.Generator):
            return self.generator(value)
        return value

    def generator(self, value: torch.Generator) -> Node:
        """The attribute that holds a generator of the program's. What a checkpoint draws from one, eager draws again in its backward."""
        if self.region is not None:
            raise AotError("a checkpointed region draws from a torch.Generator of its own")
        node = self._generators.get(value)
        if node is None:
            name = f"_generator{len(self._generators)}"
            setattr(self.root, name, value)
            node = self._generators[value] = self.graph.create_node("get_attr", name)
            node.meta |= {"val": value, "phase": self.phase, "source": self.source_now()}
        return node

    def lift(self, real: torch.Tensor) -> FakeTensor:
        """A real tensor met on the way becomes one more input."""
        fake = self.from_real(real)
        if not hasattr(fake, "track"):
            last = next((n for n in self.graph.nodes if n.op != "placeholder"), None)
            with self.graph.inserting_before(last) if last is not None else _nothing():
                self.placeholder(f"lifted_{len(self.lifted)}", real, fake)
            self.lifted.append((real, fake))
        return fake

    def node_of(self, fake: FakeTensor) -> Node:
        return self._current(self.track_of(fake))

    def _current(self, track: Track) -> Node:
        root = track.root
        if track.version == root.writes:
            return track.node
        if track.parent is None or track.step is None:
            return track.node
        track.node = self._replay(track.step, _seen_from(self, track.parent, track.step), track.parent.fake)
        track.version = root.writes
        return track.node

    def _replay(self, step: Step, parent: Node, fake: FakeTensor) -> Node:
        """`fake` is the tensor of which the step makes a view, `parent` has its value."""
        if facts_of(step.op).same:
            return parent
        return self.emit(step.op, parent, *_moved(step.op, step.args, fake, parent), **dict(step.kwargs))

    # writing

    def assign(self, track: Track, node: Node) -> None:
        """`track` now has the value `node`: so do all tensors that share its storage."""
        root = track.root
        if track.parent is not None and track.step is not None:
            self.assign(track.parent, self._undo(track.parent, track.step, node))
        else:
            root.writes += 1
        track.node = node
        track.version = root.writes

    def _undo(self, parent: Track, step: Step, node: Node) -> Node:
        if facts_of(step.op).same:
            return node
        if step.op is aten.as_strided.default and overlaps_itself(node.meta["val"].shape, step.args[1]):
            raise AotError("writing through a view that shows an element twice is not supported")
        if step.op is aten.as_strided.default and not is_within(parent.fake, *step.args):
            raise AotError("writing to elements that only as_strided reaches is not supported")
        undo = UNDO.get(step.op)
        if undo is None:
            if step.op is aten.expand.default and parent.fake.shape == node.meta["val"].shape:
                return node
            raise AotError(f"writing through a view made by {step.op} is not supported")
        op, takes_parent, args = undo(parent.node.meta["val"], step.args)
        if takes_parent:
            return _scattered(self, op, step, parent.fake, self._current(parent), node, args)
        return self.emit(op, node, *args)

    def write(self, fake: FakeTensor, node: Node) -> None:
        """Assign, after giving the value the dtype, shape and strides of the tensor written to."""
        self.assign(self.track_of(fake), self._fitted(fake, node))

    def _fitted(self, fake: FakeTensor, node: Node) -> Node:
        val, meta = node.meta["val"], fake.meta
        if val.shape == meta.shape and val.stride() == meta.stride() and val.dtype is meta.dtype and val.fake_device == fake.fake_device:
            return node
        if val.dtype is not meta.dtype or val.fake_device != fake.fake_device:
            node = self.emit(aten._to_copy.default, node, dtype=meta.dtype, device=fake.fake_device)
            val = node.meta["val"]
        if val.shape != meta.shape:
            node = self.emit(aten.expand.default, node, list(meta.shape))
            val = node.meta["val"]
        if val.shape == meta.shape and val.stride() == meta.stride():
            return node
        return self.emit(aten.copy.default, self.node_of(fake), node)

    # dispatch

    @fake_mode.counting_lists
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        func, args, kwargs = fake_mode.numbers_made(func, args, kwargs or {})
        plan = fake_mode.plan_of(func)
        special = plan.special
        if special is fake_mode._device_of:
            return special(self, func, args, kwargs)
        if not isinstance(func, OpOverload):
            raise NoMeta(func, "higher-order operators can't be traced")
        if self.has_zeros:
            if (out := self._without_memory(func, args, kwargs)) is not None:
                return out
            args = self._filled(func, args)
        self.has_zeros |= func is ZEROS
        decomposition = self.decompositions.get(func)
        if decomposition is not None and decide("aot", f"decompose {func}"):
            with self.again():
                out = decomposition(*args, **kwargs)
            if out is not NotImplemented:
                return self._laid_out(func, args, kwargs, self._own_results(facts_of(func), out))
        if special in _ANSWERED_BY_FAKE:
            return special(self, func, args, kwargs)
        if special is fake_mode._lift:
            return self._constant(func, args[0])
        facts = facts_of(func)
        if (training := facts.training) is not None:
            if training.how == "declares" and not args[training.flag]:
                func = overload(training.otherwise)
                facts = facts_of(func)
            elif training.how == "writes" and args[training.flag] and args[training.statistics[0]] is not None:
                return self._write_op(func, args, kwargs, training.statistics)
        if facts.reshapes_in_place:
            return self._reshape_in_place(func, args, kwargs)
        if facts.writes:
            return self._write_op(func, args, kwargs, facts.writes)
        if facts.views or func in HIDDEN_VIEWS:
            return self._view_op(func, args, kwargs)
        return self._plain_op(func, args, kwargs)

    def _without_memory(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> FakeTensor | None:
        """What eager's kernel for zeros without memory gives."""
        operands = [self.node_of(a) if type(a) is FakeTensor else a for a in args[:2]]
        node = computed(func, operands, kwargs.get("alpha", 1), self.emit, lambda: fake_mode.run(self, func, args, kwargs))
        return None if node is None else self.tracked(node)

    def _filled(self, func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Where eager has no kernel for zeros without memory, one zero that stands in all places is given in their place."""
        facts = facts_of(func)
        if facts.views or facts.reshapes_in_place or func in LIKE:
            return args

        def filled(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return type(value)(map(filled, value))
            if type(value) is not FakeTensor or not is_absent(self.node_of(value)):
                return value
            zero = self.emit(aten.zeros.default, [], dtype=value.dtype, device=value.fake_device)
            return self.tracked(self.emit(aten.expand.default, zero, list(value.shape)))

        return tuple(a if i in facts.writes else filled(a) for i, a in enumerate(args))

    def tracked(self, node: Node) -> FakeTensor:
        """A tensor of its own with that value."""
        fake = val_of(node.meta["val"])
        self.track(fake, node)
        return fake

    def _own_results(self, facts: Facts, out: Any) -> Any:
        """A decomposition may end in a view of what it made; autograd keeps no history for views made below it."""
        if facts.views or facts.writes:
            return out
        if isinstance(out, (list, tuple)):
            return type(out)(self._own_results(facts, o) for o in out) if type(out) in (list, tuple) else out
        track = getattr(out, "track", None)
        if track is None or track.parent is None:
            return out
        own = val_of(out)
        self.track(own, self._current(track))
        return own

    def _laid_out(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        """Results of a decomposition in the layout of the operator it stands for. Rows in order make rows in order."""
        found = flat(out)
        if facts_of(func).views or all(t.is_contiguous() for t in (*flat(args), *found)):
            return out
        wanted = flat(fake_mode.run(self, func, args, kwargs))
        for have, want in zip(found, wanted, strict=True):
            strides = [s for s, n in zip(want.stride(), want.shape, strict=True) if n > 1]
            if have.numel() and strides != [s for s, n in zip(have.stride(), have.shape, strict=True) if n > 1]:
                return self._relaid(out, dict(zip(map(id, found), wanted, strict=True)))
        return out

    def _relaid(self, out: Any, wanted: dict[int, torch.Tensor]) -> Any:
        if isinstance(out, (list, tuple)):
            parts = [self._relaid(o, wanted) for o in out]
            return parts if isinstance(out, list) else tuple(parts)
        like = wanted.get(id(out))
        if like is None or out.stride() == like.stride():
            return out
        return self.tracked(laid_out_as(like, self.node_of(out), self.emit))

    @contextmanager
    def again(self) -> Iterator[None]:
        with self, plain_shapes():
            yield

    def _plain_op(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        node_args = tuple(self.lower(a) for a in args)
        if (at := _BY_PLACE.get(func)) is not None:
            node_args = (*node_args[:at], *_moved(aten.as_strided.default, args[at:], args[0], node_args[0]))
        node_kwargs = {k: self.lower(v) for k, v in kwargs.items()} if kwargs else {}
        out = fake_mode.run(self, func, args, kwargs)
        func = through("trace", func, func, node_args, node_kwargs, out, self.phase == "backward")
        return self._adopt(self.record(func, node_args, node_kwargs, out), out)

    def _adopt(self, node: Any, out: Any) -> Any:
        """Track fresh results."""
        if isinstance(out, FakeTensor):
            self.track(out, node)
        elif isinstance(out, (list, tuple)) and isinstance(node, tuple):
            for n, o in zip(node, out, strict=True):
                self._adopt(n, o)
        return out

    def _view_op(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        base = args[0]
        if not isinstance(base, torch.Tensor):
            raise AotError(f"{func} makes views of a list")
        base = _viewable(self, func, base)
        args = (base, *args[1:])
        parent = self.track_of(base)
        out = fake_mode.run(self, func, args, kwargs)
        hidden = func in HIDDEN_VIEWS
        func = HIDDEN_VIEWS.get(func, func)
        if isinstance(out, FakeTensor):
            step = replace(Step(func, _frozen(args[1:]), tuple(kwargs.items())), hidden=hidden)
            self.reaches_out |= func is aten.as_strided.default and not is_within(base, *args[1:])
            if facts_of(func).same:
                self.track(out, self._current(parent), parent, step)
            else:
                node = self.record(func, (node := _seen_from(self, parent, step), *_moved(func, args[1:], base, node)), kwargs, out)
                self.track(out, node, parent, step)
            return out
        if not is_multi(func):
            raise AotError(f"{func} returns several views of its input")
        nodes = self.record(func, (self._current(parent), *args[1:]), kwargs, out)
        for node, one, step in zip(nodes, out, part_steps(func, args, list(out)), strict=True):
            self.track(one, node, parent, replace(step, hidden=hidden, among=step.among and not hidden))
        return out

    def _reshape_in_place(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`x.t_()`: x becomes a view of what it was; earlier views of x keep looking at what it was."""
        fake = args[0] if type(args[0]) is FakeTensor else self.lift(args[0])
        view = VIEW_OF_IN_PLACE.get(func)
        if func is aten.resize_.default and kwargs.get("memory_format") is None and (not fake.numel() or list(fake.shape) == list(args[1])):
            return self._allocate(fake, args)
        if view is None:
            raise AotError(f"{func} changes the storage of a tensor")
        old = self.track_of(fake)
        node = self._current(old)
        old.fake = FakeTensor(fake.meta.detach(), fake.fake_device)
        old.is_shadow = True
        self.hides_shape |= not old.root.turn(fake)
        fake_mode.run(self, func, args, kwargs)
        step = Step(view, _frozen(args[1:]), tuple(kwargs.items()))
        turned = self._replay(step, node, old.fake)
        self.track(fake, turned, *old.turned_by(step, fake, turned))
        return fake

    def _write_op(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], writes: Writes) -> Any:
        written = self._written(args, kwargs, writes)
        simple = _SIMPLE_WRITES.get(func)
        before = [(f.shape, f.untyped_storage()._cdata) for f in written]
        form = form_of_call(func, args, kwargs)
        call_args, call_kwargs = args, kwargs
        if form is None:
            form = Cloned(func, writes)
        elif form is not func:
            call_kwargs = {k: v for k, v in kwargs.items() if k not in writes} | options_from_out(func, form, kwargs)
        if "generator" in call_kwargs and call_kwargs["generator"] is None:
            call_kwargs = {k: v for k, v in call_kwargs.items() if k != "generator"}
        if len({id(f) for f in written}) != len(written) or _reads_list_of(written, args, writes):
            raise AotError(f"{func} reads what it has just written")
        lowered = tuple(self.lower(a) for a in (*call_args, *missing_arguments(func, form, len(call_args))))
        lowered_kwargs = {k: self.lower(v) for k, v in call_kwargs.items()}
        result = fake_mode.run(self, func, args, kwargs)
        for fake, (shape, storage) in zip(written, before, strict=True):
            if fake.shape != shape or fake.untyped_storage()._cdata != storage:
                self._resized(fake)
        if simple is not None:
            self.write(written[0], simple(self, written[0], lowered, lowered_kwargs))
            return result
        if writes == (0,) and facts_of(func).random:
            new = draw(self.emit, func, form, written[0], lowered, lowered_kwargs)
        else:
            new = self.emit(form, *lowered, **lowered_kwargs)
        nodes = _flat_nodes(new)
        fresh = len(nodes) - len(written)
        if fresh < 0:
            raise AotError(f"{func}: its functional form returns {len(nodes)} values for {len(written)} written tensors")
        for fake, node in zip(written, nodes[fresh:], strict=True):
            self.write(fake, node)
        known = {id(f) for f in written}
        adopted = iter(nodes[:fresh])
        for out in flat(result):
            if id(out) not in known:
                self.track(out, laid_out_as(out, next(adopted), self.emit))
        return result

    def _written(self, args: tuple[Any, ...], kwargs: dict[str, Any], writes: Writes) -> list[FakeTensor]:
        found: list[FakeTensor] = []
        for where in writes:
            value = kwargs.get(where) if isinstance(where, str) else args[where] if where < len(args) else None
            for t in flat(value):
                found.append(t if type(t) is FakeTensor else self.lift(t))
        return found

    def _allocate(self, fake: FakeTensor, args: tuple[Any, ...]) -> FakeTensor:
        """`resize_` of a tensor that has that shape, or no elements to keep: factories begin so with their `out`."""
        before = fake.shape
        fake_mode.run(self, aten.resize_.default, args, {})
        if fake.shape != before:
            self._resized(fake)
        return fake

    def _resized(self, fake: FakeTensor) -> None:
        """An out= tensor got a new shape: it starts anew as its own root."""
        track = self.track_of(fake)
        root = track.root
        # what Python gets from a factory is a detached alias of what the factory made
        if root.is_given or any(not facts_of(step.op).same for step in track.steps()):
            raise AotError("an op resized a tensor that is an input or a view")
        root.node = self.emit(aten.empty_strided.default, list(fake.shape), list(fake.stride()), dtype=fake.dtype, device=fake.fake_device)
        root.writes += 1
        root.resized = root.made = root.writes
        if track is not root:
            old, root.fake = root.fake, val_of(root.node.meta["val"])
            root.fake.track = root
            old.track = Track(old, root.node, root)
            old.track.made = 0
            track.parent, track.node, track.made = root, root.node, root.writes
        track.version = root.version = root.writes

    def _constant(self, func: Any, real: torch.Tensor) -> Any:
        """`torch.tensor(data)`: numbers become `full`, larger data an attribute that is copied at every run."""
        fake = fake_mode.run(self, func, (real,), {})
        if type(real) is FakeTensor:
            return self._adopt(self.emit(aten.clone.default, real), fake)
        if real.is_meta:  # under a default device of that kind, from torch 2.15 on
            node = self.emit(aten.empty_strided.default, list(real.shape), list(real.stride()), dtype=real.dtype, device=real.device)
        elif real.numel() == 1 and not real.is_complex():
            node = self.emit(aten.full.default, list(real.shape), real.item(), dtype=real.dtype, device=real.device, pin_memory=False)
        else:
            name = f"_tensor_constant{self._count('constant')}"
            setattr(self.root, name, real.detach().clone())
            attribute = self.graph.get_attr(name)
            attribute.meta["val"] = val_of(fake)
            attribute.meta["phase"] = self.phase
            attribute.meta["source"] = self.source_now()
            node = self.emit(aten.clone.default, attribute)
        self.track(fake, node)
        return fake

    def _count(self, kind: str) -> int:
        self._names[kind] = self._names.get(kind, -1) + 1
        return self._names[kind]


def _reads_list_of(written: list[FakeTensor], args: tuple[Any, ...], writes: Writes) -> bool:
    """A list op goes item by item: an item written early and read late is not what a functional op sees."""
    if len(written) < 2:
        return False
    read = {id(t) for i, a in enumerate(args) if i not in writes for t in flat(a)}
    return any(id(f) in read for f in written)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _value(value: Any) -> Any:
    if isinstance(value, Node):
        return value.meta["val"]
    if isinstance(value, (list, tuple)):
        return type(value)(_value(v) for v in value)
    return value


def _frozen(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(list(a) if isinstance(a, (list, tuple)) else a for a in args)


def _seen_from(tracer: Tracer, parent: Track, step: Step) -> Node:
    """The node that the step makes a view of. What lies beside the parent, only the value of its root has."""
    if step.op is not aten.as_strided.default or is_within(parent.fake, *step.args):
        return tracer._current(parent)
    return _as_view(tracer, parent)


def _viewable(tracer: Tracer, func: Any, base: torch.Tensor) -> FakeTensor:
    fake = base if isinstance(base, FakeTensor) else tracer.lift(base)
    if func is not aten.view_as_complex.default or fake.numel() or fake.stride(-1) == 1:
        return fake
    # below a mode autograd expands the gradient of a `prod` without elements, which can't be seen so
    return tracer.tracked(tracer.emit(aten.clone.default, tracer.node_of(fake), memory_format=torch.contiguous_format))


def _as_view(tracer: Tracer, track: Track) -> Node:
    if track.parent is None or track.step is None or track.root.writes == 0:
        return tracer._current(track)
    return tracer._replay(track.step, _as_view(tracer, track.parent), track.parent.fake)


def _moved(op: Any, args: tuple[Any, ...], fake: torch.Tensor, node: Node) -> tuple[Any, ...]:
    """`as_strided` counts from where memory begins, and the value of a tensor that was written begins elsewhere in memory of its own."""
    if op is not aten.as_strided.default or len(args) < 3 or args[2] is None:
        return args
    return (*args[:2], args[2] - int(fake.storage_offset()) + int(node.meta["val"].storage_offset()))


def _scattered(tracer: Tracer, op: Any, step: Step, fake: FakeTensor, into: Node, node: Node, args: tuple[Any, ...]) -> Node:
    """The value of a tensor of which a view got another one.

    `as_strided_scatter` refuses what needs a gradient and isn't contiguous, as arguments of graphs may: in the order of its memory it is.
    """
    if op is not aten.as_strided_scatter.default or fake.is_contiguous() or not is_dense(fake):
        return tracer.emit(op, into, node, *_moved(step.op, args, fake, into), **dict(step.kwargs))
    strides = fake.stride()
    order = sorted(range(len(strides)), key=lambda d: -strides[d])
    into = tracer.emit(aten.permute.default, into, order)
    into = tracer.emit(op, into, node, *_moved(step.op, args, fake, into))
    return tracer.emit(aten.permute.default, into, [order.index(d) for d in range(len(order))])


def _flat_nodes(value: Any) -> list[Node]:
    if isinstance(value, Node):
        return [value]
    if isinstance(value, tuple):
        return [n for v in value for n in _flat_nodes(v)]
    return []


def _nodes_in(operands: Iterable[Any]) -> Iterator[Node]:
    for value in operands:
        if isinstance(value, Node):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _nodes_in(value)


def _filled(tracer: Tracer, fake: FakeTensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Node:
    value = args[1] if len(args) > 1 else 0
    if fake.is_contiguous():
        return tracer.emit(aten.full.default, list(fake.shape), value, dtype=fake.dtype, device=fake.fake_device, pin_memory=False)
    return tracer.emit(aten.fill.Scalar, args[0], value)


def _copied(tracer: Tracer, fake: FakeTensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Node:
    source = args[1]
    if not isinstance(source, Node):
        return _filled(tracer, fake, args, kwargs)
    # autograd saves the copy: later writes to the argument do not reach it
    return tracer.emit(aten.clone.default, source) if alias_source(source).op == "placeholder" else source


_SIMPLE_WRITES: dict[Any, Callable[..., Node]] = {
    aten.copy_.default: _copied,
    aten.fill_.Scalar: _filled,
    aten.zero_.default: _filled,
}
_BY_PLACE = {aten.as_strided_scatter.default: 2, aten.as_strided_copy.default: 1}  # where the arguments of `as_strided` begin
_ANSWERED_BY_FAKE = frozenset({fake_mode._decompose, fake_mode._refuse, fake_mode._item, fake_mode._never, fake_mode._itself})
