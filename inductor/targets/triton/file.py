"""The file of one kernel: its function with the helpers it calls, how it is launched, the same as ATen calls, and a benchmark.

`python k0.py` runs the kernel on random inputs, compares it with the ATen calls and times it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inductor.ir.nest import Program
from inductor.ir.types import TYPES
from inductor.targets.triton.aten import reference_lines
from inductor.targets.triton.comments import origin_line
from inductor.targets.triton.kernel import TritonKernel
from inductor.targets.triton.machine import Shape
from inductor.targets.triton.ops import HELPERS, with_helpers
from inductor.targets.triton.printer import Printer, function_name, parameter_names
from inductor.targets.triton.space import Unprintable
from inductor.targets.triton.table import Launch

IMPORTS = """import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
"""

SAMPLES = '''

def samples(device):
    """Random flat buffers, small integers as indices."""
    out = []
    for size, dtype in SIZES or BUFFERS:
        if dtype.is_floating_point:
            out.append(torch.randn(max(size, 1), device=device).to(dtype))
        else:
            out.append(torch.zeros(max(size, 1), dtype=dtype, device=device))
    return out

'''

RUNNING = '''
def launch(*tensors, bad=()):
    """Run the kernel on the buffers of `samples`. `bad`: where an index out of range is noted, if it looks for them."""
    for buffers, numbers, grid in LAUNCHES or [(range(len(tensors)), (), GRID)]:
        KERNEL[grid](*(tensors[k] for k in buffers), *bad, *numbers, **OPTIONS)


def microseconds(run, tensors):
    """The median of graph replays, without the cost of launching."""
    run(*tensors)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(20):
            run(*tensors)
    times = []
    for _ in range(9):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 50)
    return sorted(times)[4]


if __name__ == "__main__":
    torch.manual_seed(0)
    tensors = samples("cuda")
    others = [t.clone() for t in tensors]
    bad = [torch.zeros(1, dtype=torch.int32, device="cuda")] if TAKES_BAD else []
    if KERNEL is not None:
        launch(*tensors, bad=bad)
        for buffers, length in ROWS or [(range(len(others)), None)]:
            reference(*(others[k] for k in buffers), *bad, *([] if length is None else [length]))
        for k in {k for buffers, _ in ROWS for k in buffers} if ROWS else range(len(tensors)):  # no table of addresses
            t, o = tensors[k], others[k]
            torch.testing.assert_close(t, o, rtol=2e-2 if t.dtype.itemsize == 2 else 1e-4, atol=1e-4, equal_nan=True)
        moved = sum(size * dtype.itemsize for size, dtype in SIZES or BUFFERS)
        us = microseconds(lambda *given: launch(*given, bad=bad), tensors)
        print(f"{KERNEL.__name__}: {us:.2f} us, {moved / us / 1e3:.0f} GB/s")
'''


def kernel_file(kernel: TritonKernel, program: Program) -> str:
    """The text of a kernel."""
    names = parameter_names(kernel)
    checks = any(m.checks for m in kernel.members)
    lines: list[str] = []
    function, grid, shape = "None", 0, kernel.shape
    if kernel.space is not None:
        printer = Printer(kernel, program, function_name(kernel))
        try:
            text = printer.run()
        except Unprintable as why:
            kernel.refusal, kernel.shape, shape = str(why), None, None
        else:
            lines += helper_lines(printer.body.helpers)
            lines += ["", "", "@triton.jit", *text]
            function, grid = printer.function, printer.grid
    lines += ["", "", f"KERNEL = {function}", f"GRID = ({grid},)", f"OPTIONS = {options(shape)}", f"TAKES_BAD = {checks}"]
    every = [*kernel.reads, *kernel.writes] if kernel.rows else []
    lines += [f"BUFFERS = {sizes(parameters_of(kernel), program)}", f"SIZES = {sizes(every, program)}"]
    lines += [f"LAUNCHES = {launches_of(kernel)}", f"ROWS = {row_table(kernel)}", "", ""]
    nest = kernel.members[0]
    lengths = dict.fromkeys(nest.axes, "n") if kernel.rows else {}
    named = [*names.values(), *(["bad"] if checks else []), *(["n"] if kernel.rows else [])]
    lines += reference_lines(kernel.members, names, named, program.buffers, lengths)
    return f"{heading(kernel, program)}{IMPORTS}" + "\n".join(lines) + "\n" + SAMPLES + RUNNING


def helper_lines(helpers: Iterable[str]) -> list[str]:
    """The functions that a kernel calls."""
    lines: list[str] = []
    for helper in with_helpers(list(helpers)):
        lines += ["", "", "@triton.jit", *HELPERS[helper][0].rstrip("\n").split("\n")]
    return lines


def row_table(kernel: TritonKernel) -> list[tuple[tuple[int, ...], int]]:
    """Of a batch: for every run the positions of its buffers among all that the kernel touches, and its length."""
    at = positions(kernel)
    return [(tuple(at[b] for b in row), n) for row, n in zip(kernel.rows, kernel.lengths, strict=True)]


def launches_of(kernel: TritonKernel) -> list[Launch]:
    """Of a batch: the positions of the buffers of every launch, the numbers after them, and the grid."""
    if kernel.table is not None:
        return kernel.table.launches(positions(kernel))
    if kernel.shape is None:
        return []
    return [(row, (n,), (-(-n // kernel.shape.rows),)) for row, n in row_table(kernel) if n]


def positions(kernel: TritonKernel) -> dict[str, int]:
    return {b: i for i, b in enumerate((*kernel.reads, *kernel.writes))}


def parameters_of(kernel: TritonKernel) -> list[str]:
    """The buffers that the function takes, in a launch that stands for all."""
    if kernel.table is None:
        return list(parameter_names(kernel))
    flat = [b for row in kernel.table.rows for b in row]
    return [*flat[: len(kernel.table.parameters)], kernel.table.buffer]


def sizes(buffers: Sequence[str], program: Program) -> str:
    """The elements of each, and what they are."""
    return f"[{', '.join(f'({program.buffers[b].size}, {program.buffers[b].dtype})' for b in buffers)}]"


def options(shape: Shape | None) -> str:
    """Arguments of the launch. A product and a sum stay two roundings, as everywhere: see `lowering/contract.py`."""
    if shape is None:
        return "{}"
    return f'{{"num_warps": {shape.warps}, "enable_fp_fusion": False}}'


def heading(kernel: TritonKernel, program: Program) -> str:
    lines = [f'"""{kernel.name}: {", ".join(kernel.how())}.', "", *(origin_line(kernel.origins).split("; ") if kernel.origins else []), ""]
    for buffer, name in parameter_names(kernel).items():
        row = program.buffers[buffer]
        over = f", over {kernel.over[buffer]}" if buffer in kernel.over else ""
        lines.append(f"{name}: {buffer} {TYPES[row.type].name}{list(row.shape)}{over}")
    return "\n".join(lines) + '\n"""\n\n'
