"""One kernel as C: a function over a range of outer iterations, made of the kernel's stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inductor.ir.affine import Axis
from inductor.ir.dims import SIZES, Dim, hint, is_known, number, volume
from inductor.ir.expr import Expr, cost
from inductor.ir.nest import Program, Store
from inductor.ir.types import TYPES
from inductor.targets.cpu.c.body import BodyPrinter, Names, Placed, Scope, stores_by_buffer
from inductor.targets.cpu.c.exprs import c_type, far_steps, product_text, size_text, step_lines
from inductor.targets.cpu.c.prefetch import prefetches, row_prefetches
from inductor.targets.cpu.c.reductions import ADD_PRODUCT, Accumulator, accumulator, is_term
from inductor.targets.cpu.comments import origin_comment
from inductor.targets.cpu.kernel import LoopKernel, LoopStage
from inductor.targets.cpu.machine import SERIAL_WORK, WORK_PER_THREAD

ROW_CHUNK = 4096  # elements summed into one set of lanes before they are added to the total
COLUMN_CHUNK = 64  # the same for rows of a column sum
GATHER_WORK = 12  # additions per scattered read from which on lanes pay


EXTREMES = {"max": ">", "min": "<"}  # how the first of two lanes wins

SIMD = "#pragma omp simd"
CHECKED_SIMD = "#pragma omp simd reduction(|:bad)"


@dataclass
class Running:
    """A reduction in progress: its lane arrays, and for long sums the lanes of the total over blocks.

    Totals are float64: the low bits that Kahan's float32 pair would keep, without the NaN that it makes of an infinity.
    """

    node: Expr
    row: Accumulator
    arrays: list[str]
    total: str | None
    value: Placed
    position: str


class StagePrinter:
    """Prints one stage: accumulators, loops, and what follows the loops."""

    def __init__(self, kernel: LoopKernel, stage: LoopStage, names: Names, stored: dict[str, Store]) -> None:
        self.kernel, self.stage, self.names = kernel, stage, names
        self.border = stage.interior
        self.stored = stored
        loops = list(stage.axes) + ([kernel.block] if kernel.block is not None else [])
        self.scope = Scope(loops)
        self.before: list[str] = []
        self.printer = BodyPrinter(kernel, names, stored, self.scope, self.scan)
        self.running: dict[tuple[str, tuple[Axis, ...], Expr], Running] = {}
        self.printer.here = stores_by_buffer(
            [m for m in stage.members if m.is_pointwise and m.has_plain_stores and not m.writes() & kernel.updates]
        )
        self.lanes = self.lane_count()
        self.printer.is_scalar = self.is_scalar()
        far = far_steps(loops, stage.members) if loops and not self.printer.is_scalar else frozenset()
        if far:
            self.printer.opaque = loops[-1], far
            self.before += step_lines(far)

    @property
    def is_block(self) -> bool:
        return self.kernel.block is not None

    def is_scalar(self) -> bool:
        """No loop of the stage is vectorised."""
        if not self.is_block and self.stage.vector is None:
            return True
        return self.only_gathers(self.scope.loops[-1]) and not any(m.reduced for m in self.stage.members)

    def lane_count(self) -> int:
        if self.is_block:
            return self.kernel.block_size
        vector = self.stage.vector
        if vector is None:
            return 1
        length = hint(vector.extent)
        lanes = 64 if length >= 512 else 32
        while lanes > 1 and length < 2 * lanes:
            lanes //= 2
        return lanes if lanes >= 4 else 1

    # ---- what happens per element ----

    def scan(self, node: Expr, value: str, depth: int) -> Placed:
        kind, _ = node.attr
        symbol, initial = {"sum": ("+", "0"), "prod": ("*", "1")}[kind]
        carry, type_text = self.names.fresh("carry"), c_type(node.type)
        if self.is_block:
            self.before += [f"{type_text} {carry}[{self.lanes}];", f"for (int l = 0; l < {self.lanes}; l++) {carry}[l] = {initial};"]
            target = f"{carry}[{self.kernel.block.name if self.kernel.block else ''} - lo]"
        else:
            self.before.append(f"{type_text} {carry} = {initial};")
            target = carry
        at = len(self.scope.loops)
        self.scope.lines[at].append(f"{target} = {target} {symbol} {value};")
        return self.printer.let(node.type, target, at)

    def start(self, node: Expr) -> None:
        """Declare the accumulators of one reduction and add its update to the loop body."""
        kind, axes, _ = node.attr
        key = (kind, axes, node.args[0])
        if key in self.running:
            return
        operand = node.args[0]
        # Positions as wide as the values keep the loop vectorised.
        is_short = all(is_known(a.extent) for a in axes) and volume(a.extent for a in axes) < 2**31 and operand.type not in ("f64", "i64")
        in_order = [a for a in self.stage.axes if a in axes] == list(axes)
        row = accumulator(kind, operand.type, "i32" if is_short else "i64", in_order=in_order)
        arrays = [self.names.fresh("acc") for _ in row.parts]
        chunked = row.is_sum and self.chunk_depth() is not None
        total = self.names.fresh("total") if chunked else None
        for name, (type_name, initial) in [*zip(arrays, row.parts, strict=True), *([(total, ("f64", "0"))] if total else [])]:
            self.before.append(f"{c_type(type_name or operand.type)} {name}[{self.lanes}] __attribute__((aligned(64)));")
            self.before.append(f"for (int l = 0; l < {self.lanes}; l++) {name}[l] = {initial};")
        terms = operand.args[:2] if row.is_sum and is_term(operand) else (operand,)
        value, *more = [self.printer.value(a) for a in terms]
        position = self.position(axes) if kind.startswith("arg") else ""
        self.running[key] = Running(node, row, arrays, total, value, position)
        lane = f"{self.kernel.block.name} - lo" if self.kernel.block else "l" if self.lanes > 1 else "0"
        unique = self.names.fresh("")
        update, other = (ADD_PRODUCT[operand.type], more[0][0]) if more else (row.update, "")
        text = update.format(
            *arrays, y=other, x=value[0], p=f"(int32_t)({position})" if is_short else position, l=lane, l0=unique, t=c_type(operand.type)
        )
        self.scope.lines[len(self.scope.loops)].append(text)

    def position(self, axes: Sequence[Axis]) -> str:
        text = "0"
        for axis in axes:
            text = axis.name if text == "0" else f"({text}) * {size_text(axis.extent)} + {axis.name}"
        return text

    def body(self) -> None:
        for nest in self.stage.members:
            if nest.reduced:
                for node in nest.exprs():
                    if node.op == "reduce":
                        self.start(node)
            else:
                for store in nest.stores:
                    self.printer.store(store)
        self.scope.lines[len(self.scope.loops)] += self.printer.late

    # ---- loops ----

    def chunk_depth(self) -> int | None:
        """The loop after whose iterations lane sums move to the totals; None when the whole sum is short."""
        axes = list(self.stage.axes)
        limit = COLUMN_CHUNK if self.is_block else ROW_CHUNK
        if volume(a.extent for a in axes) <= 2 * limit:
            return None
        for depth in range(1, len(axes) + 1):
            if volume(a.extent for a in axes[depth:]) <= limit:
                return depth
        return len(axes)

    def flush(self) -> list[str]:
        out: list[str] = []
        for run in self.running.values():
            if run.total:
                (acc,) = run.arrays
                out += [SIMD, f"for (int l = 0; l < {self.lanes}; l++) {{ {run.total}[l] += {acc}[l]; {acc}[l] = 0; }}"]
        return out

    def loops(self, depth: int = 0) -> list[str]:
        """The loop nest from `depth` inwards, with each level's code at its head."""
        scope = self.scope
        if depth == len(scope.loops):
            return []
        axis = scope.loops[depth]
        is_last = depth == len(scope.loops) - 1
        if is_last and self.is_block:
            return self.plain_loop(axis, "lo", "hi", scope.lines[depth + 1])
        if is_last and axis is self.stage.vector:
            return self.vector_loop(axis, scope.lines[depth + 1])
        inner = scope.lines[depth + 1] + self.loops(depth + 1)
        if axis is self.kernel.crossing:
            return self.printer.patches.wrap([f"for (long {axis.name} = first; {axis.name} < last; {axis.name}++) {{", *indent(inner), "}"])
        flush_here = any(r.total for r in self.running.values()) and self.chunk_depth() == depth + 1
        if flush_here and hint(axis.extent) > COLUMN_CHUNK and self.is_block and depth == len(self.stage.axes) - 1:
            return self.chunked_loop(axis, inner, COLUMN_CHUNK)
        if flush_here:
            inner = inner + self.flush()
        return [f"for (long {axis.name} = 0; {axis.name} < {size_text(axis.extent)}; {axis.name}++) {{", *indent(inner), "}"]

    def chunked_loop(self, axis: Axis, inner: list[str], size: int) -> list[str]:
        start, end = self.names.fresh("from"), self.names.fresh("to")
        return [
            f"for (long {start} = 0; {start} < {size_text(axis.extent)}; {start} += {size}) {{",
            f"    const long {end} = {start} + {size} < {size_text(axis.extent)} ? {start} + {size} : {size_text(axis.extent)};",
            f"    for (long {axis.name} = {start}; {axis.name} < {end}; {axis.name}++) {{",
            *indent(inner, 2),
            "    }",
            *indent(self.flush()),
            "}",
        ]

    def plain_loop(self, axis: Axis, start: str, stop: str, body: list[str]) -> list[str]:
        """The innermost loop where nothing is accumulated: whole, or one of the two parts of a loop with an interior."""
        name, border = axis.name, self.border
        head = [SIMD, f"for (long {name} = {start}; {name} < {stop}; {name}++) {{"]
        if border is not None and axis is border.axis:
            head = [SIMD, f"for (long {name} = 0; {name} < {size_text(axis.extent)}; {name}++) {{"]
        elif border is not None:
            first = 0 if border.start else border.stop
            step = f"{name} = {name} + 1 == {border.start}L ? {border.stop}L : {name} + 1"
            head = [f"for (long {name} = {first}L; {name} < {size_text(axis.extent)}; {step}) {{"]
        if self.only_gathers(axis):
            head = ["#pragma GCC unroll 8", head[-1], '    __asm__ volatile("");']  # the latter keeps gcc from vectorising
        return [*head, *indent(body), "}"]

    def only_gathers(self, axis: Axis) -> bool:
        """Scattered reads and little else: lanes gain nothing, as the hardware gathers one by one, more slowly than plain loads."""
        values = [s.value for m in self.stage.members for s in m.stores]
        scattered = any(axis in a.axes for m in self.stage.members for e in m.loads() for a in e.args)
        return scattered and sum(map(cost, values)) <= GATHER_WORK

    def vector_loop(self, axis: Axis, body: list[str]) -> list[str]:
        lanes = self.lanes
        if not self.running:
            return self.plain_loop(axis, "0", size_text(axis.extent), body)
        if lanes == 1:
            return [f"for (long {axis.name} = 0; {axis.name} < {size_text(axis.extent)}; {axis.name}++) {{", *indent(body), "}"]
        at = self.names.fresh("at")
        length = number(axis.extent)
        full, rest = length - length % lanes, length % lanes
        flush = self.flush() if any(r.total for r in self.running.values()) and self.chunk_depth() == len(self.scope.loops) else []
        step = [SIMD, f"for (int l = 0; l < {lanes}; l++) {{", f"    const long {axis.name} = {at} + l;", *indent(body), "}"]
        step = prefetches(self.kernel, self.stage, axis, at, lanes) + step
        if flush and length > ROW_CHUNK:
            block = self.names.fresh("from")
            end = f"({block} + {ROW_CHUNK} < {full}L ? {block} + {ROW_CHUNK} : {full}L)"
            out = [
                f"for (long {block} = 0; {block} < {full}L; {block} += {ROW_CHUNK}) {{",
                f"    for (long {at} = {block}; {at} < {end}; {at} += {lanes}) {{",
                *indent(step, 2),
                "    }",
                *indent(flush),
                "}",
            ]
        else:
            out = [f"for (long {at} = 0; {at} < {full}L; {at} += {lanes}) {{", *indent(step), "}"]
        if rest:
            out += [SIMD, f"for (int l = 0; l < {rest}; l++) {{", f"    const long {axis.name} = {full}L + l;", *indent(body), "}"]
        return out + ([] if not flush or length > ROW_CHUNK else flush)

    # ---- after the loops ----

    def after(self) -> list[str]:
        """Combine lanes, then store what is computed from the reductions."""
        out: list[str] = []
        for run in self.running.values():
            if run.total:
                out += [SIMD, f"for (int l = 0; l < {self.lanes}; l++) {run.arrays[0]}[l] = {run.total}[l] + {run.arrays[0]}[l];"]
            if not self.is_block and self.lanes > 1:
                out += self.across_lanes(run)
        if not self.running:
            return out
        return out + (self.block_results() if self.is_block else self.row_results())

    def across_lanes(self, run: Running) -> list[str]:
        """All lanes into the first.

        The extreme of two floats that may be NaN takes two tests, which gcc makes branches of for single lanes. Data decide them: that was
        three quarters of the time of a softmax over 49 columns. So one test for all lanes comes first.
        """
        sign = EXTREMES.get(run.node.attr[0])
        if sign is None or TYPES[run.node.args[0].type].kind != "float":
            return self.halves(run, run.row.combine)
        nan, acc = self.names.fresh("nan"), run.arrays[0]
        return [
            f"int {nan} = 0;",
            f"#pragma omp simd reduction(|:{nan})",
            f"for (int l = 0; l < {self.lanes}; l++) {nan} |= {acc}[l] != {acc}[l];",
            f"if (__builtin_expect({nan}, 0)) {{",
            *indent(self.halves(run, run.row.combine)),
            "} else {",
            *indent(self.halves(run, f"{{0}}[{{l}}] = {{0}}[{{l}}] {sign} {{0}}[{{m}}] ? {{0}}[{{l}}] : {{0}}[{{m}}];")),
            "}",
        ]

    def halves(self, run: Running, combine: str) -> list[str]:
        """The upper half of the lanes into the lower, and again: one loop per width, as known trip counts keep lanes in registers."""
        out, width = [], self.lanes // 2
        while width:
            text = combine.format(*run.arrays, l="l", m=f"l + {width}", t=c_type(run.node.args[0].type))
            out += [SIMD] if width >= 16 else []
            out.append(f"for (int l = 0; l < {width}; l++) {{ {text} }}")
            width //= 2
        return out

    def results(self, loops: Sequence[Axis], lane: str) -> BodyPrinter:
        outer = {k: v for k, v in self.scope.known.items() if v[1] == 0}
        scope = Scope(loops, known=outer)
        printer = BodyPrinter(self.kernel, self.names, self.stored, scope, self.scan)
        for nest in self.stage.members:
            for node in nest.exprs():
                if node.op == "reduce":
                    kind, axes, output = node.attr
                    run = self.running[kind, axes, node.args[0]]
                    printer.reduced[node] = run.row.results[output].format(*run.arrays).replace("[0]", f"[{lane}]")
        for nest in self.stage.members:
            if nest.reduced:
                for store in nest.stores:
                    printer.store(store)
        return printer

    def row_results(self) -> list[str]:
        return self.results((), "0").scope.lines[0]

    def block_results(self) -> list[str]:
        block = self.kernel.block
        assert block is not None
        scope = self.results((block,), f"{block.name} - lo").scope
        loop = [SIMD, f"for (long {block.name} = lo; {block.name} < hi; {block.name}++) {{", *indent(scope.lines[1]), "}"]
        return scope.lines[0] + loop

    def text(self) -> list[str]:
        self.body()
        after = self.after() if self.running else []
        comment = origin_comment(o for m in self.stage.members for o in m.origins)
        if not self.scope.loops:
            return comment + self.before + self.scope.lines[0]
        first = [*self.before, *row_prefetches(self.kernel, self.stage), *self.scope.lines[0]]
        return [*comment, "{", *indent([*first, *self.loops(), *after]), "}"]


