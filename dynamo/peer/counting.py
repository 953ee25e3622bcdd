"""`torch._dynamo.utils.counters`, counted from our events.

Events are counted when somebody looks, so that counting costs nothing while nobody does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from dynamo.trace import events as ev
from dynamo.trace.store import of_process


class Counters(defaultdict[str, Counter[Any]]):
    """Group to counter, as torch has them: `stats`, `frames`, `graph_break`, `recompiles`, `inductor`; and `notes` by id: `DI021` for
    every kernel that Triton refused."""

    def __init__(self) -> None:
        super().__init__(Counter)
        self._last: ev.Event | None = None

    def catch_up(self) -> None:
        """Count what has happened since the last look."""
        events = of_process().events
        new = _after(events, self._last)
        if new:
            self._last = new[-1]
        for event in new:
            self._count(event)

    def _count(self, event: ev.Event) -> None:
        if isinstance(event, ev.GraphCaptured) and event.stage == "capture":
            self._add("stats", "unique_graphs", 1)
            self._add("stats", "calls_captured", event.ops)
        elif isinstance(event, ev.CompileStarted):
            self._add("frames", "total", 1)
        elif isinstance(event, ev.CompileEnded) and event.outcome in ("ok", "break", "empty"):
            self._add("frames", "ok", 1)
        elif isinstance(event, ev.GraphBroke):
            self._add("graph_break", event.reason, 1)
        elif isinstance(event, ev.Recompiled):
            self._add("recompiles", event.reason, 1)
        elif isinstance(event, ev.CacheLooked):
            self._add("inductor", f"fxgraph_cache_{event.outcome}", 1)
        elif isinstance(event, ev.Note):
            self._add("notes", event.id, 1)

    def _add(self, group: str, name: str, count: int) -> None:
        super().__getitem__(group)[name] += count

    def clear(self) -> None:
        self.catch_up()
        super().clear()

    def __getitem__(self, group: str) -> Counter[Any]:
        self.catch_up()
        return super().__getitem__(group)

    def __iter__(self) -> Iterator[str]:
        self.catch_up()
        return super().__iter__()

    def __len__(self) -> int:
        self.catch_up()
        return super().__len__()

    def items(self) -> Any:
        self.catch_up()
        return super().items()

    def __repr__(self) -> str:
        self.catch_up()
        return super().__repr__()


def _after(events: list[ev.Event], last: ev.Event | None) -> list[ev.Event]:
    """Those behind `last`, which is looked for from the end; all where it is gone already."""
    for position in range(len(events) - 1, -1, -1):
        if events[position] is last:
            return events[position + 1 :]
    return list(events)


counters = Counters()
