"""Tensors of the processor in a graph for a GPU: numbers such as step counts and rates, and indices that are constants.

What is computed of them alone ATen computes where they are. An operator of the GPU that reads one gets a copy that is made in the call,
as ATen would make it; the copy waits for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node
from torch.utils._pytree import tree_map

from dynamo.fake import FakeTensor
from inductor.errors import Unsupported
from inductor.ir.nest import Nest, Program
from inductor.lowering.context import Context
from inductor.lowering.tensor import Tensor

aten = torch.ops.aten
BETWEEN = frozenset({aten._to_copy.default, aten.copy.default})  # these copy between devices themselves


class Elsewhere:
    """Of one graph: which tensors are on another device than its kernels."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.brought: dict[Tensor, Tensor] = {}

    def is_away(self, device: object) -> bool:
        return str(device) != self.ctx.program.device

    def holds(self, value: Any) -> bool:
        return isinstance(value, Tensor) and self.is_away(self.ctx.program.buffers[value.buffer].device)

    def is_left_to_aten(self, node: Node, metas: Sequence[torch.Tensor]) -> bool:
        """Whether the operator runs on another device, or copies from there."""
        sources = [v for n in node.all_input_nodes for v in listed(n.meta.get("val"))]
        return any(self.is_away(m.device) for m in metas) or (node.target in BETWEEN and any(self.is_away(v.device) for v in sources))

    def bring(self, tree: Any) -> Any:
        """Arguments, with copies on the device of the kernels."""
        return tree_map(lambda v: self.copy(v) if self.holds(v) else v, tree, is_leaf=lambda v: isinstance(v, Tensor))

    def copy(self, x: Tensor) -> Tensor:
        if x not in self.brought:
            device = torch.device(self.ctx.program.device)
            meta = FakeTensor(torch.empty(tuple(x.shape), dtype=x.dtype, device="meta"), device)
            self.brought[x] = self.ctx.extern(aten._to_copy.default, [x], {"device": device, "non_blocking": True}, meta)
        return self.brought[x]


def listed(value: Any) -> list[torch.Tensor]:
    return [v for v in (value if isinstance(value, (tuple, list)) else (value,)) if isinstance(v, torch.Tensor)]


def check_devices(program: Program) -> None:
    """Raises Unsupported where a kernel would read or write memory of another device."""
    for step in program.steps:
        if not isinstance(step, Nest):
            continue
        for name in (*step.reads(), *step.writes()):
            device = program.buffers[name].device
            if device != program.device:
                origin = step.origins[-1] if step.origins else step.name
                raise Unsupported(f"{origin} computes on {device}, beside tensors on {program.device} [{Unsupported.id}]")
