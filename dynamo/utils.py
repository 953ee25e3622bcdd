"""Small public reports."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from dynamo.backends.counting import CompileProfiler
from dynamo.internal_errors import internal_errors
from dynamo.trace import current
from dynamo.trace.events import StageTimed

__all__ = ["CompileProfiler", "compile_times", "internal_errors"]


def compile_times(repr: str = "str", aggregate: bool = False) -> Any:
    """Seconds spent per stage. repr="str": a table; repr="csv": (headers, rows). aggregate: sums instead of one value per compile."""
    times: dict[str, list[float]] = defaultdict(list)
    for e in current().of(StageTimed):
        times[e.stage].append(e.seconds)
    if repr == "csv":
        return list(times), [f"{sum(v):.6f}" if aggregate else ", ".join(f"{x:.6f}" for x in v) for v in times.values()]
    if repr != "str":
        raise ValueError(f"repr must be 'str' or 'csv', got {repr!r}")
    rows = [(name, f"{sum(v):.4f}" if aggregate else ", ".join(f"{x:.4f}" for x in v)) for name, v in times.items()]
    width = max((len(name) for name, _ in rows), default=8)
    lines = [f"{'Function':<{width}}  Runtimes (s)", f"{'-' * width}  ------------"]
    return "TorchDynamo compilation metrics:\n" + "\n".join(lines + [f"{name:<{width}}  {text}" for name, text in rows])
