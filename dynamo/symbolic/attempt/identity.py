"""Which value stands for which real object: each object has one value, however often it is met."""

from __future__ import annotations

from typing import Any

from dynamo.source import Source
from dynamo.symbolic.values.kinds import CellValue, ObjectValue, Value


class Identities:
    """Values by the object that they stand for."""

    def __init__(self) -> None:
        self.by_id: dict[int, Value] = {}
        self.owners: dict[Source, object] = {}  # source of an instance dict -> the object that it is of
        self._keep: list[object] = []  # keeps objects alive whose id() is a key

    def remember(self, obj: Any, value: Value) -> Value:
        """`value` stands for `obj` from now on."""
        self.by_id[id(obj)] = value
        self._keep.append(obj)
        return value

    def forget(self) -> None:
        """Take apart what would be a circle: an object and its attributes refer to each other."""
        for v in self.by_id.values():
            if isinstance(v, ObjectValue | CellValue):
                vars(v).clear()
