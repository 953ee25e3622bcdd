"""The text form of a program: one instruction per line. It says everything: tests read it back.

in a0: f32[4, 8] (8, 1)
temp b0: f32[4] (1)
nest n0 (i0:4) reduce (r0:8) ; sum model.py:3
  %0 = load a0[8*i0 + r0] : f32
  %1 = reduce sum.0(%0) over (r0) : f32
  store b0[i0] = %1
extern e0 = aten.mm.default(a0[4, 8](8, 1)+0, ...) -> b1
return b0[4](1)+0
"""

from __future__ import annotations

from typing import Any

from inductor.ir import types
from inductor.ir.affine import Axis, Index
from inductor.ir.dims import dim_text
from inductor.ir.expr import Expr, FloatBits
from inductor.ir.nest import Batch, Buffer, Extern, Nest, Program, Step, View

KIND_WORDS = {"input": "in", "const": "const", "temp": "temp", "extern": "made", "object": "object"}


def dtype_text(buffer: Buffer) -> str:
    return types.BY_TORCH.get(buffer.dtype, str(buffer.dtype))


def print_buffer(buffer: Buffer) -> str:
    strides = ", ".join(map(str, buffer.strides))
    return f"{KIND_WORDS[buffer.kind]} {buffer.name}: {dtype_text(buffer)}{list(buffer.shape)} ({strides})"


def print_view(view: View) -> str:
    return f"{view.buffer}{list(view.shape)}({', '.join(map(str, view.strides))})+{view.offset}"


def _print_axes(axes: tuple[Axis, ...]) -> str:
    return "(" + ", ".join(f"{a.name}:{dim_text(a.extent)}" for a in axes) + ")"


def _print_index(index: Index, indirect: tuple[str, ...]) -> str:
    lengths = {a.name: dim_text(a.extent) for a in index.axes if a.name.startswith("$")}
    text = repr(index)
    if not indirect:
        return f"[{text}]"
    bound = ", ".join(f"${k}:{lengths.get(f'${k}', 1)}={name}" for k, name in enumerate(indirect))
    return f"[{text} | {bound}]"


def print_instruction(node: Expr, names: dict[Expr, str]) -> str:
    """The right-hand side of one line."""
    args = ", ".join(names[a] for a in node.args)
    if node.op == "const":
        return f"const {node.attr.text if isinstance(node.attr, FloatBits) else node.attr} : {node.type}"
    if node.op == "index":
        return f"index {node.attr} : {node.type}"
    if node.op == "load":
        return f"load {node.attr[0]}{_print_index(node.attr[1], tuple(names[a] for a in node.args))} : {node.type}"
    if node.op == "reduce":
        kind, axes, output = node.attr
        return f"reduce {kind}.{output}({args}) over {_print_axes(axes)} : {node.type}"
    if node.op == "scan":
        kind, axis = node.attr
        return f"scan {kind}({args}) along {_print_axes((axis,))} : {node.type}"
    if node.op == "check":
        return f"check {node.attr} of ({args}) : {node.type}"
    return f"{node.op}({args}) : {node.type}"


def print_nest(nest: Nest) -> str:
    names: dict[Expr, str] = {}
    where = " ; " + " | ".join(map(str, nest.origins)) if nest.origins else ""
    lines = [f"nest {nest.name} {_print_axes(nest.axes)}{where}"]
    for node in nest.exprs():
        names[node] = f"%{len(names)}"
        lines.append(f"  {names[node]} = {print_instruction(node, names)}")
    for s in nest.stores:
        sign = {"set": "=", "add": "+="}[s.mode]
        lines.append(f"  store {s.buffer}{_print_index(s.index, tuple(names[e] for e in s.indirect))} {sign} {names[s.value]}")
    return "\n".join(lines)


def print_value(value: Any) -> str:
    if isinstance(value, View):
        return print_view(value)
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(map(print_value, value)) + ")"
    return repr(value)


def print_extern(step: Extern) -> str:
    args = [print_value(a) for a in step.args] + [f"{k}={print_value(v)}" for k, v in step.kwargs.items()]
    where = " ; " + " | ".join(map(str, step.origins)) if step.origins else ""
    return f"extern {step.name} = {step.target}({', '.join(args)}) -> {', '.join(o or '_' for o in step.outs)}{where}"


def print_batch(step: Batch) -> str:
    rows = [f"  row {dim_text(extent)}: {', '.join(row)}" for row, extent in zip(step.rows, step.extents, strict=True)]
    return "\n".join(["batch", *rows, print_nest(step.nest)])


def print_step(step: Step) -> str:
    if isinstance(step, Batch):
        return print_batch(step)
    return print_nest(step) if isinstance(step, Nest) else print_extern(step)


def print_program(program: Program) -> str:
    lines = [print_buffer(b) for b in program.buffers.values()]
    lines += [print_step(s) for s in program.steps]
    lines.append("return " + ", ".join(map(print_value, program.outputs)))
    return "\n".join(lines) + "\n"
