"""From a captured FX graph to one functional ATen graph with forward and backward, and a description of what the caller sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import TreeSpec, tree_flatten

from dynamo.aot.again import version_of
from dynamo.aot.branches import Called, conditional
from dynamo.aot.cut_off import cut_off
from dynamo.aot.derivatives import differentiate
from dynamo.aot.errors import AotError
from dynamo.aot.facts import GRAD, CutOff, Output, Step, attribute
from dynamo.aot.functionalise import alias_source
from dynamo.aot.gradients import WITH_OTHER_GRADIENTS
from dynamo.aot.histories import Checkpoint, arriving, freed, gives_zeros, lost, meeting, nearest, reading, regions, saved
from dynamo.aot.nested import nested
from dynamo.aot.rng import STATE_OPS
from dynamo.aot.runtime import flat_base
from dynamo.aot.scores import attention
from dynamo.aot.sharing import overlapping
from dynamo.aot.trace import Decompositions, Source, Tracer
from dynamo.aot.track import Track
from dynamo.aot.turning import Turning, check_shared, check_turned
from dynamo.fake import FakeTensor
from dynamo.fake.composites import COMPOSITES
from dynamo.fake.convert import modes_off
from dynamo.fake.layout import is_dense
from dynamo.fake.overlap import overlaps_itself
from dynamo.graph import transforms
from dynamo.ops.facts import facts_of
from dynamo.surroundings.kernel_warnings import Kept
from dynamo.surroundings.modes import KERNEL_MODES, MODES, left, snapshot

aten = torch.ops.aten
Tensor = torch.Tensor

_IN_FUNCTION = torch._C._autograd.CreationMeta.IN_CUSTOM_FUNCTION
_ONE_OF_SEVERAL = torch._C._autograd.CreationMeta.MULTI_OUTPUT_NODE
_OWN_HISTORY = "a result shares memory with an input, and has a history of its own"


@dataclass(slots=True)
class Primal:
    """One input of the ATen graph: an argument, a parameter or buffer, or the common base of arguments that share memory."""

    real: Tensor
    fake: FakeTensor
    leaf: FakeTensor
    track: Track
    node: Node
    argument: int | None
    members: tuple[int, ...] = ()
    grad_fn: Any = None
    was_requiring_grad: bool = False
    layout: tuple[Any, ...] = ()
    version: int = 0

    @property
    def is_held(self) -> bool:
        """The same tensor at every call: a parameter, a buffer, a tensor the program closed over."""
        return self.argument is None and not self.members


@dataclass(slots=True)
class Joint:
    """The traced program.

    `sources`: the primals, then arguments that are views of a common base; outputs and `relaid` (the new shape, strides, and
    by how much the offset changes) refer to these.
    `results`: nodes the forward returns, first the caller's, then new values of inputs (`returned`).

    `differentiable[i]` tells whether result i has a tangent; `grads[j]` is the gradient node of `wanted[j]`, a primal index.
    """

    graph: Graph
    root: torch.nn.Module
    primals: list[Primal]
    sources: list[Primal]
    results: list[Node]
    outputs: list[Output]
    spec: TreeSpec
    returned: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    bumps: list[int] = field(default_factory=list)  # see `Facts`
    relaid: list[tuple[int, tuple[int, ...], tuple[int, ...], int]] = field(default_factory=list)
    differentiable: list[bool] = field(default_factory=list)
    tangents: list[Node] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)
    apart: list[int] = field(default_factory=list)  # primals that need a gradient, and that no result was computed from
    grads: list[Node | None] = field(default_factory=list)
    freed: tuple[int, ...] = ()  # see `histories.freed`
    arriving: tuple[int, ...] = ()  # see `histories.arriving`
    has_zeros: bool = False  # gradients may be zeros that come from no tangent
    reentrant: tuple[int, ...] = ()  # see `histories.regions`
    through: tuple[int, ...] = ()  # the same
    meeting: dict[Node, int] = field(default_factory=dict)  # see `histories.meeting`
    saved: dict[Node, int] = field(default_factory=dict)  # arguments and results, see `histories.saved`
    nearest: tuple[int, ...] = ()  # see `Facts`
    showing: dict[Node, int] = field(default_factory=dict)  # results that are views or copies of what autograd has saved, the same
    saved_after: dict[int, int] = field(default_factory=dict)  # primals that the graph has written or turned by then, the same
    backward_errors: tuple[tuple[int, str, str], ...] = ()  # see `Facts`
    cut_off: list[CutOff] = field(default_factory=list)  # the same
    modes_after: list[tuple[int, Any]] = field(default_factory=list)
    clears_autocast_cache: bool = False
    pairs: list[Called] = field(default_factory=list)  # graphs that operators of the graph call
    inference: list[bool] = field(default_factory=list)  # per result, whether it is an inference tensor

    @property
    def needs_backward(self) -> bool:
        return any(self.differentiable)

    def sharing(self) -> list[Primal] | None:
        """Where arguments that share memory otherwise would need another graph: the held tensors that they may share it with."""
        arguments = [p for p in self.sources if p.argument is not None]
        changed = [self.primals[i] for i in (*self.written, *self.returned)]
        if any(not p.is_held for p in changed):
            held = [p for p in self.primals if p.is_held]
            return held if held or len(arguments) > 1 else None
        return (changed or None) if arguments else None


@contextmanager
def modes_kept(after: list[tuple[int, Any]]) -> Iterator[None]:
    """Restore global modes; `after` gets those that the program left changed."""
    restore, before = snapshot(), [mode.read() for mode in MODES]
    try:
        yield
        after += left(before)
    finally:
        restore(None)


class Builder:
    """Runs the FX graph under a tracer, then the autograd engine, and describes the result."""

    def __init__(self, gm: GraphModule, example_inputs: Sequence[Any], decompositions: Decompositions | None) -> None:
        self.gm = gm
        self.inputs = list(example_inputs)
        self.decompositions = decompositions
        self.tracer = Tracer(decompositions)
        self.pairs: list[Called] = []
        self.primals: list[Primal] = []
        self.taken: set[Node] = set()  # whose memory a result has
        self.made: dict[Track, int] = {}  # roots of what the graph returns that is no view of an input -> numbers of the results
        self.by_id: dict[int, Primal] = {}
        self.regions = 0
        self.checkpoints: list[Checkpoint] = []
        self.clears_autocast_cache = False
        self.turning = Turning()

    # inputs

    def add_primal(self, name: str, real: Tensor, argument: int | None, source: Source | None = None) -> Primal:
        known = self.by_id.get(id(real))
        if known is not None:
            return known
        fake = self.tracer.from_real(real)
        leaf = fake
        if fake.requires_grad and fake.grad_fn is not None:
            accumulate: Any = fake.grad_fn.next_functions[0][0]
            leaf = accumulate.variable
        track = self.tracer.placeholder(name, real, fake, source)
        primal = Primal(real, fake, leaf, track, track.node, argument)
        self._register(primal)
        return primal

    def _register(self, primal: Primal) -> None:
        fake = primal.fake
        primal.grad_fn = fake.grad_fn
        primal.was_requiring_grad = fake.requires_grad
        primal.layout = _layout(fake)
        primal.version = version_of(fake)
        self.primals.append(primal)
        self.by_id[id(primal.real)] = primal

    def add_base(self, group: list[int]) -> None:
        """Arguments that share memory, one of which is written: the graph gets their storage, flat, and they are views of it."""
        reals: list[Tensor] = [self.inputs[i] for i in group]
        first = reals[0]
        if any(r.requires_grad or r.dtype is not first.dtype for r in reals):
            raise AotError("an argument that shares memory with another is written, and they need gradients or differ in dtype")
        flat = flat_base(first)
        placeholders = [n for n in self.gm.graph.nodes if n.op == "placeholder"]
        base = self.add_primal(f"base_{group[0]}", flat, None, placeholders[group[0]].meta.get("source"))
        base.members = tuple(group)
        for i in group:
            real = self.inputs[i]
            if id(real) in self.by_id:
                continue
            fake = self.tracer.from_real(real)
            args = (list(real.shape), list(real.stride()), real.storage_offset())
            with self.tracer.at_line_of(base.node):
                node = self.tracer.emit(aten.as_strided.default, base.node, *args)
            track = self.tracer.track(fake, node, base.track, Step(aten.as_strided.default, args))
            member = Primal(real, fake, fake, track, node, i)
            member.layout, member.version = _layout(fake), version_of(fake)
            self.by_id[id(real)] = member

    # running the FX graph

    def run(self, groups: list[list[int]], after: list[tuple[int, Any]]) -> tuple[list[Any], TreeSpec]:
        """Returns the flat outputs (fakes and constants) of the FX graph; `after` gets the modes that it leaves changed."""
        for group in groups:
            self.add_base(group)
        self._add_attributes(self.gm)
        placeholders = [n for n in self.gm.graph.nodes if n.op == "placeholder"]
        if len(placeholders) != len(self.inputs):
            raise AotError(f"the graph takes {len(placeholders)} inputs, {len(self.inputs)} were given")
        for i, (node, value) in enumerate(zip(placeholders, self.inputs, strict=True)):
            if isinstance(value, Tensor):
                self.add_primal(node.name, value, i, node.meta.get("source"))
        args = [self.by_id[id(v)].fake if isinstance(v, Tensor) else v for v in self.inputs]
        with self.tracer, modes_kept(after):  # leaving inference mode puts back the dispatch keys, this mode's among them, of when it began
            out = self.interpret(self.gm, args)
        return tree_flatten(out)

    def _add_attributes(self, gm: GraphModule) -> None:
        for node in gm.graph.nodes:
            if node.op == "get_attr":
                value = attribute(gm, node.target)
                if isinstance(value, Tensor):
                    self.add_primal("p_" + node.target.replace(".", "_"), value, None, node.meta.get("source"))
                elif isinstance(value, GraphModule):
                    self._add_attributes(value)

    def interpret(self, gm: GraphModule, args: Sequence[Any]) -> Any:
        given = iter(args)
        with self.turning.env() as env:
            for node in gm.graph.nodes:
                if node.op == "placeholder":
                    env[node] = next(given)
                    continue
                if node.op == "output":
                    return torch.fx.node.map_arg(node.args[0], env.__getitem__)
                source = node.meta.get("source")
                if source is not None:
                    self.tracer.at(source)
                env[node] = self._execute(gm, node, env.__getitem__)
        raise AotError("the graph has no output")

    def _execute(self, gm: GraphModule, node: Node, read: Callable[[Node], Any]) -> Any:
        target: Any = node.target
        if node.op == "get_attr":
            value = attribute(gm, target)
            return self.by_id[id(value)].fake if isinstance(value, Tensor) else value
        args = torch.fx.node.map_arg(node.args, read)
        kwargs = torch.fx.node.map_arg(node.kwargs, read)
        if (new := self.turning.turn(target, args, kwargs, self.every_primal)) is not None:
            return new
        other = WITH_OTHER_GRADIENTS.get(getattr(Tensor, target, None) if node.op == "call_method" else target)
        if other is not None:
            return other(*args, **kwargs)
        if node.op == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        if node.op == "call_module":
            return gm.get_submodule(target)(*args, **kwargs)
        if target is torch.clear_autocast_cache:
            self.clears_autocast_cache = True
        if target in KERNEL_MODES:
            raise AotError(f"{target.__name__} inside a graph: kernels read that mode while they run")
        target = STATE_OPS.get(target, target)
        special = _SPECIAL_CALLS.get(getattr(target, "__qualname__", ""))
        if special is not None and getattr(target, "__module__", "") in _SPECIAL_HOMES:
            return special(self, *args, **kwargs)
        return COMPOSITES.get(target, target)(*args, **kwargs)

    def checkpoint(self, body: Any, options: dict[str, Any], tracked: int, *tensors: Any) -> Any:
        """Nodes of a checkpointed region may not be saved for backward, except what leaves the region and random numbers."""
        before, self.tracer.region = self.tracer.region, self.regions
        self.regions += 1
        reentrant = bool(options.get("use_reentrant"))
        kept = Checkpoint(tensors, tracked, reentrant, outer=before is not None)
        tracks = any(isinstance(t, Tensor) and t.requires_grad for t in tensors[:tracked])
        if reentrant and tracks and torch.is_grad_enabled() and torch.is_inference_mode_enabled():
            raise AotError("an inference tensor has a history, which a reentrant checkpoint gives it")
        try:
            if reentrant and not tracks:
                with torch.no_grad():
                    return self.call(body, tensors)
            with _values_of_now(self.tracer):
                results = self.call(body, tensors)
            if reentrant and any(_lacks_history(t) for t in tree_flatten(results)[0]):
                raise AotError("a result of a re-entrant checkpoint has a history from that alone")
            kept.close(results)
            self.checkpoints.append(kept)
            return results
        finally:
            self.tracer.region = before

    def cond(self, predicate: Any, when_true: Any, when_false: Any, *operands: Any) -> Any:
        return conditional(self, predicate, when_true, when_false, operands)

    def attention(self, *args: Any) -> Any:
        return attention(self, *args)

    def transformed(self, transform: Callable[..., Any], body: GraphModule, settings: Any, *tensors: Any) -> Any:
        return transform(lambda *given: self.interpret(body, given), settings, *tensors)

    def inside(self, body: GraphModule) -> Builder:
        """One that traces a graph of its own, which this one's graph calls."""
        inner = Builder(body, (), self.decompositions)
        inner.pairs = self.pairs
        return inner

    def call(self, body: Any, tensors: Sequence[Any]) -> Any:
        return self.interpret(body, tensors) if isinstance(body, GraphModule) else body(*tensors)

    def set_data(self, t: Any, new: Any) -> Any:
        raise AotError("`tensor.data = other` inside a graph")

    # describing the result

    def shared_and_written(self) -> list[list[int]]:
        """Groups of argument positions that share memory where one was written: these need a common base."""
        storages: dict[int, list[Primal]] = {}
        for primal in self.primals:
            if not primal.members:
                storages.setdefault(primal.real.untyped_storage()._cdata, []).append(primal)
        if self.tracer.reaches_out and any(p.track.writes for p in self.primals):
            raise AotError("as_strided shows elements beyond the tensor that it is called on, and memory is written")
        shared = []
        for primals in storages.values():
            for group in overlapping([p.real for p in primals]) if any(p.track.writes for p in primals) else ():
                members = [primals[i] for i in group]
                if not any(p.track.writes for p in members):
                    continue
                if any(p.is_held for p in members):
                    raise AotError("a parameter or buffer shares memory with another tensor of the graph and is written")
                shared.append([p.argument for p in members if p.argument is not None])
        return shared

    def finish(self, flat: list[Any], spec: TreeSpec) -> Joint:
        tracer = self.tracer
        for real, fake in tracer.lifted:
            track: Track = fake.track
            self._register(Primal(real, fake, fake, track, track.node, None))
        joint = Joint(tracer.graph, tracer.root, self.primals, self.every_primal(), [], [], spec)
        differentiable: list[FakeTensor | None] = []
        with tracer:
            self._describe_outputs(joint, flat, differentiable)
            self._describe_writes(joint, differentiable)
            self._differentiate(joint, differentiable)
        lookable = {p: flat[p] for p, output in enumerate(joint.outputs) if output.is_lookable(joint.differentiable)}
        written = {p: self.primals[i].fake for p, i in enumerate(joint.returned, len(flat)) if self.primals[i].argument is not None}
        joint.nearest = nearest(lookable | written, differentiable, self.checkpoints)
        check_turned([joint.sources[i] for i, *_ in joint.relaid], [self.primals[i] for i in joint.wanted])
        check_shared(self.primals, self.by_id.values(), joint.needs_backward)
        joint.clears_autocast_cache = self.clears_autocast_cache
        joint.pairs = self.pairs
        return joint

    def _describe_outputs(self, joint: Joint, flat: list[Any], differentiable: list[FakeTensor | None]) -> None:
        groups: dict[int, list[FakeTensor]] = {}
        places = {id(p.fake.track): i for i, p in enumerate(self.every_primal())}
        own = {id(p.track) for p in self.primals}
        near = [self._nearest_primal(value, places, own) if type(value) is FakeTensor else None for value in flat]
        for value, primal in zip(flat, near, strict=True):
            if type(value) is FakeTensor and primal is None:
                members = groups.setdefault(id(self.tracer.track_of(value).root), [])
                if not any(value is m for m in members):
                    members.append(value)
        described: dict[int, Output] = {}
        for value, primal in zip(flat, near, strict=True):
            if id(value) not in described:
                described[id(value)] = self._output(joint, value, primal, groups, differentiable)
            joint.outputs.append(described[id(value)])
        joint.cut_off = cut_off(flat, joint.outputs, self.tracer.track_of, places)
        joint.outputs = nested(flat, joint.outputs, self.tracer.track_of)

    def _nearest_primal(self, value: FakeTensor, places: dict[int, int], own: set[int]) -> tuple[int, list[Step], Track] | None:
        """The primal this is a view of, the steps from there, and its track. `places` are those of primals, by their tracks as they are
        now, and `own` the tracks that the graph's own began with."""
        steps: list[Step] = []
        at: Track | None = self.tracer.track_of(value)
        while at is not None:
            if id(at) in places:
                return places[id(at)], steps[::-1], at
            if at.step is not None:
                steps.append(at.step)
            if at.parent is None and id(at) in own:
                raise AotError("a view of an input is returned whose own shape was changed in place")
            at = at.parent
        return None

    def every_primal(self) -> list[Primal]:
        """Primals of the graph, then arguments that are views of a common base."""
        own = {id(p) for p in self.primals}
        return self.primals + [p for p in self.by_id.values() if id(p) not in own]

    def _output(
        self,
        joint: Joint,
        value: Any,
        near: tuple[int, list[Step], Track] | None,
        groups: dict[int, list[FakeTensor]],
        differentiable: list[FakeTensor | None],
    ) -> Output:
        if type(value) is not FakeTensor:
            if isinstance(value, Tensor):
                raise AotError("a real tensor reached the output of the graph")
            return Output("constant", value=value)
        if value.is_inference() and value.requires_grad and not value.is_leaf:
            raise AotError("an inference tensor has a history, which an autograd.Function gives it")
        track = self.tracer.track_of(value)
        root = track.root
        if near is not None:
            index, steps, primal = near
            if value.requires_grad and any(step.is_apart and (root.writes or not step.hidden) for step in steps):
                raise AotError(_OWN_HISTORY)
            if _function_of(track, primal) is not None:
                raise AotError(_OWN_HISTORY)
            made = self._made(value, steps)
            # it will be made before the writes, when the input needs no gradient: autograd would name another reason to refuse it
            is_of_written = made[-1] and value._is_view() and not self.every_primal()[index].was_requiring_grad
            if is_of_written and torch._C._autograd._get_creation_meta(value) == _ONE_OF_SEVERAL:
                raise AotError(_OWN_HISTORY)
            return Output("input", index, None, *made)
        members = groups[id(root)]
        top = self._with_history(members, root)
        steps = track.steps(top)
        is_alone = len(members) == 1 and not value.requires_grad and not _is_taken(self.tracer.node_of(value), self.taken)
        if any(step.among for step in steps) or (torch.is_grad_enabled() and track.mode != GRAD):
            is_alone = False  # autograd refuses to write gradients into one of several views, and into a view from under `no_grad`
        is_closed = is_alone and bool(steps) and track.mode != GRAD and not value.is_inference()
        direct = not steps or root.is_shadow or is_alone or self.turning.has_made(track)
        if direct and len(members) > 1 and steps:
            raise AotError("several outputs share memory with a tensor whose shape was changed in place")
        held = value if direct else top.fake
        if root not in self.made:
            self.made[root] = len(joint.results)
            joint.results.append(self.result_node(held, self.taken, view_is_fine=direct and not value.requires_grad))
            joint.inference.append(held.is_inference())
            differentiable.append(held if any(m.requires_grad for m in members) else None)
        in_function = _function_of(track, root) is not None
        return Output("graph", self.made[root], None, *self._made(value, () if direct else steps), is_closed, in_function)

    def _made(self, view: FakeTensor, steps: Sequence[Step]) -> tuple[tuple[Step, ...], bool, str, bool]:
        """(the steps to it, whether it has history, the mode to make it in, whether a write has changed its history since)."""
        track = self.tracer.track_of(view)
        try:
            with modes_off():  # autograd makes the history of a written view again, which is no part of the program
                tracked = not view.is_leaf
        except RuntimeError:
            return track.told(steps, False), track.mode == GRAD, track.mode, True
        if not tracked:  # it gets a history with the next look, if its base needs gradients by then
            return track.told(steps, False), False, track.mode, track.made != track.root.writes
        return track.told(steps, True), True, GRAD, False

    def _with_history(self, members: list[FakeTensor], root: Track) -> Track:
        """The tensor whose history results over one memory have: the root, or an alias of it that autograd doesn't know as one.

        What Python gets from a factory is such an alias: a detached one of what the factory made.
        """
        tops: dict[int, Track] = {}
        for member in members:
            if member.requires_grad and not root.is_shadow:
                own = _function_of(member.track, root)
                at: Track = member.track
                while at is not own and at.parent is not None and not at.parent.is_shadow and at.step is not None and not at.step.is_apart:
                    at = at.parent
                tops[id(at)] = at
        hidden = [top for top in tops.values() if top.step is not None and top.step.hidden]
        if hidden and not root.writes and (len(tops) > 1 or not is_dense(hidden[0].fake)):
            return root  # nothing tells parts of a whole that nobody writes to from views of it
        top = next(iter(tops.values()), root)
        is_same = all(facts_of(step.op).same for step in top.steps())
        if len(tops) > 1 or not (is_same or all(m.track.is_below(top) for m in members)):
            raise AotError("results that share memory have histories that don't")
        if hidden and not is_dense(top.fake):
            raise AotError("a result shows a part of what autograd does not know it as a view of")
        if top is not root and overlaps_itself(top.fake.shape, top.fake.stride()):
            raise AotError("a result with a history of its own shows an element twice")
        return top

    def result_node(self, fake: FakeTensor, taken: set[Node], view_is_fine: bool = False) -> Node:
        """Results never alias an input, a result before them, or a value that backward may keep. Its memory is `taken` from now on."""
        node = self.tracer.node_of(fake)
        if _is_taken(node, taken) or (alias_source(node) is not node and not view_is_fine):
            with self.tracer.at_line_of(node):
                if is_dense(fake) or overlaps_itself(fake.shape, fake.stride()):
                    node = self.tracer.emit(aten.clone.default, node)
                else:
                    empty = aten.empty_strided.default  # a clone would close the gaps
                    into = self.tracer.emit(empty, [*fake.shape], [*fake.stride()], dtype=fake.dtype, device=fake.device)
                    node = self.tracer.emit(aten.copy.default, into, node)
        taken.add(alias_source(node))
        return node

    def _describe_writes(self, joint: Joint, differentiable: list[FakeTensor | None]) -> None:
        if any(self.by_id[id(self.inputs[k])].fake.requires_grad for primal in self.primals for k in primal.members):
            raise AotError("an argument that shares memory with another is written with what needs gradients")
        copies: list[tuple[Primal, Node]] = []
        layouts = [_layout(source.fake) for source in joint.sources]
        turned = [(i, s.layout, now) for i, (s, now) in enumerate(zip(joint.sources, layouts, strict=True)) if now != s.layout]
        joint.relaid = [(i, shape, strides, offset - old[2]) for i, old, (shape, strides, offset) in turned]
        for i, (primal, now) in enumerate(zip(self.primals, layouts, strict=False)):
            fake = primal.fake
            writes = 0 if primal.members else version_of(fake) - primal.version
            if now != primal.layout:
                writes -= 1  # the new layout counts as one
            joint.bumps += [i] * writes
            if not primal.track.writes or primal.track.node is primal.node:
                continue
            if fake.requires_grad and (fake.grad_fn is not primal.grad_fn or not primal.was_requiring_grad):
                if self._shares(primal):  # views of one base have one history
                    raise AotError("an argument that shares memory with another is written with what needs gradients")
                joint.returned.append(i)
                if writes:  # a copy to it counts as one
                    joint.bumps.remove(i)
                joint.results.append(self.result_node(self._unshadowed(primal), self.taken))
                differentiable.append(fake)
            else:
                if overlaps_itself(fake.shape, fake.stride()):
                    raise AotError("an input that shows an element twice is written in part")
                joint.written.append(i)
                copies.append((primal, primal.track.node))
        relaid = {i for i, *_ in joint.relaid}
        if any(o.kind == "input" and o.stale and o.index in relaid for o in joint.outputs):
            raise AotError("a view of an input is returned whose own shape was changed in place")
        changed = {p.node for p, _ in copies}
        values = [self._safe_value(node, changed) for _, node in copies]
        for (primal, _), node in zip(copies, values, strict=True):
            # recorded without being run: running it would tell autograd that the input changed
            with self.tracer.at_line_of(node):
                copy = self.tracer.record(aten.copy_.default, (primal.node, node), {}, primal.node.meta["val"])
            copy.meta["phase"] = "write"

    def _shares(self, primal: Primal) -> bool:
        storage = primal.real.untyped_storage()._cdata
        return any(p is not primal and p.real.untyped_storage()._cdata == storage for p in self.by_id.values())

    def _unshadowed(self, primal: Primal) -> FakeTensor:
        if primal.track.is_shadow or primal.fake is not primal.track.fake:
            raise AotError("an input that needs a gradient is both written and reshaped in place")
        return primal.fake

    def _safe_value(self, node: Node, changed: set[Node]) -> Node:
        """Copies run one after the other: a value that is (a view of) another written input must be taken before."""
        source = alias_source(node)
        if source in changed:
            with self.tracer.at_line_of(node):
                return self.tracer.emit(aten.clone.default, node)
        return node

    def _differentiate(self, joint: Joint, differentiable: list[FakeTensor | None]) -> None:
        joint.differentiable = [f is not None for f in differentiable]
        ends = [f for f in differentiable if f is not None]
        ended = [r.meta.get("source") for r, f in zip(joint.results, differentiable, strict=True) if f is not None]
        wanted = [i for i, p in enumerate(self.primals) if p.leaf.requires_grad and p.was_requiring_grad]
        if not ends or not wanted:
            joint.differentiable = [False] * len(differentiable)
            return
        tracer = self.tracer
        if tracer.hides_shape:  # gradients for it would have the shape that it had
            raise AotError("a tensor with a history gets another shape in place where autograd does not record it")
        tangents: list[FakeTensor] = []
        first = next(n for n in tracer.graph.nodes if n.op != "placeholder") if tracer.graph.nodes else None
        for i, (end, source) in enumerate(zip(ends, ended, strict=True)):
            tangent = FakeTensor(_empty_like(end), end.fake_device)
            with tracer.graph.inserting_before(first):
                joint.tangents.append(tracer.placeholder(f"tangent_{i}", tangent, tangent, source).node)
            joint.tangents[-1].meta["phase"] = "tangent"
            tangents.append(tangent)
        tracer.phase, tracer.region = "backward", None
        joint.wanted, joint.freed = wanted, freed(ends)
        leaves = [self.primals[i].leaf for i in wanted]
        with reading() as read:
            grads, joint.backward_errors = differentiate(ends, leaves, tangents, lost(ends, self.checkpoints))
        found = saved(ends, self.made, read, self.checkpoints)
        joint.saved = _unwritten(joint, found)
        others = [root for root in found if root in self.made and root.node not in joint.saved]
        joint.showing = {joint.results[self.made[root]]: found[root] for root in others}
        asked = [(i, p) for i, p in enumerate(self.primals) if p.track in found]
        joint.saved_after = {i: found[p.track] for i, p in asked if p.track.writes or _layout(p.fake) != p.layout}
        apart = _apart(ends, leaves, grads)
        if len(apart) == len(wanted):  # a view made under `no_grad` needs a gradient if what it is a view of does, which no guard asks
            raise AotError("results need a gradient, and no backward pass from them gets to an input")
        if apart:
            joint.apart = [i for k, i in enumerate(wanted) if k in apart]
            kept = [k for k in range(len(wanted)) if k not in apart]
            joint.wanted, leaves, grads = [wanted[k] for k in kept], [leaves[k] for k in kept], tuple(grads[k] for k in kept)
        joint.grads = [tracer.lower(g) if g is not None else None for g in grads]
        joint.has_zeros = tracer.has_zeros or (len(ends) > 1 and gives_zeros(ends))
        joint.arriving = arriving(ends, leaves, self.checkpoints) if len(ends) > 1 or joint.has_zeros else ()
        joint.reentrant, joint.through = regions(ends, leaves, self.checkpoints)
        joint.meeting = meeting(ends, tracer.makers) if len(ends) > 1 else {}
        tracer.makers.clear()


