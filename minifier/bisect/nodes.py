"""The first node of a graph whose value is wrong, also inside a fused kernel: probes make it a result.

All nodes are probed at once. Where that changes what is fused and numbers become right, nodes are probed one by one, by bisection.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from minifier.bisect.checking import Backend, compare, compiled
from minifier.bisect.ladder import GraphCompiler
from minifier.bisect.subject import Subject, duplicate
from minifier.compare.verdict import Verdict, judge
from minifier.graph.names import Unsupported, name_of


@dataclass(frozen=True)
class Place:
    """A node, the user's line it comes from, what is wrong with its value, and whether probing it alone shows it."""

    node: str
    op: str
    file: str
    line: int
    verdict: Verdict


def candidates(gm: GraphModule) -> list[Node]:
    """Nodes that compute a tensor, in order."""
    return [n for n in gm.graph.nodes if n.op.startswith("call_") and isinstance(n.meta.get("val"), torch.Tensor)]


def aten_backend(compiler: GraphCompiler, is_backward: bool) -> Backend:
    """A compiler of ATen graphs as a backend: called with values one by one, told what they look like by the graph."""

    def backend(module: GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        call = compiler(module, [n.meta.get("val") for n in module.graph.nodes if n.op == "placeholder"], is_backward=is_backward)
        return lambda *values: call(list(values))

    return backend


def first_diverging(gm: GraphModule, inputs: Sequence[Any], backend: Backend) -> Place | None:
    """The first node whose value is wrong when a graph is compiled; None where the graph alone shows nothing."""

    def wrong(names: Sequence[str]) -> dict[int, Verdict]:
        """Verdicts of the results that are wrong, by place; probes come last."""
        verdicts = judged_apart(Subject(duplicate(gm, names), inputs, gradients=False), backend)
        return {i: v for i, v in verdicts.items() if v.is_finding}

    nodes = candidates(gm)
    last = next(iter(reversed(gm.graph.nodes))).args[0]
    results = len(tree_leaves(last))
    if not compare(Subject(gm, inputs, gradients=False), backend, (0,)).is_finding:
        return None
    together = wrong([n.name for n in nodes])
    if any(i < results for i in together):
        first = min((i for i in together if i >= results), default=None)
        if first is not None:
            return place_of(nodes[first - results], together[first])
    low, high, found = 0, len(nodes) - 1, None
    while low <= high:
        middle = (low + high) // 2
        one = wrong([nodes[middle].name])
        if results in one:
            found, high = (nodes[middle], one[results]), middle - 1
        else:
            low = middle + 1
    return None if found is None else place_of(*found)


def judged_apart(subject: Subject, backend: Backend) -> dict[int, Verdict]:
    """A verdict for each result of a graph on its inputs as they are."""
    sample = subject.sample(compiled(subject, backend), 0)
    if sample is None:
        return {}
    exact = sample.exact()
    return {i: judge([sample.of(i, exact)]) for i, name in enumerate(sample.names) if name.startswith("result ")}


def place_of(node: Node, verdict: Verdict) -> Place:
    """Where a node comes from. One of several results has the name of the operator that gave them."""
    source = node.meta.get("source")
    file, line = "", 0
    if isinstance(source, tuple):
        file, line = str(source[0]), int(source[1])
    elif source is not None:
        file, line = str(source.file), int(source.line)
    maker = node.args[0] if node.target is operator.getitem else node
    maker = maker if isinstance(maker, Node) and maker.op.startswith("call_") else node
    return Place(node.name, _called(maker.target), file, line, verdict)


def _called(target: Any) -> str:
    """What a node calls, without addresses."""
    if not isinstance(target, (FunctionType, BuiltinFunctionType)):
        return str(target).removeprefix("aten.")
    try:
        return name_of(target)
    except Unsupported:
        return target.__qualname__
