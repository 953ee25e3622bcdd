"""`flex_attention` in ATen graphs: an operator that computes it and one for its gradient, and the graphs of one score that they use.

`dynamo_regions::flex_attention(query, key, value, number, blocks, captured)` looks up what functions of the program belong to it
(`Scores`): their graphs, and for the backward the graph of the score's gradient. A third operator has the gradients of tensors whose
elements the score function reads. Called as they stand the operators have all scores in memory; a target with a kernel lowers the graphs
into it (`inductor/lowering/attention.py`).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.library
from torch.fx import GraphModule

from dynamo.aot.branches import Branch, Builder, Called, traced
from dynamo.fake import FakeTensor
from dynamo.graph.attention import Blocks, Settings, computed_in, elements, laid_out, parted, spread, strides_of, unfused
from dynamo.surroundings.modes import without_autocast

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class Learned:
    """Of a score function that reads elements of tensors which need gradients: `values` are the elements and `keys` their indices, `grads`
    the gradients of elements, which takes those too. `of`: the number of the tensor of each; `tensors`: those numbers, each once.
    """

    values: Branch
    keys: Branch
    grads: Branch
    of: tuple[int, ...]
    tensors: tuple[int, ...]


class Scores(Called):
    """The functions of one call. `score` takes a score, its place (b, h, q, kv) and what it reads; `mask` no score; `grad` also the
    gradient of the changed score. `there`: which tensors of a block mask the call has. `read`: how many of those captured `score` reads.
    All are parts of a kernel, none is compiled alone.
    """

    __slots__ = ("grad", "learned", "mask", "read", "score", "settings", "there")

    def __init__(self, score: Branch, mask: Branch, settings: Settings, there: Sequence[bool], read: int) -> None:
        super().__init__()
        self.score, self.mask, self.settings, self.there, self.read = score, mask, settings, tuple(there), read
        self.grad: Branch | None = None
        self.learned: Learned | None = None

    def given(self, captured: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """What the score and the mask are given behind a place: of the captured what each reads, and what each holds."""
        return [*captured[: self.read], *self.score.held], [*captured[self.read :], *self.mask.held]


# the operators


def _forward(query: Tensor, key: Tensor, value: Tensor, number: int, blocks: list[Tensor], captured: list[Tensor]) -> tuple[Tensor, Tensor]:
    own = Scores.of(number)
    out, sums = unfused(own.score.graph, own.mask.graph, own.settings[0], query, key, value, *own.given(captured))
    return laid_out(out, query), sums.contiguous()


def _like_forward(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    shape = (*query.shape[:-1], value.shape[-1])
    out = torch.empty_strided(shape, strides_of(query, shape), dtype=query.dtype, device="meta")
    return out, torch.empty(query.shape[:-1], dtype=computed_in(query), device="meta")


def _backward(*given: Any) -> tuple[Tensor, Tensor, Tensor]:
    made = _Scored(*given)
    own = made.own
    assert own.grad is not None
    inner = made.kept_of(made.over(own.grad, [made.behind])) * own.settings[0]

    def of_groups(t: Tensor) -> Tensor:
        return t.unflatten(1, (-1, made.groups)).sum(2)

    found = inner @ made.k, of_groups(inner.transpose(-2, -1) @ made.q), of_groups(made.powers.transpose(-2, -1) @ made.grad)
    of_query, of_key, of_value = (torch.empty_like(t).copy_(f) for t, f in zip(given[1:4], found, strict=True))
    return of_query, of_key, of_value


class _Scored:
    """All scores of a call, and what its gradients have in common: made from what their operators are given."""

    def __init__(
        self,
        given: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        sums: Tensor,
        delta: Tensor,
        number: int,
        blocks: list[Tensor],
        captured: list[Tensor],
    ) -> None:
        self.own = own = Scores.of(number)
        self.captured, self.read = captured, captured[: own.read]
        of_score, of_mask = own.given(captured)
        self.groups = query.shape[1] // key.shape[1]
        self.q, self.grad, k, v = (t.to(computed_in(query)) for t in (query, given, key, value))
        self.k, v = k.repeat_interleave(self.groups, 1), v.repeat_interleave(self.groups, 1)
        self.scores = self.q @ self.k.transpose(-2, -1) * own.settings[0]
        self.places = [torch.arange(n, dtype=torch.int32, device=query.device) for n in self.scores.shape]
        self.kept = spread(own.mask.graph, (), len(of_mask))(*self.places, *of_mask)
        changed = spread(own.score.graph, (0,), len(of_score))(self.scores, *self.places, *of_score)
        is_left = self.kept & (sums != float("-inf")).unsqueeze(-1)
        self.powers = torch.where(is_left, torch.exp(changed - sums.unsqueeze(-1)), 0.0)
        self.behind = self.powers * (self.grad @ v.transpose(-2, -1) - delta.unsqueeze(-1))

    def over(self, branch: Branch, varying: Sequence[Tensor] = (), which: int = 0) -> Tensor:
        """What a graph gives for every score. Behind a place it takes what the score reads, what varies with it, and what it holds."""
        at = (None,) * len(self.read) + (0,) * len(varying) + (None,) * len(branch.held)
        others = [*self.read, *varying, *branch.held]
        return spread(branch.graph, (0,), len(others), at, which)(self.scores, *self.places, *others)

    def kept_of(self, t: Tensor) -> Tensor:
        return torch.where(self.kept, t, 0.0)


def _like_backward(given: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _learned(*given: Any) -> list[Tensor]:
    made = _Scored(*given)
    learned, kind = made.own.learned, made.scores.dtype
    assert learned is not None
    each = [made.over(learned.values, which=n) for n in range(len(learned.of))]
    found = {k: torch.zeros(made.captured[k].shape, dtype=kind, device=made.scores.device) for k in learned.tensors}
    begin = 0
    for n, k in enumerate(learned.of):
        grad = made.kept_of(made.over(learned.grads, [*each, made.behind], n)).to(kind)
        at: list[Tensor | None] = [made.over(learned.keys, which=begin + d) for d in range(made.captured[k].dim())]
        begin += len(at)
        if at:
            found[k].index_put_(at, grad, accumulate=True)
        else:
            found[k] += grad.sum()
    return list(found.values())


def _like_learned(given: Tensor, query: Tensor, key: Tensor, value: Tensor, *others: Any) -> list[Tensor]:
    *_, number, _, captured = others
    learned = Scores.of(number).learned
    assert learned is not None
    return [torch.empty(captured[k].shape, dtype=computed_in(query), device="meta") for k in learned.tensors]


_library = torch.library.Library("dynamo_regions", "FRAGMENT")
_library.define(
    "flex_attention(Tensor query, Tensor key, Tensor value, int scores, Tensor[] blocks, Tensor[] captured) -> (Tensor, Tensor)"
)
_library.define(
    "flex_attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor sums, Tensor delta, int scores, "
    "Tensor[] blocks, Tensor[] captured) -> (Tensor, Tensor, Tensor)"
)
_library.define(
    "flex_attention_learned(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor sums, Tensor delta, int scores, "
    "Tensor[] blocks, Tensor[] captured) -> Tensor[]"
)
_library.impl("flex_attention", _forward, "CompositeExplicitAutograd")
_library.impl("flex_attention", _like_forward, "Meta")
_library.impl("flex_attention_backward", _backward, "CompositeExplicitAutograd")
_library.impl("flex_attention_backward", _like_backward, "Meta")
_library.impl("flex_attention_learned", _learned, "CompositeExplicitAutograd")
_library.impl("flex_attention_learned", _like_learned, "Meta")
ATTENTION = torch.ops.dynamo_regions.flex_attention.default
ATTENTION_BACKWARD = torch.ops.dynamo_regions.flex_attention_backward.default
ATTENTION_LEARNED = torch.ops.dynamo_regions.flex_attention_learned.default


# recording them


@dataclass(frozen=True, slots=True)
class _Site:
    """A call in the captured graph: see `branches._Site`."""

    builder: weakref.ref[Builder]
    score: GraphModule
    scores: Scores
    blocks: int
    learned: tuple[int, ...]  # captured tensors that need gradients


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, site: _Site, query: Tensor, key: Tensor, value: Tensor, *others: Tensor) -> Any:
        blocks, captured = list(others[: site.blocks]), list(others[site.blocks :])
        out, sums = ATTENTION(query, key, value, site.scores.number, blocks, captured)
        ctx.site = site
        ctx.save_for_backward(query, key, value, out, sums, *others)
        ctx.set_materialize_grads(False)
        return out, sums

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, of_sums: Tensor | None) -> Any:
        site: _Site = ctx.site
        builder = site.builder()
        assert builder is not None  # it is who runs this
        query, key, value, out, sums, *others = ctx.saved_tensors
        blocks, captured = others[: site.blocks], others[site.blocks :]
        own = site.scores
        if own.grad is None:
            numbers = [*_numbers_of_a_place(query, with_score=True), *captured[: own.read]]
            own.grad, _ = traced(builder, site.score, numbers, (0,), (numbers[0],))
        if grad is None:
            grad = torch.zeros_like(out)
        delta = (grad.to(sums.dtype) * out.to(sums.dtype)).sum(-1)
        if of_sums is not None:
            delta = delta - of_sums
        found = ATTENTION_BACKWARD(grad, query, key, value, sums, delta, own.number, blocks, captured)
        behind: list[Tensor | None] = [None] * len(captured)
        if site.learned:
            own.learned = own.learned or _learned_of(builder, site, query, captured)
            made = ATTENTION_LEARNED(grad, query, key, value, sums, delta, own.number, blocks, captured)
            for k, t in zip(own.learned.tensors, made, strict=True):
                behind[k] = t.to(captured[k].dtype)
        return (None, *found, *(None for _ in blocks), *behind)


def _learned_of(builder: Builder, site: _Site, query: Tensor, captured: Sequence[Tensor]) -> Learned:
    found = elements(site.score, site.learned)
    assert found is not None  # else the call is not captured
    values, keys, changed = parted(site.score, found)
    numbers = [*_numbers_of_a_place(query, with_score=True), *captured[: site.scores.read]]
    read, each = traced(builder, values, numbers)
    at, _ = traced(builder, keys, numbers)
    wanted = range(len(numbers), len(numbers) + len(each))
    grads, _ = traced(builder, changed, [*numbers, *each], wanted, (numbers[0],))
    of = tuple(k for _, k in found)
    return Learned(read, at, grads, of, tuple(dict.fromkeys(of)))


def _numbers_of_a_place(query: Tensor, *, with_score: bool) -> list[FakeTensor]:
    """A score and its place."""
    types = [computed_in(query)] * with_score + [torch.int32] * 4
    return [FakeTensor(torch.empty((), dtype=dtype, device="meta"), query.device) for dtype in types]


def attention(
    builder: Builder,
    score: GraphModule,
    mask: GraphModule,
    settings: Settings,
    blocks: Blocks,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    read: int,
    *captured: Tensor,
) -> Any:
    """Record a call. Returns fakes, with history where the arguments need gradients."""
    learned = tuple(k for k in range(read) if torch.is_grad_enabled() and captured[k].requires_grad)
    captured = tuple(t.contiguous() if k in learned else t for k, t in enumerate(captured))
    with without_autocast():
        scored, _ = traced(builder, score, [*_numbers_of_a_place(query, with_score=True), *captured[:read]])
        kept, _ = traced(builder, mask, [*_numbers_of_a_place(query, with_score=False), *captured[read:]])
    own = Scores(scored, kept, settings, [t is not None for t in blocks], read)
    builder.pairs.append(own)
    there = [t for t in blocks if t is not None]
    if learned or (torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))):
        return _Attention.apply(_Site(weakref.ref(builder), score, own, len(there), learned), query, key, value, *there, *captured)
    return tuple(ATTENTION(query, key, value, own.number, there, list(captured)))
