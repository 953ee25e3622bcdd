"""Which extern calls may return memory of their arguments."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from dynamo.ops.facts import facts_of, is_composite
from inductor.ir.nest import Extern


def may_alias(step: Extern) -> bool:
    """Results may share memory with arguments, so arguments must live alone and as long as the results."""
    if not isinstance(step.target, torch._ops.OpOverload):
        return True
    facts = facts_of(step.target)
    return facts.absolute or facts.views or facts.shares or bool(facts.writes) or is_composite(step.target)


def held_by_others(calls: Iterable[Extern]) -> frozenset[str]:
    """Buffers whose memory another tensor may have: arguments and results of calls that can return their arguments."""
    aliasing = [c for c in calls if may_alias(c)]
    return frozenset(b for c in aliasing for b in (*c.writes(), *c.reads()))
