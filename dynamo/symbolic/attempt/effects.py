"""What a trace leaves for the entry to do besides the graph: changes of objects that existed before the frame, and warnings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from dynamo.symbolic.values.kinds import DictValue, ListValue, TensorValue, Value

Filter = tuple[str, tuple[Any, ...], tuple[tuple[str, Any], ...]]


@dataclass
class WarningScope:
    """A `catch_warnings` that was entered at a root step, with the filters set in it."""

    manager: Value
    born: int
    filters: list[Filter]


@dataclass(frozen=True)
class Place:
    """Where a warning is said to come from: a traced frame, or (`above` > 0) one that many frames above the root."""

    file: str
    line: int
    globals: dict[str, Any]
    above: int = 0


@dataclass(frozen=True)
class Warned:
    """One call of `warnings.warn`. `early`: no operation came before it."""

    message: Value
    category: type[Warning]
    place: Place
    filters: tuple[Filter, ...]
    early: bool


def contents_of(v: Value) -> Any:
    """What a value that can change holds now, of itself; members are compared by identity."""
    if isinstance(v, ListValue):
        return list(v.items)
    if isinstance(v, DictValue):
        return [(k, x) for k, (_, x) in v.table.items()]
    if isinstance(v, TensorValue):
        return list(v.attrs.items())
    return getattr(v, "contents", None), list(getattr(v, "slots", {}).items())


class Effects:
    """Replayed by the entry in the order of these fields, but for `on_exit`."""

    def __init__(self) -> None:
        self.warned: list[Warned] = []  # warnings that the entry gives
        self.said: set[tuple[str, type[Warning]]] = set()  # those of them that an operator of the graph gives as well
        self.warning_scopes: list[WarningScope] = []  # entered now, innermost last
        self.mutated: dict[int, Value] = {}  # by id
        self.grads_dropped: set[int] = set()  # tensors (by id of their value) whose gradient was dropped before the first op
        self.global_writes: dict[tuple[int, str], tuple[dict[str, Any], str, Value | None]] = {}
        self.context_writes: dict[ContextVar[Any], Value] = {}
        self.class_writes: dict[tuple[type, str], Value | None] = {}  # None: deleted
        self.class_views: list[tuple[Any, DictValue]] = []  # a class's own names, and a mappingproxy that shows them
        self.watching: list[dict[int, tuple[Value, Any]]] = []  # what is changed in regions, with what it held before
        self.changes = 0  # made so far, those of one object again included
        self.on_exit: list[Callable[[], None]] = []  # restores real global modes when the attempt ends, last first

    def filters(self) -> tuple[Filter, ...]:
        """Those that the program has set where it is now, outermost first."""
        return tuple(f for scope in self.warning_scopes for f in scope.filters)

    def raises_warnings(self) -> bool:
        """Whether a warning may be an error here."""
        own = (args[0] for _, args, _ in self.filters() if args)
        return "error" in own or any(f[0] == "error" for f in warnings.filters)

    def touch(self, v: Value) -> None:
        """See `Tracer.touch`."""
        if getattr(v, "obj", None) is not None or v.source is not None:
            self.changes += 1
            self.mutated.setdefault(id(v), v)
            for seen in self.watching:
                if id(v) not in seen:
                    seen[id(v)] = v, contents_of(v)

    @contextmanager
    def watched(self) -> Iterator[dict[int, tuple[Value, Any]]]:
        """Objects that are changed inside, by their value's id, with what they held before."""
        seen: dict[int, tuple[Value, Any]] = {}
        self.watching.append(seen)
        try:
            yield seen
        finally:
            self.watching.pop()

    def set_global(self, globals_: dict[str, Any], name: str, v: Value | None) -> None:
        """None deletes."""
        self.changes += 1
        self.global_writes[(id(globals_), name)] = (globals_, name, v)

    def replayed(self) -> bool:
        """Whether the entry has changes to replay."""
        return bool(self.mutated or self.global_writes or self.class_writes or self.context_writes)
