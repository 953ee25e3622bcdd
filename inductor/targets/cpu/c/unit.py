"""The translation unit of a graph: prelude, libm prototypes, kernels, and the table the host program calls them through."""

from __future__ import annotations

import re
from pathlib import Path

from inductor.ir.nest import Program
from inductor.targets.cpu.batch import BatchKernel
from inductor.targets.cpu.build import section
from inductor.targets.cpu.c.batch import BatchPrinter
from inductor.targets.cpu.c.exprs import libm_used
from inductor.targets.cpu.c.kernel import KernelPrinter
from inductor.targets.cpu.c.shared import RUN_SHARED, share
from inductor.targets.cpu.kernel import LoopKernel
from inductor.targets.cpu.mathlib import prototypes

PRELUDE = Path(__file__).with_name("prelude.h").read_text()
TRANSPOSE = Path(__file__).with_name("transpose.h").read_text()

SECTION = 24 * 1024  # characters of kernels that are worth a compiler of their own: half a second
_ENTRY = re.compile(r"^static (?:__attribute__\(\(noinline\)\) )?void (\w+)\(char \*const \*p, int threads\)", re.MULTILINE)


def printer(kernel: LoopKernel, program: Program, slots: dict[str, int]) -> KernelPrinter | BatchPrinter:
    if isinstance(kernel, BatchKernel):
        return BatchPrinter(kernel, program, slots)
    return KernelPrinter(kernel, program, slots)


def print_unit(kernels: list[LoopKernel], program: Program, slots: dict[str, int]) -> str:
    """The whole C file. `slots` numbers the buffers in the pointer table."""
    nodes = [e for k in kernels for s in k.stages for m in s.members for e in m.exprs()]
    functions = libm_used(nodes)
    if any(n.op == "reduce" and n.attr[0] == "online_softmax" for n in nodes):
        functions |= {"exp"}
    texts = share([(k, printer(k, program, slots).text()) for k in kernels])
    helpers = [text for text, name in ((TRANSPOSE, "transpose_"), (RUN_SHARED, "run_shared(")) if any(name in t for t in texts)]
    head = [PRELUDE, prototypes(functions), *helpers]
    names = ", ".join(k.name for k in kernels) or "0"
    table = (
        "typedef void (*dd_kernel)(char *const *, int);\n"
        f'__attribute__((visibility("default"))) const dd_kernel dd_kernels[] = {{{names}}};\n'
    )
    if sum(map(len, texts)) < 2 * SECTION:
        return "\n".join([*head, *texts, table])
    return "\n".join([*head, *in_sections(texts, table)])


def in_sections(texts: list[str], table: str) -> list[str]:
    """Kernels in sections that several compilers can share: each takes those from FIRST to before LAST, one alone takes all."""
    declared = [f"void {name}(char *const *, int);" for text in texts for name in _ENTRY.findall(text)]
    out = ["#ifndef FIRST\n#define FIRST 0\n#define LAST 1000000\n#endif", *declared]
    size, number = 0, -1
    for text in texts:
        if number < 0 or size >= SECTION:
            out += ["#endif"] if number >= 0 else []
            size, number = 0, number + 1
            out.append(section(number))
        size += len(text)
        out.append(_ENTRY.sub(lambda found: found.group(0).replace("static ", "", 1), text))
    return [*out, "#endif", "#if FIRST == 0", table, "#endif\n"]
