"""Which tensors of a graph overlap, and what of that one compiled graph holds for.

Tensors of one storage that have no element in common, as rows of one buffer do, are separate: a graph for one row and another is one
for any two. Those that overlap are views of their common storage to a graph that writes to one of them, with sizes, strides and offsets.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch

from dynamo import _C
from dynamo.fake.overlap import byte_range, extent

Tensor = torch.Tensor


def overlapping(tensors: Sequence[Tensor]) -> list[list[int]]:
    """Tensors of one storage in groups, by position, that reach into each other's elements; those that are alone are in none.

    A view that needs a gradient has the history of its base, which writes to other views change: then all are one group.
    """
    if any(t.requires_grad and t._is_view() for t in tensors):
        return [list(range(len(tensors)))] if len(tensors) > 1 else []
    groups: list[list[int]] = []
    end = 0
    for start, stop, i in sorted((*byte_range(t), i) for i, t in enumerate(tensors) if t.numel()):
        if groups and start < end:
            groups[-1].append(i)
        else:
            groups.append([i])
        end = max(end, stop)
    return [sorted(g) for g in groups if len(g) > 1]


def is_within(base: Tensor, shape: Sequence[int], strides: Sequence[int], offset: int | None = None) -> bool:
    """Has `base` all elements of such a view of its storage? False for a base with gaps: elements in them are not its own."""
    if 0 in shape:
        return True
    first, elements = base.storage_offset(), extent(base.shape, base.stride())
    start = first if offset is None else offset
    return first <= start and start + extent(shape, strides) <= first + elements and base.numel() == elements


_MOST_KNOWN = 256


class Sharing:
    """A key of how the arguments of a call share memory, with each other and with `held` tensors. Equal keys, the same graph."""

    def __init__(self, held: Sequence[Tensor]) -> None:
        self.held = tuple(held)
        self.shared: dict[bytes, list[list[int]]] = {}
        self.known: dict[Hashable, Hashable] = {}  # by address: guards see to sizes and strides

    def key(self, args: Sequence[object]) -> Hashable:
        given = (*args, *self.held)
        same = _C.sharing(given)
        shared = self.shared.get(same)
        if shared is None:
            shared = self.shared[same] = self._shared(same, given, len(args))
        return (same, *[self._lie(same, [given[i] for i in group]) for group in shared]) if shared else same

    def _shared(self, same: bytes, given: Sequence[object], arguments: int) -> list[list[int]]:
        """The positions of different tensors of one storage, where one of them is an argument."""
        pairs = memoryview(same).cast("i")
        positions = [i for i, value in enumerate(given) if isinstance(value, Tensor)]
        groups: dict[int, list[int]] = {}
        for i, storage, itself in zip(positions, pairs[::2], pairs[1::2], strict=True):
            if itself == i:
                groups.setdefault(storage, []).append(i)
        return [g for g in groups.values() if len(g) > 1 and g[0] < arguments]

    def _lie(self, same: bytes, tensors: list[Any]) -> Hashable:
        storage = tensors[0].untyped_storage()
        size = storage.nbytes()
        at = same, storage.data_ptr(), size, *[(t.data_ptr(), t.requires_grad and t._is_view()) for t in tensors]
        if at not in self.known:
            groups = overlapping(tensors)
            places = tuple((*g, *[tensors[i].storage_offset() for i in g]) for g in groups)
            if len(self.known) == _MOST_KNOWN:
                self.known.clear()
            self.known[at] = (size, places) if groups else None
        return self.known[at]
