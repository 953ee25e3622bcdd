"""Which gradients of a graph are computed from which of its results, and where zeros in place of one may be seen.

Bits of a mask are differentiable results, in the order of the tangents.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from torch.fx import Node

from dynamo.aot.functionalise import alias_source
from dynamo.aot.joint import Joint
from dynamo.ops.facts import known_facts


def reach(joint: Joint) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Per gradient the tangents it is computed from, and those from which autograd gets to its primal; per tangent those it meets where
    zeros in its place may have become NaN.

    Where a gradient doesn't arrive the backward gets zeros, and eager adds nothing. Infinity times zero is NaN.
    """
    count = len(joint.tangents)
    everything = (1 << count) - 1
    if count < 2:
        return (everything,) * len(joint.wanted), (everything,) * len(joint.wanted), (0,) * count
    bits = _bits(joint)
    ends = [n for n in joint.grads if n is not None]
    meets = {n: bits[n] for n in ends}
    for node in reversed(joint.graph.nodes):
        if others := meets.get(node):
            for argument in node.all_input_nodes:
                meets[argument] = meets.get(argument, 0) | others
    doubts = [0] * count
    for mask, others in {(bits[n], o & ~bits[n]) for n, o in meets.items() if bits[n] and o & ~bits[n] and not _keeps_zeros(n, bits)}:
        for i in range(count):
            if mask >> i & 1:
                doubts[i] |= others
    masks = _computed_from(joint, bits)
    met = tuple(mask | other for mask, other in zip(masks, joint.arriving, strict=True))
    return tuple(mask or everything for mask in (met if joint.has_zeros else masks)), met, tuple(doubts)


def absent(joint: Joint) -> tuple[int, ...]:
    """Per gradient the tangents that arrive and that it is not computed from: alone they leave zeros without memory. () if none can."""
    if not joint.has_zeros:
        return ()
    return tuple(also & ~mask for mask, also in zip(_computed_from(joint, _bits(joint)), joint.arriving, strict=True))


def _computed_from(joint: Joint, bits: Mapping[Node, int]) -> list[int]:
    """Per gradient the tangents that it is computed from, or zeros in the place of others."""
    through = joint.through or (0,) * len(joint.grads)
    return [bits[g] | also if g is not None else 0 for g, also in zip(joint.grads, through, strict=True)]


def readers(
    joint: Joint, ends: list[Node], read: list[Node], saved: AbstractSet[Node], known: Mapping[Node, int] | None = None
) -> tuple[int, ...]:
    """Per tensor the results, as bits, whose derivatives read it or what is computed from it, up to `saved`, where they aren't `known`.

    What is computed from no tangent, as tangents that `jvp` lacks lead to, is read where autograd gets to the operation.
    """
    bits = {n: mask or joint.meeting.get(n, 0) for n, mask in _bits(joint).items()}
    found = dict.fromkeys(ends, (1 << len(joint.tangents)) - 1)
    for node in reversed(joint.graph.nodes):
        if node in found and node not in saved:
            for argument in node.all_input_nodes:
                found[argument] = found.get(argument, 0) | (bits[node] or found[node])
    own = known or {}
    return tuple(own[n] if n in own else of_results(joint, found.get(n, 0) | joint.saved.get(n, 0)) for n in read)


def readers_after(joint: Joint) -> tuple[tuple[int, int], ...]:
    """Primals that autograd has saved as the graph leaves them, with the results, as bits, whose passes ask for them."""
    return tuple((i, of_results(joint, mask)) for i, mask in joint.saved_after.items())


def of_results(joint: Joint, mask: int) -> int:
    """A mask of differentiable results as one of all."""
    results = [i for i, d in enumerate(joint.differentiable) if d]
    return sum(1 << i for bit, i in enumerate(results) if mask >> bit & 1)


def seen_outside(joint: Joint, nodes: list[Node]) -> tuple[bool, ...]:
    """Which of some tensors the caller has, or may have, too: it can write to them."""
    shared = {p.node for p in joint.primals} | {alias_source(r) for r in joint.results}
    return tuple(alias_source(n) in shared for n in nodes)


def _bits(joint: Joint) -> dict[Node, int]:
    """The tangents each node is computed from."""
    bits = {tangent: 1 << i for i, tangent in enumerate(joint.tangents)}
    for node in joint.graph.nodes:
        if node not in bits:
            mask = 0
            for argument in node.all_input_nodes:
                mask |= bits[argument]
            bits[node] = mask
    return bits


def _keeps_zeros(node: Node, bits: dict[Node, int]) -> bool:
    if node.op != "call_function":
        return True
    facts = known_facts(node.target)
    if facts is None:
        return False
    if facts.adds:
        return all(bits[n] for n in node.all_input_nodes)
    if facts.scales:
        return len(node.all_input_nodes) == 1 and not isinstance(node.args[1], Node)
    zeros = [i for i, argument in enumerate(node.args) if isinstance(argument, Node) and bits[argument]]
    return zeros == [0] and (facts.views or facts.keeps_zeros)
