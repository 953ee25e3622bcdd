"""One measurement in a process of its own; prints one JSON object. The driver is `compiler.py`.

python -m tests.benchmarks.worker first NAME --engine ours    imports, one-time costs and the first call
python -m tests.benchmarks.worker steady NAME                  microseconds and page faults per call of all engines, in turn
python -m tests.benchmarks.worker memory NAME --engine ours    peak bytes of a step, all tensors counted
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from tests.benchmarks.workloads import Function, Workload, named

# What an engine loads, and how it compiles. The modules are those that its first compile would import.
IMPORTS = {
    "eager": (),
    "ours": ("dynamo",),
    "peer": ("torch._dynamo", "torch._inductor.compile_fx"),
}
REPEATS = 3  # calls before anything is measured in steady state


def compiler(engine: str) -> Callable[[Function], Function]:
    if engine == "eager":
        return lambda fn: fn
    if engine == "ours":
        import dynamo

        return lambda fn: dynamo.compile(fn, backend="inductor")
    return lambda fn: torch.compile(fn, dynamic=False)


def first(workload: Workload, engine: str) -> dict[str, float]:
    """Seconds of the imports, of compiling something trivial first (probes, precompiled headers), and of the first call."""
    torch.manual_seed(0)
    torch.set_grad_enabled(workload.has_gradients)
    fn, run = workload.make()
    run(fn)  # the libraries' own first-use costs are not the compiler's
    began = time.perf_counter()
    for module in IMPORTS[engine]:
        importlib.import_module(module)
    imported = time.perf_counter()
    compile = compiler(engine)
    compile(_trivial)(torch.ones(3))
    probed = time.perf_counter()
    run(compile(fn))
    done = time.perf_counter()
    return {"imports": imported - began, "once": probed - imported, "first": done - probed, "total": done - began}


def _trivial(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def page_faults() -> int:
    """Pages that the kernel has given this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def steady(workload: Workload, engines: list[str], seconds: float) -> dict[str, float]:
    """Least microseconds per call of each engine, and under `ENGINE faults` the page faults of its average call.

    Each has its own copy of a model, so that steps don't disturb each other. Plain calls have the same inputs: what lies in which part
    of the processor's cache changes a sum over 8 MB by a tenth.
    """
    torch.set_grad_enabled(workload.has_gradients)
    calls: dict[str, Callable[[], Any]] = {}
    shared = workload.make() if workload.kind == "call" else None
    for engine in engines:
        torch.manual_seed(0)
        fn, run = shared or workload.make()
        calls[engine] = lambda run=run, compiled=compiler(engine)(fn): run(compiled)
    for call in calls.values():
        for _ in range(REPEATS):
            call()
    least = dict.fromkeys(calls, float("inf"))
    counts = {}
    for engine, call in calls.items():
        began = time.perf_counter()
        call()
        counts[engine] = max(1, min(5000, int(0.003 / max(time.perf_counter() - began, 1e-7))))
    gc.collect()
    gc.disable()
    end, rounds = time.perf_counter() + seconds, 0
    faults = dict.fromkeys(calls, 0)
    while time.perf_counter() < end or rounds < 7:
        rounds += 1
        for engine, call in calls.items():
            faults[engine] -= page_faults()
            began = time.perf_counter()
            for _ in range(counts[engine]):
                call()
            least[engine] = min(least[engine], (time.perf_counter() - began) / counts[engine])
            faults[engine] += page_faults()
    found = {engine: value * 1e6 for engine, value in least.items()}
    return found | {f"{engine} faults": faults[engine] / (rounds * counts[engine]) for engine in calls}


def memory(workload: Workload, engine: str) -> dict[str, float]:
    """Most bytes that torch's allocator had given out during the fourth call, parameters and the compiler's arenas included."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        torch.manual_seed(0)
        fn, run = workload.make()
        compiled = compiler(engine)(fn)
        for _ in range(REPEATS):
            run(compiled)
        gc.collect()
        with record_function("the measured call"):
            run(compiled)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    span = next(e for e in events if e.get("name") == "the measured call" and "dur" in e)
    inside = [
        e["args"]["Total Allocated"]
        for e in events
        if e.get("name") == "[memory]" and e["args"].get("Device Type") == 0 and span["ts"] <= e["ts"] <= span["ts"] + span["dur"]
    ]
    return {"peak": float(max(inside, default=0))}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.worker", description=__doc__)
    parser.add_argument("what", choices=("first", "steady", "memory"))
    parser.add_argument("name")
    parser.add_argument("--engine", choices=tuple(IMPORTS), default="ours")
    parser.add_argument("--engines", default="eager,ours,peer")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    workload = named(options.name)
    if options.what == "first":
        found = first(workload, options.engine)
    elif options.what == "memory":
        found = memory(workload, options.engine)
    else:
        found = steady(workload, options.engines.split(","), options.seconds)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
