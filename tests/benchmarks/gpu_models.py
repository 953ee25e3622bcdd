"""Models on a GPU beside eager and torch's own compiler: `python -m tests.benchmarks.gpu_models --help`.

A row is a model in one part: `eval` is a call without gradients, `train` a whole step (zero_grad, forward, loss, backward, Adam) in one
compiled function. Each row has a process of its own and empty caches. One system after another makes its first call; then all that
work take turns, and a time is the median of 20 between CUDA events around one call, so launching counts where kernels are short. What is
known is printed at once; where a process dies, the row goes on in a new one without the system that it died in. Where there is no GPU all
of this runs on the processor, which tests nothing but this file.

How far a result is from float64 is printed as a multiple of eager's distance. `--profile` runs one more call of each system under
torch.profiler: kernels and calls of the device, their time, and those that take the most. `--again` makes the first call once more in a
second process, with the caches that the first one left; in both, eager's call, where it is asked for, comes first and loads the device's
libraries. `--set NAME=VALUE` sets options of ours. `--jobs` makes the first calls of several rows side by side; times are taken by one row
at a time, when all of them are compiled. Runs with the same `--turns` wait for each other in this, and of those with the same `--lane` one
at a time makes first calls. Beside the time of a call, that of the host alone and that of the device alone are printed: the latter while
the device is kept busy until the host is done.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import fcntl
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

from tests.gpu.models import MODELS, first

SYSTEMS = ("eager", "ours", "ours graphs", "peer", "peer graphs")
CACHES = ("DYNAMO_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
CALLS = 20
FEWER = 5  # calls for the time of the device alone
CYCLES = 2_000_000  # of a device in a millisecond, at most
WARM = 5  # calls before times are taken: graphs are recorded in them
FEW = 2  # images or sequences whose result is compared in evaluation
MOST = 3.0  # times eager's distance from float64 that is still rounding
FLOOR = 1e-5  # and the distance that any order of float32 sums may have
SHOWN = 5  # kernels that a profile names
LIMIT_S = 400  # for one process

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"

Json = dict[str, Any]


def compiler(system: str) -> Callable[[Any], Any]:
    if system == "eager":
        return lambda fn: fn
    if system.startswith("ours"):
        import dynamo

        return lambda fn: dynamo.compile(fn, backend="inductor", mode="reduce-overhead" if system.endswith("graphs") else None)
    return lambda fn: torch.compile(fn, dynamic=False, mode="reduce-overhead" if system.endswith("graphs") else None)


# ---- one row, in its own process


def wait() -> None:
    if HAS_GPU:
        torch.cuda.synchronize()


def call_ms(run: Callable[[], Any]) -> float:
    """Milliseconds of one call, between events of the device where there is one."""
    if not HAS_GPU:
        began = time.perf_counter()
        run()
        return (time.perf_counter() - began) * 1e3
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    wait()
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


@dataclass
class Subject:
    """A model with its inputs, on the device, before any step."""

    name: str
    part: str

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        row = MODELS[self.name]
        self.dtype = row.dtype
        self.module = row.make().train(self.part == "train").to(DEVICE)
        self.given = tuple(t.to(DEVICE) for t in row.inputs())

    def inputs(self, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
        return tuple(t.to(dtype) if t.is_floating_point() else t for t in self.given)


class Run:
    """A copy of the model under one system."""

    def __init__(self, subject: Subject, system: str, dtype: torch.dtype | None = None, few: int | None = None) -> None:
        dtype = dtype or subject.dtype
        self.module = copy.deepcopy(subject.module).to(dtype)
        self.given = tuple(t[:few] for t in subject.inputs(dtype))
        self.is_training = subject.part == "train"
        if not self.is_training:
            self.fn = compiler(system)(self.module)
            return
        self.optimizer = optimizer = torch.optim.Adam(self.module.parameters(), lr=1e-4)
        module = self.module

        def step(*given: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = first(module(*given)).float().square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        self.fn = compiler(system)(step)

    def __call__(self) -> torch.Tensor:
        if self.is_training:
            return self.fn(*self.given)
        with torch.no_grad():
            return first(self.fn(*self.given))

    def seen(self, result: torch.Tensor) -> dict[str, list[torch.Tensor]]:
        """What a first call left, in float64."""
        if not self.is_training:
            return {"output": [result[:FEW].double()]}
        return {
            "loss": [result.double()],
            "gradients": [p.grad.double() for p in self.module.parameters() if p.grad is not None],
            "buffers": [b.double() for b in self.module.buffers() if b.is_floating_point()],
        }

    def optimizer_error(self, subject: Subject) -> float:
        """How far the parameters are from what Adam's first step makes of the gradients, as a part of the step."""
        worst = 0.0
        for before, after in zip(subject.module.parameters(), self.module.parameters(), strict=True):
            if after.grad is not None:
                start, grad = before.detach().to(after.dtype).double(), after.grad.double()
                moved = -1e-4 * grad / (grad.abs() + 1e-8)
                off = (after.detach().double() - start - moved).abs()
                worst = max(worst, float((off - torch.finfo(after.dtype).eps * start.abs()).max() / 1e-4))
        return worst


