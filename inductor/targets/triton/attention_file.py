"""The file of an attention kernel: see `file.py`. Its ATen calls have all scores in memory."""

from __future__ import annotations

from inductor.ir.attention import BEHIND, SCORE, place
from inductor.ir.dims import numel
from inductor.ir.expr import Expr, load
from inductor.ir.nest import Nest, Program, Store
from inductor.ir.types import TYPES
from inductor.targets.triton.aten import NestText
from inductor.targets.triton.attention import AttentionKernel, Printer
from inductor.targets.triton.comments import origin_line
from inductor.targets.triton.file import IMPORTS, RUNNING, helper_lines, sizes

SAMPLES = '''

def samples(device):
    """Random flat buffers; of a block mask, all blocks are listed."""
    out = [(torch.randn if dtype.is_floating_point else torch.zeros)(max(size, 1), device=device).to(dtype) for size, dtype in BUFFERS]
    for k, blocks, is_count in LISTED:
        out[k].copy_(torch.full_like(out[k], blocks) if is_count else torch.arange(out[k].numel(), device=device) % blocks)
    return out

'''


def attention_file(kernel: AttentionKernel, program: Program) -> str:
    """The text of a kernel."""
    printer = Printer(kernel, program)
    text = printer.run()
    lines = helper_lines(printer.body.helpers)
    lines += ["", "", "@triton.jit", *text, "", "", f"KERNEL = {printer.function}", f"GRID = ({printer.grid},)"]
    lines += [f'OPTIONS = {{"num_warps": {kernel.tile.warps}, "num_stages": {kernel.tile.stages}, "enable_fp_fusion": True}}']
    buffers = list(kernel.names)
    lines += [f"TAKES_BAD = {printer.body.uses_bad}", f"BUFFERS = {sizes(buffers, program)}", "SIZES = []", "LAUNCHES = []", "ROWS = []"]
    lines += [f"LISTED = {listed(kernel, printer)}", "", ""]
    parameters = [*kernel.names.values(), *(["bad"] if printer.body.uses_bad else [])]
    lines += [f"def reference({', '.join(parameters)}):", *(f"    {line}" for line in reference(printer))]
    running = RUNNING.replace("atol=1e-4", "atol=1e-2")  # sums of products in another order
    return f"{heading(kernel, program)}{IMPORTS}" + "\n".join(lines) + "\n" + SAMPLES + running


def listed(kernel: AttentionKernel, printer: Printer) -> list[tuple[int, int, bool]]:
    """Of a block mask's tensors: their positions, how many blocks a line has, and whether it counts them. Full blocks there are none."""
    found = []
    for k, role in enumerate(kernel.names.values()):
        if role.endswith("_indices"):
            found.append((k, int(printer.roles[role].shape[3]), False))
        elif role.endswith("_blocks") and not role.startswith("full"):
            found.append((k, int(printer.roles[role.replace("num_blocks", "indices")].shape[3]), True))
    return found


def heading(kernel: AttentionKernel, program: Program) -> str:
    lines = [f'"""{kernel.name}: {", ".join(kernel.how())}.', "", *(origin_line(kernel.origins).split("; ") if kernel.origins else []), ""]
    for buffer, name in kernel.names.items():
        row = program.buffers[buffer]
        lines.append(f"{name}: {buffer} {TYPES[row.type].name}{list(row.shape)}")
    return "\n".join(lines) + '\n"""\n\n'


