"""The facts of a program that was traced just now. Apart from `facts`: where those come from a cache, the tracer isn't loaded."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule

from dynamo.aot.again import version_of
from dynamo.aot.facts import Facts, Place, paths_of
from dynamo.aot.joint import Joint, Primal
from dynamo.aot.partition import Parts
from dynamo.aot.reach import absent, of_results, reach, readers_after
from dynamo.ops.facts import draws, facts_of


def _reads_what_it_writes(joint: Joint) -> tuple[int, ...]:
    written = [*joint.written, *joint.returned]
    changed = {joint.primals[i].node for i in written}
    todo = [n for n, d in zip(joint.results, joint.differentiable, strict=True) if d]
    found: set[Any] = set()
    while todo and changed:
        node = todo.pop()
        if node in found:
            continue
        found.add(node)
        todo += [n for n in node.all_input_nodes if n not in _passed_on(node)]
    return tuple(i for i in written if joint.primals[i].node in found)


def _passed_on(node: Any) -> set[Any]:
    """Running statistics that the node, in training, only makes new ones of."""
    training = facts_of(node.target).training if isinstance(node.target, torch._ops.OpOverload) else None
    if training is None or training.how != "passes" or not (training.flag < 0 or node.args[training.flag] is True):
        return set()
    return {node.args[i] for i in training.statistics}


def _counted(joint: Joint) -> tuple[int, ...]:
    """Arguments that share memory which is written, each as often as it is written itself or by a view of it: those that count together
    add up, what `.data` gives counts alone. A new layout counts as one."""
    found: list[int] = []
    relaid = {i for i, *_ in joint.relaid}
    for primal in [joint.primals[i] for i in joint.written if not joint.primals[i].fake.is_inference()]:
        for i, source in enumerate(joint.sources):
            if source.argument in primal.members:
                found += [source.argument] * (version_of(source.fake) - source.version - (i in relaid))
    return tuple(found)


def describe(joint: Joint, parts: Parts, gm: GraphModule) -> tuple[Facts, list[torch.Tensor]]:
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
    enables_grad = joint.needs_backward and (torch.is_inference_mode_enabled() or not torch.is_grad_enabled())
    around = torch.is_inference_mode_enabled() and not enables_grad
    facts = Facts(
        primals,
        sources,
        _counted(joint),
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
        *reach(joint),
        tuple(joint.freed),
        tuple(parts.saved_primals),
        joint.backward_errors,
        tuple(joint.modes_after),
        joint.clears_autocast_cache,
        enables_grad,
        tuple((i, is_inference) for i, is_inference in enumerate(joint.inference) if is_inference != around),
        tuple(hold(p.real)[1] for p in asked) if (asked := joint.sharing()) is not None else None,
        any(isinstance(n.target, torch._ops.OpOverload) and facts_of(n.target).asks_grad_mode for n in joint.graph.nodes),
        any(draws(n) for n in joint.graph.nodes),
        tuple(i for i in joint.bumps if not joint.primals[i].fake.is_inference()),
        _reads_what_it_writes(joint),
        parts.readers,
        parts.seen_outside,
        parts.depending,
        absent(joint),
        tuple(joint.apart),
        readers_after(joint),
        tuple(i for i, p in enumerate(joint.primals) if p.leaf.requires_grad and p.track.turned_history),
        tuple(joint.cut_off),
        tuple(of_results(joint, mask) for mask in joint.reentrant),
        joint.nearest,
    )
    return facts, held
