"""What the results of one graph share of what autograd saved: which of them can't be differentiated after another one was."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, reduce
from operator import or_
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction
from torch.fx import Node
from torch.utils._python_dispatch import _disable_current_modes

from dynamo.aot.again import version_of, was_changed
from dynamo.aot.errors import WRITTEN_SINCE, AotError
from dynamo.fake import FakeMode, FakeTensor
from dynamo.surroundings.locks import Lock

_REFUSED = object()

_Ctx: Any = BackwardCFunction
_lock = Lock()  # of its attributes


def freed(ends: Iterable[torch.Tensor]) -> tuple[int, ...]:
    """Per result, those that autograd can't differentiate any more once it has differentiated this one without keeping the graph.

    In eager these are the results behind which is an operation that has saved a tensor and was passed on the way.
    """
    ends = list(ends)
    reached = _reached(ends)
    together = {reached[node] for node in _saving(reached)}
    return tuple(reduce(or_, (mask for mask in together if mask >> i & 1), 0) for i in range(len(ends)))


def arriving(ends: Iterable[torch.Tensor], leaves: Iterable[torch.Tensor], checkpoints: Iterable[Checkpoint] = ()) -> tuple[int, ...]:
    """Per leaf the results from which autograd gets to it, a bit for each."""
    reached = _reached(ends)
    through = _through(checkpoints, reached, lambda checkpoint: checkpoint.before)
    with _looking():  # a graph may end in inference mode, and there leaves have no edges
        starts = [_start(leaf) for leaf in leaves]
    return tuple(reached.get(start, 0) | through.get(start, 0) for start in starts)


def regions(
    ends: Iterable[torch.Tensor], leaves: Iterable[torch.Tensor], checkpoints: Sequence[Checkpoint]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Per leaf the results whose passes get to it by a re-entrant checkpoint, and those whose passes give it zeros that way.

    Such a checkpoint is one node, which gets zeros for results that have no gradient, and gives some for what it computes from.
    """
    if not any(checkpoint.reentrant for checkpoint in checkpoints):
        return (), ()
    reached = _reached(ends)
    given = _through(checkpoints, reached, lambda checkpoint: checkpoint.before)
    used = _through(checkpoints, reached, lambda checkpoint: [n for node in checkpoint.nodes for n, _ in node.next_functions])
    with _looking():
        starts = [_start(leaf) for leaf in leaves]
    return tuple(given.get(start, 0) for start in starts), tuple(used.get(start, 0) for start in starts)


def _through(checkpoints: Iterable[Checkpoint], reached: dict[Any, int], edges: Callable[[Checkpoint], Iterable[Any]]) -> dict[Any, int]:
    """The nodes behind re-entrant checkpoints, with the ends whose passes get there if each is one node with these edges."""
    found: dict[Any, int] = {}
    for checkpoint in reversed([c for c in checkpoints if c.reentrant]):
        mask = checkpoint.asking(reached) | reduce(or_, (found.get(node, 0) for node in checkpoint.nodes), 0)
        for node in _behind(node for node in edges(checkpoint) if node not in checkpoint.nodes):
            found[node] = found.get(node, 0) | mask
    return found


def gives_zeros(ends: Iterable[torch.Tensor]) -> bool:
    """Whether an `autograd.Function` of several results lies behind these: it gets zeros for gradients that are missing, and gives more."""
    return any(len(node._input_metadata) > 1 for node in _reached(ends) if hasattr(node, "_raw_saved_tensors"))


def _start(leaf: torch.Tensor) -> Any:
    """The node of autograd that adds to the gradient of a leaf, or that has made a tensor that is none."""
    if not leaf.is_inference():
        return torch.autograd.graph.get_gradient_edge(leaf).node
    beside = torch.empty_like(leaf).requires_grad_()  # alone no inference tensor gets a history
    joined: Any = torch.add(beside, leaf).grad_fn
    return joined.next_functions[1][0]


def meeting(ends: Iterable[torch.Tensor], makers: Iterable[tuple[Node, Any]]) -> dict[Node, int]:
    """Per call of a backward pass the results from which autograd gets to the node that it was made for, a bit for each."""
    reached = _reached(ends)
    return {call: reached.get(maker, 0) for call, maker in makers}


