"""The operators this backend has traced in smaller pieces: those of `dynamo.aot.decompose` that no lowering row implements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dynamo.surroundings.locks import cached_property


class Splits(Mapping[Any, Callable[..., Any]]):
    """Filled when first asked: a graph that the disk cache has needs neither the table nor the rows."""

    @cached_property
    def table(self) -> Mapping[Any, Callable[..., Any]]:
        from dynamo.aot.decompose import select  # noqa: PLC0415  # the rows of every operator: not needed where the cache has the graph
        from inductor.lowering import families  # noqa: PLC0415  # the rows of every operator: not needed where the cache has the graph
        from inductor.lowering.registry import ROWS  # noqa: PLC0415  # the rows of every operator: not needed where the cache has the graph

        families.load()
        return select(native=ROWS)

    def __getitem__(self, op: Any) -> Callable[..., Any]:
        return self.table[op]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)


SPLITS = Splits()
