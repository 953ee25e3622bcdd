"""A batch as C: one function for a piece of a row, and tables of the rows' pointer slots and lengths.

The code has the size of one row's code, however many rows there are; threads share pieces, not rows.
"""

from __future__ import annotations

from inductor.ir.dims import number
from inductor.ir.nest import Program
from inductor.targets.cpu.batch import BatchKernel
from inductor.targets.cpu.c.body import Names, stores_by_buffer
from inductor.targets.cpu.c.exprs import c_type, size_text
from inductor.targets.cpu.c.kernel import StagePrinter, indent, whole

PIECE = 8192  # elements of a row that one thread takes at a time


class BatchPrinter:
    """Prints the functions of one batch kernel."""

    def __init__(self, kernel: BatchKernel, program: Program, slots: dict[str, int]) -> None:
        self.kernel, self.program, self.slots = kernel, program, slots

    def pointers(self) -> list[str]:
        written = {s.buffer for stage in self.kernel.stages for m in stage.members for s in m.stores}
        out = []
        for position, buffer in enumerate(self.kernel.rows[0]):
            kind = ("" if buffer in written else "const ") + c_type(self.program.buffers[buffer].type)
            out.append(f"{kind} *RESTRICT p_{buffer} = ({kind} *)p[row[{position}]];")
        return out

    def row_function(self) -> list[str]:
        kernel, names = self.kernel, Names()
        stored = stores_by_buffer([m for s in kernel.stages for m in s.members])
        body = [line for stage in kernel.stages for line in StagePrinter(kernel, stage, names, stored).text()]
        head = f"static void {kernel.name}_row(char *const *p, const int *row, const long lo, const long hi) {{"
        return [head, *indent(self.pointers()), *indent(body), "}"]

    def tables(self) -> tuple[list[str], int]:
        """The tables, and the number of pieces."""
        kernel, pieces = self.kernel, [0]
        for extent in kernel.extents:
            pieces.append(pieces[-1] + (-(-number(extent) // PIECE) if kernel.outer else 1))
        rows = ", ".join("{" + ", ".join(str(self.slots[b]) for b in row) + "}" for row in kernel.rows)
        return [
            f"static const int {kernel.name}_rows[][{len(kernel.rows[0])}] = {{{rows}}};",
            f"static const long {kernel.name}_extents[] = {{{', '.join(map(size_text, kernel.extents))}}};",
            f"static const long {kernel.name}_first[] = {{{', '.join(f'{n}L' for n in pieces)}}}; /* piece each row begins with */",
        ], pieces[-1]

    def text(self) -> str:
        kernel, name = self.kernel, self.kernel.name
        tables, total = self.tables()
        part = [
            f"static void {name}_part(char *const *p, long begin, long end) {{",
            f"    long low = 0, high = {len(kernel.rows)};",
            "    while (high - low > 1) {",
            "        const long middle = (low + high) / 2;",
            f"        if ({name}_first[middle] <= begin) low = middle; else high = middle;",
            "    }",
            "    for (long it = begin; it < end; it++) {",
            f"        while ({name}_first[low + 1] <= it) low++;",
            f"        const long lo = (it - {name}_first[low]) * {PIECE}L, extent = {name}_extents[low];",
            f"        {name}_row(p, {name}_rows[low], lo, lo + {PIECE}L < extent ? lo + {PIECE}L : extent);",
            "    }",
            "}",
        ]
        return "\n".join([*self.row_function(), *tables, *part, *whole(kernel, f"{total}L")]) + "\n"