def nearest(outputs: Mapping[int, torch.Tensor], ends: Sequence[torch.Tensor | None], checkpoints: Iterable[Checkpoint]) -> tuple[int, ...]:
    """Per end, where it is one, the outputs that autograd meets first on its way from there to the leaves; by number, a bit for each.

    A tensor that was written to has the history of what was written last, and a view of it is made anew of that: it is met by what was
    computed from it since. A re-entrant checkpoint is one node, which leads to nothing inside.
    """
    group = {node: checkpoint for checkpoint in checkpoints if checkpoint.reentrant for node in checkpoint.nodes}  # the outermost
    exits: dict[Any, list[Any]] = {}
    for node, checkpoint in group.items():
        exits.setdefault(checkpoint, []).extend(edge for edge in node.next_functions if group.get(edge[0]) is not checkpoint)
    with _looking():
        bits: dict[Any, int] = {}
        for p, value in outputs.items():
            if edge := _edge(value):
                bits.setdefault(edge, 1 << p)
        starts = [_edge(end) if end is not None else None for end in ends]

    def edges(node: Any) -> Iterable[Any]:
        return exits[group[node]] if node in group else node.next_functions

    met: dict[Any, int] = {}
    for node in _behind((start[0] for start in starts if start is not None), lambda node: (before for before, _ in edges(node))):
        met[node] = reduce(or_, (bits.get(edge) or met.get(edge[0], 0) for edge in edges(node)), 0)
    return tuple(met[start[0]] if start is not None else 0 for start in starts)


def _edge(value: torch.Tensor) -> tuple[Any, int] | None:
    """Where its gradient arrives. None: it has no history, or one that autograd refuses to tell, of a view whose memory was written."""
    try:
        return (value.grad_fn, value.output_nr) if value.grad_fn is not None else None
    except RuntimeError:
        return None


@contextmanager
def reading() -> Iterator[set[Any]]:
    """The nodes of `autograd.Function`s whose `backward` asks, while this block runs, for what they have saved."""
    found: set[Any] = set()

    def noted(saved: Any) -> property:
        def get(ctx: Any) -> Any:
            found.add(ctx)
            return saved.__get__(ctx)

        return property(get)

    with _lock:
        own = {name: vars(_Ctx).get(name) for name in ("saved_tensors", "saved_variables")}
        for name in own:
            setattr(_Ctx, name, noted(getattr(_Ctx, name)))
        try:
            yield found
        finally:
            for name, before in own.items():
                if before is None:
                    delattr(_Ctx, name)
                else:
                    setattr(_Ctx, name, before)


def saved(
    ends: Iterable[torch.Tensor], made: Iterable[Any], read: Container[Any], checkpoints: Sequence[Checkpoint] = ()
) -> dict[Any, int]:
    """Roots of what autograd has saved, as tracks of the trace, with the results behind which that is, a bit for each.

    Some nodes save what only a gradient that nobody needs is computed from, and ask for it all the same; an `autograd.Function` does so
    if it is among those `read`. What a node has saved of its own results comes without a track: it is looked for among `made`, the roots
    of what the graph returns.
    """
    reached, inside = _reached(ends), set().union(*(checkpoint.nodes for checkpoint in checkpoints))
    asking = [node for node in reached if node not in inside and (node in read or not hasattr(node, "_raw_saved_tensors"))]
    found: dict[Any, int] = {}
    with _looking():
        results = {(root.fake.grad_fn, root.fake.output_nr): root for root in made if root.fake.grad_fn is not None}
        for node in asking:
            for t in _saved_of(node):
                root = t.track.root if hasattr(t, "track") else results.get((t.grad_fn, t.output_nr))
                if root is not None:
                    found[root] = found.get(root, 0) | reached[node]
    for checkpoint in checkpoints:
        for t, _ in checkpoint.kept:
            found[t.track.root] = found.get(t.track.root, 0) | checkpoint.asking(reached)
    return {root: mask for root, mask in found.items() if mask}


def lost(ends: Iterable[torch.Tensor], checkpoints: Iterable[Checkpoint]) -> dict[int, str]:
    """The ends, by number, whose passes ask for an argument of a checkpoint that the program wrote to later; what they raise."""
    ends = list(ends)
    reached = _reached(ends)
    found: dict[int, str] = {}
    for checkpoint in checkpoints:
        written = [(t, version) for t, version in checkpoint.kept if version_of(t) != version]
        asking = checkpoint.asking(reached) if written else 0
        for i in range(len(ends)):
            if asking >> i & 1 and i not in found:
                found[i] = was_changed(*written[0])
    return found


