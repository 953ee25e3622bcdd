"""One measurement of one checkout in a process of its own; prints one JSON object of rows and their costs. The driver is `before_after.py`.

Uses only names that every checkout has: `dynamo.compile`, `dynamo.reset` and `inductor.compile.compile_graph`. Everything is counted in
processor time (user and system, of the compilers it starts too), so that others on the machine change little. Imports stand in functions,
since `importing` measures what they cost.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

# Rows of `tests/benchmarks/workloads.py` whose first call is measured: kernels, gradients, models.
FIRST = (
    "sin+cos 10x10",
    "softmax(sin+cos) 2048x1024",
    "rms_norm with gradients",
    "mlp of 10 blocks with gradients",
    "Adam over 200 tensors",
    "resnet18 eval",
    "resnet18 train",
    "bert eval",
    "bert train",
    "gpt2 eval",
    "mobilenet_v3_small eval",
)
COUNTS = (1, 25, 50, 75, 100)  # tensors of a call, for the slope of guards


def spent() -> float:
    """Seconds of processor time of this process and of children that have ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def least(functions: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Least microseconds of processor time per call of each, taken in turn for `seconds` each."""
    counts = {}
    for name, function in functions.items():
        for _ in range(3):
            function()
        began = time.perf_counter()
        function()
        counts[name] = max(1, min(5000, int(0.003 / max(time.perf_counter() - began, 1e-7))))
    found = dict.fromkeys(functions, float("inf"))
    gc.collect()
    gc.disable()
    try:
        end = time.process_time() + seconds * len(functions)
        while time.process_time() < end:
            for name, function in functions.items():
                began = time.process_time()
                for _ in range(counts[name]):
                    function()
                found[name] = min(found[name], (time.process_time() - began) / counts[name] * 1e6)
    finally:
        gc.enable()
    return found


def importing() -> dict[str, float]:
    import torch  # what is measured begins behind it

    began = spent()
    import dynamo

    light = spent()
    dynamo.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
    return {"import dynamo": light - began, "import and first capture": spent() - began}


def first(name: str) -> dict[str, float]:
    """The first call of a workload under `inductor`, and what the processor spends in the C compiler of it."""
    import torch

    from tests.benchmarks.worker import compiler
    from tests.benchmarks.workloads import named

    workload = named(name)
    torch.manual_seed(0)
    torch.set_grad_enabled(workload.has_gradients)
    fn, run = workload.make()
    run(fn)
    compile = compiler("ours")
    compile(lambda x: x + 1)(torch.ones(3))
    began, children = spent(), resource.getrusage(resource.RUSAGE_CHILDREN)
    run(compile(fn))
    whole, after = spent() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    inside = after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime
    return {f"first call, {name}": whole, f"of it without the C compiler, {name}": whole - inside}


def captures(seconds: float) -> dict[str, float]:
    """Compile and first call of models under `eager`, after the process has compiled each once."""
    import torch

    import dynamo
    from tests.benchmarks.captures import MODELS, PREPARE

    found = {}
    for name, program in MODELS.items():
        names: dict[str, Any] = {"torch": torch}
        exec(PREPARE + program, names)
        model, inputs = names["model"], names["inputs"]

        def capture(model: Any = model, inputs: Any = inputs) -> float:
            dynamo.reset()
            gc.collect()
            began = spent()
            with torch.no_grad():
                dynamo.compile(model, backend="eager")(**inputs)
            return spent() - began

        end, times = time.process_time() + 10 * seconds, []
        while len(times) < 4 or time.process_time() < end:
            times.append(capture())
        found[f"capture again, {name}"] = min(times[1:])
    return found


def calls(seconds: float) -> dict[str, float]:
    """Calls of compiled functions: dispatch and guards. Slopes are per tensor, and per module of 50 layers less a call without one."""
    import torch

    from tests.benchmarks.calls import compilers, eager, no_op
    from tests.benchmarks.measuring import slope
    from tests.benchmarks.worker import compiler

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + torch.cos(y)

    def sizes(xs: list[torch.Tensor]) -> torch.Tensor:
        total = 0
        for x in xs:
            total += x.shape[0]
        return xs[0] * total

    module = torch.nn.Sequential(*[torch.nn.Linear(10, 10) for _ in range(50)])
    x, y = torch.randn(10, 10), torch.randn(10, 10)
    leaf = torch.randn(10, 10, requires_grad=True)
    nothing, plain, whole = compilers(no_op)[0], compilers(eager)[0], compiler("ours")
    many = {count: [torch.randn(3, 4) for _ in range(count)] for count in COUNTS}
    compiled, native, graph, trained = nothing(f), plain(f), whole(f), whole(f)
    guarded, layers, alone = nothing(sizes), nothing(module.forward), nothing(lambda x: x.sin())
    rows: dict[str, Callable[[], object]] = {
        "call, no-op backend": lambda: compiled(x, y),
        "call, eager backend": lambda: native(x, y),
        "call, inductor": lambda: graph(x, y),
        "call, inductor with gradients": lambda: trained(leaf, y).sum().backward(),
        **{f"guards of {count}": lambda xs=xs: guarded(xs) for count, xs in many.items()},
        "layers": lambda: layers(x),
        "alone": lambda: alone(x),
    }
    found = {}
    with torch.no_grad():
        found |= least({name: call for name, call in rows.items() if "gradients" not in name}, seconds)
    found |= least({name: call for name, call in rows.items() if "gradients" in name}, seconds)
    found["guards of one tensor"] = slope(COUNTS, [found.pop(f"guards of {count}") for count in COUNTS])
    found["guards of a module of 50 layers"] = found.pop("layers") - found.pop("alone")
    return found


def kernels(seconds: float, only: str) -> dict[str, float]:
    """Calls of compiled ATen graphs without guards, the rows of `bench_inductor.py`; and processor time of compiling them all."""
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    from inductor.compile import compile_graph
    from tests.benchmarks.bench_inductor import CASES

    found, compiling = {}, 0.0
    for case in CASES:
        if only not in case.name:
            continue
        torch.manual_seed(0)
        inputs = case.inputs()
        graph = make_fx(case.fn, tracing_mode="fake")(*inputs)
        began = spent()
        compiled = compile_graph(graph, list(inputs))
        compiling += spent() - began
        with torch.no_grad():
            found |= least({f"kernel, {case.name}": lambda compiled=compiled, inputs=inputs: compiled(list(inputs))}, seconds)
    return found | {"compiling the kernels": compiling}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.probe", description=__doc__)
    parser.add_argument("what", choices=("import", "first", "captures", "calls", "kernels"))
    parser.add_argument("name", nargs="?", default="", help="a row of `first`, part of the names of `kernels`")
    parser.add_argument("--seconds", type=float, default=0.2)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what != "import":
        import torch

        torch.set_num_threads(1)
    found = {
        "import": importing,
        "first": lambda: first(options.name),
        "captures": lambda: captures(options.seconds),
        "calls": lambda: calls(options.seconds),
        "kernels": lambda: kernels(options.seconds, options.name),
    }[options.what]()
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
