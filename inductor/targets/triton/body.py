"""Triton statements for expressions over a tile, each value once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from inductor.ir.affine import Axis, Index, of_atom
from inductor.ir.dims import Dim
from inductor.ir.expr import Expr, const_value, contains, holds, walk
from inductor.ir.nest import Origin, Store
from inductor.ir.ops import OPS
from inductor.ir.tasks import Task, each, run
from inductor.ir.types import TYPES, is_half
from inductor.targets.triton.comments import origin_line
from inductor.targets.triton.exprs import cast_text, const_text, index_text, op_text
from inductor.targets.triton.granules import EDGES, INNER, Granule
from inductor.targets.triton.ops import HELPERS, TRITON_TYPES
from inductor.targets.triton.reductions import SCAN_COMBINE, Reduction, reduction
from inductor.targets.triton.shortcuts import rounded_in_pairs, shortcut, words_below
from inductor.targets.triton.space import Space, Unprintable, of_power

ATOMIC = frozenset({"f32", "f64", "i32", "i64"})
FIRST = {"argmax": ("largest", "most"), "argmin": ("smallest", "least")}  # what finds the value: of integers, of floats
State = tuple[str, tuple[Axis, ...], Expr]  # of a reduction: kind, axes, operand


@dataclass(frozen=True)
class Place:
    """An axis in a tile: `block` elements of it, of which some may lie behind its end."""

    axis: Axis
    block: Dim
    is_padded: bool


@dataclass(frozen=True)
class Mask:
    """A condition under which a value is wanted."""

    text: str
    axes: frozenset[Axis]


@dataclass
class Lines:
    """Code under construction, with what it knows. `outer` is around it: what does not vary inside goes there."""

    outer: Lines | None = None
    column: Axis | None = None
    lines: list[str] = field(default_factory=list)
    known: dict[tuple[Expr, str], str] = field(default_factory=dict)
    comment: tuple[Origin, ...] = ()


class Body:
    """Prints the values of one kernel. `at` is where they go now."""

    def __init__(self, space: Space, rank: int, places: Mapping[Axis, Place], names: Mapping[str, str], fast: frozenset[Expr]) -> None:
        self.space, self.rank, self.places, self.names, self.fast = space, rank, dict(places), names, fast
        self.in_pairs = rounded_in_pairs(space.exprs())
        self.at = Lines()
        self.count = 0
        self.helpers: dict[str, None] = {}
        self.late: list[str] = []  # stores over what others of the kernel may read
        self.reduced: dict[State, tuple[str, ...]] = {}
        self.uses_bad = False
        self.granule: Granule | None = None
        self.part = INNER
        self.hints: dict[Expr, str] = {}  # what the cache is told of a load
        self.is_last = False  # what is stored would take the place of rows that are read again
        self.filled: frozenset[Expr] = frozenset()  # values that are -inf behind the ends of columns
        self.starts: dict[Axis, str] = {}  # where the tile begins along an axis, a multiple of its block
        self.fetches: frozenset[Axis] = frozenset()  # float32 that varies along all of these is read into registers
        self._reads: dict[Expr, bool] = {}

    # names and lines

    def fresh(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count - 1}"

    def lines_for(self, axes: frozenset[Axis]) -> Lines:
        """Where a value goes that varies along some axes."""
        at = self.at
        while at.outer is not None and at.column not in axes:
            at = at.outer
        return at

    def let(self, text: str, lines: Lines, node: Expr | None = None) -> str:
        for name in re.findall(r"(?<![.\w])([a-z_0-9]+)\(", text):
            if name in HELPERS:
                self.helpers[name] = None
        if node is not None:
            self.remark(lines, self.space.owner.get(node, ()))
        name = self.fresh()
        lines.lines.append(f"{name} = {bare(text)}")
        return name

    def remark(self, lines: Lines, origins: tuple[Origin, ...]) -> None:
        """Name the user's lines where they change."""
        if origins and origins != lines.comment:
            lines.comment = origins
            text = origin_line(origins)
            if text:
                lines.lines.append(f"# {text}")

    def use(self, helper: str) -> str:
        self.helpers[helper] = None
        return helper

    # masks

    def pads(self, axes: frozenset[Axis]) -> list[str]:
        return [f"{a.name}_in" for a, p in self.places.items() if a in axes and p.is_padded]

    def mask_text(self, axes: frozenset[Axis], mask: Mask | None) -> str:
        parts = self.pads(axes | (mask.axes if mask else frozenset())) + ([mask.text] if mask else [])
        return " & ".join(parts)

    # values

    def value(self, node: Expr, mask: Mask | None = None) -> str:
        """Text of a node's value in its own type."""
        return run(self.valued(node, mask))

    def valued(self, node: Expr, mask: Mask | None) -> Task[str]:
        is_whole = node.op in ("reduce", "scan")  # of all elements, those where the condition is false too
        guard = mask if mask is not None and not is_whole and self.reads_memory(node) else None
        if guard is not None and (known := self.lines_for(node.axes).known.get((node, ""))) is not None:
            return known  # it was read without a condition
        axes = node.axes | (guard.axes if guard else frozenset())
        lines = self.lines_for(axes)
        key = (node, guard.text if guard else "")
        if key not in lines.known:
            text = yield self.compute(node, guard, lines)
            is_filled = node in self.filled and guard is None and self.part is not EDGES
            pads = self.pads(node.axes & frozenset(self.space.columns)) if is_filled else []
            lines.known[key] = self.let(f'tl.where({pads[0]}, {text}, float("-inf"))', lines) if pads else text
        return lines.known[key]

    def compute(self, node: Expr, mask: Mask | None, lines: Lines) -> Task[str]:
        if node.op == "const":
            text = const_text(node, self.rank)
            return self.let(text, lines) if text.startswith("tl.") else text
        if node.op == "index":
            return self.let(f"({self.index(node.attr)}).to(tl.int64)", lines)
        if node.op == "load":
            return (yield self.load(node, mask, lines))
        if node.op == "reduce":
            return self.reduce(node)
        if node.op == "scan":
            return self.scan(node, lines)
        if node.op == "masked":
            return (yield self.masked(node, mask, lines))
        if node.op == "check":
            return (yield self.check(node, mask, lines))
        if node.op == "cast":
            return (yield self.cast(node, mask, lines))
        assert node.op in OPS, node.op
        if node.op == "philox" and (axis := self.along_lanes(node)) is not None:
            return self.let(f"uniform({self.four_at_once(node, axis, lines)})", lines)
        if (below := words_below(node)) is not None and (axis := self.along_lanes(node.args[0])) is not None:
            return self.let(f"{self.four_at_once(node.args[0], axis, lines)} < {below}", lines)
        short = shortcut(node) if node in self.fast else None
        if short is not None:
            return self.let(f"{short[0]}({(yield self.as_tensor(short[1], mask))})", lines, node)
        args = yield each(self.valued(a, mask) for a in node.args)
        if all(const_value(a) is not None for a in node.args):  # a call of bare numbers is no tensor
            args = [self.tensor(a) for a in node.args]
        return self.let(op_text(node, args, is_fast=node in self.fast), lines, node)

    def along_lanes(self, node: Expr) -> Axis | None:
        """The last axis of the tile, where every four neighbours along it are the four words of one drawing."""
        axis = self.space.column_of(node.axes) if self.rank == 2 else self.space.rows
        block = self.places[axis].block if axis in self.starts else 0
        if axis is None or not isinstance(block, int) or block < 4 or node.args[3].op != "index":
            return None
        if any(axis in e.axes and e.op not in ("add", "index") for arg in node.args[:3] for e in walk(arg)):
            return None
        last = of_atom(Axis("q", axis.extent)) * 4 + 3
        return axis if node.args[3].attr.substitute({axis: last}) is Index(3) else None

    def four_at_once(self, node: Expr, axis: Axis, lines: Lines) -> str:
        """The words of numbers of which one drawing makes four. What depends on the tile's number alone is computed once for it."""
        key = (node, "words")
        if key in lines.known:
            return lines.known[key]
        start, block, suffix = self.starts[axis], self.places[axis].block, "[None, :]" if self.rank == 2 else ""
        assert isinstance(block, int)
        tile, quarter = Axis(self.fresh("p"), axis.extent), Axis(self.fresh("q"), axis.extent)
        at, before = of_atom(quarter) * 4, f"{start} // 4 + " if start else ""
        if start.endswith(f" * {block}"):
            quarter, before = Axis(quarter.name, block // 4), ""
            at = of_atom(tile) * block + of_atom(quarter) * 4
            lines.lines.append(f"{tile.name} = {start.removesuffix(f' * {block}')}")
        lines.lines.append(f"{quarter.name} = {before}tl.arange(0, {block // 4}){suffix}")

        def of_quarter(part: Expr) -> str:
            if axis not in part.axes:
                return self.value(part)
            if part.op == "add":
                return f"({' + '.join(map(of_quarter, part.args))})"
            return f"({index_text(part.attr.substitute({axis: at}), lambda a: a.name)})"

        four = f"{self.use('four_words')}({', '.join(map(of_quarter, node.args[:3]))})"
        shape = [self.row_block if self.space.rows in node.axes else 1, block] if self.rank == 2 else [block]
        lines.known[key] = self.let(f"tl.reshape({four}, {shape})", lines, node)
        return lines.known[key]

    def cast(self, node: Expr, mask: Mask | None, lines: Lines) -> Task[str]:
        (inner,) = node.args
        if is_half(inner.type) and inner.op == "cast" and inner.args[0].type == node.type and holds(inner.args[0], inner.type):
            return (yield self.valued(inner.args[0], mask))
        if node in self.in_pairs and any(p.block != 1 for a, p in self.places.items() if a in node.axes):
            return self.let(f"round_bf16({(yield self.valued(inner.args[0], mask))})", lines)
        return self.let(cast_text((yield self.as_tensor(inner, mask)), inner.type, node.type), lines, node)

    def index(self, index: Index, indirect: Sequence[str] = ()) -> str:
        return index_text(index, lambda a: indirect[int(a.name[1:])] if a.name.startswith("$") else a.name)

    def load(self, node: Expr, mask: Mask | None, lines: Lines) -> Task[str]:
        buffer, index = node.attr
        args = yield each(self.valued(a, mask) for a in node.args)
        base = self.names[buffer]
        hint = f', eviction_policy="{self.hints[node]}"' if node in self.hints else ""
        if self.granule is not None and index is self.granule.index:
            return self.let(f"tl.load({base} + (edge + {self.granule.at}){self.piece(self.part.load)}{hint})", lines)
        where = self.index(index, args)
        condition = self.mask_text(node.axes, mask)
        if self.fetches and node.type == "f32" and self.fetches <= node.axes:
            where = f"tl.where({condition}, {where}, 0)" if condition else where
            return self.let(f"fetched({base} + ({where}))", lines)
        walked = index.axes.union(*(e.axes for k, e in enumerate(node.args) if f"${k}" in {a.name for a in index.axes}))
        missing = sorted(a.name for a in (node.axes | (mask.axes if mask and condition else frozenset())) - walked)
        where = " + ".join([where, *(f"{name} * 0" for name in missing)])
        if condition:  # a pointer has to be as large as its mask
            if not missing and not walked & frozenset(self.places):
                where += f" + tl.full({self.ones}, 0, tl.int32)"
        pointer = base if where == "0" else f"{base} + ({where})" if "+" in where else f"{base} + {where}"
        return self.let(f"tl.load({pointer}{', ' + condition if condition else ''}{hint})", lines)

    def masked(self, node: Expr, mask: Mask | None, lines: Lines) -> Task[str]:
        condition = yield self.valued(node.args[0], mask)
        other = yield self.valued(node.args[2], mask)
        axes = node.args[0].axes
        inner = Mask(condition, axes)
        if mask is not None:
            both = self.lines_for(axes | mask.axes)
            inner = Mask(self.let(f"{condition} & {mask.text}", both), axes | mask.axes)
        body = yield self.valued(node.args[1], inner)
        return self.let(f"tl.where({condition}, {body}, {other})", self.lines_for(node.axes | inner.axes))

    def check(self, node: Expr, mask: Mask | None, lines: Lines) -> Task[str]:
        """Note an index that is out of range and go on with 0: the call raises later."""
        self.uses_bad = True
        value = yield self.valued(node.args[0], mask)
        outside = self.let(f"({value} < 0) | ({value} >= {node.attr})", lines)
        condition = self.mask_text(node.axes, mask)
        hit = self.let(f"{outside} & {condition}", lines) if condition else outside
        lines.lines.append(f"tl.store(bad + {hit}.to(tl.int32) * 0, 1, {hit})")
        return self.let(f"tl.where({outside}, 0, {value})", lines)

    def piece(self, condition: str) -> str:
        """The mask of an access in pieces."""
        assert self.granule is not None
        return f", {self.granule.column.name}_{condition}" if condition else ""

    # reductions and scans

    def whole(self, node: Expr, axes: frozenset[Axis], neutral: str, text: str) -> str:
        """A value over the whole tile, neutral behind the ends of columns."""
        column = self.space.column_of(axes)
        assert column is not None
        blocks = [self.row_block, self.places[column].block]
        if column not in node.axes:
            text = f"tl.broadcast_to({text}, {blocks})"
        pads = self.pads(frozenset({column})) if not self.is_neutral(node, neutral) else []
        return f"tl.where({pads[0]}, {text}, {neutral})" if pads else text

    def is_neutral(self, node: Expr, neutral: str) -> bool:
        """Whether behind the ends of columns a value is the neutral one of its reduction already."""
        if node in self.filled:
            return neutral == 'float("-inf")'
        power = of_power(node) if neutral == "0" else None
        return power is not None and power[0] in self.filled

    def tensor(self, node: Expr) -> str:
        """A value where a bare number will not do."""
        return run(self.as_tensor(node, None))

    def as_tensor(self, node: Expr, mask: Mask | None) -> Task[str]:
        text = yield self.valued(node, mask)
        return f"tl.full({self.ones}, {text}, tl.float32)" if node.op == "const" and not text.isidentifier() else text

    @property
    def ones(self) -> list[int]:
        return [1] * self.rank

    @property
    def row_block(self) -> Dim:
        return self.places[self.space.rows].block if self.space.rows is not None else 1

    def states_of(self, node: Expr) -> tuple[Reduction, list[str]]:
        """The state that every element of the tile is."""
        kind, axes, _ = node.attr
        (operand,) = node.args
        row = reduction(kind, operand.type)
        value = self.tensor(operand)
        position = axes[0].name
        full = frozenset(axes)
        texts = []
        for (type_text, neutral), lift in zip(row.state, row.lift, strict=True):
            if lift == "{p}":
                column = self.places[axes[0]]
                text = f"tl.broadcast_to({position}, {[self.row_block, column.block]})"
                pads = self.pads(full)
                texts.append(f"tl.where({pads[0]}, {text}, {neutral})" if pads else text)
                continue
            if lift in ("{z}", "{o}"):
                text = f"tl.full({[self.row_block, self.places[axes[0]].block]}, {'0' if lift == '{z}' else '1'}, {type_text})"
                pads = self.pads(full)
                texts.append(f"tl.where({pads[0]}, {text}, {neutral})" if pads else text)
                continue
            texts.append(self.whole(operand, full, neutral, lift.format(x=value)))
        return row, texts

    def results(self, row: Reduction, state: State, names: Sequence[str]) -> None:
        """The results of a reduction whose end states have names."""
        self.reduced[state] = tuple(names[int(r[1])] if r in ("{0}", "{1}") else self.let(r.format(*names), self.at) for r in row.results)

    def reduce(self, node: Expr) -> str:
        kind, axes, output = node.attr
        state = (kind, axes, node.args[0])
        if state not in self.reduced:
            if self.at.outer is not None and (self.at.column is not self.space.rows or self.space.rows in axes):
                raise Unprintable("a reduction is wanted before its loop")
            row, texts = self.states_of(node)
            if kind in FIRST:
                names = self.first(node, texts)
            elif (partner := self.partner(state)) is not None:
                self.two_sums(state, partner, row, texts[0])
                return self.reduced[state][output]
            elif len(texts) == 1:
                names = [self.let(f"tl.reduce({texts[0]}, 1, {self.use(row.combine)}, keep_dims=True)", self.at, node)]
            else:
                helper = self.use(row.combine)
                names = [self.fresh() for _ in texts]
                self.remark(self.at, self.space.owner.get(node, ()))
                self.at.lines.append(f"{', '.join(names)} = tl.reduce(({', '.join(texts)}), 1, {helper}, keep_dims=True)")
            self.results(row, state, names)
        return self.reduced[state][output]

    def partner(self, state: State) -> State | None:
        """Another sum along the same axes that can be made now: two together exchange values between warps, and wait, once."""
        kind, axes, operand = state
        if kind != "sum" or self.space.through:
            return None
        for node in self.space.exprs():
            other = (*node.attr[:2], node.args[0]) if node.op == "reduce" else state
            if other[:2] == (kind, axes) and other[2] is not operand and other not in self.reduced and other[2].type == operand.type:
                inner = [(*e.attr[:2], e.args[0]) for e in walk(other[2]) if e.op == "reduce"]
                if all(s in self.reduced for s in inner):
                    return other
        return None

    def two_sums(self, state: State, partner: State, row: Reduction, text: str) -> None:
        node = Expr("reduce", partner[2].type, (partner[2],), (*partner[:2], 0))
        other = self.states_of(node)[1][0]
        names = self.fresh(), self.fresh()
        self.remark(self.at, self.space.owner.get(node, ()))
        self.at.lines.append(f"{', '.join(names)} = tl.reduce(({text}, {other}), 1, {self.use('add_two')}, keep_dims=True)")
        for one, name in zip((state, partner), names, strict=True):
            self.results(row, one, [name])

    def first(self, node: Expr, texts: Sequence[str]) -> list[str]:
        """The extreme value, then the least position that has it: two plain reductions instead of one over pairs."""
        combine, is_float = FIRST[node.attr[0]], TYPES[node.args[0].type].kind == "float"
        value = self.let(texts[0], self.at)
        end = self.let(f"tl.reduce({value}, 1, {self.use(combine[is_float])}, keep_dims=True)", self.at, node)
        least = f"tl.where({self.same(value, end, node.args[0].type)}, {texts[1]}, 2147483647)"
        return [end, self.let(f"tl.reduce({least}, 1, {self.use('smallest')}, keep_dims=True)", self.at)]

    def same(self, value: str, end: str, type_name: str) -> str:
        """Whether a value is the extreme one of its row, which is NaN where there is one."""
        return f"({value} == {end}) | ({value} != {value})" if TYPES[type_name].kind == "float" else f"{value} == {end}"

    def scan(self, node: Expr, lines: Lines) -> str:
        kind, axis = node.attr
        operand = node.args[0]
        neutral = "0" if kind == "sum" else "1"
        type_text = TRITON_TYPES[operand.type]
        text = self.whole(operand, frozenset({axis}), neutral, self.tensor(operand))
        helper = self.use(SCAN_COMBINE[kind])
        given = self.let(text, lines)
        part = self.let(f"tl.associative_scan({given}, 1, {helper})", lines, node)
        if lines.outer is None:
            return part
        carry = self.fresh("carry")
        lines.outer.lines.append(f"{carry} = tl.full([{self.row_block}, 1], {neutral}, {type_text})")
        symbol = "+" if kind == "sum" else "*"
        found = self.let(f"{carry} {symbol} {part}", lines)
        lines.lines.append(f"{carry} = {carry} {symbol} tl.reduce({given}, 1, {helper}, keep_dims=True)")
        return found

    # stores

    def store(self, store: Store, axes: frozenset[Axis], *, is_late: bool) -> None:
        """Write a value. `axes` are those of the tile that the store is made for."""
        if self.granule is not None and store.index is self.granule.index:
            pointer = f"{self.names[store.buffer]} + (edge + {self.granule.at})"
            self.at.lines.append(f"tl.store({pointer}, {self.value(store.value)}{self.piece(self.part.store)}{self.streaming})")
            return
        args = [self.value(e) for e in store.indirect]
        where = self.index(store.index, args)
        seen = (store.index.axes & axes) | frozenset().union(*(e.axes for e in store.indirect))
        if len(seen) < len(axes) or not seen:
            blocks = [1] * self.rank
            for axis in axes:
                blocks[0 if axis is self.space.rows else -1] = self.places[axis].block
            where = f"tl.full({blocks}, 0, tl.int32)" if where == "0" else f"tl.full({blocks}, 0, tl.int32) + ({where})"
        value, base = self.value(store.value), self.names[store.buffer]
        condition = self.mask_text(axes, None)
        end = f", {condition}" if condition else ""
        if store.mode == "add":
            if store.value.type not in ATOMIC:
                raise Unprintable(f"no atomic addition of {TYPES[store.value.type].torch}")
            value = self.tensor(store.value)
            line = f'tl.atomic_add({base} + ({where}), {value}{end}, sem="relaxed")'
        else:
            line = f"tl.store({base} + ({where}), {value}{end}{self.streaming})"
        if is_late:
            self.late.append(line)
        else:
            self.at.lines.append(line)

    @property
    def streaming(self) -> str:
        return ', eviction_policy="evict_first"' if self.is_last else ""

    def under(self, pads: Mapping[Axis, bool]) -> None:
        """From here on axes are padded or not."""
        self.places = {a: replace(p, is_padded=pads.get(a, p.is_padded)) for a, p in self.places.items()}

    def reads_memory(self, node: Expr) -> bool:
        return contains(node, ("load", "check"), self._reads)


def bare(text: str) -> str:
    """Without parentheses around the whole."""
    if not text.startswith("("):
        return text
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return text[1:-1] if at == len(text) - 1 else text
    return text