def distance(found: Sequence[torch.Tensor], reference: Sequence[torch.Tensor]) -> float:
    off = sum(float((f - r).square().sum()) for f, r in zip(found, reference, strict=True))
    size = sum(float(r.square().sum()) for r in reference)
    return float((off / size) ** 0.5) if size else off**0.5


def say(**row: Any) -> None:
    print(json.dumps(row), flush=True)


def verdict(found: dict[str, list[torch.Tensor]], reference: dict[str, list[torch.Tensor]], eager: dict[str, float]) -> tuple[str, Json]:
    """Each distance from float64, and whether all are explained by rounding as eager's are."""
    off = {what: distance(found[what], reference[what]) for what in reference}
    wrong = [what for what, error in off.items() if eager and not error <= MOST * eager[what] + FLOOR]
    text = ", ".join(f"{w} {error:.1e}" + (f" ({error / eager[w]:.1f}x)" if eager.get(w) else "") for w, error in off.items())
    return ("WRONG " if wrong else "") + text, off


def first_calls(subject: Subject, systems: Sequence[str], *, checks: bool) -> dict[str, Run]:
    reference: dict[str, list[torch.Tensor]] = {}
    if checks:
        exact = Run(subject, "eager", torch.float64, None if subject.part == "train" else FEW)
        reference = exact.seen(exact())
        del exact
    eager: dict[str, float] = {}
    heard: set[int] = set()
    runs: dict[str, Run] = {}
    for system in systems:
        say(begins=system)
        run = Run(subject, system)
        wait()
        began = time.perf_counter()
        try:
            result = run()
            wait()
            seconds = time.perf_counter() - began
            row: Json = {"system": system, "first_s": seconds}
            if checks:
                row["error"], off = verdict(run.seen(result), reference, eager)
                eager = eager or (off if system == "eager" else {})
                if subject.part == "train":
                    row["error"] += f", Adam {run.optimizer_error(subject):.1e}"
            say(**row)
            began = time.perf_counter()
            for _ in range(WARM):
                run()
            wait()
            say(system=system, warm_s=time.perf_counter() - began, **(notes(heard) if system.startswith("ours") else {}))
        except Exception as error:  # noqa: BLE001  the other systems may tell more
            say(system=system, failed=f"{type(error).__name__}: {' '.join(str(error).split())[:700]}")
            if "CUDA error" in str(error):
                os._exit(3)
            continue
        runs[system] = run
    return runs


def notes(heard: set[int]) -> Json:
    """Of our compiles since this was last asked: which operators ATen runs, and what ran otherwise than compiled."""
    from dynamo.trace import current
    from dynamo.trace.events import GraphLowered, Note

    events = [e for e in (*current().of(GraphLowered), *current().of(Note)) if id(e) not in heard]
    heard.update(map(id, events))
    lowered = [e for e in events if isinstance(e, GraphLowered)]
    graphs = [f"{g.graph_id} by ATen: {', '.join(op for op, how in g.how.items() if how == 'extern')}" for g in lowered]
    said = Counter(f"{n.id} {n.message}"[:200] for n in events if isinstance(n, Note))
    return {"graphs": graphs, "notes": [f"{count}x {text}" for text, count in said.most_common(8)]}


def captures() -> list[str]:
    """What became of each program that may be captured."""
    from inductor.runtime.graphs import _recorders

    return [
        f"{r.subject.place}{' backward' if r.subject.is_backward else ''}: {len(r.recordings)} captures of {r.made} hold, "
        f"{len(r.copied)} of {len(r.subject.read)} inputs are copied{', refused' if r.is_refused else ''}"
        for r in _recorders
    ]


def steady(runs: dict[str, Run]) -> dict[str, list[float]]:
    """Milliseconds of each call, the systems in turn."""
    times: dict[str, list[float]] = {system: [] for system in runs}
    for _ in range(CALLS):
        for system, run in runs.items():
            times[system].append(call_ms(run))
    return times


