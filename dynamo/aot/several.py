"""Backward passes through a part of a compiled graph, one after the other.

A compiled graph is one node of autograd, and autograd frees what a node has saved after one pass. In eager each operation is a node: a
pass from one result leaves the others alone where no operation behind both has saved anything. So the inputs of the graph stay
until no result is left that may be differentiated, and passes after the first run the captured graph again in eager. Where that
can't be, what the node has saved stays instead, and they run the compiled backward again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynamo.aot.again import Again, given_of, kept_of, set_aside, unchanged
from dynamo.aot.facts import Facts

Tensor = torch.Tensor

# Whether the backward pass that runs now may be repeated; where torch can't tell, it may.
keeps_graph: Callable[[], bool] = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True)


class Several:
    """Which results of a call may still be differentiated. Its node of autograd has the state.

    `left` is None until a pass has freed what the node saved, then a mask of those results; `is_bare` tells whether the compiled backward
    reads nothing that was saved. `kept` are the primals in the order of `Facts.saved_primals`, with their versions; `results` are
    those that the node had saved, with their versions and the tangents that meet them.
    """

    def __init__(self, facts: Facts, again: Again) -> None:
        self.freed, self.saved_primals, self.again = facts.freed, facts.saved_primals, again
        self.everything = (1 << len(self.freed)) - 1
        self.doubts, self.readers = facts.doubts, facts.readers
        self.results = [i for i, d in enumerate(facts.differentiable) if d]

    @property
    def is_needed(self) -> bool:
        return any(mask != self.everything for mask in self.freed)

    def later(self, ctx: Any, grads: Sequence[Any]) -> Sequence[Any] | None:
        """The gradients of a pass after one that has freed what the node saved. None: the compiled backward can do it."""
        present = self._present(grads)
        if present & ~ctx.left:
            return ctx.saved_tensors  # raises what autograd says about that
        if ctx.is_bare or self.again.reason:
            return None
        given = given_of(grads)
        for t, version, readers in ctx.results:
            if readers & given:
                unchanged(t, version)
        found = self.again.gradients(ctx, grads)
        self.spend(ctx, self.everything & ~present)
        return found

    def spend(self, ctx: Any, missing: int) -> None:
        """What the pass that runs now leaves for others; it comes from all results but those in `missing`."""
        if keeps_graph():
            return
        left = self.everything if ctx.left is None else ctx.left
        for i, freed in enumerate(self.freed):
            if not missing >> i & 1:
                left &= ~freed
        if not left or ctx.is_bare:
            ctx.extras = ctx.kept = ctx.aside = ctx.results = None
        elif self.again.reason:
            set_aside(ctx)
        else:
            if ctx.left is None:
                kept, count = kept_of(ctx), len(self.saved_primals)
                ctx.kept = kept[:count]
                results = zip(kept[count:], self.readers[count:], strict=True)
                ctx.results = [(t.detach(), version, readers) for (t, version), readers in results if readers]
            ctx.aside = None
        ctx.left = left

    def may_meet(self, missing: int) -> bool:
        """May zeros in place of the gradients in `missing` be seen in a gradient? See `reach.reach`."""
        return any(missing >> i & 1 and others & ~missing for i, others in enumerate(self.doubts))

    def _present(self, grads: Sequence[Any]) -> int:
        return sum(1 << bit for bit, i in enumerate(self.results) if grads[i] is not None)


def has_nan(gradients: Sequence[Tensor | None]) -> bool:
    """What zeros in place of a gradient that didn't arrive leave where they meet infinity."""
    return any(g is not None and bool(g.sum().isnan()) for g in gradients)
