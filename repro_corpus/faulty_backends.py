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
