"""Writes through memory that an operator would see twice: what eager refuses, or answers by the order in which it goes.

The rule is wider than ATen's `assert_no_internal_overlap`, `assert_no_partial_overlap` and `assert_no_overlap`, which look closely at dense
tensors only: where a write meets memory that is read or written elsewhere in the same call, what comes out depends on loops and vectors of
a kernel, and only that kernel knows. Refused while tracing, the call is made by CPython, whether it raises there or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import gcd
from typing import Any, NamedTuple

import torch

from dynamo.ops.facts import facts_of

Tensor = torch.Tensor


class Overlap(RuntimeError):
    """A write meets memory again; eager raises a RuntimeError, or its kernel answers by the order in which it goes."""


# Searching for a common element stops after so many steps; what has not been ruled out by then counts as common.
_STEPS = 500


def check_overlap(func: Any, written: Sequence[Any], read: Sequence[Any]) -> None:
    """Raises where the memory written to is met again. `written` and `read` are arguments: tensors, lists of them, or anything."""
    facts = facts_of(func)
    if facts.reshapes_in_place or facts.base.startswith("_fused_"):
        return
    if facts.base.startswith("_foreach_"):
        for items in zip(*(a for a in (*written, *read) if isinstance(a, (list, tuple))), strict=False):
            _check(items[: len(written)], items[len(written) :], False)
        if crosses(written, read):
            raise Overlap("an item of a list is written to, and shares memory with another item")
        return
    targets, operands = list(tensors(written)), list(tensors(read))
    if facts.updates and 0 not in facts.writes:  # with `out=`: in place, the first operand is the target
        _check(targets, operands[:1], False)
        operands = operands[1:]
    _check(targets, operands, facts.alone or facts.updates)


def _check(targets: Sequence[Tensor], operands: Iterable[Any], alone: bool) -> None:
    for target in targets:
        if overlaps_itself(target.shape, target.stride()):
            raise Overlap(
                "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
                "Please clone() the tensor before performing the operation."
            )
    pairs = [(t, o) for o in operands if isinstance(o, Tensor) for t in targets]
    for target, other in pairs:
        if target.untyped_storage()._cdata != other.untyped_storage()._cdata:
            continue
        if (alone or not _same_elements(target, other)) and meet(target, other):
            raise Overlap(
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. "
                "Please clone() the tensor before performing the operation."
            )


class _Item(NamedTuple):
    """A tensor in one place of the lists that an operator takes; bytes of its storage from `start` to `stop`. A place of -1: in no list."""

    start: int
    stop: int
    place: int
    is_written: bool
    tensor: Tensor


def crosses(written: Iterable[Any], read: Iterable[Any]) -> bool:
    """Operators on lists go item by item: does one that is written to meet what an operand has in another place?"""
    storages: dict[int, list[_Item]] = {}
    for is_written, operands in ((True, written), (False, read)):
        for operand in operands:
            placed = enumerate(operand) if isinstance(operand, (list, tuple)) else ((-1, operand),)
            for place, t in placed:
                if isinstance(t, Tensor) and t.numel():
                    item = _Item(*byte_range(t), place, is_written, t)
                    storages.setdefault(t.untyped_storage()._cdata, []).append(item)
    return any(_cross(items) for items in storages.values() if len(items) > 1)


def _cross(items: list[_Item]) -> bool:
    begun: list[_Item] = []
    for item in sorted(items, key=lambda item: item.start):
        begun = [other for other in begun if other.stop > item.start]
        others = [o for o in begun if o.place != item.place and (o.is_written or item.is_written)]
        if any(meet(item.tensor, o.tensor) for o in others):
            return True
        begun.append(item)
    return False


def byte_range(t: Tensor) -> tuple[int, int]:
    """Bytes of the storage, from the first element to behind the last one."""
    size, start = t.element_size(), int(t.storage_offset())
    return start * size, (start + extent(t.shape, t.stride())) * size


def extent(shape: Iterable[int], strides: Iterable[int]) -> int:
    """Elements of the storage from the first to the last one of a view that has some."""
    return 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))


def overlaps_itself(shape: Iterable[int], strides: Iterable[int]) -> bool:
    """May two positions of such a view be one element?"""
    if 0 in (shape := tuple(shape)):
        return False
    reach = 0
    for stride, size in sorted((abs(stride), size) for stride, size in zip(strides, shape, strict=True) if size != 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def _same_elements(a: Tensor, b: Tensor) -> bool:
    """Is the same position of both the same element?"""
    if a.storage_offset() != b.storage_offset() or a.shape != b.shape or a.element_size() != b.element_size():
        return False
    return all(s == t for s, t, n in zip(a.stride(), b.stride(), a.shape, strict=True) if n > 1)


def meet(a: Tensor, b: Tensor) -> bool:
    """Do two tensors over one storage have a byte in common?"""
    if not a.numel() or not b.numel():
        return False
    # elements of one size do not begin inside each other: they are counted whole, others in bytes
    scale_a, scale_b = (1, 1) if a.element_size() == b.element_size() else (a.element_size(), b.element_size())
    ranges: dict[int, tuple[int, int]] = {}
    for t, scale, sign in ((a, scale_a, 1), (b, scale_b, -1)):
        dims = [(n, s * scale) for n, s in zip(t.shape, t.stride(), strict=True)]
        if scale > 1:
            dims.append((scale, 1))
        for size, stride in dims:
            if size > 1 and stride:
                low, high = ranges.get(stride, (0, 0))
                ranges[stride] = (low, high + size - 1) if sign > 0 else (low - size + 1, high)
    distance = int(b.storage_offset()) * scale_b - int(a.storage_offset()) * scale_a
    return _reaches(distance, sorted(ranges.items(), reverse=True))


def _reaches(distance: int, terms: list[tuple[int, tuple[int, int]]]) -> bool:
    """Is `distance` a sum of one multiple of each stride, every factor within its range?"""
    # of what is left from each term on: smallest and largest sum, and what divides all of them
    rest = [(0, 0, 0)]
    for stride, (low, high) in reversed(terms):
        least, most, divisor = rest[-1]
        rest.append((least + stride * low, most + stride * high, gcd(divisor, stride)))
    rest.reverse()
    open_ends = [(distance, 0)]
    for _ in range(_STEPS):
        if not open_ends:
            return False
        left, k = open_ends.pop()
        least, most, divisor = rest[k]
        if not least <= left <= most or (left % divisor if divisor else left):
            continue
        if k == len(terms):
            return True
        stride, (low, high) = terms[k]
        after_least, after_most, _ = rest[k + 1]
        first, last = max(low, -((after_most - left) // stride)), min(high, (left - after_least) // stride)
        open_ends += [(left - stride * factor, k + 1) for factor in range(first, min(last, first + _STEPS) + 1)]
    return True


def tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors(value)
