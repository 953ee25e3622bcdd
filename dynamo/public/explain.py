"""`explain`: run a function under a compiler that only records, and say what happened."""

from __future__ import annotations

import functools
import linecache
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from dynamo import utils
from dynamo.public.api import compile, reset
from dynamo.trace import events, session


@dataclass(frozen=True)
class BreakReason:
    """One graph break: stable id, reason, what to write instead, and the user's stack (`file:line name`, outermost first)."""

    id: str
    reason: str
    hint: str
    file: str
    line: int
    user_stack: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.reason} [{self.id}]"


@dataclass
class ExplainOutput:
    """What compiling and running did. `print` it."""

    graphs: list[torch.fx.GraphModule] = field(default_factory=list)
    break_reasons: list[BreakReason] = field(default_factory=list)
    ops_per_graph: list[list[Any]] = field(default_factory=list)
    out_guards: list[events.GuardInstalled] = field(default_factory=list)
    recompiles: list[events.Recompiled] = field(default_factory=list)
    compile_times: str = ""
    internal_errors: list[events.InternalError] = field(default_factory=list)

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        return len(self.break_reasons)

    @property
    def op_count(self) -> int:
        return sum(len(ops) for ops in self.ops_per_graph)

    def __str__(self) -> str:
        out = [
            *(f"Internal Error: {e.where}: {e.error}: {e.message} [{e.id}], raised at {e.raised_at}" for e in self.internal_errors),
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
        ]
        for i, b in enumerate(self.break_reasons, 1):
            out += [f"  Break Reason {i}:", f"    Reason: {b}", "    User Stack:"]
            for place in b.user_stack:
                out += _place(place)
            if b.hint:
                out.append(f"    Write instead: {b.hint}")
        out.append("Graphs:")
        for i, gm in enumerate(self.graphs, 1):
            out.append(f"  Graph {i}:")
            out += [f"    {line}" for line in gm.code.strip().splitlines()]
        out.append("Ops per Graph:")
        for i, ops in enumerate(self.ops_per_graph, 1):
            out.append(f"  Ops {i}:")
            out += [f"    {getattr(op, '__name__', op)}" for op in ops]
        out.append("Out Guards:")
        for g in self.out_guards:
            where = f"   # {g.file}:{g.line}" if g.file else ""
            out.append(f"  {g.source}: {g.check}{where}")
        for r in self.recompiles:
            out.append(f"Recompile {r.compile_id}: {r.reason}")
        out += ["Compile Times:", *(f"  {line}" for line in self.compile_times.splitlines())]
        return "\n".join(out)


def _place(place: str) -> list[str]:
    where, _, name = place.rpartition(" ")
    file, _, line = where.rpartition(":")
    text = linecache.getline(file, int(line)).strip() if line.isdigit() else ""
    return [f"      File {file!r}, line {line}, in {name}"] + ([f"        {text}"] if text else [])


class ClassicExplanation(NamedTuple):
    """The 6-tuple of `explain(f, *args)`."""

    explanation: str
    out_guards: list[events.GuardInstalled]
    graphs: list[torch.fx.GraphModule]
    ops_per_graph: list[list[Any]]
    break_reasons: list[BreakReason]
    explanation_verbose: str


def explain(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`explain(f)(*args)` gives an ExplainOutput; the classic `explain(f, *args)` a 6-tuple. Both run `f` for real, once.

    What is compiled is forgotten before and after.
    """
    if args or kwargs:
        output = _explain(f, args, kwargs)
        short = _summary(output)
        return ClassicExplanation(
            short, output.out_guards, output.graphs, output.ops_per_graph, output.break_reasons, f"{short}\n{output.compile_times}"
        )

    @functools.wraps(f if not isinstance(f, torch.nn.Module) else f.forward)
    def inner(*args: Any, **kwargs: Any) -> ExplainOutput:
        return _explain(f, args, kwargs)

    return inner


def _explain(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExplainOutput:
    reset()
    output = ExplainOutput()

    def backend(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
        output.graphs.append(gm)
        output.ops_per_graph.append([n.target for n in gm.graph.nodes if n.op.startswith("call_")])
        return gm.forward

    with session() as store:
        compile(f, backend=backend)(*args, **kwargs)
        output.out_guards = store.of(events.GuardInstalled)
        output.internal_errors = store.of(events.InternalError)
        output.recompiles = store.of(events.Recompiled)
        output.break_reasons = _distinct([_reason(e) for e in store.of(events.GraphBroke)])
        output.compile_times = utils.compile_times(aggregate=True)
    reset()
    return output


def _reason(e: events.GraphBroke) -> BreakReason:
    return BreakReason(e.id, e.reason, e.hint, e.file, e.line, e.stack or (f"{e.file}:{e.line} ?",))


def _distinct(reasons: list[BreakReason]) -> list[BreakReason]:
    """One per innermost place: recompiles meet the same break again."""
    seen: dict[tuple[str, str], BreakReason] = {}
    for r in reasons:
        seen.setdefault((r.id, r.user_stack[-1]), r)
    return list(seen.values())


def _summary(o: ExplainOutput) -> str:
    lines = [f"Dynamo produced {o.graph_count} graphs with {o.graph_break_count} graph breaks and {o.op_count} ops"]
    lines[:0] = [f"Internal error: {e.where}: {e.error}: {e.message} [{e.id}]" for e in o.internal_errors]
    if o.break_reasons:
        lines.append(" Break reasons: ")
        for i, b in enumerate(o.break_reasons, 1):
            lines += [f"{i}. {b}", *(f"  {line.strip()}" for place in b.user_stack for line in _place(place))]
    return "\n".join(lines)
