"""Hand-made runs for the views: small ones that show one thing, and a large one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dynamo.trace import events as ev
from dynamo.trace.model import Run

FILE = "/home/me/train.py"
SOURCE = """import torch


@torch.compile
def scale(x, k):
    return x * k + 1


class Net(torch.nn.Module):
    def forward(self, x):
        h = self.encoder(x)
        print(h.shape)
        if h.sum() > 0:
            h = self.head(h)
        return h
"""


def begun() -> Iterator[ev.Event]:
    yield ev.RunStarted(("train.py",), "/home/me", {}, t=0.0)
    yield ev.SourceRead(FILE, SOURCE, t=0.0)


def recompiling(values: Iterable[int] = range(9), limit: int = 8) -> Run:
    """`scale` is compiled for every value of `k`, up to the limit."""
    found = list(begun())
    values = list(values)
    for n, k in enumerate(values):
        failures = tuple(f"0/{i}: L['k']: expected == {values[i]}, got {k}" for i in reversed(range(min(n, limit))))
        if n >= limit:
            found.append(ev.LimitHit(f"scale ({FILE}:5)", limit, failures[0], t=1.0 + n))
            continue
        if failures:
            found.append(ev.Recompiled(f"0/{n}", "scale", failures[0], failures, 3, "L['k']", FILE, 6, t=1.0 + n))
        found += compiled(f"0/{n}", "scale", 5, 1.0 + n)
    return Run([*found, ev.RunEnded(0, t=20.0)])


def compiled(compile_id: str, name: str, line: int, at: float, outcome: str = "ok", parent: str = "", resumes: int = 0) -> list[ev.Event]:
    """One compile of half a second, with stages inside stages."""
    times = [("capture", 0.0, 0.1), ("backend", 0.1, 0.3), ("aot", 0.12, 0.1), ("build", 0.25, 0.12), ("guards", 0.42, 0.05)]
    full = f"{name}__resume_at_20" if resumes else name
    return [
        ev.CompileStarted(compile_id, full, FILE, line, parent, bool(resumes), resumes, ("self.encoder(x)",) if resumes else (), t=at),
        *(ev.StageTimed(compile_id, stage, at + start, seconds, t=at + start + seconds) for stage, start, seconds in times),
        ev.GraphCaptured(compile_id, compile_id, "capture", 2, "code\n", (), t=at + 0.4),
        ev.CompileEnded(compile_id, outcome, t=at + 0.5),
    ]


def breaking(times: int = 3) -> Run:
    """`Net.forward` breaks at `print` and at its branch, `times` times."""
    found = list(begun())
    for n in range(times):
        at = 1.0 + 2 * n
        if n:
            size = f"0/{n - 1}: tensor L['x']: size at dim 0: expected {n + 1}, got {n + 2}"
            found.append(ev.Recompiled(f"0/{n}", "Net.forward", size, (size,), 1, "L['x']", FILE, 11, t=at))
            slot = f"1/{n - 1}: tensor L['___stack0']: size at dim 0: expected {n + 1}, got {n + 2}"
            found.append(ev.Recompiled(f"1/{n}", "Net.forward__resume_at_20", slot, (slot,), 1, "L['___stack0']", FILE, 13, t=at))
        found += compiled(f"0/{n}", "Net.forward", 10, at, "break")
        found.append(
            _break(f"0/{n}", "DD004", 12, 8, 22, "output to the terminal or a log: print", "print after the compiled function returns.")
        )
        found += compiled(f"1/{n}", "Net.forward", 10, at + 1, "break", f"0/{n}", 13)
        found.append(_break(f"1/{n}", "DD001", 13, 11, 22, "data-dependent branch: tensor gt", "choose with `torch.where(cond, a, b)`."))
    return Run([*found, ev.RunEnded(0, t=20.0)])


def _break(compile_id: str, reason_id: str, line: int, start: int, end: int, reason: str, hint: str) -> ev.GraphBroke:
    return ev.GraphBroke(
        compile_id, reason_id, FILE, line, start, line, end, reason, "because", hint, (f"{FILE}:{line} Net.forward",), t=1.5
    )


def failing() -> Run:
    """The backend fails, a step raises, and so does the script."""
    where = "graph 0/0 of scale (train.py:5)"
    internal = ev.InternalError(
        "DD091", "RuntimeError", "no kernel for aten.foo\nmore", "inductor/lowering/find.py:12 lower", where, "0/0", t=2.0
    )
    return Run(
        [
            *begun(),
            *compiled("0/0", "scale", 5, 1.0, "error"),
            internal,
            internal,
            ev.CompileStarted("1/0", "Net.forward", FILE, 10, t=3.0),
            ev.CompileEnded("1/0", "break", "ValueError: bad shape", "DD024", FILE, 11, t=3.5),
            ev.RunEnded(1, "ValueError: bad shape", FILE, 11, t=4.0),
        ]
    )


def large(places: int = 60, functions: int = 40) -> Run:
    """Breaks at many lines, many functions that recompile for many causes, long names and texts everywhere."""
    found = list(begun())
    long_name = "a_function_with_a_name_that_nobody_would_want_to_read_in_full_" * 2
    for n in range(functions):
        found += compiled(f"{n}/0", f"{long_name}{n}", 10, 1.0 + n, "break")
        found += [
            _break(
                f"{n}/0",
                "DD005",
                1 + (n * 7 + i) % places,
                0,
                4,
                f"C function that can't be seen into: {long_name}",
                f"call it outside. {long_name} " * 5,
            )
            for i in range(3)
        ]
        change = f"{n}/0: L['value_{n}']: expected == {n}, got {n + 1}"
        found.append(ev.Recompiled(f"{n}/1", f"{long_name}{n}", change, (change,), 1, f"L['value_{n}']", FILE, 6, t=2.0 + n))
        found += compiled(f"{n}/1", f"{long_name}{n}", 10, 1.5 + n)
        found.append(ev.Note(f"DN{n:03}", long_name, t=1.0))
    return Run([*found, ev.RunEnded(0, t=200.0)])


def layered(layers: int = 8) -> Run:
    """One graph of equal layers."""
    nodes = [ev.GraphNode("l_x_", "placeholder", "L_x_", "%l_x_ : [num_users=1] = placeholder[target=L_x_]", "float32[4, 64]", FILE, 11)]
    last = "l_x_"
    for i in range(layers):
        path = f"l_self___dict____modules_h___dict____modules_{i}___dict____modules_ln_1___dict____parameters_weight"
        nodes.append(
            ev.GraphNode(
                path, "get_attr", "L" + path[1:], f"%{path} : [num_users=1] = get_attr[target=L{path[1:]}]", "float32[64]", FILE, 11
            )
        )
        for name, target, line in ((f"mul_{i}", "mul", 11), (f"relu_{i}", "relu", 14)):
            args = f"%{last}, %{path}" if target == "mul" else f"%{last}"
            text = f"%{name} : [num_users=1] = call_function[target=torch.{target}](args = ({args}), kwargs = {{}})"
            nodes.append(ev.GraphNode(name, "call_function", target, text, "float32[4, 64]", FILE, line))
            last = name
    guard = ev.GuardInstalled("0/0", 0, "L['x']", "Tensor float32[4, 64]", FILE, 11, t=1.2)
    graph = ev.GraphCaptured("0/0", "0/0", "capture", 2 * layers, "code\n", tuple(nodes), t=1.1)
    start = ev.CompileStarted("0/0", "Net.forward", FILE, 10, t=1.0)
    return Run([*begun(), start, graph, guard, ev.CompileEnded("0/0", "ok", t=1.5), ev.RunEnded(0, t=2.0)])
