"""What the stages of a compile tell the record."""

from __future__ import annotations

import dis
import types
from typing import Any

import torch

from dynamo import config
from dynamo.breaks import PROGRAM_RAISES
from dynamo.bytecode.origins import resumes
from dynamo.compile.capture import Captured
from dynamo.compile.finish import Finished
from dynamo.compile.standing import Standing, standing
from dynamo.guards.build import BuiltGuards
from dynamo.symbolic.values.errors import BreakError
from dynamo.trace import emit, events, is_watched
from dynamo.trace.events import GraphNode


def report_start(code: types.CodeType, compile_id: str, parent: str) -> None:
    line, stack = standing(code) if is_watched() else Standing()
    emit(events.CompileStarted(compile_id, code.co_qualname, code.co_filename, code.co_firstlineno, parent, resumes(code), line, stack))


def report_bytecode(code: types.CodeType, compile_id: str) -> None:
    if is_watched():
        emit(events.CodeGenerated(compile_id, "bytecode", "bytecode", "text", dis.Bytecode(code).dis()))


def graph_nodes(gm: torch.fx.GraphModule) -> tuple[GraphNode, ...]:
    """FX nodes as the record shows them."""
    out = []
    for n in gm.graph.nodes:
        file, line, stack = n.meta.get("source", ("", 0, ()))
        val = n.meta.get("val")
        shape = f"{str(val.dtype).removeprefix('torch.')}{list(val.shape)}" if isinstance(val, torch.Tensor) else ""
        target = n.target if isinstance(n.target, str) else getattr(n.target, "__name__", str(n.target))
        inputs = tuple(i.name for i in n.all_input_nodes)
        out.append(GraphNode(n.name, n.op, target, n.format_node() or str(n), shape, file, line, tuple(stack), inputs))
    return tuple(out)


def report_capture(captured: Captured, finished: Finished, compile_id: str) -> None:
    if finished.gm is not None:
        ops = sum(n.op in ("call_function", "call_method", "call_module") for n in finished.gm.graph.nodes)
        code, nodes = (finished.gm.code.strip(), graph_nodes(finished.gm)) if is_watched() else ("", ())
        emit(events.GraphCaptured(compile_id, compile_id, "capture", ops, code, nodes))
    reason = captured.reason
    if captured.result is None and reason is not None and reason.id not in PROGRAM_RAISES and not reason.consequence:
        emit(break_event(reason, compile_id))


def break_event(e: BreakError, compile_id: str) -> events.GraphBroke:
    file, line, col, end_line, end_col = e.span
    stack = tuple(f"{f}:{ln} {name}" for f, ln, name in e.stack)
    reason = f"{e.reason.title}: {e.what}" if e.what else e.reason.title
    return events.GraphBroke(compile_id, e.id, file, line, col, end_line, end_col, reason, e.reason.explanation, e.hint, stack)


_CHECKS = 200  # of each guard, to measure it


def report_entry(captured: Captured, guards: BuiltGuards, text: str, compile_id: str, inputs: tuple[Any, ...]) -> None:
    costs = dict(guards.tree.cost(inputs, _CHECKS)) if config.guard_times else {}
    for gid, (record, (source, check)) in enumerate(zip(guards.records, guards.texts(), strict=True) if is_watched() else ()):
        emit(events.GuardInstalled(compile_id, gid, source, check, record.file, record.line, round(costs.get(gid, -1.0), 1)))
    emit(events.CodeGenerated(compile_id, "codegen", "entry", "python", text))
    broke = captured.result is None
    has_graph = any(n.op.startswith("call_") for n in captured.tx.builder.graph.nodes)
    outcome = "break" if broke else "ok" if has_graph else "empty"
    reason = captured.reason if broke else None
    if reason is None:
        emit(events.CompileEnded(compile_id, outcome))
    else:
        emit(events.CompileEnded(compile_id, outcome, reason.what, reason.id, reason.span[0], reason.span[1]))
