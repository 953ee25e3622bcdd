"""A backend whose code ends the process's use of its GPU, as an illegal access does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx


def asserts(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """Graphs with relu and tanh fail an assertion on the device."""
    names = {getattr(n.target, "__name__", str(n.target)) for n in gm.graph.nodes if n.op.startswith("call")}

    def run(*values: Any) -> Any:
        if {"relu", "tanh"} <= names:
            torch._assert_async(torch.zeros((), dtype=torch.bool, device="cuda"))
            torch.cuda.synchronize()
        return gm.forward(*values)

    return run
