"""Random ops in compiled graphs.

Random numbers come from torch's default generators, in the order of the program, so `torch.manual_seed` makes a compiled run
reproducible. Three rules keep forward and backward in agreement: a random op is never recomputed (the partitioner saves its
result, also inside checkpointed regions); it is never removed or merged; an in-place draw (`bernoulli_`) is recorded as the
functional draw that consumes the generator the same way.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node


def is_random(op: Any) -> bool:
    """True for ops that draw from a generator."""
    return isinstance(op, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in op.tags


def draws(node: Node) -> bool:
    return node.op == "call_function" and is_random(node.target)