def _function_of(track: Track, top: Track) -> Track | None:
    """The nearest view on the way up to `top` that an `autograd.Function` gave: its gradient is that function's, not that of a view."""
    at: Track | None = track
    while at is not None and at is not top:
        if at.fake.requires_grad and not at.is_shadow:
            try:
                with modes_off():
                    node = at.fake.grad_fn
            except RuntimeError as e:  # its base was written to
                if torch._C._autograd._get_creation_meta(at.fake) == _IN_FUNCTION:
                    raise AotError("a view that an autograd.Function gave, and whose base was written to") from e
            else:
                if hasattr(node, "_raw_saved_tensors"):
                    return at
        at = at.parent
    return None


@contextmanager
def _values_of_now(tracer: Tracer) -> Iterator[None]:
    """What operations inside save is their values, whatever is written later: a pass runs a checkpointed region again."""
    tracing = torch._C._autograd._saved_tensors_hooks_set_tracing(False)
    try:
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: tracer.node_of(t) if type(t) is FakeTensor else t,
            lambda kept: tracer.tracked(kept) if isinstance(kept, Node) else kept,
        ):
            yield
    finally:
        torch._C._autograd._saved_tensors_hooks_set_tracing(tracing)


def _unwritten(joint: Joint, found: dict[Any, int]) -> dict[Node, int]:
    own = {p.node for p in joint.primals if not p.track.writes} | {r for r in joint.results if alias_source(r) is r}
    return {root.node: mask for root, mask in found.items() if root.node in own}


