"""Random ops in compiled graphs, and those that read and set the state they draw from.

Random numbers come from torch's default generators, in the order of the program, so `torch.manual_seed` makes a compiled run
reproducible. Three rules keep forward and backward in agreement: a random op is never recomputed (the partitioner saves its
result, also inside checkpointed regions); it is never removed or merged; an in-place draw (`bernoulli_`) is recorded as the
functional draw that consumes the generator the same way.

Seeding, reading and setting the state are operators here (`STATE_OPS`) that count as draws, so all of that stays in program order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from dynamo.fake.rules import RULES

_library = torch.library.Library("dynamo_debug", "FRAGMENT")
_STATE = torch.get_rng_state()


def _seed(seed: int) -> None:
    torch.manual_seed(seed)


def _integers(like: torch.Tensor, low: int, high: int | None, *, generator: torch.Generator | None = None) -> torch.Tensor:
    return torch.empty_like(like).random_(low, high, generator=generator)


# schema, what runs, what it gives while tracing
_OPERATORS: tuple[tuple[str, Callable[..., Any], Callable[..., Any]], ...] = (
    ("manual_seed(int seed) -> ()", _seed, lambda device, seed: None),
    (
        "get_rng_state() -> Tensor",
        torch.random.get_rng_state,
        lambda device: torch.empty(_STATE.shape, dtype=_STATE.dtype, device="meta"),
    ),
    ("set_rng_state(Tensor state) -> ()", torch.random.set_rng_state, lambda device, state: None),
    # aten's own is the overload `from`, which can't be written down in the Python code of a graph
    (
        "random_from(Tensor like, int low, int? high, *, Generator? generator=None) -> Tensor",
        _integers,
        lambda device, like, low, high: torch.empty_like(like),
    ),
)


def _declare(schema: str, run: Callable[..., Any], rule: Callable[..., Any]) -> None:
    name = schema.partition("(")[0]
    _library.define(schema, tags=(torch.Tag.nondeterministic_seeded,))
    _library.impl(name, run, "CompositeExplicitAutograd")
    RULES[getattr(torch.ops.dynamo_debug, name).default] = rule


for _row in _OPERATORS:
    _declare(*_row)

# function of the program -> operator that takes the same arguments
STATE_OPS: dict[Callable[..., Any], Any] = {
    torch.random.manual_seed: torch.ops.dynamo_debug.manual_seed.default,
    torch.random.get_rng_state: torch.ops.dynamo_debug.get_rng_state.default,
    torch.random.set_rng_state: torch.ops.dynamo_debug.set_rng_state.default,
}


def is_random(op: Any) -> bool:
    """True for ops that draw from a generator."""
    return isinstance(op, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in op.tags


def draws(node: Node) -> bool:
    return node.op == "call_function" and is_random(node.target)
