"""A captured graph on another device: whether a finding belongs to the device's kernels, or to what all devices share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_aggregate

from dynamo.graph.lazy import lazy_module

_NAME = re.compile(r"(cuda|cpu)(:\d+)?")
_OF_OTHERS = ("val", "example_value")  # what nodes' values look like, on the device they were captured for


def devices() -> list[str]:
    """Names of the devices there are."""
    return ["cpu", *(["cuda"] if torch.cuda.is_available() else []), *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]


class Mover:
    """Makes graphs and values for `device`. What is one tensor stays one."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.made: dict[int, Any] = {}

    def inputs(self, values: Sequence[Any]) -> list[Any]:
        return [self.value(v) for v in values]

    def value(self, value: Any) -> Any:
        """A tensor, module or generator there; anything else as it is."""
        if not isinstance(value, (torch.Tensor, torch.nn.Module, torch.Generator)):
            return value
        if id(value) not in self.made:
            self.made[id(value)] = value, self._moved(value)
        return self.made[id(value)][1]

    def _moved(self, value: Any) -> Any:
        if isinstance(value, GraphModule):
            return self.graph(value)
        if isinstance(value, torch.nn.Module):
            raise TypeError(f"a graph that calls {type(value).__name__} as a whole is not moved to another device")
        if isinstance(value, torch.Generator):
            return torch.Generator(self.device).manual_seed(value.initial_seed())
        copied = value.detach().to(self.device, copy=True)
        if isinstance(value, torch.nn.Parameter):
            return torch.nn.Parameter(copied, value.requires_grad)
        return copied.requires_grad_(value.requires_grad)

    def graph(self, gm: GraphModule) -> GraphModule:
        """The same graph with parameters, buffers and device arguments of the other device."""
        graph = Graph()
        copies: dict[Node, Node] = {}
        output = graph.graph_copy(gm.graph, copies)
        held: dict[str, Any] = {}
        for old, new in copies.items():
            new.meta = {k: v for k, v in old.meta.items() if k not in _OF_OTHERS}
            new.args, new.kwargs = map_aggregate(new.args, self.argument), map_aggregate(new.kwargs, self.argument)
            if new.op == "call_method" and new.target in ("cuda", "cpu"):
                new.target, new.args = "to", (new.args[0], self.device)
            if new.op in ("get_attr", "call_module"):
                held[str(new.target)] = self.value(attribute(gm, str(new.target)))
        graph.output(output)
        module = lazy_module(held, graph)
        module.meta.update(gm.meta)
        return module

    def argument(self, value: Any) -> Any:
        """Devices, and their names, among the arguments of a node."""
        if isinstance(value, torch.device):
            return self.device
        return str(self.device) if isinstance(value, str) and _NAME.fullmatch(value) else self.value(value)


def attribute(gm: GraphModule, path: str) -> Any:
    found: Any = gm
    for name in path.split("."):
        found = getattr(found, name)
    return found


def moved(gm: GraphModule, inputs: Sequence[Any], device: str) -> tuple[GraphModule, list[Any]]:
    """A graph and its inputs, on `device`. Raises TypeError for a graph that can't be moved, RuntimeError without the device."""
    mover = Mover(torch.device(device))
    return mover.graph(gm), mover.inputs(inputs)
