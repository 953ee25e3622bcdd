"""Attention whose scores functions of the program change, in kernels that keep no scores: one for the result, two for its gradients.

A program has a tile of rows (`query`) and walks the tiles of columns that its row of the block mask lists, with the online softmax; of the
gradients of keys and values it has a tile of columns and walks rows. What becomes of a score is printed by `body.py` as in any kernel.
Gradients of tensors that the function of a score reads are added up in a kernel more, behind one that fills them with zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from inductor.ir.affine import Axis, of_atom
from inductor.ir.attention import BEHIND, SCORE, Attention, at_place
from inductor.ir.dims import divides, number
from inductor.ir.expr import Expr, cast, index_value, walk
from inductor.ir.nest import Program, View
from inductor.ir.types import is_half
from inductor.targets.triton.body import Body, Lines, Place
from inductor.targets.triton.exprs import float_text
from inductor.targets.triton.kernel import TritonKernel
from inductor.targets.triton.machine import power
from inductor.targets.triton.ops import TRITON_TYPES
from inductor.targets.triton.space import Space, Unprintable

LOG2_E = 1.4426950408889634
LEAST = 16  # a side of what tensor cores multiply
WIDEST = 256  # elements of a head


@dataclass(frozen=True)
class Tile:
    rows: int
    columns: int
    warps: int
    stages: int


# By part, whether values have 16 bits, and elements of a head (rounded up).
TILES: dict[tuple[str, bool, int], Tile] = {
    ("forward", True, 64): Tile(64, 64, 4, 3),
    ("forward", True, 128): Tile(64, 64, 4, 3),
    ("forward", True, 256): Tile(64, 32, 4, 2),
    ("forward", False, 64): Tile(64, 32, 4, 2),
    ("forward", False, 128): Tile(32, 32, 4, 2),
    ("forward", False, 256): Tile(16, 16, 4, 1),
    ("rows", True, 64): Tile(64, 64, 4, 2),
    ("rows", True, 128): Tile(64, 64, 4, 2),
    ("rows", True, 256): Tile(32, 32, 4, 1),
    ("rows", False, 64): Tile(32, 32, 4, 1),
    ("rows", False, 128): Tile(32, 16, 4, 1),
    ("rows", False, 256): Tile(16, 16, 4, 1),
    ("columns", True, 64): Tile(64, 64, 4, 3),
    ("columns", True, 128): Tile(64, 64, 4, 2),
    ("columns", True, 256): Tile(32, 32, 4, 1),
    ("columns", False, 64): Tile(32, 32, 4, 1),
    ("columns", False, 128): Tile(16, 32, 4, 1),
    ("columns", False, 256): Tile(16, 16, 4, 1),
}
PARTS = {"forward": ("out", "sums"), "rows": ("query_grad",), "columns": ("key_grad", "value_grad")}  # and "zeros", "learned"
FILL = 1024  # zeros of a program


@dataclass(kw_only=True)
class AttentionKernel(TritonKernel):
    """`part` is a row of PARTS; `names` are those of buffers, which are parameters in this order."""

    step: Attention
    part: str
    tile: Tile
    names: dict[str, str]

    @property
    def keeps_order(self) -> bool:
        return False  # other programs read what one has stored over

    def how(self) -> list[str]:
        tile = self.tile
        if self.part == "zeros":
            return ["attention, zeros"]
        return [f"attention, {self.part}, {tile.rows} x {tile.columns} looped, {tile.stages} stages, {tile.warps} warps"]


def attention_kernels(name: str, step: Attention, program: Program) -> list[AttentionKernel]:
    """The kernels of a call, whose results are theirs from now on. Raises Unprintable."""
    first = step.results[0]
    parts = ("forward",) if first == "out" else ("rows", "columns") if first == "query_grad" else ("zeros", "learned")
    kernels = [kernel_of_part(f"{name}{'' if len(parts) == 1 else f'_{part}'}", step, part, program) for part in parts]
    for kernel in kernels:
        Printer(kernel, program).run()  # what has no form is known before results are the kernels'
    for out in step.outs:
        if out is not None:
            program.buffers[out] = replace(program.buffers[out], kind="temp")
    return kernels


def kernel_of_part(name: str, step: Attention, part: str, program: Program) -> AttentionKernel:
    roles = step.roles
    names: dict[str, str] = {}
    for role in used_roles(step, part) if part != "zeros" else []:
        check_reach(role, roles[role], program)
        names.setdefault(roles[role].buffer, role)
    reads, results = tuple(names), dict(zip(step.results, step.outs, strict=True))
    made = PARTS.get(part, step.results)
    writes = [results[role] for role in made]
    if any(b is None for b in writes):
        raise Unprintable("a result of it is not there")
    written = {str(b): role for b, role in zip(writes, made, strict=True)}
    tile = tile_of(step, part, program)
    query, key = roles["query"], roles["key"]
    points = number(query.shape[0]) * number(query.shape[1]) * number(query.shape[2]) * number(key.shape[2])
    return AttentionKernel(
        name=name,
        outer=(),
        stages=(),
        reads=reads,
        writes=tuple(written),
        work=points * number(query.shape[3]),
        origins=step.origins,
        members=(),
        step=step,
        part=part,
        tile=tile,
        names=names | written,
    )


def used_roles(step: Attention, part: str) -> list[str]:
    """What a kernel reads."""
    formulas = step.formulas
    assert formulas is not None
    used = ("query key value" if part == "forward" else "grad query key value sums delta").split()
    used += [n for n in formulas.there if n.startswith(("q_", "full_q_") if part == "columns" else ("kv_", "full_kv_"))]
    needed = [e for e in (formulas.score, formulas.mask, formulas.grad) if e is not None]
    loads = walk(*needed, *(grad for _, grad, _ in formulas.learned), *(e for read, _, _ in formulas.learned for e in read.args))
    read = {e.attr[0] for e in loads if e.op == "load"} - {SCORE, BEHIND}
    return used + sorted(read, key=lambda n: int(n.removeprefix("read")))


def check_reach(role: str, view: View, program: Program) -> None:
    """Positions in a matrix of one head, and in a tensor that a function reads, are computed in 32 bits."""
    reach = [(n - 1) * step for n, step in zip(view.shape, view.strides, strict=True)]
    if not sum(number(r) for r in (reach if role.startswith("read") else reach[2:])) < 1 << 31:
        raise Unprintable(f"positions of {program.buffers[view.buffer].name} that need more than 32 bits")


def tile_of(step: Attention, part: str, program: Program) -> Tile:
    """The tile of the table, cut to the blocks of the mask and to what there is."""
    formulas, roles = step.formulas, step.roles
    assert formulas is not None
    query, key, value = roles["query"], roles["key"], roles["value"]
    width = max(64, power(query.shape[3]), power(value.shape[3]))
    if width > WIDEST:
        raise Unprintable(f"heads of more than {WIDEST} elements")
    tile = TILES["rows" if part in ("zeros", "learned") else part, is_half(program.buffers[query.buffer].type), width]
    rows = min(tile.rows, max(power(query.shape[2]), LEAST))
    columns = min(tile.columns, max(power(key.shape[2]), LEAST))
    while formulas.rows and formulas.rows % rows:
        rows //= 2
    while formulas.columns and formulas.columns % columns:
        columns //= 2
    if part == "learned" and any(runs_along_diagonals(read, *formulas.axes[2:]) for read, _, _ in formulas.learned):
        rows = columns = min(rows, columns)
    if rows < LEAST or columns < LEAST:
        raise Unprintable(f"blocks of {formulas.rows} x {formulas.columns}, which no tile of {LEAST} fits")
    return replace(tile, rows=rows, columns=columns)


def runs_along_diagonals(read: Expr, q: Axis, kv: Axis) -> bool:
    """Whether the element that is read is given by how far a row is from a column, as of a relative bias."""
    index, step = read.attr[1], read.attr[1].coef(q)
    rest = index - of_atom(q) * step + of_atom(kv) * step
    return bool(step) and not read.args and not {q, kv} & rest.axes


class Printer:
    """One kernel. `run` gives the function; `grid` are its programs.

    Names in it: `q_idx` and `kv_idx` are places, those that are walked across a tile and the others down; `q_down` and `kv_down` are those
    that are walked as rows of a matrix. `d` and `e` are elements of a head of keys and of values, across, and `d_down`, `e_down` down.
    So what becomes of a score is the left side of the products that follow, which needs no exchange between threads.
    """

    def __init__(self, kernel: AttentionKernel, program: Program) -> None:
        step, formulas = kernel.step, kernel.step.formulas
        assert formulas is not None
        self.kernel, self.formulas, self.tile, self.part = kernel, formulas, kernel.tile, kernel.part
        self.roles = roles_of(step, program)
        query, key, value = self.roles["query"], self.roles["key"], self.roles["value"]
        self.lengths = tuple(number(n) for n in (*query.shape[:3], key.shape[2]))
        self.groups = number(query.shape[1]) // number(key.shape[1])
        self.widths = {"d": number(query.shape[3]), "e": number(value.shape[3])}
        self.type = program.buffers[query.buffer].type
        self.q, self.kv = formulas.axes[2:]
        self.walked = self.q if self.part == "columns" else self.kv
        self.places = {self.q: self.place(self.q, self.tile.rows), self.kv: self.place(self.kv, self.tile.columns)}
        self.score = at_place(SCORE, formulas.axes, self.lengths)
        needed = [e for e in (formulas.score, formulas.grad, *(grad for _, grad, _ in formulas.learned)) if e is not None]
        exact = frozenset(walk(formulas.mask)) if formulas.mask is not None else frozenset()
        fast = frozenset(walk(*needed)) - exact if is_half(self.type) else frozenset()
        pointers = {role: self.pointer(role) for role in self.roles if role.startswith("read") and self.roles[role].buffer in kernel.names}
        self.body = Body(Space(None, (), [], [], owner=formulas.owner), 2, self.places, pointers, fast)
        self.body.fetches = frozenset({self.q, self.kv})
        self.head = Lines()
        self.grid = 0
        self.sizes = {b: program.buffers[b].size for b in kernel.writes}

    def place(self, axis: Axis, block: int) -> Place:
        """Of the axis that is walked a whole block of the mask may lie behind the end."""
        blocks = self.formulas.rows if axis is self.q else self.formulas.columns
        step = blocks if blocks and axis is self.walked else block
        return Place(axis, block, not divides(step, self.length(axis)))

    def length(self, axis: Axis) -> int:
        return self.lengths[2 if axis is self.q else 3]

    def run(self) -> list[str]:
        printers = {"forward": self.forward, "rows": self.rows, "columns": self.columns, "zeros": self.zeros, "learned": self.learned}
        lines = printers[self.part]()
        parameters = [*self.kernel.names.values(), *(["bad"] if self.body.uses_bad else [])]
        return [f"def {self.function}({', '.join(parameters)}):", *(f"    {line}" for line in lines)]

    @property
    def function(self) -> str:
        ends = {"forward": "", "rows": "_query_grad", "columns": "_key_value_grads", "zeros": "_zeros", "learned": "_learned_grads"}
        return f"flex_attention{ends[self.part]}"

    # words

    def pointer(self, role: str) -> str:
        view = self.roles[role]
        name = self.kernel.names[view.buffer]
        return f"({name} + {view.offset})" if view.offset else name

    def base(self, role: str, head: str = "h") -> str:
        """Where the matrix of this batch and head begins."""
        batches, heads = self.roles[role].strides[:2]
        head = head if head.isidentifier() else f"({head})"
        return f"{role}_at = {self.pointer(role)} + (b.to(tl.int64) * {batches} + {head}.to(tl.int64) * {heads})"

    def dot(self, a: str, b: str, onto: str = "") -> str:
        precision = "" if is_half(self.type) else ', input_precision="ieee"'
        return f"tl.dot({a}, {b}{f', {onto}' if onto else ''}{precision})"

    def rounded(self, text: str) -> str:
        return f"{text}.to({TRITON_TYPES[self.type]})" if is_half(self.type) else text

    def access(self, role: str, at: str, lane: str) -> tuple[str, str]:
        """Where a tile of a matrix is, and which of it is there."""
        rows, columns = self.roles[role].strides[2:]
        axis = self.q if at.startswith("q") else self.kv
        inside = [f"{at}_in"] * self.places[axis].is_padded + [f"{lane}_in"] * self.is_cut(lane)
        return f"{role}_at + ({at} * {rows} + {lane} * {columns})".replace(" * 1)", ")").replace(" * 1 ", " "), " & ".join(inside)

    def matrix(self, role: str, at: str, lane: str) -> str:
        where, inside = self.access(role, at, lane)
        return f"tl.load({where}{f', {inside}, 0.0' if inside else ''})"

    def store(self, role: str, at: str, lane: str, value: str) -> str:
        where, inside = self.access(role, at, lane)
        return f"tl.store({where}, {self.rounded(value)}{f', {inside}' if inside else ''})"

    def of_rows(self, role: str, other: str) -> str:
        """Load a number for each row."""
        step = self.roles[role].strides[2]
        inside = f", q_idx_in, {other}" if self.places[self.q].is_padded else ""
        return f"tl.load({role}_at + q_idx{f' * {step}' if step != 1 else ''}{inside})"

    def block_of(self, lane: str) -> int:
        return max(power(self.widths[lane[0]]), LEAST)

    def is_cut(self, lane: str) -> bool:
        return self.widths[lane[0]] != self.block_of(lane)

    def lanes(self, *names: str) -> list[str]:
        """Elements of a head."""
        lines = []
        for name in names:
            lines.append(f"{name} = tl.arange(0, {self.block_of(name)}){'[:, None]' if name.endswith('_down') else '[None, :]'}")
            lines += [f"{name}_in = {name} < {self.widths[name[0]]}"] * self.is_cut(name)
        return lines

    def positions(self, axis: Axis, start: str, *, is_turned: bool = False) -> list[str]:
        name = f"{'q' if axis is self.q else 'kv'}_{'down' if is_turned else 'idx'}"
        place, suffix = self.places[axis], "[None, :]" if axis is self.walked and not is_turned else "[:, None]"
        lines = [f"{name} = {start} + tl.arange(0, {place.block}){suffix}"]
        return lines + [f"{name}_in = {name} < {self.length(axis)}"] * place.is_padded

    def own(self, axis: Axis, heads: int) -> list[str]:
        """Which tile, head and batch a program has. The last rows come first: a causal mask leaves most to them."""
        count = -(-self.length(axis) // int(self.places[axis].block))
        self.grid = count * heads * self.lengths[0]
        tile = f"tl.program_id(0) % {count}"
        if axis is self.q and self.formulas.rows:
            tile = f"{count - 1} - {tile}"
        name = "h" if axis is self.q else "kv_h"
        return [f"tile = {tile}", f"{name} = tl.program_id(0) // {count} % {heads}", f"b = tl.program_id(0) // {count * heads}"]

    # what becomes of a score

    def begin(self, *varying: Axis) -> Lines:
        """Code inside loops over axes, the outermost first; what does not vary there goes before them."""
        inner = self.head
        for axis in varying:
            inner = Lines(inner, axis)
        self.body.at = inner
        for axis in self.formulas.axes:
            node = cast(index_value(of_atom(axis)), "i32")
            if node.axes:
                self.body.lines_for(node.axes).known[node, ""] = axis.name
        inner.known[self.score, ""] = "score"
        inner.known[at_place(BEHIND, self.formulas.axes, self.lengths), ""] = "behind"
        return inner

    @property
    def is_plain(self) -> bool:
        """Whether scores stay as they are and nothing else is computed of them, so that they can be logarithms to the base of two."""
        grads = [e for e in (self.formulas.grad, *(grad for _, grad, _ in self.formulas.learned)) if e is not None]
        return self.formulas.score is self.score and self.score not in set(walk(*grads))

    def changed(self, inner: Lines, *, is_masked: bool) -> str:
        """Score a tile. Gives the condition under which scores count, if there is one; `changed` are logarithms to the base of two."""
        at, formulas = inner.lines, self.formulas
        factor = formulas.scale * LOG2_E if self.is_plain else formulas.scale
        product = self.dot("k", "tl.trans(q)") if self.walked is self.q else self.dot("q", "k")
        at.append(f"score = {product} * {float_text(factor)}")
        if self.is_plain:
            at.append("changed = score")
        else:
            at.append(f"changed = {self.whole(formulas.score)} * {float_text(LOG2_E)}")
        parts = [self.body.tensor(formulas.mask)] if formulas.mask is not None and is_masked else []
        parts += ["kv_idx_in"] * self.places[self.kv].is_padded
        if parts:
            at.append(f"is_kept = {' & '.join(parts)}")
            at.append('changed = tl.where(is_kept, changed, float("-inf"))')
        return "is_kept" if parts else ""

    def whole(self, value: Expr) -> str:
        """A value for every score of the tile."""
        text = self.body.tensor(value)
        is_whole = any(e.op == "load" and e.attr[0] in (SCORE, BEHIND) for e in walk(value))
        rows, columns = self.tile.rows, self.tile.columns
        shape = f"[{columns}, {rows}]" if self.walked is self.q else f"[{rows}, {columns}]"
        return text if is_whole else f"tl.broadcast_to({text}, {shape})"

    def powers(self, inner: Lines) -> None:
        """The powers of scores, and the gradient of what they are the powers of."""
        at = inner.lines
        at.append("p = tl.exp2(changed - top)")
        at.append(f"behind = p * ({self.dot('v', 'tl.trans(g)') if self.walked is self.q else self.dot('g', 'v')} - less)")

    def behind(self, inner: Lines, kept: str) -> None:
        """The gradient of scores."""
        self.powers(inner)
        assert self.formulas.grad is not None
        at, text = inner.lines, self.whole(self.formulas.grad)
        at.append(f"moved = tl.where({kept}, {text}, 0.0)" if kept else f"moved = {text}")

    # walks

    def walks(self) -> list[tuple[str, str, str, bool]]:
        """The loops over the axis that is walked: how many steps, the lists of blocks if there are any, whether the mask is asked."""
        block, length = int(self.places[self.walked].block), self.length(self.walked)
        if not self.formulas.rows:
            return [(str(-(-length // block)), "", "", True)]
        prefix = "q" if self.walked is self.q else "kv"
        found = [(f"{prefix}_num_blocks", f"{prefix}_indices", True), (f"full_{prefix}_num_blocks", f"full_{prefix}_indices", False)]
        size = self.formulas.rows if self.walked is self.q else self.formulas.columns
        each = f" * {size // block}" if size != block else ""
        return [(f"{self.listed(count)}{each}", count, at, asks) for count, at, asks in found if count in self.formulas.there]

    def listed(self, role: str) -> str:
        """Load how many blocks the mask lists for this tile."""
        return f"tl.load({self.pointer(role)} + ({self.at_block(role)}))"

    def at_block(self, role: str) -> str:
        view = self.roles[role]
        sizes = view.shape
        block = self.tile.columns if self.walked is self.q else self.tile.rows
        blocks = self.formulas.columns if self.walked is self.q else self.formulas.rows
        line = "tile" if blocks == block else f"tile // {blocks // block}"
        parts = [(sizes[0], "b", view.strides[0]), (sizes[1], "h", view.strides[1]), (2, line, view.strides[2])]
        used = [(f"({name})" if stride != 1 and " " in name else name, stride) for size, name, stride in parts if size != 1 and stride]
        return " + ".join(name if stride == 1 else f"{name} * {stride}" for name, stride in used) or "0"

    def loop(self, walk_of: tuple[str, str, str, bool], inside: list[str]) -> list[str]:
        steps, count, at, _ = walk_of
        block = int(self.places[self.walked].block)
        start = f"step * {block}"
        lines = []
        if count:
            size = self.formulas.rows if self.walked is self.q else self.formulas.columns
            stride, many = self.roles[at].strides[3], size // block
            line = "step" if many == 1 else f"step // {many}"
            lines.append(f"{at}_at = {self.pointer(at)} + ({self.at_block(at)})")
            start = f"tl.load({at}_at + {f'({line}) * {stride}' if stride != 1 else line}) * {size}"
            start += f" + step % {many} * {block}" if many > 1 else ""
        lines.append(f"for step in tl.range(0, {steps}, num_stages={self.tile.stages}):")
        return [*lines, f"    start = {start}", *(f"    {line}" for line in inside)]

    # kernels

    def forward(self) -> list[str]:
        tile, head = self.tile, f"h // {self.groups}" if self.groups > 1 else "h"
        lines = [*self.own(self.q, self.lengths[1]), *self.positions(self.q, f"tile * {tile.rows}"), *self.lanes("d", "d_down", "e")]
        lines += [self.base("query"), self.base("key", head), self.base("value", head), f"q = {self.matrix('query', 'q_idx', 'd')}"]
        lines.append(f"acc = tl.full([{tile.rows}, {self.block_of('e')}], 0.0, tl.float32)")
        lines.append(f'peak = tl.full([{tile.rows}, 1], float("-inf"), tl.float32)')
        lines.append(f"total = tl.full([{tile.rows}, 1], 0.0, tl.float32)")
        loops = []
        for each in self.walks():
            inner = self.begin(self.kv)
            inner.lines += self.positions(self.kv, "start") + self.positions(self.kv, "start", is_turned=True)
            inner.lines.append(f"k = {self.matrix('key', 'kv_idx', 'd_down')}")
            self.changed(inner, is_masked=each[3])
            inner.lines.append(f"higher = tl.maximum(peak, tl.reduce(changed, 1, {self.body.use('largest')}, keep_dims=True))")
            inner.lines.append('shift = tl.where(higher == float("-inf"), 0.0, higher)')
            inner.lines += ["p = tl.exp2(changed - shift)", "share = tl.exp2(peak - shift)"]
            inner.lines.append(f"total = total * share + tl.reduce(p, 1, {self.body.use('add')}, keep_dims=True)")
            inner.lines.append(f"v = {self.matrix('value', 'kv_down', 'e')}")
            inner.lines += [f"acc = {self.dot(self.rounded('p'), 'v', 'acc * share')}", "peak = higher"]
            loops += self.loop(each, inner.lines)
        lines += [*self.head.lines, *loops]
        lines += [self.base("out"), self.store("out", "q_idx", "e", "(acc / tl.where(total == 0.0, 1.0, total))"), self.base("sums")]
        found = f'tl.where(total == 0.0, float("-inf"), (peak + tl.log2(total)) * {float_text(1 / LOG2_E)})'
        inside = ", q_idx_in" if self.places[self.q].is_padded else ""
        return [*lines, f"tl.store(sums_at + q_idx, {found}{inside})"]

    def of_row(self) -> list[str]:
        """What a tile of rows has of its own in the backward."""
        at = "q_down" if self.walked is self.q else "q_idx"
        lines = [f"q = {self.matrix('query', at, 'd')}", f"g = {self.matrix('grad', at, 'e')}"]
        lines += [f"less = {self.of_rows('delta', '0.0')}", f"top = {self.of_rows('sums', '0.0')} * {float_text(LOG2_E)}"]
        inside = ["q_idx_in"] * self.places[self.q].is_padded
        kept = " & ".join([*inside, '(top != float("-inf"))'])
        return [*lines, f'top = tl.where({kept}, top, float("inf"))']  # nothing is left of such rows

    def before_rows(self) -> list[str]:
        """What comes before the walk of a tile of rows in the backward."""
        head = f"h // {self.groups}" if self.groups > 1 else "h"
        lines = [*self.own(self.q, self.lengths[1]), *self.positions(self.q, f"tile * {self.tile.rows}")]
        lines += [*self.lanes("d", "d_down", "e", "e_down"), self.base("query"), self.base("key", head), self.base("value", head)]
        return [*lines, self.base("grad"), self.base("sums"), self.base("delta"), *self.of_row()]

    def rows(self) -> list[str]:
        tile, lines = self.tile, self.before_rows()
        lines.append(f"acc = tl.full([{tile.rows}, {self.block_of('d')}], 0.0, tl.float32)")
        loops = []
        for each in self.walks():
            inner = self.begin(self.kv)
            inner.lines += self.positions(self.kv, "start")
            inner.lines += [f"k = {self.matrix('key', 'kv_idx', 'd_down')}", f"v = {self.matrix('value', 'kv_idx', 'e_down')}"]
            self.behind(inner, self.changed(inner, is_masked=each[3]))
            inner.lines.append(f"acc = {self.dot(self.rounded('moved'), 'tl.trans(k)', 'acc')}")
            loops += self.loop(each, inner.lines)
        lines += [*self.head.lines, *loops, self.base("query_grad")]
        return [*lines, self.store("query_grad", "q_idx", "d", f"(acc * {float_text(self.formulas.scale)})")]

    def zeros(self) -> list[str]:
        buffers = [(self.kernel.names[str(b)], number(self.sizes[str(b)])) for b in self.kernel.writes]
        self.grid = max(-(-size // FILL) for _, size in buffers)
        lines = [f"at = tl.program_id(0) * {FILL} + tl.arange(0, {FILL})"]
        return lines + [f"tl.store({name} + at, tl.full([{FILL}], 0.0, tl.float32), at < {size})" for name, size in buffers]

    def learned(self) -> list[str]:
        """An addition for every score at most; for every row or program where it is to one element."""
        lines, loops = self.before_rows(), []
        ends: list[str] = []
        added = [(n, *each) for n, each in enumerate(self.formulas.learned)]
        for n, read, _, _ in added:
            if self.kv not in read.axes:
                lines.append(f"acc{n} = tl.full([{self.tile.rows}, 1], 0.0, tl.float32)")
        for each in self.walks():
            inner = self.begin(self.kv)
            inner.lines += self.positions(self.kv, "start")
            inner.lines += [f"k = {self.matrix('key', 'kv_idx', 'd_down')}", f"v = {self.matrix('value', 'kv_idx', 'e_down')}"]
            kept = " & ".join(filter(None, [self.changed(inner, is_masked=each[3]), *["q_idx_in"] * self.places[self.q].is_padded]))
            self.powers(inner)
            ends = []
            for n, read, grad, result in added:
                text = self.whole(grad)
                text = f"tl.where({kept}, {text}, 0.0)" if kept else text
                if self.kv not in read.axes:
                    inner.lines.append(f"acc{n} += tl.reduce({text}, 1, {self.body.use('add')}, keep_dims=True)")
                    ends += self.add_to(result, read, f"acc{n}", "q_idx_in" if self.places[self.q].is_padded else "")
                elif self.q not in read.axes:
                    down = f"tl.reduce({text}, 0, {self.body.use('add')}, keep_dims=True)"
                    inner.lines += self.add_to(result, read, down, "kv_idx_in" if self.places[self.kv].is_padded else "")
                elif self.is_diagonal(read):
                    inner.lines += self.add_diagonals(n, result, read, text)
                else:
                    inner.lines += self.add_to(result, read, text, kept)
            loops += self.loop(each, inner.lines)
        return [*lines, *self.head.lines, *loops, *ends]

    def add_to(self, result: int, read: Expr, value: str, kept: str) -> list[str]:
        """Add to the element that is read, whose place varies as `value` does, but for what is the same in all of a program."""
        where = self.body.index(read.attr[1], [self.body.value(e) for e in read.args])
        if not {self.q, self.kv} & read.axes:
            value, kept = f"tl.reduce({value}, 0, {self.body.use('add')}, keep_dims=True)", ""
            where = f"{where} + tl.full([1, 1], 0, tl.int32)"
        return [f'tl.atomic_add(learned{result} + ({where}), {value}{f", {kept}" if kept else ""}, sem="relaxed")']

    def is_diagonal(self, read: Expr) -> bool:
        """Whether each diagonal of a tile adds to one element."""
        is_whole = self.tile.rows == self.tile.columns and not any(p.is_padded for p in self.places.values())
        return is_whole and runs_along_diagonals(read, self.q, self.kv)

    def add_diagonals(self, number: int, result: int, read: Expr, value: str) -> list[str]:
        """Rows are turned until diagonals are columns, of which each holds the end of one diagonal and the beginning of another."""
        n, step, add = self.tile.rows, read.attr[1].coef(self.q), self.body.use("add")
        first, start = (of_atom(Axis(name, axis.extent)) for name, axis in (("first", self.q), ("start", self.kv)))
        at = self.body.index(read.attr[1].substitute({self.q: first, self.kv: start}))
        ends = [
            f"tl.reduce(tl.where({side}), 0, {add}, keep_dims=True)"
            for side in (f"is_low, turned{number}, 0.0", f"is_low, 0.0, turned{number}")
        ]
        return [
            f"first = tile * {n}",
            f"down, across = tl.arange(0, {n})[:, None], tl.arange(0, {n})[None, :]",
            "is_low = down >= across",
            f"turned{number} = tl.gather({value}, (down - across) & {n - 1}, 1)",
            f'tl.atomic_add(learned{result} + ({at} + across * {step}), {ends[0]}, sem="relaxed")',
            f'tl.atomic_add(learned{result} + ({at} + (across - {n}) * {step}), {ends[1]}, across > 0, sem="relaxed")',
        ]

    def columns(self) -> list[str]:
        tile, heads = self.tile, self.lengths[1] // self.groups
        lines = [*self.own(self.kv, heads), *self.positions(self.kv, f"tile * {tile.columns}"), *self.lanes("d", "e")]
        lines += [self.base("key", "kv_h"), self.base("value", "kv_h")]
        lines += [f"k = {self.matrix('key', 'kv_idx', 'd')}", f"v = {self.matrix('value', 'kv_idx', 'e')}"]
        lines.append(f"acc_k = tl.full([{tile.columns}, {self.block_of('d')}], 0.0, tl.float32)")
        lines.append(f"acc_v = tl.full([{tile.columns}, {self.block_of('e')}], 0.0, tl.float32)")
        group, loops = Lines(self.head, self.formulas.axes[1]), []
        for each in self.walks():
            inner = self.begin(self.formulas.axes[1], self.q)
            inner.lines += [*self.positions(self.q, "start"), *self.positions(self.q, "start", is_turned=True), *self.of_row()]
            self.behind(inner, self.changed(inner, is_masked=each[3]))
            inner.lines.append(f"acc_v = {self.dot(self.rounded('p'), 'g', 'acc_v')}")
            inner.lines.append(f"acc_k = {self.dot(self.rounded('moved'), 'q', 'acc_k')}")
            assert inner.outer is not None
            group.lines += inner.outer.lines
            loops += self.loop(each, inner.lines)
        own = [f"h = kv_h * {self.groups} + member", *(self.base(n) for n in ("query", "grad", "sums", "delta")), *group.lines, *loops]
        lines += [*self.head.lines, f"for member in range({self.groups}):", *(f"    {line}" for line in own)]
        lines += [self.base("key_grad", "kv_h"), self.base("value_grad", "kv_h")]
        lines.append(self.store("key_grad", "kv_idx", "d", f"(acc_k * {float_text(self.formulas.scale)})"))
        return [*lines, self.store("value_grad", "kv_idx", "e", "acc_v")]


def roles_of(step: Attention, program: Program) -> dict[str, View]:
    """What the call is given, and its results, by name."""
    roles = dict(step.roles)
    for role, buffer in zip(step.results, step.outs, strict=True):
        if buffer is not None:
            b = program.buffers[buffer]
            roles[role] = View(buffer, b.shape, b.strides, 0)
    return roles
