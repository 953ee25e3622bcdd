"""Differentiating a compiled graph in eager, where its compiled backward can't serve.

A compiled backward records no history and hides its operations. Where either is wanted (`create_graph=True`, a mode or a transform of
the program around the backward pass) the captured graph runs again in eager on the inputs that the forward has saved, and
autograd differentiates that. Eager's own rules for second derivatives hold then, those of `autograd.Function`s in the graph included.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.autograd.forward_ad
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from dynamo.aot.errors import CHANGED, UNSEEN_GRADIENT
from dynamo.aot.facts import Facts
from dynamo.aot.plan import Plan
from dynamo.fake.standins import plain_shapes
from dynamo.graph.helpers import checkpoint, checkpoint_again
from dynamo.graph.rescue import Generators
from dynamo.surroundings.kernel_warnings import Kept
from dynamo.surroundings.modes import autocast_nesting, open_blocks, snapshot

Tensor = torch.Tensor
_KEPT_BYTES = 1 << 16  # of tensors that a graph reads and then writes: copies of their old values, made at every call, hardly show
_CHANGES = "it changes a tensor that needs a gradient"
_WRITES = frozenset({"setitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul", "iand", "ior", "ixor"})
_BATCHED_GRADIENTS: Any = torch._C._parse_dispatch_key("VmapMode")  # `autograd.grad(..., is_grads_batched=True)` has a vmap of its own


def is_wanted() -> bool:
    """Whether somebody must see the operations of the backward pass that is about to run."""
    return (
        torch.is_grad_enabled()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._are_functorch_transforms_active()
        or torch._C._dispatch_tls_is_dispatch_key_included(_BATCHED_GRADIENTS)
        or getattr(torch.autograd.forward_ad, "_current_level", -1) >= 0
    )


def unchanged(t: Tensor, version: int) -> Tensor:
    """The tensor, if nothing was written to it since it had that version."""
    if version_of(t) != version:
        raise RuntimeError(was_changed(t, version))
    return t


def was_changed(t: Tensor, version: int) -> str:
    """What autograd says of a tensor that it has saved with another version."""
    return CHANGED.format(f"[{t.type()} {list(t.shape)}]", version_of(t), version)


def version_of(t: Tensor) -> int:
    """How often it was written to; inference tensors count nothing."""
    return 0 if t.is_inference() else t._version


def saved_of(graph: Any, grads: Sequence[Any]) -> Sequence[Tensor]:
    """What the forward of a call has saved: what derivatives of results with a gradient read must be unchanged, as in eager."""
    if graph.aside is None:
        try:
            return graph.saved_tensors
        except RuntimeError as error:
            if not _is_about_versions(graph, error):
                raise
    return [t if isinstance(t, Tensor) else t() for t, _ in _checked(graph, grads)]


def _checked(graph: Any, grads: Sequence[Any]) -> list[tuple[Any, int]]:
    """As `kept_of`, if what derivatives of results with a gradient read is unchanged."""
    given, kept = given_of(grads), kept_of(graph)
    for readers, (t, version) in zip(graph.readers, kept, strict=True):
        if (readers & given or graph.versions is None) and isinstance(t, Tensor):
            unchanged(t, version)
    return kept


def given_of(grads: Sequence[Any]) -> int:
    """The results with a gradient, a bit for each."""
    return sum(1 << i for i, grad in enumerate(grads) if grad is not None)


def kept_of(graph: Any) -> list[tuple[Any, int]]:
    """What the forward of a call has saved, with the versions of then, also after passes that met it without a gradient (`set_aside`).

    What no pass to come reads is a function that makes something like it.
    """
    if isinstance(graph.aside, RuntimeError):
        raise graph.aside
    if graph.aside is not None:
        return graph.aside
    try:
        return [(t, version_of(t)) for t in graph.saved_tensors]
    except RuntimeError as error:
        if not _is_about_versions(graph, error):
            raise
        return list(zip([saved.data for saved in graph._raw_saved_tensors], graph.versions, strict=True))


def _is_about_versions(graph: Any, error: RuntimeError) -> bool:
    """Whether autograd refuses since something it has saved was written to, which not every derivative may read."""
    return graph.versions is not None and CHANGED[:60] in str(error)


def set_aside(graph: Any) -> None:
    """Before autograd frees what a call has saved, in a pass that met it without a gradient for it: in eager it isn't met at all."""
    if graph.aside is None:
        try:
            with _disable_current_modes():
                # a result would hold its own node of autograd; what is detached counts the same writes
                graph.aside = [(t.detach() if t.grad_fn is graph else t, version) for t, version in kept_of(graph)]
        except RuntimeError as error:  # changed, or freed before: the next gradient is told
            graph.aside = error.with_traceback(None)


