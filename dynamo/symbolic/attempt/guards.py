"""The guard set of an attempt: facts that the capture relies on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynamo import _C
from dynamo.guards.definitions import Definitions, lookup
from dynamo.guards.kinds import KINDS, GuardRecord
from dynamo.source import Source
from dynamo.symbolic.values.kinds import Const, TensorValue, Value


class GuardSet:
    """Facts of objects, what names meant (`definitions`), and which objects differ from each other (`apart`)."""

    def __init__(self, where: Callable[[], tuple[str, int]]) -> None:
        self._where = where  # the user line that is being traced
        self.records: dict[Any, GuardRecord] = {}
        self.definitions = Definitions()
        self.apart: dict[Source, None] = {}  # objects that the trace has found to be different from each other
        self.asked: set[str] = set()  # facts of tensors, by the name of the method or attribute, that code of the user's has asked for

    def add(self, source: Source | None, kind: _C.GuardKind, arg: Any = None) -> None:
        """Rely on a fact; repeated facts are kept once, with the first line that needed them."""
        if kind == "code" and source is not None and source.kind == "const":
            self.definitions.of_function(source.arg)
            return
        key = (source, kind, KINDS[kind].key(arg))
        try:
            known = key in self.records
        except TypeError:
            key = (source, kind, id(arg))
            known = key in self.records
        if not known:
            file, line = self._where()
            self.records[key] = GuardRecord(source, kind, arg, file, line)

    def lookup(self, cls: type, name: str) -> Any:
        """Raw entry of `name` along the bases of `cls`, or MISSING; relied upon. Never runs user code."""
        raw = lookup(cls, name)
        self.definitions.of_class(cls, name, raw)
        return raw

    def differ(self, a: Value, b: Value) -> None:
        """Rely on two objects being different. Those of different classes are, and tensors are guarded to be."""
        x, y = getattr(a, "obj", None), getattr(b, "obj", None)
        if x is None or y is None or a.cls is not b.cls or isinstance(a, Const | TensorValue):
            return
        if a.source is not None and b.source is not None:
            self.apart[a.source] = self.apart[b.source] = None
        elif a.source is not None:
            self.add(a.source, "is_not", y)
        elif b.source is not None:
            self.add(b.source, "is_not", x)
