"""What the runtime wrapper must know of a traced program. Plain values only, so that they can be kept on disk.

The tensors a program holds (parameters, buffers) are named by the path of the attribute that has them in the captured graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils._pytree import TreeSpec

# In which autograd makes a view. Of what a view of a view is made in, it counts the last of these; it refuses writes to all but the first.
MODES = GRAD, NO_GRAD, INFERENCE = "grad", "no_grad", "inference"


def ambient_mode() -> str:
    return INFERENCE if torch.is_inference_mode_enabled() else GRAD if torch.is_grad_enabled() else NO_GRAD


@contextmanager
def in_mode(mode: str) -> Iterator[None]:
    is_other = torch.is_inference_mode_enabled() != (mode == INFERENCE)
    with torch.inference_mode(mode == INFERENCE) if is_other else nullcontext(), torch.set_grad_enabled(mode == GRAD):
        yield


@dataclass(frozen=True, slots=True)
class Step:
    """One view op, everything but its first argument fixed.

    `among`: the program made the view as one of several (`unbind`, `split`), and autograd refuses writes to those.
    `hidden`: the operator hides from autograd that it gives a view (`_unsafe_view`).
    `own_count`: what `.data` gives, which counts writes by itself.
    `mode`: the view is from that mode, and what is made of it has a history: gradients of that go no further than this. "" otherwise.
    """

    op: Any
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()
    among: bool = False
    hidden: bool = False
    own_count: bool = False
    mode: str = ""

    @property
    def is_apart(self) -> bool:
        """Does autograd not know the result as a view? Then a write to either is not in the other's history."""
        return self.hidden or self.op is torch.ops.aten.detach.default

    def __call__(self, x: Any) -> Any:
        if self.mode:
            with in_mode(self.mode):
                return self._view(x)
        return self._view(x)

    def _view(self, x: Any) -> Any:
        if self.own_count:
            return x.data
        if not self.among:
            return self.op(x, *self.args, **dict(self.kwargs))
        dim, at = self.args[:2]
        if self.op is torch.ops.aten.select.int:
            return x.narrow(dim, at, 1).unbind(dim)[0]
        part = self.op(x, *self.args)
        return part.split(part.shape[dim], dim)[0]


@dataclass(frozen=True, slots=True)
class Output:
    """One result for the caller. kind: constant (value), input (source `index` itself), graph (output `index` of the graph).

    `steps` make a view of that; `tracked` tells whether the view has history, `mode` in which mode it is to be made. A `stale` view was
    made before a write to its base, in such a way (under `no_grad`, of a leaf that is a view itself, of what needs no gradient) that its
    history is not what it would be after the write. `is_closed`: a view from under `no_grad` that nothing else of the program shares
    memory with; the graph gives it as a tensor of its own, and autograd is to refuse to write gradients into it. `in_function`: a view
    that an `autograd.Function` gave, or a view of such a one; autograd is to refuse writes to it. `of`: another output, by position, from
    which the last `own` steps lead here, so that gradients come by it; -1 if there is none.
    """

    kind: str
    index: int = 0
    value: Any = None
    steps: tuple[Step, ...] = ()
    tracked: bool = True
    mode: str = GRAD
    stale: bool = False
    is_closed: bool = False
    in_function: bool = False
    of: int = -1
    own: int = 0

    def is_lookable(self, differentiable: Sequence[bool]) -> bool:
        """Is it a tensor with a history that the program made, so that its caller may look at its gradient? `differentiable`: results."""
        return self.tracked and (differentiable[self.index] if self.kind == "graph" else self.kind == "input" and bool(self.steps))


@dataclass(frozen=True, slots=True)
class CutOff:
    """A detached tensor, which `base` makes, and `views` of it: the places of a result, and what makes it of that tensor."""

    base: Output
    views: tuple[tuple[tuple[int, ...], Output], ...]


Place = tuple[str, int]  # ("argument", position), ("held", number of the tensor), ("base", position of a view of it)


