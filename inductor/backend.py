"""The backend `inductor`: ahead-of-time graphs compiled to C kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo.aot import aot_module
from inductor.compile import start_graph


def inductor(gm: GraphModule, example_inputs: Sequence[torch.Tensor], *, options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """Compile a captured graph, with its backward where gradients are needed. `options` (modes of the GPU) change nothing on CPUs."""
    return aot_module(gm, example_inputs, fw_compiler=start_graph, bw_compiler=start_graph)
