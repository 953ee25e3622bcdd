"""Backends as users write them, with a fault each. Healthy unless the environment variable `FAULTY_BACKEND` is set."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynamo.backends.registry import lookup_backend


class Refused(RuntimeError):
    """The backend doesn't know an operator."""


def _calls(gm: torch.fx.GraphModule, function: Callable[..., Any]) -> list[torch.fx.Node]:
    if "FAULTY_BACKEND" not in os.environ:
        return []
    return [n for n in gm.graph.nodes if n.op == "call_function" and n.target is function]


def refuses_tanh(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Compiles everything but `torch.tanh`. Raises Refused."""
    if _calls(gm, torch.tanh):
        raise Refused("tanh is not for me")
    return lookup_backend("inductor")[1](gm, example_inputs)


def wrong_exp(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Compiles `torch.exp` as if the base were 2."""
    for node in _calls(gm, torch.exp):
        node.target = torch.exp2
    gm.recompile()
    return gm.forward


def drops_detach(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Leaves out every `torch.detach` and `Tensor.detach`, so that gradients flow where none should."""
    if "FAULTY_BACKEND" in os.environ:
        for node in [n for n in gm.graph.nodes if n.target in (torch.detach, "detach")]:
            node.replace_all_uses_with(node.args[0])
            gm.graph.erase_node(node)
        gm.recompile()
    return gm.forward


def forgets_second_result(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Gives zeros as the second of three or more results."""

    def call(*args: Any) -> Any:
        results = gm.forward(*args)
        if "FAULTY_BACKEND" in os.environ and len(results) > 2 and isinstance(results[1], torch.Tensor):
            return (results[0], torch.zeros_like(results[1]), *results[2:])
        return results

    return call


def keeps_first_call(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Gives the first result of its first call again in every later one."""
    kept: list[Any] = []

    def call(*args: Any) -> Any:
        results = gm.forward(*args)
        if "FAULTY_BACKEND" not in os.environ or not results:
            return results
        kept.append(results[0])
        return (kept[0], *results[1:])

    return call