class Again:
    """One captured graph, and how its inputs are found among the primals of the compiled one.

    `inputs` are examples of the graph's arguments; nothing of them is kept but what written ones look like. Modes are those of now.
    """

    def __init__(self, gm: GraphModule, facts: Facts, held: Sequence[Tensor], inputs: Sequence[Any]) -> None:
        self.gm = gm
        self.facts = facts
        self.held = held
        self.generators = Generators(vars(gm).values())
        self.at_entry = snapshot()
        self.written = frozenset((*facts.written, *facts.returned))
        self.relaid = frozenset(index for index, *_ in facts.relaid)
        self.reason = _obstacle(facts, held, inputs)
        ids = [id(i) for i in inputs]
        arguments = {index: p for p, (kind, index) in enumerate(facts.primals) if kind == "argument"}
        holds = {id(held[index]): p for p, (kind, index) in enumerate(facts.primals) if kind == "held"}
        self.arguments: list[Any] = []  # per argument of the graph: its primal, or the constant
        for i, value in enumerate(inputs):
            place = arguments.get(ids.index(ids[i]), holds.get(ids[i]))
            if isinstance(value, Tensor) and place is None:
                self.reason = self.reason or "an argument has no place of its own among its inputs"
            self.arguments.append(place if isinstance(value, Tensor) else [value])
        self._last: dict[int, Node | None] | None = None
        self.overwritten = () if self.reason else facts.read_before_written
        self._extras = self.extras()
        self._kept = [*self._extras, *self.overwritten]
        self.layouts = {p: _layout(inputs[facts.primals[p][1]]) for p in self.written if facts.primals[p][0] == "argument"}

    def extras(self) -> list[int]:
        """The primals that the forward must keep besides those that the compiled backward reads."""
        if self.reason:
            return []
        return [p for p in range(len(self.facts.primals)) if p not in self.facts.saved_primals and p not in self.written]

    def obstacle(self, graph: Any) -> str:
        """Why a call, given as its node of autograd, can't be differentiated here; '' if it can."""
        if self.facts.returned and torch.is_grad_enabled():
            return _CHANGES  # what was kept of the tensor has no history
        return self.reason or ("its backward has run without retain_graph" if self._kept and graph.extras is None else "")

    def _saved(self, graph: Any, grads: Sequence[Any]) -> tuple[dict[int, Tensor], list[Tensor] | None]:
        """What the forward of a call has kept: primals, and the states of generators before it. Derivatives from `grads` are wanted."""
        kept, given = self._kept_primals(graph, _checked(graph, grads)), given_of(grads)
        saved = {p: unchanged(t, version) if self.facts.depending[p] & given else t for p, (t, version) in kept}
        return saved, graph.random_states if self.facts.draws else None

    def _kept_primals(self, graph: Any, kept: list[tuple[Any, int]]) -> list[tuple[int, tuple[Tensor, int]]]:
        return [*zip(self.facts.saved_primals, kept, strict=False), *zip(self._kept, graph.extras if self._kept else (), strict=True)]

    def is_written_since(self, graph: Any, grads: Sequence[Any]) -> bool:
        """Whether derivatives from `grads` depend on a primal that was written to."""
        given = given_of(grads)
        return any(self.facts.depending[p] & given and version_of(t) != v for p, (t, v) in self._kept_primals(graph, kept_of(graph)))

    def gradients(self, graph: Any, grads: Sequence[Any]) -> list[Any]:
        """The gradient of each primal (None where there is none), with history if gradients are enabled."""
        nodes = self._nodes_behind(grads)
        saved, random_states = self._saved(graph, grads)
        primals = self._primals(saved)
        with self._as_at_entry(random_states):
            written = self._own_copies(primals)
            values = self._run(primals | written, _Substituting(self.gm, nodes=nodes))
            ends = self._ends(values, written)
        return Pieces(self.facts, primals, ends, {}).behind(range(len(ends)), grads, ())[1]

    def _nodes_behind(self, grads: Sequence[Any]) -> set[Node] | None:
        """The nodes that results with a gradient are computed from. None: all, since some write to what others read, or draw."""
        nodes = list(self.gm.graph.nodes)
        values = list(tree_leaves(nodes[-1].args[0]))
        if self.facts.draws or self.written or self.relaid or len(values) != len(self.facts.outputs) or any(_writes(n) for n in nodes):
            return None
        todo = [v for v, o in zip(values, self.facts.outputs, strict=True) if o.kind == "graph" and grads[o.index] is not None]
        todo += [n for n in nodes if not n.users]  # modes
        found: set[Node] = set()
        while todo:
            node = todo.pop()
            if node not in found:
                found.add(node)
                todo += node.all_input_nodes if node.op != "output" else ()
        return found

    def in_pieces(self, graph: Any, plan: Plan) -> Pieces:
        """The graph, run, and cut at the results that other results are computed from."""
        saved, random_states = self._saved(graph, range(self.facts.results))
        cuts: dict[Node, tuple[Any, Any]] = dict.fromkeys(plan.cuts, (None, None))
        if torch.is_grad_enabled():
            # the values at the cuts need a history of their own, apart from that of what is behind them
            with self._as_at_entry(random_states):
                values = self._run(self._primals(saved), _Substituting(self.gm))
            cuts = {node: (None, value) for node, value in zip(plan.nodes, values, strict=True) if node in cuts}
        primals = self._primals(saved)
        last = self._last_writes(saved, random_states) if plan.written else {}
        with self._as_at_entry(random_states):
            written = self._own_copies(primals)
            ended = {p: _Written(written[i], last[i]) for p, i in plan.written.items()}
            values = self._run(primals | written, _Substituting(self.gm, cuts, written=ended.values()))
        before = [cuts[node][0] if node in cuts else value for node, value in zip(plan.nodes, values, strict=True)]
        behind = {p: values[p] for p, node in enumerate(plan.nodes) if node in cuts} | {p: w.behind for p, w in ended.items()}
        return Pieces(self.facts, primals, self._ends(before, written), behind)

    def _last_writes(self, saved: dict[int, Tensor], random_states: list[Tensor] | None) -> dict[int, Node | None]:
        """Per primal that gets a new history, the node that writes to it last: found by running the graph, once for all calls."""
        if self._last is None:
            primals = self._primals(saved)
            with self._as_at_entry(random_states):
                written = {p: _Written(t) for p, t in self._own_copies(primals).items()}
                self._run(primals | {p: w.tensor for p, w in written.items()}, _Substituting(self.gm, written=written.values()))
            self._last = {p: w.wrote for p, w in written.items()}
        return self._last

    def _own_copies(self, primals: dict[int, Tensor]) -> dict[int, Tensor]:
        """What the graph gets for primals that it gives a new history: no leaves, and not what gradients are wanted for."""
        with _disable_current_modes(), torch.enable_grad():
            return {p: primals[p].clone() for p in self.facts.returned}

    def _primals(self, saved: dict[int, Tensor]) -> dict[int, Tensor]:
        with _disable_current_modes():  # the program's are not to see this
            return self._on_their_own(saved)

    def _on_their_own(self, saved: dict[int, Tensor]) -> dict[int, Tensor]:
        primals = {p: self._unwritten(p) for p in self.written} | saved
        primals |= {p: primals[p].clone() for p in self.overwritten} | {p: primals[p].detach() for p in self.relaid}
        is_last = not torch.is_grad_enabled() and torch._C._functorch.maybe_current_level() is None  # transforms make no leaves
        with torch.enable_grad():
            for p in self.facts.wanted:  # the graph may also get what was computed from it: each stands for itself
                primal = primals[p]
                # autocast keeps one cast per leaf, whose gradients are added in its dtype
                is_cast_once = is_last and primal.is_leaf and not primal._is_view()
                primals[p] = primal.detach().requires_grad_() if is_cast_once else primal.view_as(primal)
        return primals

    def _unwritten(self, primal: int) -> Tensor:
        """In place of a tensor that the graph writes before anything reads it."""
        kind, index = self.facts.primals[primal]
        if kind == "held":
            return self.held[index].detach().clone()
        shape, strides, dtype, device = self.layouts[primal]
        return torch.empty_strided(shape, strides, dtype=dtype, device=device).zero_()

    def _run(self, primals: dict[int, Tensor], run: _Substituting) -> list[Any]:
        run.held = {id(self.held[i]): primals[p] for p, (kind, i) in enumerate(self.facts.primals) if kind == "held"}
        args = [a[0] if isinstance(a, list) else primals[a] for a in self.arguments]
        with Kept():  # what its operators warn of was said when the program called them
            return list(tree_leaves(run.run(*args)))

    def _ends(self, outputs: list[Any], written: dict[int, Tensor]) -> list[Tensor | None]:
        """Per result of the compiled graph, the tensor that has its history. The last are the new values of what was `written`."""
        last = [t if t.requires_grad else None for t in written.values()]
        ends: list[Tensor | None] = [*[None] * (self.facts.results - len(last)), *last]
        for value, output in sorted(zip(outputs, self.facts.outputs, strict=True), key=lambda pair: len(pair[1].steps)):
            if output.kind == "graph" and isinstance(value, Tensor) and value.requires_grad and ends[output.index] is None:
                ends[output.index] = value if not output.steps else value._base
        return ends

    @contextmanager
    def _as_at_entry(self, random_states: list[Tensor] | None) -> Iterator[None]:
        now, states = snapshot(), self.generators.states() if random_states is not None else None
        with _disable_current_modes():
            try:
                self.at_entry(open_blocks())
                if random_states is not None:
                    self.generators.put_back(random_states)
                yield
            finally:
                now()
                if not autocast_nesting():
                    torch.clear_autocast_cache()  # as blocks do when they end
                if states is not None:
                    self.generators.put_back(states)


