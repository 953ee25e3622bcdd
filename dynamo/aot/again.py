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

from dynamo.aot.errors import CHANGED
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
        self._last: dict[Node, Node] | None = None  # see `_Recording`
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
            values = self._run(primals | written, _Substituting(self.gm, nodes))
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
        is_whole = torch.is_grad_enabled()  # the values at the cuts need a history of their own, apart from that of what is behind them
        whole = self._recorded(plan, saved, random_states).values if is_whole or self._last is None else {}
        primals = self._primals(saved)
        cuts = {node: _Cut(whole[node] if is_whole else None) for node in plan.cuts.values()}
        with self._as_at_entry(random_states):
            written = self._own_copies(primals)
            values = self._run(primals | written, _Cutting(self.gm, cuts, self._last or {}))
        before = {id(cut.behind): cut.value for cut in cuts.values()}
        ends = self._ends([before.get(id(value), value) for value in values], written)
        return Pieces(self.facts, primals, ends, {p: cuts[node].behind for p, node in plan.cuts.items()})

    def _recorded(self, plan: Plan, saved: dict[int, Tensor], random_states: list[Tensor] | None) -> _Recording:
        """The graph, run whole. It tells for all calls which nodes give the values at the cuts their history."""
        run = _Recording(self.gm, plan.cuts.values())
        primals = self._primals(saved)
        with self._as_at_entry(random_states):
            self._run(primals | self._own_copies(primals), run)
        self._last = run.last
        return run

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


class _Substituting(Interpreter):
    """Runs a graph with other tensors in place of those it holds. `nodes`: the only ones to run."""

    def __init__(self, gm: GraphModule, nodes: Container[Node] | None = None) -> None:
        super().__init__(gm)
        self.extra_traceback = False  # what the program raises is told as it is
        self.held: dict[int, Tensor] = {}
        self.nodes = nodes

    def run_node(self, n: Node) -> Any:
        if self.nodes is not None and n not in self.nodes and n.op != "placeholder":
            return None
        return super().run_node(n)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super().call_function(checkpoint_again if target is checkpoint else target, args, kwargs)

    def fetch_attr(self, target: str) -> Any:
        value = super().fetch_attr(target)
        return self.held.get(id(value), value) if isinstance(value, Tensor) else value


class _Recording(_Substituting):
    """Runs a graph and keeps the values of some nodes. `last`: per such node, the one that gives its value another history last, or itself.

    That is a write to it; to what it is a view of, also one that autograd does not record; or a write to a view of it.
    """

    def __init__(self, gm: GraphModule, kept: Iterable[Node]) -> None:
        super().__init__(gm)
        self.kept = frozenset(kept)
        self.values: dict[Node, Tensor] = {}
        self.last: dict[Node, Node] = {}
        self._histories: dict[Node, Any] = {}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n in self.kept:
            self.values[n] = value
        with torch.enable_grad():  # the new history of a view is made when it is asked for
            for node, t in self.values.items():
                if node not in self.last or t.grad_fn is not self._histories[node]:
                    self.last[node], self._histories[node] = n, t.grad_fn
        return value


class _Cut:
    """At the `value` of a node. Behind, a tensor with its memory stands for it, which has the history of `other`, or none."""

    def __init__(self, other: Tensor | None) -> None:
        self.other = other
        self.value: Any = None
        self.behind: Any = None

    def make(self) -> Tensor:
        self.behind = self.value.detach().requires_grad_() if self.other is None else _with_history(self.other, self.value)
        return self.behind


class _WithHistory(torch.autograd.Function):
    """The second of two equal tensors, with the history of the first."""

    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor) -> Tensor:
        return second.detach()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, None


_with_history = super(torch.autograd.Function, _WithHistory).apply  # without a look for transforms, in which it is called too


class _Cutting(_Substituting):
    """Runs a graph, cut behind the node that gives the value of a cut its history: what reads it later reads what stands there."""

    def __init__(self, gm: GraphModule, cuts: dict[Node, _Cut], last: dict[Node, Node]) -> None:
        super().__init__(gm)
        self.cuts = cuts
        self.ending: dict[Node, list[_Cut]] = {}
        for node, cut in cuts.items():
            self.ending.setdefault(last.get(node, node), []).append(cut)

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n in self.cuts:
            self.cuts[n].value = value
        if n not in self.ending:
            return value
        with torch.enable_grad():
            behind = {id(cut.value): cut.make() for cut in self.ending[n]}
            self.env, value = tree_map_only(Tensor, lambda t: _standing_for(t, behind), (self.env, value))
        return value


def _standing_for(t: Any, behind: dict[int, Tensor]) -> Any:
    """What stands for a tensor behind a cut. `behind`: by the id of the value there. Its views are made anew, as after any write to it."""
    try:
        base = t._base if id(t) not in behind and t.grad_fn is not None else None
    except RuntimeError:  # a view that autograd does not make anew, and nothing reads
        return t
    if base is not None and id(base) in behind:
        behind[id(t)] = t._view_func(behind[id(base)])
    return behind.get(id(t), t)


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