@dataclass(frozen=True, slots=True)
class Facts:
    """One traced program, as its caller sees it.

    `primals` says where each input of the graph comes from; `sources` goes on with arguments that are views of a common base.
    `held` has the path of each held tensor, '' for one that only the trace knows. `results` counts what the forward returns before
    the saved values; the last of them are new values of the primals in `returned`. `differentiable`, `tangents` (strides, shape)
    and `wanted` are about results, differentiable results and gradients. `asks_grad_mode`: see `ops.rows`.
    """

    primals: tuple[Place, ...]
    sources: tuple[Place, ...]
    members: tuple[int, ...]  # arguments with a common base, each as often as its version goes up
    held: tuple[str, ...]
    results: int
    outputs: tuple[Output, ...]
    spec: TreeSpec
    returned: tuple[int, ...] = ()
    written: tuple[int, ...] = ()
    relaid: tuple[tuple[int, tuple[int, ...], tuple[int, ...], int], ...] = ()
    differentiable: tuple[bool, ...] = ()
    tangents: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()
    wanted: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()  # per gradient: which tangents it is computed from, a bit for each
    met: tuple[int, ...] = ()  # per gradient: the tangents from which autograd gets to its primal
    doubts: tuple[int, ...] = ()  # per tangent: those it meets where zeros in its place may have become NaN
    freed: tuple[int, ...] = ()  # per tangent: those that a pass without `retain_graph` from its result leaves nothing for
    saved_primals: tuple[int, ...] = ()
    backward_errors: tuple[tuple[int, str, str], ...] = ()  # tangent, kind and message of what a pass from it raises, as eager meets them
    modes_after: tuple[tuple[int, Any], ...] = ()  # rows of `dynamo.surroundings.modes.MODES`
    clears_autocast_cache: bool = False
    enables_grad: bool = False  # gradients are off around the call, and the program switches them on
    inference: tuple[tuple[int, bool], ...] = ()  # results that are inference tensors, or are not, unlike others made around the call
    sharing: tuple[int, ...] | None = None  # see `Joint.sharing`
    asks_grad_mode: bool = False
    draws: bool = False  # random numbers
    bumps: tuple[int, ...] = ()  # primals, each as often as its version goes up without a copy to it
    read_before_written: tuple[int, ...] = ()  # primals in `written` or `returned` whose old value a result with a gradient depends on
    readers: tuple[int, ...] = ()  # per saved tensor: the results whose derivatives read it
    seen_outside: tuple[bool, ...] = ()  # per saved tensor: somebody else may have it
    depending: tuple[int, ...] = ()  # per primal: the results whose derivatives depend on its value
    absent: tuple[int, ...] = ()  # per gradient: the tangents that alone leave zeros without memory, see `reach.absent`
    apart: tuple[int, ...] = ()  # primals with a history that no result was computed from
    saved_after: tuple[tuple[int, int], ...] = ()  # written or turned primals, and the results whose passes ask for what they are
    turned: tuple[int, ...] = ()  # primals that get another shape in place, or a view of which does, where autograd records it
    cut_off: tuple[CutOff, ...] = ()  # outputs that are made from one another, instead of each from what they are views of in the end
    reentrant: tuple[int, ...] = ()  # per gradient: the results whose passes get to its primal by a re-entrant checkpoint
    nearest: tuple[int, ...] = ()  # per result: the outputs, then `returned`, that it was computed from, see `histories.nearest`

    @property
    def relaid_primals(self) -> list[int]:
        """Those of `relaid` that are no views of a common base."""
        return [index for index, *_ in self.relaid if index < len(self.primals)]

    @property
    def unwritten(self) -> list[int]:
        """Those of `bumps` that keep their values: a view got another shape, or what was written is what was there."""
        return [i for i in self.bumps if i not in self.written and i not in self.returned]


def attribute(module: Any, path: str) -> Any:
    """What `path` (dotted) names, starting at `module`."""
    for part in path.split("."):
        module = getattr(module, part)
    return module


def paths_of(gm: GraphModule, prefix: str = "") -> dict[int, str]:
    """The path of every tensor that the graph, or a graph inside it, reads as an attribute; by id."""
    found: dict[int, str] = {}
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            path = str(node.target)
            value = attribute(gm, path)
            if isinstance(value, torch.Tensor):
                found.setdefault(id(value), prefix + path)
            elif isinstance(value, GraphModule):
                for key, inner in paths_of(value, f"{prefix}{path}.").items():
                    found.setdefault(key, inner)
    return found