def host_ms(run: Run) -> float:
    """Milliseconds until a call returns, whatever the device does."""
    found = []
    for _ in range(CALLS):
        wait()
        began = time.perf_counter()
        run()
        found.append((time.perf_counter() - began) * 1e3)
    wait()
    return statistics.median(found)


def device_ms(run: Run, host: float) -> float | None:
    """Milliseconds between events of a call that was launched behind other work, so that no kernel waits for the host."""
    if not HAS_GPU:
        return None
    found = []
    for _ in range(FEWER):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        wait()
        torch.cuda._sleep(int((2 * host + 5) * CYCLES))
        start.record()
        run()
        end.record()
        end.synchronize()
        found.append(start.elapsed_time(end))
    return statistics.median(found)


def profiled(run: Run) -> Json:
    """What the device did in one call."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA if HAS_GPU else ProfilerActivity.CPU]) as seen:
        run()
        wait()
    count: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    for event in seen.events():
        if not HAS_GPU or event.device_type == torch.autograd.DeviceType.CUDA:
            count[event.name] += 1
            spent[event.name] += event.device_time_total if HAS_GPU else event.self_cpu_time_total
    total = sum(spent.values()) or 1.0
    most = [f"{us / 1e3:.3f} ms {us / total:.0%} {count[name]}x {name[:90]}" for name, us in spent.most_common(SHOWN)]
    return {"kernels": sum(count.values()), "device_ms": total / 1e3, "most": most}


@contextlib.contextmanager
def turn(path: str, how: int) -> Iterator[None]:
    """Hold the file's lock, shared (fcntl.LOCK_SH) by those that compile; who has it alone (LOCK_EX) takes times."""
    with open(path, "a") as file:
        fcntl.flock(file, how)
        yield


def worker(options: argparse.Namespace) -> int:
    torch.set_float32_matmul_precision(options.precision)
    if options.set:
        from dynamo import config

        for name, _, value in (pair.partition("=") for pair in options.set):
            setattr(config, name, json.loads(value))
    with turn(options.turns, fcntl.LOCK_SH), turn(options.lane, fcntl.LOCK_EX) if options.lane else contextlib.nullcontext():
        subject = Subject(options.models, options.parts)
        runs = first_calls(subject, options.systems.split(","), checks=not options.no_check)
    if options.first_only:
        return 0
    say(compiled=True)
    with turn(options.turns, fcntl.LOCK_EX):
        take_times(runs, options)
    return 0


def take_times(runs: dict[str, Run], options: argparse.Namespace) -> None:
    times = steady(runs)
    for system, found in times.items():
        host = host_ms(runs[system])
        say(system=system, ms=statistics.median(found), least_ms=min(found), host_ms=host, device_ms=device_ms(runs[system], host))
        if system == "ours graphs":
            say(system=system, captures=captures(), **notes(set()))
    if options.profile:
        for system, run in runs.items():
            say(begins=f"profile {system}")
            try:
                say(system=system, **profiled(run))
            except Exception as error:  # noqa: BLE001  a machine may not let programs look
                say(system=system, failed=f"profile: {type(error).__name__}: {error}")


# ---- the table


def lines_of(command: Sequence[str], environment: dict[str, str]) -> Iterator[Json]:
    """What a worker says, as it says it; its last words where it dies."""
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ, **environment}) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                yield json.loads(line)
        if process.wait():
            errors.seek(0)
            last = [line for line in errors.read().splitlines() if line.strip()][-4:]
            yield {"died": process.returncode, "why": " / ".join(last)[-700:]}