class Pieces:
    """A graph that has run in eager: primals, the tensor with the history of each result, and the outputs where it is cut."""

    def __init__(self, facts: Facts, primals: dict[int, Tensor], ends: list[Tensor | None], cuts: dict[int, Tensor]) -> None:
        self.facts, self.primals, self.ends, self.cuts = facts, primals, ends, cuts

    def behind(self, results: Sequence[int], grads: Sequence[Any], outputs: Sequence[int]) -> tuple[list[Any], list[Any]]:
        """From gradients of results: those of outputs where the graph is cut, and per primal those that come through no cut."""
        direct: list[Any] = [None] * len(self.facts.primals)
        wanted = self.facts.wanted
        pairs = [
            (end, grad) for end, grad in zip([self.ends[r] for r in results], grads, strict=True) if end is not None and grad is not None
        ]
        if not pairs:
            return [None] * len(outputs), direct
        ends, given = zip(*pairs, strict=True)
        inputs = [self.cuts[p] for p in outputs] + [self.primals[p] for p in wanted]
        create = torch.is_grad_enabled()
        with torch.enable_grad(), plain_shapes(only_shapes=True):  # `grad` asks about the shapes of what it is given
            found = torch.autograd.grad(ends, inputs, given, create or bool(self.cuts), create, allow_unused=True)
        for p, g in zip(wanted, found[len(outputs) :], strict=True):
            direct[p] = g
        return list(found[: len(outputs)]), direct


