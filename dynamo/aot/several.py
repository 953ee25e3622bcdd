"""Backward passes through a part of a compiled graph, one after the other.

A compiled graph is one node of autograd, and autograd frees what a node has saved after one pass. In eager each operation is a node: a
pass from one result leaves the others alone where no operation behind both has saved anything. So the inputs of the graph stay
until no result is left that may be differentiated, and passes after the first run the captured graph again in eager. Where that
can't be, what the node has saved stays instead, and they run the compiled backward again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from dynamo.aot.again import Again, given_of, saved_of, set_aside
from dynamo.aot.facts import Facts

Tensor = torch.Tensor

# Whether the backward pass that runs now may be repeated; where torch can't tell, it may.
_keeps_graph: Callable[[], bool] = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True)


def keeps_graph(graph: Any) -> bool:
    """Whether a graph, given as its node of autograd, may be met again."""
    return graph.goes_on or _keeps_graph()


class Several:
    """Which results of a call may still be differentiated. Its node of autograd has the state.

    `left` is None until a pass has freed what the node saved, then a mask of those results; `is_bare` tells whether the compiled backward
    reads nothing that was saved.
    """

    def __init__(self, facts: Facts, again: Again) -> None:
        self.freed, self.again = facts.freed, again
        self.everything = (1 << len(self.freed)) - 1
        self.doubts, self.readers = facts.doubts, facts.readers
        self.values = range(len(facts.saved_primals), len(facts.readers))
        self.results = [i for i, d in enumerate(facts.differentiable) if d]

    @property
    def is_needed(self) -> bool:
        return any(mask != self.everything for mask in self.freed)

    def later(self, ctx: Any, grads: Sequence[Any]) -> Sequence[Any] | None:
        """The gradients of a pass after one that has freed what the node saved. None: the compiled backward can do it."""
        present = self._present(grads)
        if present & ~ctx.left:
            return ctx.saved_tensors  # raises what autograd says about that
        if ctx.is_bare or self.again.reason or self.again.is_written_since(ctx, grads):
            return None
        found = self.again.gradients(ctx, grads)
        self.spend(ctx, self.everything & ~present)
        return found

    def spend(self, ctx: Any, missing: int) -> None:
        """What the pass that runs now leaves for others; it comes from all results but those in `missing`."""
        if keeps_graph(ctx):
            return
        left = self.everything if ctx.left is None else ctx.left
        for i, freed in enumerate(self.freed):
            if not missing >> i & 1:
                left &= ~freed
        if not left:
            ctx.extras = ctx.aside = None
        else:
            set_aside(ctx)
            wanted = sum(1 << i for bit, i in enumerate(self.results) if left >> bit & 1)
            for i in self.values:
                t, version = ctx.aside[i]
                if not self.readers[i] & wanted and isinstance(t, Tensor):
                    ctx.aside[i] = partial(_in_place_of, t.shape, t.stride(), t.dtype, t.device), version
        ctx.left = left

    def read(self, ctx: Any, grads: Sequence[Any]) -> list[Tensor]:
        """What the compiled backward takes; what derivatives of the given gradients don't read are other values."""
        given = given_of(grads)
        saved = zip(saved_of(ctx, grads), self.readers, strict=True)
        return [t if readers & given else _in_place_of(t.shape, t.stride(), t.dtype, t.device) for t, readers in saved]

    def may_meet(self, missing: int) -> bool:
        """May zeros in place of the gradients in `missing` be seen in a gradient? See `reach.reach`."""
        return any(missing >> i & 1 and others & ~missing for i, others in enumerate(self.doubts))

    def _present(self, grads: Sequence[Any]) -> int:
        return sum(1 << bit for bit, i in enumerate(self.results) if grads[i] is not None)


def _in_place_of(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Values with which derivatives that nobody asks for stay finite, as most do at a half."""
    return torch.empty_strided(shape, strides, dtype=dtype, device=device).fill_(0.5 if dtype.is_floating_point or dtype.is_complex else 0)


def has_nan(gradients: Sequence[Tensor | None]) -> bool:
    """What zeros in place of a gradient that didn't arrive leave where they meet infinity."""
    return any(g is not None and bool(g.sum().isnan()) for g in gradients)
