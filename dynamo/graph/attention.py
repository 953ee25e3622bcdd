"""`flex_attention` as captured graphs call it: attention whose scores two graphs over single numbers change and leave out.

Called as it stands it is eager's own way: all scores in memory. A backend with a kernel for it takes the two graphs apart
(`dynamo/aot/scores.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

import torch
from torch.fx import Graph, GraphModule, Node

from dynamo.fake import FakeTensor
from dynamo.surroundings.modes import without_autocast

Tensor = torch.Tensor
Settings = tuple[float, int, int]  # what scores are multiplied by, rows and columns of a block of the mask
Blocks = Sequence[Tensor | None]  # of a block mask: `kv_num_blocks`, `kv_indices`, the same of full blocks; the four of queries


def computed_in(query: Tensor) -> torch.dtype:
    """The type of scores."""
    return torch.float64 if query.dtype == torch.float64 else torch.float32


def flex_attention(
    score: Callable[..., Sequence[Tensor]],
    mask: Callable[..., Sequence[Tensor]],
    settings: Settings,
    blocks: Blocks,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    read: int,
    *captured: Tensor,
) -> tuple[Tensor, Tensor]:
    """The result, and the logarithm of each row's sum of powers. `score` reads the first `read` of `captured`, `mask` the others."""
    if isinstance(query, FakeTensor):
        return like_attention(query, key, value, captured[:read])
    with without_autocast():
        out, sums = unfused(score, mask, settings[0], query, key, value, captured[:read], captured[read:])
    return laid_out(out, query), sums


def unfused(
    score: Callable[..., Sequence[Tensor]],
    mask: Callable[..., Sequence[Tensor]],
    scale: float,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    of_score: Sequence[Tensor],
    of_mask: Sequence[Tensor],
) -> tuple[Tensor, Tensor]:
    """Eager's computation. Rows of which nothing is left are zeros, and the logarithms of their sums -inf."""
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    kind = computed_in(query)
    scores = query.to(kind) @ key.to(kind).transpose(-2, -1) * scale
    places = [torch.arange(n, dtype=torch.int32, device=query.device) for n in scores.shape]
    kept = spread(mask, (), len(of_mask))(*places, *of_mask)
    changed = spread(score, (0,), len(of_score))(scores, *places, *of_score)
    changed = torch.where(kept, changed, float("-inf")).expand(scores.shape)
    is_empty = (changed == float("-inf")).all(-1, keepdim=True)
    changed = changed.masked_fill(is_empty, 0.0)  # else the gradient of such a row is NaN
    sums = changed.logsumexp(-1).masked_fill(is_empty.squeeze(-1), float("-inf"))
    powers = changed.softmax(-1).masked_fill(is_empty, 0.0)
    return powers.to(query.dtype) @ value, sums


def unchanged(score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
    """The score function of calls without one."""
    return score


def everything(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
    """The mask function of calls without a mask."""
    return b.new_ones((), dtype=torch.bool)


def spread(
    graph: Callable[..., Sequence[Tensor]],
    first: tuple[int, ...],
    captured: int,
    others: tuple[int | None, ...] | None = None,
    which: int = 0,
) -> Callable[..., Tensor]:
    """A graph of a score and its place, of which one number is wanted, over all places. `others`: what of the captured varies with them."""
    others = (None,) * captured if others is None else others

    def function(*args: Tensor) -> Tensor:
        return graph(*args)[which]

    for own in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        function = torch.vmap(function, in_dims=(*first, *own, *others))
    return function


# what a score function reads and learns from

PLACE = 5  # a score and where it is come first of what the graph of a score function takes


def elements(score: GraphModule, learned: Container[int]) -> list[tuple[Node, int]] | None:
    """The elements that a score function reads of some of its captured tensors, with the tensor's number. None: it reads more of one."""
    found: list[tuple[Node, int]] = []
    given = [n for n in score.graph.nodes if n.op == "placeholder"]
    for k, tensor in enumerate(given[PLACE:]):
        if k not in learned:
            continue
        if not tensor.meta["val"].dim():
            found.append((tensor, k))
            continue
        for user in tensor.users:
            if not _is_element(user, tensor):
                return None
            found.append((user, k))
    return found


def _is_element(user: Node, tensor: Node) -> bool:
    if user.target is not torch.ops.aten.index.Tensor or user.args[0] is not tensor:
        return False
    keys = keys_of(user)
    return len(keys) == tensor.meta["val"].dim() and tensor not in keys


def parted(score: GraphModule, found: Sequence[tuple[Node, int]]) -> tuple[GraphModule, GraphModule, GraphModule]:
    """A score function in three: the elements, where they are (the indices of one after those of another), and what it makes of a score
    and of elements, which it is given behind all the others."""
    read = [node for node, _ in found]
    keys = [key for node in read if node.op != "placeholder" for key in keys_of(node)]
    values, places, changed = Graph(), Graph(), Graph()
    for graph, wanted in ((values, read), (places, keys)):
        copies: dict[Node, Node] = {}
        graph.graph_copy(score.graph, copies)
        graph.output(tuple(copies[n] for n in wanted))
    copies = {}
    changed.output(changed.graph_copy(score.graph, copies))
    last = next(n for n in reversed(changed.nodes) if n.op == "placeholder")
    for number, node in enumerate(read):
        with changed.inserting_after(last):
            last = changed.placeholder(f"element_{number}")
        last.meta["val"] = node.meta["val"]
        copies[node].replace_all_uses_with(last)
    for graph in (values, places, changed):
        graph.eliminate_dead_code()
    return GraphModule(torch.nn.Module(), values), GraphModule(torch.nn.Module(), places), GraphModule(torch.nn.Module(), changed)


def keys_of(lookup: Node) -> list[Node]:
    """The indices of an element."""
    keys = lookup.args[1]
    assert isinstance(keys, list | tuple)
    return [k for k in keys if isinstance(k, Node)]


def strides_of(query: Tensor, shape: Sequence[int]) -> list[int]:
    """Dims of the result lie in the order of the query's, but the last dim is always the inner one."""
    order = sorted(range(len(shape)), key=lambda k: query.stride()[k])
    order = [len(shape) - 1, *(k for k in order if k != len(shape) - 1)]
    strides, step = [0] * len(shape), 1
    for k in order:
        strides[k] = step
        step *= shape[k]
    return strides


def laid_out(out: Tensor, query: Tensor) -> Tensor:
    strides = strides_of(query, out.shape)
    return out if list(out.stride()) == strides else out.new_empty_strided(out.shape, strides).copy_(out)


def like_attention(query: Tensor, key: Tensor, value: Tensor, read: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Fakes that look like the results and have a history where the real ones have."""
    kind = computed_in(query)
    sums = query.to(kind).sum(-1) + key.to(kind).sum() + value.to(kind).sum()
    for t in read:
        sums = sums + t.to(kind).sum() if t.requires_grad else sums
    shape = (*query.shape[:-1], value.shape[-1])
    return laid_out((sums.unsqueeze(-1).expand(shape)).to(query.dtype), query), sums