class _Written:
    """A tensor that a graph writes to. Behind the node `last` it is another one, with no history: `behind`."""

    def __init__(self, tensor: Tensor, last: Node | None = None) -> None:
        self.tensor, self.last = tensor, last
        self.version = tensor._version
        self.wrote: Node | None = None  # the last node by now that wrote to it
        self.behind = tensor.detach().requires_grad_()

    def replaced(self, value: Any) -> Any:
        return tree_map_only(Tensor, lambda t: self.behind if t is self.tensor else t, value)


class _Substituting(Interpreter):
    """Runs a graph with other tensors in place of those it holds. `cuts`: per node its value, and another to go on with.

    `nodes`: the only ones to run.
    """

    def __init__(
        self,
        gm: GraphModule,
        cuts: dict[Node, tuple[Any, Any]] | None = None,
        nodes: Container[Node] | None = None,
        written: Iterable[_Written] = (),
    ) -> None:
        super().__init__(gm)
        self.extra_traceback = False  # what the program raises is told as it is
        self.held: dict[int, Tensor] = {}
        self.cuts = cuts or {}
        self.nodes = nodes
        self.written = [*written]

    def run_node(self, n: Node) -> Any:
        if self.nodes is not None and n not in self.nodes and n.op != "placeholder":
            return None
        value = super().run_node(n)
        for w in self.written:
            if w.tensor._version != w.version:
                w.version, w.wrote = w.tensor._version, n
                if n is w.last:
                    value = self._cut_behind(w, n, value)
        if n not in self.cuts:
            return value
        other = self.cuts[n][1]
        self.cuts[n] = value, None
        if other is None:
            return value.detach().requires_grad_()
        with torch.enable_grad():
            return other.view_as(other)

    def _cut_behind(self, written: _Written, n: Node, value: Any) -> Any:
        memory, done = written.tensor.untyped_storage()._cdata, self.user_to_last_uses.get(n, ())
        read_later = [v for node, v in (*self.env.items(), (n, value)) if node.users and node not in done]
        others = (t for t in tree_leaves(read_later) if isinstance(t, Tensor) and t is not written.tensor)
        if any(t.untyped_storage()._cdata == memory for t in others):
            raise RuntimeError(UNSEEN_GRADIENT.format("it reads a view of a tensor that it has changed since"))
        self.env = {node: written.replaced(v) for node, v in self.env.items()}
        return written.replaced(value)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super().call_function(checkpoint_again if target is checkpoint else target, args, kwargs)

    def fetch_attr(self, target: str) -> Any:
        value = super().fetch_attr(target)
        return self.held.get(id(value), value) if isinstance(value, Tensor) else value


def _writes(node: Node) -> bool:
    """May it write to a tensor? Rather yes than no."""
    if node.op not in ("call_function", "call_method"):
        return node.op == "call_module"
    target: Any = node.target
    name = str(getattr(target, "__name__", target))
    in_place = name.rstrip("_") + "_" == name or name in _WRITES or "out" in node.kwargs
    may_be = getattr(target, "__module__", "") == "torch.nn.functional" and any(a is True for a in (*node.args, *node.kwargs.values()))
    return in_place or may_be or bool(getattr(getattr(target, "_schema", None), "is_mutable", False))


def _layout(t: Tensor) -> tuple[Any, ...]:
    return tuple(t.shape), t.stride(), t.dtype, t.device


def _obstacle(facts: Facts, held: Sequence[Tensor], inputs: Sequence[Any]) -> str:
    kept = {*facts.read_before_written}.difference(facts.returned)
    if kept.union(index for index, *_ in facts.relaid) & {*facts.wanted}:
        return _CHANGES
    places = [facts.primals[p] for p in facts.read_before_written]
    if sum((held if kind == "held" else inputs)[index].nbytes for kind, index in places) > _KEPT_BYTES:
        return "it changes a large tensor after reading it"
    return ""
