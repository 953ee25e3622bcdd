"""Backends that only watch: the recompilation profiler and the counters that old scripts and tests use."""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import torch

from dynamo import config
from dynamo.backends.registry import lookup_backend
from dynamo.trace import current
from dynamo.trace import events as ev
from dynamo.trace.store import Store

Callback = Callable[..., Any]


def _ops(gm: torch.fx.GraphModule) -> int:
    return sum(node.op in ("call_function", "call_method", "call_module") for node in gm.graph.nodes)


class CompileCounter:
    """A backend that counts the graphs and operations it gets and runs them as they are."""

    def __init__(self) -> None:
        self.frame_count = 0
        self.op_count = 0

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callback:
        self.frame_count += 1
        self.op_count += _ops(gm)
        return gm.forward

    def clear(self) -> None:
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """The same in front of another backend; `graphs` keeps what went through."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.backend = backend
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callback:
        super().__call__(gm, example_inputs)
        self.graphs.append(gm)
        return lookup_backend(self.backend)[1](gm, example_inputs)


class CompileProfiler(CompileCounter):
    """The recompilation profiler: use it as backend, run the program, print `report()`.

    It runs graphs as they are, and compiles again as often as guards fail, whatever `recompile_limit` says. It hears of all compiles of the
    process from its creation on, or, as a context manager, of those inside.
    """

    recompile_limit = sys.maxsize  # of a backend: see OWN_LIMIT in the registry

    def __init__(self) -> None:
        super().__init__()
        self.breaks: Counter[str] = Counter()
        self.failures: dict[str, list[str]] = {}
        self.errors: Counter[str] = Counter()
        self._places: dict[str, str] = {}
        self._store = current()
        self._listener = _listening(weakref.ref(self))
        self._store.listeners.append(self._listener)
        weakref.finalize(self, _unlisten, self._store, self._listener).atexit = False

    def __enter__(self) -> Self:
        if self._listener not in self._store.listeners:
            self._store.listeners.append(self._listener)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _unlisten(self._store, self._listener)

    def hear(self, event: ev.Event) -> None:
        """Count one event."""
        if isinstance(event, ev.GraphBroke):
            self.breaks[f"{event.reason} ({event.file}:{event.line})"] += 1
        elif isinstance(event, ev.Recompiled):
            self.failures.setdefault(event.frame, []).append(event.reason)
        elif isinstance(event, ev.CompileStarted):
            self._places[event.name] = f"{event.file}:{event.line}"
        elif isinstance(event, ev.InternalError):
            self.errors[f"{event.error} in {event.where} [{event.id}]"] += 1

    def get_metrics(self) -> dict[str, Any]:
        """`guard_failures`: for each recompiled function, `'name' (file:line)`, the reasons in order."""
        return {"guard_failures": {self._named(frame): list(reasons) for frame, reasons in self.failures.items()}}

    def _named(self, frame: str) -> str:
        return f"'{frame}' ({self._places.get(frame, 'unknown place')})"

    def report(self) -> str:
        """Graph breaks and recompiles with their reasons, and what to do."""
        lines = ["Torchdynamo Profiler Report", "===========================", ""]
        if self.errors:
            lines += ["Internal Errors", "---------------", "The compiler itself failed; this ran in eager."]
            lines += [*_table(("Error", "Count"), [(text, str(n)) for text, n in self.errors.items()]), ""]
        lines += ["Graph Breaks", "------------", *self._breaks(), "", "Recompilation", "-------------", *self._recompiles()]
        return "\n".join(lines) + "\n"

    def _breaks(self) -> list[str]:
        if not self.breaks:
            return ["No graph breaks detected."]
        return [
            "The following conditions caused torchdynamo to break out of tracing and fall back to python.",
            "You may gain additional insight by passing `fullgraph=True` (or `nopython=True`), to break on the first condition.",
            "",
            *_table(("Graph Break Reason", "Count"), [(reason, str(n)) for reason, n in self.breaks.items()]),
        ]

    def _recompiles(self) -> list[str]:
        if not self.failures:
            return ["No recompilation detected."]
        rows = []
        for frame, reasons in self.failures.items():
            rows.append((self._named(frame), str(len(reasons)), reasons[0]))
            rows += [("", "", reason) for reason in reasons[1:]]
        needed = max(len(reasons) for reasons in self.failures.values()) + 1
        return [
            "These subgraphs were recompiled more than once due to guard failures.",
            "Guard failures indicate some condition assumed to be static by the tracer changed,",
            "making it unsafe to reuse the compiled program.",
            "",
            *_table(("Function", "Num Recompiles", "Recompile Reasons"), rows),
            "",
            f"Set dynamo.config.recompile_limit to {needed} to avoid being cache limited."
            if needed > config.recompile_limit
            else "No cache-limited recompilations detected.",
            "`dynamo-debug profile SCRIPT` names the lines that changed the values, and what to edit.",
        ]


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns as wide as what is in them; the last one is as long as it is."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head) - 1)]
    lines = [head, tuple("-" * len(name) for name in head), *rows]
    return ["  ".join([*(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=False)), line[-1]]).rstrip() for line in lines]


def _listening(profiler: weakref.ref[CompileProfiler]) -> Callable[[ev.Event], None]:
    """A listener that keeps its profiler not alive."""

    def hear(event: ev.Event) -> None:
        alive = profiler()
        if alive is not None:
            alive.hear(event)

    return hear


def _unlisten(store: Store, listener: Callable[[ev.Event], None]) -> None:
    if listener in store.listeners:
        store.listeners.remove(listener)
