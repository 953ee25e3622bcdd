"""A hand-made run: the tutorial's `bar`, broken at its `if`, resumed twice, recompiled once."""

from __future__ import annotations

from pathlib import Path

from dynamo.trace import events as ev

SOURCE = """import torch


def bar(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


bar(torch.randn(10), torch.randn(10))
"""


def node(name: str, op: str, target: str, file: str, line: int, *inputs: str) -> ev.GraphNode:
    return ev.GraphNode(name, op, target, f"%{name} = {target}({', '.join(inputs)})", "f32[10]", file, line, (), inputs)


def graph(graph_id: str, file: str, line: int, ops: int = 1) -> ev.GraphCaptured:
    nodes = [node("x", "placeholder", "x", file, line)]
    nodes += [node(f"mul{i}", "call_function", "mul", file, line, "x") for i in range(ops)]
    nodes.append(node("output", "output", "output", file, line, nodes[-1].name))
    code = "def forward(self, x):\n" + "".join(f"    mul{i} = x * -1\n" for i in range(ops)) + "    return (mul0,)\n"
    return ev.GraphCaptured(graph_id, graph_id, "capture", ops, code, tuple(nodes), t=0.2)


def run_events(file: str, finished: bool = True) -> list[ev.Event]:
    """Events of a run of the script at `file`."""
    out: list[ev.Event] = [
        ev.RunStarted((file,), str(Path(file).parent), {"python": "3.11", "torch": "2.13.0"}, t=0.0),
        ev.CompileStarted("0/0", "bar", file, 4, t=0.1),
        ev.StageTimed("0/0", "bytecode", 0.1, 0.01, t=0.11),
        ev.StageTimed("0/0", "capture", 0.11, 0.05, t=0.16),
        graph("0/0", file, 5, ops=3),
        ev.GuardInstalled("0/0", 0, "L['a']", "tensor float32 (10,)", file, 5, t=0.2),
        ev.GuardInstalled("0/0", 1, "L['b']", "tensor float32 (10,)", file, 6, t=0.2),
        ev.GraphBroke(
            "0/0",
            "DD001",
            file,
            6,
            7,
            6,
            18,
            "branch on the value of a tensor",
            "the value is known only when the graph runs",
            "use torch.where",
            (f"{file}:6 bar",),
            t=0.21,
        ),
        ev.CodeGenerated("0/0", "codegen", "bar_entry", "python", "def entry(a, b): ...\n", t=0.22),
        ev.CompileEnded("0/0", "break", t=0.3),
        ev.CompileStarted("1/0", "bar", file, 7, parent="0/0", is_resume=True, t=0.4),
        graph("1/0", file, 7),
        ev.CompileEnded("1/0", "ok", t=0.5),
        ev.CompileStarted("0/1", "bar", file, 4, t=0.6),
        ev.Recompiled("0/1", "bar", "L['a'] size at dim 0: expected 10, got 5", ("0/0: L['a'] size",), 0, "L['a']", file, 5, t=0.6),
        graph("0/1", file, 5, ops=3),
        ev.CompileEnded("0/1", "ok", t=0.7),
        ev.FrameSkipped("helper", file, 20, "DD900", "in a list of modules that are never captured", t=0.71),
        ev.LimitHit("bar", 8, "size of a changes", t=0.72),
        ev.FrozenMiss("bar", "size of a", t=0.73),
        ev.Decided("0/0", 1, "passes", "fold x*1", True, t=0.74),
        ev.Note("DN001", "inductor is not available; used eager", t=0.75),
    ]
    if finished:
        out.append(ev.RunEnded(0, t=1.0))
    return out


def write_script(folder: Path) -> str:
    path = folder / "bar.py"
    path.write_text(SOURCE)
    return str(path)
