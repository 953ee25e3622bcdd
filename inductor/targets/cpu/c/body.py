"""C statements for expressions, placed at the outermost loop where everything they need is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from inductor.ir.affine import Axis, Index
from inductor.ir.dims import Dim, dim_text, is_known
from inductor.ir.expr import Expr, contains, holds, walk
from inductor.ir.nest import Nest, Store
from inductor.ir.ops import OPS
from inductor.ir.tasks import Task, each, run
from inductor.ir.types import TYPES, is_half
from inductor.targets.cpu.c.exprs import c_type, cast_text, const_text, index_text, op_text, size_text
from inductor.targets.cpu.c.patches import Patches
from inductor.targets.cpu.kernel import LoopKernel

Placed = tuple[str, int]  # C text and the loop depth where it is known (0: before all loops of the stage)


@dataclass
class Scope:
    """Code of one loop nest under construction: `lines[d]` belongs just inside loop number d (0: before the loops)."""

    loops: Sequence[Axis]
    lines: list[list[str]] = field(default_factory=list)
    known: dict[tuple[Expr, str], Placed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.lines:
            self.lines = [[] for _ in range(len(self.loops) + 1)]

    def depth_of(self, axes: frozenset[Axis]) -> int:
        return max((i + 1 for i, a in enumerate(self.loops) if a in axes), default=0)


class Names:
    """Unique C names within one kernel."""

    def __init__(self) -> None:
        self.count = 0

    def fresh(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count - 1}"


class BodyPrinter:
    """Prints the values of one stage. `reduced` gives the C text of reductions once their loops are done."""

    def __init__(
        self, kernel: LoopKernel, names: Names, stored: Mapping[str, Store], scope: Scope, scan_text: Callable[[Expr, str, int], Placed]
    ) -> None:
        self.kernel, self.names, self.stored, self.scope = kernel, names, stored, scope
        self.reduced: dict[Expr, str] = {}
        self.late: list[str] = []  # stores over values that others in the loop body read: after all of them
        self.here: dict[str, Store] = {}  # stores of this very loop body: loads of the same element take the value itself
        self.is_scalar = False  # no loop around the values is vectorised
        self.opaque: tuple[Axis, frozenset[int]] | None = None  # steps of the vectorised loop that are variables
        self.patches = Patches(kernel)
        self.scan_text = scan_text
        self._has_loads: dict[Expr, bool] = {}

    def let(self, type_name: str, text: str, depth: int) -> Placed:
        name = self.names.fresh()
        self.scope.lines[depth].append(f"const {c_type(type_name)} {name} = {text};")
        return name, depth

    def has_loads(self, node: Expr) -> bool:
        return contains(node, ("load",), self._has_loads)

    def value(self, node: Expr, mask: Placed | None = None) -> Placed:
        """C text of a node's value in its own type."""
        return run(self.valued(node, mask))

    def valued(self, node: Expr, mask: Placed | None) -> Task[Placed]:
        guard = mask if mask is not None and self.has_loads(node) else None
        key = (node, guard[0] if guard else "")
        if key not in self.scope.known:
            self.scope.known[key] = yield self.compute(node, guard)
        return self.scope.known[key]

    def compute(self, node: Expr, mask: Placed | None) -> Task[Placed]:
        if node.op == "const":
            return const_text(node), 0
        if node.op == "index":
            text = f"({index_text(node.attr, self.axis_name)})"
            return self.let("i64", text, self.scope.depth_of(node.attr.axes))
        if node.op == "load":
            return (yield self.load(node, mask))
        if node.op == "reduce":
            return self.reduced[node], len(self.scope.loops)
        if node.op == "masked":
            return (yield self.masked(node, mask))
        if node.op == "scan":
            inner, depth = yield self.valued(node.args[0], mask)
            return self.scan_text(node, inner, depth)
        if node.op == "cast" and is_half(node.args[0].type):
            kept = self.kept(node.args[0], node.type)
            if kept is not None:
                return (yield self.rounded(kept, node.args[0].type, mask))
        placed = yield each(self.valued(a, mask) for a in node.args)
        depth = max((d for _, d in placed), default=0)
        texts = [t for t, _ in placed]
        if node.op == "check":
            return self.check(texts[0], depth, node.attr, mask)
        if node.op == "cast":
            return self.let(node.type, cast_text(texts[0], node.args[0].type, node.type), depth)
        assert node.op in OPS, node.op
        return self.let(node.type, op_text(node, texts), depth)

    def check(self, value: str, depth: int, size: Dim, mask: Placed | None) -> Placed:
        """Note an index that is out of range and continue with 0: the call raises once the kernel is done.

        Lanes need a select. One at a time, a branch that is never taken costs less; the empty statement keeps gcc from undoing it.
        """
        depth, limit = max(depth, mask[1] if mask else 0), f"{dim_text(size)}UL" if is_known(size) else f"(uint64_t){size_text(size)}"
        if self.is_scalar:
            name = self.names.fresh()
            noted = f'{{ __asm__ volatile(""); bad |= {mask[0] if mask else 1}; {name} = 0; }}'
            self.scope.lines[depth] += [f"int64_t {name} = {value};", f"if (__builtin_expect((uint64_t){name} >= {limit}, 0)) {noted}"]
            return name, depth
        outside, depth = self.let("bool", f"((uint64_t){value} >= {limit})", depth)
        self.scope.lines[depth].append(f"bad |= {outside}{f' & {mask[0]}' if mask else ''};")
        return self.let("i64", f"({outside} ? 0L : {value})", depth)

    def masked(self, node: Expr, mask: Placed | None) -> Task[Placed]:
        condition = yield self.valued(node.args[0], mask)
        other = yield self.valued(node.args[2], mask)
        inner = condition
        if mask is not None:
            inner = self.let("bool", f"({condition[0]} & {mask[0]})", max(condition[1], mask[1]))
        body = yield self.valued(node.args[1], inner)
        return self.let(node.type, f"({condition[0]} ? {body[0]} : {other[0]})", max(condition[1], other[1], body[1]))

    def kept(self, half: Expr, wanted: str) -> Expr | None:
        """What a half value was rounded from, where that is at hand and of the type wanted, in which it can stay."""
        if wanted not in ("f32", "f64"):
            return None
        while half.op == "load" and (half.attr[0] in self.kernel.registers or half.attr[0] in self.here):
            half = self.stored[half.attr[0]].value
        return half.args[0] if half.op == "cast" and half.args[0].type == wanted else None

    def rounded(self, value: Expr, half: str, mask: Placed | None) -> Task[Placed]:
        """A value rounded to a half type as eager's intermediate results are, without leaving the type it is computed in."""
        text, depth = yield self.valued(value, mask)
        return (text, depth) if holds(value, half) else self.let(value.type, f"round_{half}({text})", depth)

    def tile(self, load: Expr) -> Placed:
        buffer, index = load.attr
        where = self.kernel.tile_index[buffer, index]
        axes = where.axes | ({self.kernel.block} if self.kernel.block else frozenset())
        return self.let(load.type, f"t_{buffer}[{self.tile_position(where)}]", self.scope.depth_of(frozenset(axes)))

    def tile_position(self, where: Index) -> str:
        text = index_text(where, self.axis_name)
        if self.kernel.block is None:
            return text
        lane = f"({self.axis_name(self.kernel.block)} - lo)"
        return lane if not where.terms and not where.const else f"({text}) * {self.kernel.block_size}L + {lane}"

    def load(self, node: Expr, mask: Placed | None) -> Task[Placed]:
        buffer, index = node.attr
        if buffer in self.kernel.registers or buffer in self.here:
            return (yield self.valued(self.stored[buffer].value, mask))
        if buffer in self.kernel.tiles:
            return self.tile(node)
        patch = self.patches.load(buffer, index, node.type) if mask is None and not node.args else None
        if patch is not None:
            return self.let(node.type, patch, len(self.scope.loops))
        position, depth = yield self.position(self.kernel.beyond_skip(buffer, index), node.args, mask)
        text = f"p_{self.kernel.home(buffer)}[{position}]"
        if mask is not None:
            depth = max(depth, mask[1])
            text = f"({mask[0]} ? {text} : 0)"
        return self.let(node.type, text, depth)

    def position(self, index: Index, indirect: Sequence[Expr], mask: Placed | None = None) -> Task[Placed]:
        """Element number of an access; indirect indices are computed first."""
        placed = yield each(self.valued(a, mask) for a in indirect)
        depth = max([self.scope.depth_of(index.axes), *(d for _, d in placed)])

        def name(axis: Axis) -> str:
            return placed[int(axis.name[1:])][0] if axis.name.startswith("$") else self.axis_name(axis)

        return index_text(index, name, self.opaque), depth

    def axis_name(self, axis: Axis) -> str:
        return axis.name

    def store(self, store: Store, depth: int | None = None) -> None:
        """Write a value where it lives. The statement goes to the innermost loop unless `depth` says otherwise."""
        at = len(self.scope.loops) if depth is None else depth
        if store.buffer in self.kernel.registers:
            if any(e.op == "check" for e in walk(store.value)):
                self.value(store.value)  # its readers may want it under a condition, or there may be none
            return
        if store.buffer in self.kernel.tiles:
            where = self.kernel.tile_index[store.buffer, store.index]
            self.scope.lines[at].append(f"t_{store.buffer}[{self.tile_position(where)}] = {self.value(store.value)[0]};")
            return
        patch = self.patches.store(store.buffer, store.index, store.value.type) if store.mode == "set" and not store.indirect else None
        where = self.kernel.beyond_skip(store.buffer, store.index)
        target = patch or f"p_{self.kernel.home(store.buffer)}[{run(self.position(where, store.indirect))[0]}]"
        value_text = self.value(store.value)[0]
        if store.mode == "add":
            kind = store.value.type
            if TYPES[kind].compute != kind:
                widened = f"{kind}_to_f32({target}) + {kind}_to_f32({value_text})"
                self.scope.lines[at].append(f"{target} = f32_to_{kind}({widened});")
            else:
                self.scope.lines[at].append(f"{target} += {value_text};")
            return
        if store.buffer in self.kernel.updates or store.buffer in self.kernel.over:
            self.late.append(f"{target} = {value_text};")
        else:
            self.scope.lines[at].append(f"{target} = {value_text};")


def stores_by_buffer(members: Sequence[Nest]) -> dict[str, Store]:
    return {s.buffer: s for m in members for s in m.stores}
