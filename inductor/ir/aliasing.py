"""Which extern calls may return memory of their arguments."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from inductor.ir.nest import Extern

# Operators that count a storage offset from the start of the storage: an argument that is part of something larger would be misread.
ABSOLUTE = frozenset({torch.ops.aten.as_strided_scatter.default, torch.ops.aten.as_strided_copy.default})


def may_alias(step: Extern) -> bool:
    """Results may share memory with arguments, so arguments must live alone and as long as the results."""
    if step.target in ABSOLUTE:
        return True
    schema = getattr(step.target, "_schema", None)
    if schema is None:
        return True
    if any(r.alias_info is not None for r in schema.returns):
        return True
    return torch._C._dispatch_has_kernel_for_dispatch_key(
        schema.name + ("." + schema.overload_name if schema.overload_name else ""), "CompositeImplicitAutograd"
    )


def held_by_others(calls: Iterable[Extern]) -> frozenset[str]:
    """Buffers whose memory another tensor may have: arguments and results of calls that can return their arguments."""
    aliasing = [c for c in calls if may_alias(c)]
    return frozenset(b for c in aliasing for b in (*c.writes(), *c.reads()))
