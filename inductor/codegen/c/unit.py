"""The translation unit of a graph: prelude, libm prototypes, kernels, and the table the host program calls them through."""

from __future__ import annotations

from pathlib import Path

from inductor.codegen.c.batch import BatchPrinter
from inductor.codegen.c.exprs import libm_used
from inductor.codegen.c.kernel import KernelPrinter
from inductor.codegen.c.shared import share
from inductor.ir.nest import Program
from inductor.runtime.mathlib import prototypes
from inductor.schedule.batch import BatchKernel
from inductor.schedule.kernel import Kernel

PRELUDE = Path(__file__).with_name("prelude.h").read_text()
TRANSPOSE = Path(__file__).with_name("transpose.h").read_text()


def printer(kernel: Kernel, program: Program, slots: dict[str, int], aliased: bool) -> KernelPrinter | BatchPrinter:
    if isinstance(kernel, BatchKernel):
        return BatchPrinter(kernel, program, slots)
    return KernelPrinter(kernel, program, slots, aliased)


def print_unit(kernels: list[Kernel], program: Program, slots: dict[str, int], aliased: frozenset[str] = frozenset()) -> str:
    """The whole C file. `slots` numbers the buffers in the pointer table; `aliased` names kernels that update memory in place."""
    nodes = [e for k in kernels for s in k.stages for m in s.members for e in m.exprs()]
    functions = libm_used(nodes)
    if any(n.op == "reduce" and n.attr[0] == "online_softmax" for n in nodes):
        functions |= {"exp"}
    texts = share([(k, printer(k, program, slots, k.name in aliased).text()) for k in kernels])
    parts = [PRELUDE, prototypes(functions), *([TRANSPOSE] if any("transpose_" in t for t in texts) else []), *texts]
    names = ", ".join(k.name for k in kernels) or "0"
    parts.append(
        "typedef void (*dd_kernel)(char *const *, int);\n"
        f'__attribute__((visibility("default"))) const dd_kernel dd_kernels[] = {{{names}}};\n'
    )
    return "\n".join(parts)
