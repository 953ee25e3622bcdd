"""Views, copies and casts that show what is there already; pieces put together that were one before, and taken apart that were pieces.

In: an operator that moves no arithmetic. Out: its source, or one operator in place of two.
"""

from __future__ import annotations

import operator
from itertools import accumulate
from typing import Any

import torch
from torch.fx import Node

from dynamo.ops.facts import is_view
from inductor.passes.row import Call, Replacement, Row, Seen, aten, called, is_shown, operand, row, same_facts, stands_for

NO_OPS = (
    aten.clone.default,
    aten._to_copy.default,
    aten.expand.default,
    aten.view.default,
    aten.permute.default,
    aten.slice.Tensor,
    aten.alias.default,
    aten.constant_pad_nd.default,
    aten.repeat.default,
)
VIEWS = (aten.view.default, aten._unsafe_view.default)
SPLITS = (aten.split.Tensor, aten.split_with_sizes.default)
PRODUCTS = (aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default)


def no_op(node: Node, seen: Seen) -> Replacement:
    """view(x, x.shape), x.to(x.dtype), clone(x), x[:], a pad by nothing: the operand itself, where nobody sees the difference."""
    source = operand(node)
    if source is None or is_shown(node) or not same_facts(node, source):
        return None
    if node in seen.shown and not is_view(node.target):
        return None
    if node.target is aten.permute.default and list(node.args[1]) != sorted(node.args[1]):  # type: ignore[arg-type]  # ints, by the schema
        return None
    if node.target is aten.slice.Tensor and source.meta["val"].storage_offset() != node.meta["val"].storage_offset():
        return None
    if node.target is aten.constant_pad_nd.default and any(node.args[1]):  # type: ignore[arg-type]  # ints, by the schema
        return None
    return source


def view_of_view(node: Node, seen: Seen) -> Replacement:
    """view(view(x, a), b) = view(x, b)."""
    source = operand(node)
    if source is None or not called(source, *VIEWS) or is_shown(source):
        return None
    return Call(node.target, (source.args[0], *node.args[1:]))


def order_of(node: Node) -> list[int] | None:
    """The permutation of dims that a node applies."""
    ndim = node.meta["val"].dim()
    if called(node, aten.permute.default):
        return [d % ndim for d in node.args[1]]  # type: ignore[union-attr]  # ints, by the schema
    order = list(range(ndim))
    if called(node, aten.t.default):
        return order[::-1]
    if called(node, aten.transpose.int) and ndim:
        a, b = (int(d) % ndim for d in node.args[1:])  # type: ignore[arg-type]  # ints, by the schema
        order[a], order[b] = order[b], order[a]
        return order
    return None


def permuted_twice(node: Node, seen: Seen) -> Replacement:
    """permute(permute(x, p), q) = permute(x, p[q]); x where that changes nothing."""
    source = operand(node)
    if source is None or is_shown(node) or is_shown(source):
        return None
    outer, inner = order_of(node), order_of(source)
    base = operand(source)
    if outer is None or inner is None or base is None:
        return None
    order = [inner[d] for d in outer]
    return base if order == sorted(order) and same_facts(node, base) else Call(aten.permute.default, (base, order))


def is_exact(source: torch.dtype, target: torch.dtype) -> bool:
    """Every value of `source` is one of `target`."""
    if source == torch.bool or source == target:
        return True
    if source.is_floating_point and target.is_floating_point:
        a, b = torch.finfo(source), torch.finfo(target)
        return a.eps >= b.eps and a.max <= b.max and a.tiny >= b.tiny
    if not (source.is_floating_point or source.is_complex or target.is_floating_point or target.is_complex or target == torch.bool):
        return torch.iinfo(target).min <= torch.iinfo(source).min and torch.iinfo(source).max <= torch.iinfo(target).max
    return False


def cast_of_cast(node: Node, seen: Seen) -> Replacement:
    """to(to(x, a), b) = to(x, b) if the first loses nothing; x itself if b is its dtype."""
    source = operand(node)
    base = operand(source) if source is not None and called(source, aten._to_copy.default) else None
    if base is None or source is None or set(node.kwargs) != {"dtype"} or set(source.kwargs) != {"dtype"}:
        return None
    first, last = base.meta["val"].dtype, node.meta["val"].dtype
    if not is_exact(first, source.meta["val"].dtype):
        return None
    if first == last:
        return stands_for(node, base, seen)
    return Call(aten._to_copy.default, (base,), (("dtype", last),))