class Checkpoint:
    """What a checkpointed region keeps: its tensor arguments as they are before it runs, in order to run again in the backward pass.

    A region inside another one gets its arguments anew from that. A re-entrant one is one operation of autograd that saves them; any
    other asks for them where the pass needs a tensor that was saved inside. Numbers that are saved there aren't given to hooks.
    """

    def __init__(self, tensors: Sequence[Any], given: int, reentrant: bool, outer: bool) -> None:
        self.kept = [] if outer else [(t, version_of(t)) for t in tensors[:given] if isinstance(t, FakeTensor)]
        self.reentrant = reentrant
        self.before = [*_starts(tensors), *_leaves(tensors)]
        self.nodes: set[Any] = set()

    def close(self, results: Iterable[Any]) -> None:
        """The region ends with these results: its operations are what lies between its arguments and them."""
        nodes = set(_behind(_starts(results))).difference(_behind(self.before))
        self.nodes = nodes if self.reentrant else _saving(nodes, numbers=False)

    def asking(self, reached: dict[Any, int]) -> int:
        """The ends, as bits, whose passes run the region again."""
        return reduce(or_, (reached.get(node, 0) for node in self.nodes), 0)


def _starts(tensors: Iterable[Any]) -> list[Any]:
    with _disable_current_modes():  # autograd makes the history of a written view again, which is no part of the program
        return [t.grad_fn for t in tensors if isinstance(t, torch.Tensor) and t.grad_fn is not None]


def _leaves(tensors: Iterable[Any]) -> list[Any]:
    with _looking():
        return [_start(t) for t in tensors if isinstance(t, torch.Tensor) and t.requires_grad and t.is_leaf and not t._is_view()]


def _saved_of(node: Any) -> Iterator[Any]:
    kind: Any = type(node)
    names = ("saved_tensors",) if hasattr(node, "_raw_saved_tensors") else _saved_names(kind)  # the former of an `autograd.Function`
    for name in names:
        value = _saved_value(node, name)
        yield from (t for t in (value if isinstance(value, tuple) else (value,)) if isinstance(t, torch.Tensor))


def _reached(ends: Iterable[torch.Tensor]) -> dict[Any, int]:
    """The nodes of autograd from the ends to the leaves, each with the ends that it lies behind, a bit for each."""
    starts = [end.grad_fn for end in ends]
    found: dict[Any, int] = {}
    for i, start in enumerate(starts):
        found[start] = found.get(start, 0) | 1 << i
    for node in reversed(_behind(starts)):
        for before, _ in node.next_functions:
            if before is not None:
                found[before] = found.get(before, 0) | found[node]
    return found


def _next(node: Any) -> Iterable[Any]:
    return (before for before, _ in node.next_functions)


def _behind(starts: Iterable[Any], following: Callable[[Any], Iterable[Any]] = _next) -> list[Any]:
    """The nodes of autograd from here to the leaves, each after those that lie behind it."""
    found: list[Any] = []
    seen: set[Any] = set()
    todo = [(start, False) for start in starts]
    while todo:
        node, is_last = todo.pop()
        if is_last:
            found.append(node)
        elif node is not None and node not in seen:
            seen.add(node)
            todo.append((node, True))
            todo += [(before, False) for before in following(node)]
    return found


def _saving(nodes: Iterable[Any], numbers: bool = True) -> set[Any]:
    """Those of some nodes of autograd that have saved tensors, of which some are `numbers` of the program: `x * 2` saves the 2."""
    with _looking():
        return {node for node in nodes if _has_saved(node, numbers)}


@contextmanager
def _looking() -> Iterator[None]:
    """Autograd makes what is looked at here: a saved tensor that is a result, and the history of a view whose memory was written.

    None of that is part of the program. Backward passes find such histories made: they are run without gradients, where none can be.
    """
    with _disable_current_modes(), FakeMode(), torch.inference_mode(False), torch.enable_grad():
        yield


def _has_saved(node: Any, numbers: bool) -> bool:
    if hasattr(node, "_raw_saved_tensors"):  # of an `autograd.Function`
        return len(node._raw_saved_tensors) > 0
    kind: Any = type(node)
    if kind.__name__ == "CopySlices":  # a write to a view: it drops the operation that wrote, whatever that has saved
        return True
    values = [_saved_value(node, name) for name in _saved_names(kind)]  # all of them, see `_looking`
    return any(value is not None and (numbers or type(value) is not torch.Tensor or value.dim()) for value in values)


def _saved_value(node: Any, name: str) -> Any:
    """What a node has saved. `_REFUSED`: autograd doesn't give it, since it was written to."""
    try:
        return getattr(node, name)
    except RuntimeError as error:
        if not any(words in str(error) for words in WRITTEN_SINCE):
            # eager makes the new history of the view from its strides, fakes do from the steps to it: there may be none, or no such view
            raise AotError(f"a pass reads a view whose memory was written, and which can't be made again: {error}") from error
        return _REFUSED


@cache
def _saved_names(kind: Any) -> tuple[str, ...]:
    """The attributes with saved tensors; other numbers that a node keeps aren't freed."""
    return tuple(name.removeprefix("_raw") for name in dir(kind) if name.startswith("_raw_saved_"))
