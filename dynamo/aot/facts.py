"""What the runtime wrapper must know of a traced program. Plain values only, so that they can be kept on disk.

The tensors a program holds (parameters, buffers) are named by the path of the attribute that has them in the captured graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import TreeSpec

from dynamo.aot.rng import draws

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from dynamo.aot.joint import Joint, Primal

# Their kernels keep what the backward needs only where the grad mode is on, and it is off inside `autograd.Function.forward`.
ASK_GRAD_MODE = frozenset({torch.ops.aten.mkldnn_rnn_layer.default})


@dataclass(frozen=True, slots=True)
class Step:
    """One view op, everything but its first argument fixed."""

    op: Any
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()

    def __call__(self, x: Any) -> Any:
        return self.op(x, *self.args, **dict(self.kwargs))


@dataclass(frozen=True, slots=True)
class Output:
    """One result for the caller. kind: constant (value), input (source `index` itself), graph (output `index` of the graph).

    `steps` make a view of that; `tracked` tells whether the view has history.
    """

    kind: str
    index: int = 0
    value: Any = None
    steps: tuple[Step, ...] = ()
    tracked: bool = True


Place = tuple[str, int]  # ("argument", position), ("held", number of the tensor), ("base", position of a view of it)


@dataclass(frozen=True, slots=True)
class Facts:
    """One traced program, as its caller sees it.

    `primals` says where each input of the graph comes from; `sources` goes on with arguments that are views of a common base.
    `held` has the path of each held tensor, '' for one that only the trace knows. `results` counts what the forward returns before
    the saved values; the last of them are new values of the primals in `returned`. `differentiable`, `tangents` (strides, shape)
    and `wanted` are about results, differentiable results and gradients. `asks_grad_mode`: see `ASK_GRAD_MODE`.
    """

    primals: tuple[Place, ...]
    sources: tuple[Place, ...]
    members: tuple[int, ...]
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
    saved_primals: tuple[int, ...] = ()
    backward_error: tuple[str, str] = ("", "")  # kind of exception, its message
    modes_after: tuple[tuple[int, Any], ...] = ()  # rows of `dynamo.modes.MODES`
    clears_autocast_cache: bool = False
    enables_grad: bool = False  # gradients are off around the call, and the program switches them on
    inference: tuple[tuple[int, bool], ...] = ()  # results that are inference tensors, or are not, unlike others made around the call
    sharing_matters: bool = False
    asks_grad_mode: bool = False
    draws: bool = False  # random numbers
    read_before_written: tuple[int, ...] = ()  # primals in `written` on whose old value a result that has a gradient depends


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
            elif isinstance(value, torch.fx.GraphModule):
                for key, inner in paths_of(value, f"{prefix}{path}.").items():
                    found.setdefault(key, inner)
    return found


# In training these only pass their running statistics on to the new ones: positions of those, and of `training`.
_STATISTICS: dict[Any, tuple[tuple[int, ...], int]] = {
    torch.ops.aten._native_batch_norm_legit_functional.default: ((3, 4), 5),
    torch.ops.aten._batch_norm_with_update_functional.default: ((3, 4), -1),
}


def _reads_what_it_writes(joint: Joint) -> tuple[int, ...]:
    changed = {joint.primals[i].node for i in joint.written}
    todo = [n for n, d in zip(joint.results, joint.differentiable, strict=True) if d]
    found: set[Any] = set()
    while todo and changed:
        node = todo.pop()
        if node in found:
            continue
        found.add(node)
        statistics, flag = _STATISTICS.get(node.target, ((), -1))
        skipped = {node.args[i] for i in statistics} if flag < 0 or node.args[flag] is True else set()
        todo += [n for n in node.all_input_nodes if n not in skipped]
    return tuple(i for i in joint.written if joint.primals[i].node in found)


def _behind(joint: Joint) -> tuple[int, ...]:
    """Which tangents each gradient is computed from, a bit for each."""
    everything = (1 << len(joint.tangents)) - 1
    if len(joint.tangents) < 2:
        return (everything,) * len(joint.wanted)
    bits = {tangent: 1 << i for i, tangent in enumerate(joint.tangents)}
    for node in joint.graph.nodes:
        if node not in bits:
            mask = 0
            for argument in node.all_input_nodes:
                mask |= bits[argument]
            bits[node] = mask
    return tuple(bits[g] or everything if g is not None else everything for g in joint.grads)


def describe(joint: Joint, saved_primals: list[int], gm: GraphModule) -> tuple[Facts, list[torch.Tensor]]:
    """The facts of a traced program, and the tensors it holds."""
    held: list[torch.Tensor] = []
    numbers: dict[int, int] = {}

    def hold(real: torch.Tensor) -> Place:
        number = numbers.setdefault(id(real), len(held))
        if number == len(held):
            held.append(real)
        return "held", number

    def place(primal: Primal) -> Place:
        if primal.members:
            return "base", primal.members[0]
        return ("argument", primal.argument) if primal.argument is not None else hold(primal.real)

    primals = tuple(place(p) for p in joint.primals)
    sources = tuple(place(p) for p in joint.sources)
    paths = paths_of(gm)
    enables_grad = joint.needs_backward and not torch.is_grad_enabled()
    around = torch.is_inference_mode_enabled() and not enables_grad
    facts = Facts(
        primals,
        sources,
        tuple(m for i in joint.written for m in joint.primals[i].members if not joint.primals[i].fake.is_inference()),
        tuple(paths.get(id(t), "") for t in held),
        len(joint.results),
        tuple(joint.outputs),
        joint.spec,
        tuple(joint.returned),
        tuple(i for i in joint.written if not joint.primals[i].fake.is_inference()),
        tuple(joint.relaid),
        tuple(joint.differentiable),
        tuple((n.meta["val"].stride(), tuple(n.meta["val"].shape)) for n in joint.tangents),
        tuple(joint.wanted),
        _behind(joint),
        tuple(saved_primals),
        joint.backward_error,
        tuple(joint.modes_after),
        joint.clears_autocast_cache,
        enables_grad,
        tuple((i, is_inference) for i, is_inference in enumerate(joint.inference) if is_inference != around),
        joint.sharing_matters(),
        any(n.target in ASK_GRAD_MODE for n in joint.graph.nodes),
        any(draws(n) for n in joint.graph.nodes),
        _reads_what_it_writes(joint),
    )
    return facts, held