def cat_of_one(node: Node, seen: Seen) -> Replacement:
    """cat([x]) = x."""
    parts = node.args[0]
    return stands_for(node, parts[0], seen) if isinstance(parts, (list, tuple)) and len(parts) == 1 else None  # type: ignore[arg-type]  # a list of nodes


def dim_of(node: Node, position: int = 2) -> int:
    dim: Any = node.args[position] if len(node.args) > position else node.kwargs.get("dim", 0)
    return int(dim)


def cat_of_split(node: Node, seen: Seen) -> Replacement:
    """cat(split(x, n, d), d) = x: all the pieces, in order."""
    parts: Any = node.args[0]
    if not isinstance(parts, (list, tuple)) or not all(called(p, operator.getitem) for p in parts):
        return None
    source = parts[0].args[0] if parts else None
    if not isinstance(source, Node) or not called(source, *SPLITS) or [p.args for p in parts] != [(source, i) for i in range(len(parts))]:
        return None
    base = operand(source)
    if base is None or len(parts) != len(source.meta["val"]):
        return None
    ndim = base.meta["val"].dim()
    return stands_for(node, base, seen) if dim_of(node, 1) % ndim == dim_of(source) % ndim else None


def piece_of_cat(node: Node, seen: Seen) -> Replacement:
    """slice(cat(xs, d), d, start, end) and split(cat(xs, d), n, d)[i] = the operand that fills exactly that stretch."""
    source = operand(node)
    if source is None or node in seen.shown:
        return None
    if node.target is operator.getitem:
        if not called(source, *SPLITS):
            return None
        whole, dim = operand(source), dim_of(source)
        val, index = source.meta["val"], int(node.args[1])  # type: ignore[arg-type]  # which of the pieces
        start = sum(int(v.shape[dim]) for v in val[:index])
    else:
        whole, dim, start = source, dim_of(node, 1), int(node.args[2] or 0) if len(node.args) > 2 else 0  # type: ignore[arg-type]  # an int
        if len(node.args) > 4 and node.args[4] != 1:
            return None
    if whole is None or not called(whole, aten.cat.default):
        return None
    ndim, size = whole.meta["val"].dim(), int(node.meta["val"].shape[dim])
    parts: Any = whole.args[0]
    if dim_of(whole, 1) % ndim != dim % ndim or any(p.meta["val"].dim() != ndim for p in parts):
        return None
    start = start if start >= 0 else start + int(whole.meta["val"].shape[dim])
    ends = list(accumulate(int(p.meta["val"].shape[dim]) for p in parts))
    for part, end in zip(parts, ends, strict=True):
        if end == start + size and int(part.meta["val"].shape[dim]) == size and size:
            return same_values(node, part)
    return None


def same_values(node: Node, part: Node) -> Node | None:
    """The part may have other strides than the view of the whole: what is computed does not depend on them."""
    x, y = node.meta["val"], part.meta["val"]
    return part if x.shape == y.shape and x.dtype == y.dtype else None


def copy_for_product(node: Node, seen: Seen) -> Replacement:
    """mm(clone(x), w) = mm(x, w): the libraries read any matrix whose rows or columns are contiguous."""
    source = operand(node)
    if source is None or node in seen.shown or not node.users or not all(called(u, *PRODUCTS) for u in node.users):
        return None
    strides = source.meta["val"].stride()
    return source if len(strides) >= 2 and 1 in strides[-2:] and 0 not in strides and same_values(node, source) else None


ROWS: tuple[Row, ...] = (
    row("view of view", view_of_view, *VIEWS),
    row("permuted twice", permuted_twice, aten.permute.default, aten.t.default, aten.transpose.int),
    row("cast of cast", cast_of_cast, aten._to_copy.default),
    row("no-op", no_op, *NO_OPS),
    row("cat of one", cat_of_one, aten.cat.default),
    row("cat of split", cat_of_split, aten.cat.default),
    row("piece of cat", piece_of_cat, operator.getitem, aten.slice.Tensor),
    row("copy for product", copy_for_product, aten.clone.default),
)