class Table:
    """Rows as they become known, and the numbers for `--json`."""

    def __init__(self, options: argparse.Namespace, turns: str) -> None:
        self.options, self.turns = options, turns
        self.rows: list[Json] = []

    def row(self, model: str, part: str) -> None:
        systems = self.options.systems.split(",")
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as second:
            caches = {name: os.path.join(folder, name) for name in CACHES}
            again = systems if self.options.again else []

            def compiled() -> None:
                second.submit(self.run, model, part, again, caches, "second process", "--first-only", "--no-check")

            self.run(model, part, systems, caches, "first call", compiled=compiled)

    def run(
        self,
        model: str,
        part: str,
        systems: list[str],
        caches: dict[str, str],
        when: str,
        *more: str,
        compiled: Callable[[], None] | None = None,
    ) -> None:
        options = self.options
        if not systems:
            return
        command = ["timeout", str(options.limit), sys.executable, "-W", "ignore", "-m", "tests.benchmarks.gpu_models", "--worker"]
        command += ["--models", model, "--parts", part, "--systems", ",".join(systems), "--precision", options.precision, *more]
        command += ["--turns", self.turns, "--lane", options.lane]
        command += ["--profile"] * options.profile + ["--no-check"] * options.no_check + [f"--set={pair}" for pair in options.set]
        begins, eager = "", 0.0
        for said in lines_of(command, caches):
            if "begins" in said:
                begins = said["begins"]
                continue
            if "compiled" in said:
                if compiled is not None:
                    compiled()
                continue
            if "died" in said:
                left = [s for s in systems if s != begins.removeprefix("profile ")]
                print(f"{model} {part} | {begins} | DIED, exit {said['died']}: {said['why']}", flush=True)
                if begins in systems:
                    self.run(model, part, left, caches, when, *more, compiled=compiled)
                return
            eager = said["ms"] if said.get("system") == "eager" and "ms" in said else eager
            self.rows.append({"model": model, "part": part, "when": when, **said})
            for text in texts(said, eager, when, MODELS[model].targets[part == "train"]):
                print(f"{model} {part} | {said['system']} | {text}", flush=True)


def texts(said: Json, eager: float, when: str, target: float | None) -> Iterator[str]:
    if "failed" in said:
        yield f"FAILED {said['failed']}"
    if "first_s" in said:
        yield f"{when} {said['first_s']:.2f} s" + (f" | from float64: {said['error']}" if "error" in said else "")
    if "warm_s" in said:
        yield f"next {WARM} calls {said['warm_s']:.2f} s"
        for graph in said.get("graphs", ()):
            yield f"  graph: {graph}"
    for what in ("captures", "notes"):
        for line in said.get(what, ()):
            yield f"  {what.removesuffix('s')}: {line}"
    if "ms" in said:
        over = f" | {eager / said['ms']:.2f}x eager" if eager else ""
        wanted = f" (target {target:.2f}x)" if target and said["system"].startswith("ours") else ""
        device = f", device {said['device_ms']:.3f}" if said["device_ms"] is not None else ""
        yield f"{said['ms']:.3f} ms (least {said['least_ms']:.3f}, host {said['host_ms']:.3f}{device}){over}{wanted}"
    if "kernels" in said:
        yield f"{said['kernels']} launches, {said['device_ms']:.3f} ms on the device"
        for line in said["most"]:
            yield f"  {line}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="gpu_models", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(n for n, m in MODELS.items() if any(m.targets)), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--systems", default="eager,ours", help=f"of {', '.join(SYSTEMS)}")
    parser.add_argument("--parts", default="eval,train", help="eval, train")
    parser.add_argument("--precision", default="high", help="of float32 matrix products")
    parser.add_argument("--profile", action="store_true", help="what takes the time")
    parser.add_argument("--again", action="store_true", help="first calls of a second process too")
    parser.add_argument("--no-check", action="store_true", help="leave out the float64 reference")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an option of ours; the value is JSON")
    parser.add_argument("--limit", type=int, default=LIMIT_S, help="seconds that one row may take")
    parser.add_argument("--jobs", type=int, default=1, help="rows that make their first calls side by side")
    parser.add_argument("--turns", default="", metavar="FILE", help="locked while times are taken")
    parser.add_argument("--lane", default="", metavar="FILE", help="locked while first calls are made")
    parser.add_argument("--json", metavar="FILE", help="write the numbers there")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--first-only", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name, known in (("models", MODELS), ("systems", SYSTEMS), ("parts", ("eval", "train"))):
        if unknown := set(getattr(options, name).split(",")) - set(known):
            parser.error(f"--{name}: {', '.join(sorted(unknown))} is none of {', '.join(known)}")
    if options.worker:
        return worker(options)
    device = torch.cuda.get_device_name() if HAS_GPU else "no GPU: the processor"
    print(" | ".join([device, f"torch {torch.__version__}", f"Python {sys.version.split()[0]}", time.strftime("%Y-%m-%d")]), flush=True)
    with tempfile.NamedTemporaryFile() as own, ThreadPoolExecutor(options.jobs) as pool:
        table = Table(options, options.turns or own.name)
        rows = [(model, part) for model in options.models.split(",") for part in options.parts.split(",")]
        for _ in pool.map(lambda row: table.row(*row), rows):
            if options.json:
                with open(options.json, "w") as file:
                    json.dump(table.rows, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
