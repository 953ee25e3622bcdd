"""A Python script that does what the host program of a graph does: for reading, and for running one graph outside its program.

The product runs the host program in C; this is the same steps in the same order. The script needs torch, a C compiler, and the
C unit beside it.
"""

from __future__ import annotations

from typing import Any

import torch

from dynamo.aot.report import constant_text, python
from inductor.ir.nest import Buffer, Extern, View
from inductor.schedule.kernel import Kernel
from inductor.schedule.plan import Plan
from inductor.targets.cpu.build import command_for
from inductor.targets.origins import origin_text

HEAD = '''"""{name}: the host program as Python. `python output_code.py` builds output_code.c and runs it on random inputs."""

import base64
import ctypes
import os
import subprocess
import sys
import tempfile
import zlib

import torch

aten = torch.ops.aten


def unpacked(text, size, dtype):
    raw = bytearray(zlib.decompress(base64.b85decode(text)))
    return torch.frombuffer(raw, dtype=dtype).reshape(size)


def build():
    """The functions of the C unit, in order."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "output_code.c")
    target = os.path.join(tempfile.mkdtemp(), "output_code.so")
    subprocess.run([{command}], check=True)
    kind = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int)
    return list((kind * {count}).in_dll(ctypes.CDLL(target), "dd_kernels")) if {count} else []


def pointers(**slots):
    """The table that kernels find their buffers in; slot 0 is the flag for an index out of range."""
    table = (ctypes.c_void_p * {table})()
    table[0] = ctypes.addressof(bad)
    for name, tensor in slots.items():
        if isinstance(tensor, torch.Tensor) and name in SLOTS:
            table[SLOTS[name]] = tensor.data_ptr()
    return table


def laid_out(tensor, size, stride, dtype):
    """Results of operators in the strides that the kernels were printed for."""
    if tensor.stride() == stride or not tensor.numel():
        return tensor
    return torch.empty_strided(size, stride, dtype=dtype).copy_(tensor)


bad = ctypes.c_int(0)
'''


def print_script(plan: Plan, name: str) -> str:
    """The script of a scheduled program."""
    program = plan.program
    shown = ", ".join(_argument(part) for part in command_for("source", "target"))
    head = HEAD.format(name=name, command=shown, count=len(plan.kernels), table=len(plan.slots) + 1)
    lines = [f"SLOTS = {dict(plan.slots)!r}", *_constants(plan), "kernels = build()", "", "", "def call(args):"]
    if program.inputs:
        lines.append(f"    ({', '.join(program.inputs)},) = args")
    made = set(program.inputs) | set(program.constants)
    for step in plan.steps:
        lines += _extern(plan, step, made) if isinstance(step, Extern) else _kernel(plan, step, made)
    for buffer in sorted(program.output_buffers() - made):
        lines.append(f"    {buffer} = {_empty(program.buffers[buffer])}")
    lines += ["    if bad.value:", '        raise IndexError("index out of range in a compiled graph")']
    lines.append(f"    return ({''.join(f'{_value(plan, o)}, ' for o in program.outputs)})".replace(", )", ",)"))
    inputs = [_random(program.buffers[n]) for n in program.inputs]
    lines += ["", "", 'if __name__ == "__main__":', "    torch.manual_seed(0)", "    args = [", *(f"        {i}," for i in inputs), "    ]"]
    lines.append("    for result in call(args):")
    lines += ["        print(tuple(result.shape), result.dtype) if isinstance(result, torch.Tensor) else print(result)"]
    return head + "\n".join(lines) + "\n"


def _argument(part: str) -> str:
    """The two names stand for variables of the script."""
    return part if part in ("source", "target") else repr(part)


def _constants(plan: Plan) -> list[str]:
    lines = []
    for name, value in plan.program.constants.items():
        text = constant_text(value) or f"torch.zeros({list(value.shape)}, dtype={value.dtype})  # too large to be kept"
        lines.append(f"{name} = {text}")
    return lines


def _kernel(plan: Plan, kernel: Kernel, made: set[str]) -> list[str]:
    lines = [_comment(kernel)]
    for buffer in kernel.writes:
        if buffer not in made:
            made.add(buffer)
            lines.append(f"    {buffer} = {_memory(plan, kernel, buffer)}")
    used = ", ".join(f"{b}={b}" for b in (*kernel.reads, *kernel.writes))
    lines.append(f"    kernels[{plan.kernels.index(kernel)}](pointers({used}), torch.get_num_threads())")
    return lines


def _memory(plan: Plan, kernel: Kernel, buffer: str) -> str:
    new = plan.program.buffers[buffer]
    if buffer not in kernel.over:
        return _empty(new)
    old = plan.program.buffers[kernel.over[buffer]]
    return f"{_value(plan, View(old.name, new.shape, new.strides, 0))}  # in place"


def _extern(plan: Plan, step: Extern, made: set[str]) -> list[str]:
    args = [_value(plan, a) for a in step.args] + [f"{k}={_value(plan, v)}" for k, v in step.kwargs.items()]
    call = f"{_target(step)}({', '.join(args)})"
    names = [o or "_" for o in step.outs]
    lines = [_comment(step)]
    if not names:
        return [*lines, f"    {call}"]
    lines.append(f"    {names[0] if step.single else ', '.join(names) + ','} = {call}")
    for name in filter(None, step.outs):
        buffer = plan.program.buffers[name]
        lines.append(f"    {name} = laid_out({name}, {_tuple(buffer.shape)}, {_tuple(buffer.strides)}, {buffer.dtype})")
        made.add(name)
    return lines


def _target(step: Extern) -> str:
    if isinstance(step.target, torch._ops.OpOverload):
        return f"torch.ops.{step.target}"
    return str(getattr(step.target, "__name__", step.target))


def _comment(step: Kernel | Extern) -> str:
    return f"    # {step.name}: {origin_text(step.origins)}".rstrip(": ")


def _value(plan: Plan, value: Any) -> str:
    if isinstance(value, View):
        buffer = plan.program.buffers[value.buffer]
        if value.offset == 0 and value.shape == buffer.shape and value.strides == buffer.strides:
            return value.buffer
        where = f"{value.buffer}.storage_offset() + {value.offset}"
        return f"{value.buffer}.as_strided({_tuple(value.shape)}, {_tuple(value.strides)}, {where})"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(_value(plan, v) for v in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(value) == 1 else ''})"
    return python(value)


def _tuple(sizes: Any) -> str:
    return python(tuple(sizes))


def _empty(buffer: Buffer) -> str:
    return f"torch.empty_strided({_tuple(buffer.shape)}, {_tuple(buffer.strides)}, dtype={buffer.dtype})"


def _random(buffer: Buffer) -> str:
    if buffer.kind == "object":
        return "None"
    sizes = f"{_tuple(buffer.shape)}, {_tuple(buffer.strides)}"
    if buffer.dtype.is_floating_point or buffer.dtype.is_complex:
        return f"torch.empty_strided({sizes}, dtype={buffer.dtype}).normal_()"
    return f"torch.empty_strided({sizes}, dtype={buffer.dtype}).zero_()"