def _apart(ends: Sequence[Tensor], leaves: Sequence[Tensor], grads: Sequence[Tensor | None]) -> set[int]:
    """Leaves that no result was computed from: a backward pass does not get to them."""
    without = [k for k, g in enumerate(grads) if g is None]
    return {k for k, ends_there in zip(without, arriving(ends, [leaves[k] for k in without]), strict=True) if not ends_there}


def _empty_like(fake: FakeTensor) -> Tensor:
    with torch.utils._python_dispatch._disable_current_modes():
        return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device="meta")


def _layout(fake: FakeTensor) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    return tuple(fake.shape), fake.stride(), int(fake.storage_offset())


def _lacks_history(value: Any) -> bool:
    return isinstance(value, Tensor) and not value.requires_grad and (value.is_floating_point() or value.is_complex())


def _is_taken(node: Node, taken: set[Node]) -> bool:
    """Whether an input or one of the taken nodes has the memory of the node."""
    source = alias_source(node)
    return source.op != "call_function" or source in taken


def _transformed(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda builder, *args: builder.transformed(fn, *args)


_SPECIAL_CALLS: dict[str, Callable[..., Any]] = {
    "checkpoint": Builder.checkpoint,
    "cond": Builder.cond,
    "flex_attention": Builder.attention,
    "set_data": Builder.set_data,
    **{fn.__qualname__: _transformed(fn) for fn in transforms.ALL},
}
_SPECIAL_HOMES = ("dynamo.graph.helpers", "dynamo.graph.attention", transforms.__name__)


def trace_joint(gm: GraphModule, example_inputs: Sequence[Any], decompositions: Decompositions | None = None) -> Joint:
    """Trace `gm` and, where gradients are needed, its backward.

    Raises `AotError` for programs this can't express, `DataDependent`/`NoMeta`/`Unsupported` from dynamo.fake, and whatever
    the program itself raises.
    """
    # anomaly mode asks for values of gradients, which fakes do not have; it watches the compiled backward when that runs
    # what operators warn about while they are asked, the entry gives
    with torch.autograd.set_detect_anomaly(False), Kept():
        return _trace_joint(gm, example_inputs, decompositions)


def _trace_joint(gm: GraphModule, example_inputs: Sequence[Any], decompositions: Decompositions | None) -> Joint:
    groups: list[list[int]] = []
    while True:
        builder = Builder(gm, example_inputs, decompositions)
        after: list[tuple[int, Any]] = []
        flat, spec = builder.run(groups, after)
        more = builder.shared_and_written()
        if not more or groups:
            break
        groups = more
    joint = builder.finish(flat, spec)
    joint.modes_after = after
    return joint