def stage_text(kernel: LoopKernel, stage: LoopStage, names: Names, stored: dict[str, Store]) -> list[str]:
    """A stage as C; one with an interior is printed twice: the simpler members over the interior, its own over the border."""
    border = StagePrinter(kernel, stage, names, stored).text()
    if stage.interior is None:
        return border
    old, new = kernel.block or stage.vector, stage.interior.axis
    members = list(stage.interior.members)
    axes = tuple(new if a is old else a for a in stage.axes)
    inner = LoopStage(axes, members, new if stage.vector is old else stage.vector, stage.interior)
    moved = replace(kernel, block=new) if kernel.block is old else kernel
    return StagePrinter(moved, inner, names, stored | stores_by_buffer(members)).text() + border


def factor(size: Dim) -> int | str:
    return number(size) if is_known(size) else size_text(size)


def blocks_of(size: Dim, block: int) -> int | str:
    return -(-number(size) // block) if is_known(size) else f"(({size_text(size)} + {block - 1}L) / {block}L)"


def whole(kernel: LoopKernel, total: str, told: Sequence[str] = ()) -> list[str]:
    """The function of a kernel, which does all of what its `_part` does a range of: at once, or shared among threads of the team.

    The team is always the whole pool. OpenMP ends the threads that a smaller one leaves over, and a larger one starts them again: 85 us
    a time for 2 and 8 in turn. `told` declares the sizes that the `total` number of iterations is computed from.
    """
    name, most = kernel.name, kernel.work // WORK_PER_THREAD
    most = most if told else min(int(total[:-1]), most)
    head, start = f"static void {name}(char *const *p, int threads) {{", [f"    {line}" for line in told]
    if kernel.is_serial or kernel.work < SERIAL_WORK or most < 2:
        if not told:
            return [f"{head} (void)threads; {name}_part(p, 0, {total}); }}"]
        return [head, *start, f"    (void)threads; {name}_part(p, 0, {total});", "}"]
    return [
        head,
        *start,
        f"    if (threads < 2) {{ {name}_part(p, 0, {total}); return; }}",
        "#pragma omp parallel num_threads(threads)",
        "    {",
        f"        const long me = omp_get_thread_num(), team = omp_get_num_threads(), all = team < {most} ? team : {most};",
        f"        if (me < all) {name}_part(p, {total} * me / all, {total} * (me + 1) / all);",
        "    }",
        "}",
    ]


def indent(lines: Sequence[str], levels: int = 1) -> list[str]:
    return [("    " * levels + line) if not line.startswith("#") else line for line in lines]


class KernelPrinter:
    """Prints the function of a kernel and the wrapper that shares it among threads."""

    def __init__(self, kernel: LoopKernel, program: Program, slots: dict[str, int]) -> None:
        self.kernel, self.program, self.slots = kernel, program, slots

    def pointers(self) -> list[str]:
        out = []
        for buffer in (*self.kernel.reads, *self.kernel.writes):
            if self.kernel.home(buffer) != buffer:
                continue
            const = "" if buffer in self.kernel.writes else "const "
            kind = c_type(self.program.buffers[buffer].type)
            skip = f" + {self.kernel.skip[buffer]}L" if buffer in self.kernel.skip else ""
            out.append(f"{const}{kind} *RESTRICT p_{buffer} = ({const}{kind} *)p[{self.slots[buffer]}]{skip};")
        return out

    def tiles(self) -> list[str]:
        lanes = self.kernel.block_size if self.kernel.block is not None else 1
        return [
            f"{c_type(t.type)} t_{t.buffer}[{max(t.size, 1) * lanes}] __attribute__((aligned(64)));" for t in self.kernel.tiles.values()
        ]

    def outer(self) -> tuple[str, list[str]]:
        """Number of outer iterations, and the statements that find the loop values of iteration `it`."""
        kernel = self.kernel
        plain = [a for a in kernel.outer if a is not kernel.block]
        lines: list[str] = []
        total = [factor(a.extent) for a in plain]
        left = "it"
        if kernel.block is not None:
            size, stop = max(kernel.block_size, 1), size_text(kernel.block.extent)
            blocks = blocks_of(kernel.block.extent, size)
            count = product_text([blocks])
            position = "0L" if blocks == 1 else f"(it % {count}) * {size}L"
            lines += [f"const long lo = {position};", f"const long hi = lo + {size}L < {stop} ? lo + {size}L : {stop};"]
            left = left if blocks == 1 else f"(it / {count})"
            total.append(blocks)
        running: list[int | str] = []
        for k, axis in enumerate(reversed(plain)):
            text = left if product_text(running) == "1L" else f"{left} / {product_text(running)}"
            if k < len(plain) - 1:
                text = f"({text}) % {size_text(axis.extent)}"
            lines.append(f"const long {axis.name} = {text};")
            running.append(factor(axis.extent))
        return product_text(total), lines

    def text(self) -> str:
        kernel, names = self.kernel, Names()
        kernel.find_skips()
        total, decode = self.outer()
        stored = stores_by_buffer([m for s in kernel.stages for m in s.members])
        body: list[str] = []
        for stage in kernel.stages:
            body += stage_text(kernel, stage, names, stored)
        checked = any(e.op == "check" for s in kernel.stages for m in s.members for e in m.exprs())
        if checked:
            body = [line.replace(SIMD, CHECKED_SIMD) for line in body]
        inside = [*self.tiles(), *decode, *body]
        part = [
            f"static void {kernel.name}_part(char *const *p, long begin, long end) {{",
            *indent(self.pointers()),
            *(["    int bad = 0;"] if checked else []),
            *indent(origin_comment(kernel.origins)),
            "    for (long it = begin; it < end; it++) {",
            *indent(inside, 2),
            "    }",
            *(["    if (bad) *(volatile int *)p[0] = 1;"] if checked else []),
            "}",
        ]
        told = [line for line in self.pointers() if f" p_{SIZES} = " in line and f"p_{SIZES}[" in total]
        return "\n".join(part + whole(kernel, total, told)) + "\n"