def reference(printer: Printer) -> list[str]:
    """The same as ATen calls over flat tensors."""
    formulas, part = printer.formulas, printer.part
    if part == "zeros":
        return [f"{name}.zero_()" for name in printer.kernel.names.values()]
    first = next(iter(printer.kernel.names.values()))
    group = f".repeat_interleave({printer.groups}, 1)" if printer.groups > 1 else ""
    lines = [f"device = {first}.device"]
    lines += [f"q = {matrix(printer, 'query')}.float()", f"k = {matrix(printer, 'key')}.float(){group}"]
    lines += [f"v = {matrix(printer, 'value')}.float(){group}", f"score = (q @ k.transpose(-2, -1) * {formulas.scale!r}).reshape(-1)"]
    lines += per_score(printer, "changed", "torch.float32", formulas.score)
    if formulas.mask is not None:
        lines += per_score(printer, "kept", "torch.bool", formulas.mask)
        lines.append('changed = torch.where(kept, changed, float("-inf"))')
    shape = list(printer.lengths)
    lines.append(f"changed = changed.view({shape})")
    if part == "forward":
        lines.append('empty = (changed == float("-inf")).all(-1, keepdim=True)')
        lines.append("changed = changed.masked_fill(empty, 0.0)")
        lines.append(f'{matrix(printer, "sums")}.copy_(changed.logsumexp(-1).masked_fill(empty.squeeze(-1), float("-inf")))')
        lines.append("p = changed.softmax(-1).masked_fill(empty, 0.0)")
        dtype = TYPES[printer.type].torch
        return [*lines, f"{matrix(printer, 'out')}.copy_(p.to({dtype}) @ v.to({dtype}))"]
    lines += [f"grad = {matrix(printer, 'grad')}.float()", f"sums = {matrix(printer, 'sums')}.unsqueeze(-1)"]
    lines.append('p = torch.where(sums == float("-inf"), 0.0, torch.exp(changed - sums))')
    lines.append(f"behind = (p * (grad @ v.transpose(-2, -1) - {matrix(printer, 'delta')}.unsqueeze(-1))).reshape(-1)")
    if part == "learned":
        return lines + [line for each in formulas.learned for line in added(printer, *each)]
    assert formulas.grad is not None
    lines += per_score(printer, "moved", "torch.float32", formulas.grad)
    if formulas.mask is not None:
        lines.append("moved = torch.where(kept, moved, 0.0)")
    lines.append(f"moved = moved.view({shape}) * {formulas.scale!r}")
    if part == "rows":
        return [*lines, f"{matrix(printer, 'query_grad')}.copy_(moved @ k)"]
    of_groups = f".unflatten(1, (-1, {printer.groups})).sum(2)" if printer.groups > 1 else ""
    lines.append(f"{matrix(printer, 'key_grad')}.copy_((moved.transpose(-2, -1) @ q){of_groups})")
    return [*lines, f"{matrix(printer, 'value_grad')}.copy_((p.transpose(-2, -1) @ grad){of_groups})"]


def added(printer: Printer, read: Expr, grad: Expr, result: int) -> list[str]:
    """Add the gradients of an element to what is at its place."""
    lines = per_score(printer, "moved", "torch.float32", grad)
    if printer.formulas.mask is not None:
        lines.append("moved = torch.where(kept, moved, 0.0)")
    _, index = read.attr
    lines.append(f"places = torch.arange(learned{result}.numel(), device=device)")
    lines += per_score(printer, "at", "torch.int64", load("places", "i64", index, read.args))
    return [*lines, f"learned{result}.index_add_(0, at, moved)"]


def matrix(printer: Printer, role: str) -> str:
    view = printer.roles[role]
    return f"{flat(printer, role)}.as_strided({list(view.shape)}, {list(view.strides)})"


def flat(printer: Printer, role: str) -> str:
    view = printer.roles[role]
    return printer.kernel.names[view.buffer] + (f"[{view.offset}:]" if view.offset else "")


def per_score(printer: Printer, name: str, dtype: str, value: Expr) -> list[str]:
    """What an expression is for every score, as a flat tensor."""
    axes = printer.formulas.axes
    names = {SCORE: "score", BEHIND: "behind", "places": "places", name: name}
    names |= {
        role: flat(printer, role)
        for role in printer.roles
        if role.startswith("read") and printer.roles[role].buffer in printer.kernel.names
    }
    nest = Nest(name, axes, (Store(name, place(axes, printer.lengths), value),), ())
    return [f"{name} = torch.empty({numel(printer.lengths)}, dtype={dtype}, device=device)", *NestText(nest, names, {}).run()]
