"""Backends that only watch: the recompilation profiler and the counters that old scripts and tests use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import torch

from dynamo.backends.registry import lookup_backend
from dynamo.trace import current
from dynamo.trace import events as ev

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

    It looks at the record from its creation on, so compiles of other functions count too.
    """

    def __init__(self) -> None:
        super().__init__()
        self._store = current()
        self._first = len(self._store.events)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        return None

    def _seen(self) -> list[ev.Event]:
        return self._store.events[self._first :]

    def get_metrics(self) -> dict[str, Any]:
        """`guard_failures`: for each recompiled frame, the reasons in order."""
        failures: dict[str, list[str]] = {}
        for event in self._seen():
            if isinstance(event, ev.Recompiled):
                failures.setdefault(event.frame, []).append(event.reason)
        return {"guard_failures": failures}

    def report(self) -> str:
        """Graph breaks and recompiles with their reasons, and what to do."""
        breaks = Counter(f"{e.reason} ({e.file}:{e.line})" for e in self._seen() if isinstance(e, ev.GraphBroke))
        failures: dict[str, list[str]] = self.get_metrics()["guard_failures"]
        limited = [e for e in self._seen() if isinstance(e, ev.LimitHit)]
        lines = ["Torchdynamo Profiler Report", "===========================", ""]
        failed = Counter(f"{e.error} in {e.where} [{e.id}]" for e in self._seen() if isinstance(e, ev.InternalError))
        if failed:
            lines += ["Internal Errors", "---------------", "The compiler itself failed; this ran in eager."]
            lines += [*(f"{count:>5}x  {text}" for text, count in failed.items()), ""]
        lines += ["Graph Breaks", "------------"]
        if breaks:
            lines += [
                "Graph breaks happen when torchdynamo encounters code it can't safely trace.",
                "Pass fullgraph=True (or nopython=True) to stop at the first one.",
                "",
                *(f"{count:>5}x  {reason}" for reason, count in breaks.items()),
            ]
        else:
            lines.append("No graph breaks detected.")
        lines += ["", "Recompilation", "-------------"]
        if failures:
            lines.append("These subgraphs were recompiled more than once due to guard failures.")
            for frame, reasons in failures.items():
                lines += ["", f"{frame}: {len(reasons)} recompiles", *(f"  {reason}" for reason in reasons)]
            needed = max(len(reasons) for reasons in failures.values()) + 1
            lines += ["", f"Set dynamo.config.recompile_limit to {needed} to avoid being cache limited." if limited else _NOT_LIMITED]
        else:
            lines.append("No recompilation detected.")
        return "\n".join(lines) + "\n"


_NOT_LIMITED = "No cache-limited recompilations detected."
