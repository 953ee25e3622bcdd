"""A Triton kernel as text: the tile's indices and masks, then values and stores, level by level."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from inductor.ir.affine import Axis
from inductor.ir.dims import Dim, dim_text, divides, hint, number
from inductor.ir.expr import Expr, walk
from inductor.ir.nest import Program
from inductor.ir.types import TYPES
from inductor.targets.triton.body import FIRST, Body, Lines, Mask, Place, State
from inductor.targets.triton.exprs import ends_in_halves
from inductor.targets.triton.granules import EDGES, FIRST_PART, INNER, LAST_PART, Part
from inductor.targets.triton.kernel import TritonKernel
from inductor.targets.triton.machine import LANE, SHORT, TOGETHER, power
from inductor.targets.triton.ops import TRITON_TYPES
from inductor.targets.triton.reductions import Reduction, reduction
from inductor.targets.triton.space import Root, Space, of_powers
from inductor.targets.triton.table import Table

WIDE = (1 << 31) - (1 << 16)  # less than a block below what 32 bits count to: the last one may end behind that
PEELED = 4  # whole blocks of a loop from which on its ragged end gets code of its own
# Several neighbours into the state of a lane: of float32, and of float64, for which a GPU has no instructions to the power of two.
TAKE_IN = {"online_softmax": ("take_in_sums", ""), "welford": ("take_in_moments", "take_in_wide_moments")}
END = {"online_softmax": "end_sums", "welford": "end_moments"}  # such states of all lanes as one
VECTORS = 16  # a constant length that is a multiple of this leaves masked accesses whole


class Printer:
    """One kernel. After `run`, `lines` is the function, `helpers` what it calls, `grid` its programs."""

    def __init__(self, kernel: TritonKernel, program: Program, function: str) -> None:
        assert kernel.space is not None and kernel.shape is not None
        self.kernel, self.program, self.function = kernel, program, function
        self.space, self.shape = kernel.space, kernel.shape
        self.names = parameter_names(kernel)
        self.rank = 2 if self.space.columns else 1
        self.is_tiled = self.shape.kind == "transpose"
        ends = [r.store.value for r in self.space.roots]
        self.body = Body(self.space, self.rank, self.tile(), self.names, ends_in_halves(ends) | only_summed(ends))
        self.body.granule = kernel.granule
        if self.shape.kind in ("row", "looped row") and self.space.rows is not None:
            walked = (e for e in self.space.exprs() if e.op == "load" and e.axes & set(self.space.columns))
            self.body.hints = {e: "evict_last" for e in walked if self.space.rows not in e.axes}  # every row reads it
        self.hints = self.body.hints
        if not self.shape.is_looped:
            self.body.filled = with_powers(self.space)
        self.own_rows = "tl.program_id(0)"  # which tile of rows is meant
        self.is_renamed = False  # columns have another block than in loops
        self.is_late = bool(kernel.over) or any(r.is_update for r in self.space.roots)

    def run(self) -> list[str]:
        parameters, table = list(self.names.values()), self.kernel.table
        if table is not None:
            body = self.by_table(table)
            flag = ["bad"] if self.body.uses_bad else []
            return [f"def {self.function}({', '.join([*table.parameters, 'table', *flag, 'first'])}):", *(f"    {line}" for line in body)]
        if self.kernel.is_batch:
            parameters.append("n")
        if self.space.part is not None:
            body = self.walking()
        else:
            body = self.two_ways() if self.splits_ends() else [*self.indices(), *self.content()]
        if self.body.uses_bad:
            parameters.append("bad")
        return [f"def {self.function}({', '.join(dict.fromkeys(parameters))}):", *(f"    {line}" for line in body)]

    # the tile

    def tile(self) -> dict[Axis, Place]:
        places = {}
        if self.space.rows is not None:
            block = self.shape.rows
            ragged = self.kernel.is_batch or not divides(block, self.space.rows.extent)
            places[self.space.rows] = Place(self.space.rows, block, ragged)
        for column in self.space.columns:
            block = min(self.shape.columns, power(column.extent)) if self.shape.is_looped or self.is_tiled else power(column.extent)
            places[column] = Place(column, block, not divides(block, column.extent))
        granule = self.kernel.granule
        if granule is not None:
            places[granule.column] = Place(granule.column, self.shape.columns, is_padded=True)
        return places

    @property
    def length(self) -> str:
        """Rows there are."""
        return "n" if self.kernel.is_batch else str(self.space.n_rows)

    @property
    def row_programs(self) -> Dim:
        return -(-self.space.n_rows // self.shape.rows) if self.space.rows is not None else 1

    @property
    def column_programs(self) -> Dim:
        if not self.is_tiled:
            return 1
        (column,) = self.space.columns
        return -(-number(column.extent) // self.body.places[column].block)

    @property
    def grid(self) -> Dim:
        if self.kernel.table is not None:
            return sum(self.kernel.table.pieces)
        if self.space.part is not None:
            return self.space.part.extent
        return self.row_programs * self.column_programs

    @property
    def is_wide(self) -> bool:
        """Whether positions may need 64 bits."""
        touched = {e.attr[0] for e in self.space.exprs() if e.op == "load"} | {r.store.buffer for r in self.space.roots}
        points = self.space.n_rows * max((hint(c.extent) for c in self.space.columns), default=1)
        return hint(points) >= WIDE or any(hint(self.program.buffers[b].size) >= WIDE for b in touched)

    def indices(self) -> list[str]:
        """Where in the tile each lane is."""
        lines = []
        suffix = "[:, None]" if self.rank == 2 else ""
        row, column_at = self.own_rows, ""
        if self.column_programs > 1:
            column_at = f"tl.program_id(0) % {self.column_programs} * "
            row = f"tl.program_id(0) // {self.column_programs}"
        if self.is_wide:
            row = f"({row}).to(tl.int64)" if "//" in row else f"{row}.to(tl.int64)"
        if self.space.rows is not None:
            block = self.shape.rows
            offset = f"tl.arange(0, {block}){suffix}" if block > 1 or self.rank == 2 else "tl.arange(0, 1)"
            start = f"{row} * {block} + " if block > 1 else f"{row} + "
            if self.row_programs == 1 and not self.kernel.is_batch:
                start, offset = "", f"{offset}.to(tl.int64)" if self.is_wide else offset
            lines.append(f"x = {start}{offset}")
            self.body.starts[self.space.rows] = start.removesuffix(" + ")
            if self.body.places[self.space.rows].is_padded:
                lines.append(f"x_in = x < {self.length}")
        granule = self.kernel.granule
        if granule is not None:
            lines += granule.row(is_wide=self.is_wide)
        if granule is not None and not self.shape.is_looped:
            self.body.part = LAST_PART
            lines += granule.lanes(f"tl.arange(0, {self.shape.columns})[None, :]", LAST_PART)
        elif not self.shape.is_looped:
            for column in self.space.columns:
                block = self.body.places[column].block
                self.body.starts[column] = f"{column_at}{block}" if column_at else ""
                lines.append(f"{column.name} = {column_at + str(block) + ' + ' if column_at else ''}tl.arange(0, {block})[None, :]")
                if self.body.places[column].is_padded:
                    lines.append(f"{column.name}_in = {column.name} < {dim_text(column.extent)}")
        return lines

    def splits_ends(self) -> bool:
        """Whether the last program gets code of its own: masks whose end is an odd number take the vectors out of every access."""
        rows = self.space.rows
        if self.shape.kind != "flat" or rows is None:
            return False
        return self.kernel.is_batch or (not divides(VECTORS, rows.extent) and self.row_programs > 1)

    def two_ways(self) -> list[str]:
        rows = self.space.rows
        assert rows is not None
        self.body.under({rows: False})
        head, whole = self.indices(), self.content()
        self.body.at, self.body.late = Lines(), []
        self.body.under({rows: True})
        ends = [line for line in self.indices() if line.startswith("x_in")] + self.content()
        block = self.shape.rows
        own = f"{self.own_rows}.to(tl.int64)" if self.is_wide else self.own_rows
        full = f"{own} * {block} + {block} <= {self.length}"
        if self.kernel.table is not None:
            full = f"is_aligned & ({full})"
            whole = [*(f"{p} = tl.multiple_of({p}, 16)" for p in self.names.values()), *whole]
        return [*head, f"if {full}:", *(f"    {line}" for line in whole), "else:", *(f"    {line}" for line in ends)]

    def by_table(self, table: Table) -> list[str]:
        """What is done for each of many buffers, whose addresses are written down first."""
        self.own_rows = "piece"
        types = [TRITON_TYPES[self.program.buffers[b].type] for b in self.names]
        body = self.two_ways() if self.splits_ends() else [*self.indices(), *self.content()]
        work = [*table.finding(), *table.taking(types), *body]
        return ["if first >= 0:", *(f"    {line}" for line in table.writing()), "else:", *(f"    {line}" for line in work)]

    # content

    def content(self) -> list[str]:
        if self.shape.is_looped:
            self.looped()
        else:
            self.held()
        return [*self.body.at.lines, *self.body.late]

    def by_level(self) -> dict[int, list[Root]]:
        found: dict[int, list[Root]] = {}
        for root in self.space.roots:
            found.setdefault(root.level, []).append(root)
        return dict(sorted(found.items()))

    def axes_of(self, root: Root) -> frozenset[Axis]:
        """The axes of the tile that a store is made for."""
        rows = frozenset({self.space.rows} if self.space.rows is not None else ())
        used = root.store.index.axes.union(*(e.axes for e in root.store.roots()))
        column = self.space.column_of(used)
        return rows | ({column} if column is not None else frozenset())

    def barrier(self, level: int) -> None:
        """What the program stored it may read from here on."""
        if level and self.space.through:
            self.body.at.lines.append("tl.debug_barrier()")
            self.body.at.known = {k: v for k, v in self.body.at.known.items() if not self.is_through(k[0])}

    def is_through(self, node: Expr) -> bool:
        return node.op == "load" and node.attr[0] in self.space.through

    def held(self) -> None:
        """All columns of a row are in the tile."""
        for level, roots in self.by_level().items():
            self.barrier(level)
            for root in roots:
                is_read_back = root.store.buffer in self.space.through
                self.body.store(root.store, self.axes_of(root), is_late=self.is_late and not is_read_back)
        self.edges(self.space.roots)

    def walking(self) -> list[str]:
        """A program that stays does what is to be done for each of its rows, keeps sums of columns, and stores them at the end."""
        body, rows, part = self.body, self.space.rows, self.space.part
        assert rows is not None and part is not None
        outer, place = body.at, body.places[rows]
        sums = list(dict.fromkeys((e.attr[0], e.attr[1], e.args[0]) for e in self.space.exprs() if e.op == "reduce" and rows in e.attr[1]))
        late = [r for r in self.space.roots if any(e.op == "reduce" and rows in e.attr[1] for e in walk(*r.store.roots()))]
        (column,) = self.space.columns
        outer.lines.append(f"{part.name} = tl.program_id(0){'.to(tl.int64)' if self.is_wide else ''}")
        outer.lines.append(f"{column.name} = tl.arange(0, {body.places[column].block})[None, :]")
        if body.places[column].is_padded:
            outer.lines.append(f"{column.name}_in = {column.name} < {dim_text(column.extent)}")
        kept = {s: body.fresh("acc") for s in sums}
        for state, name in kept.items():
            kind = reduction(state[0], state[2].type).state[0][0]
            outer.lines.append(f"{name} = tl.full([{place.block}, {body.places[column].block}], 0, {kind})")
        body.at = Lines(outer, rows)
        for roots in self.by_level().values():
            for root in roots:
                if root not in late:
                    body.store(root.store, self.axes_of(root), is_late=self.is_late)
        for state, name in kept.items():
            body.remark(body.at, self.space.owner.get(state[2], ()))
            value = body.tensor(state[2])
            body.at.lines.append(f"{name} += tl.where({rows.name}_in, {value}, 0)" if place.is_padded else f"{name} += {value}")
        inside, body.at = [*body.at.lines, *body.late], outer
        body.late = []
        outer.lines.append(f"for at in tl.range(0, {dim_text(rows.extent)}, {place.block}, num_stages={self.shape.stages}):")
        outer.lines.append(f"    {rows.name} = at + tl.arange(0, {place.block})[:, None]")
        if place.is_padded:
            outer.lines.append(f"    {rows.name}_in = {rows.name} < {dim_text(rows.extent)}")
        outer.lines += [f"    {line}" for line in inside]
        for state, name in kept.items():
            body.reduced[state] = (body.let(f"tl.reduce({name}, 0, {body.use('add')}, keep_dims=True)", outer),)
        for root in late:
            body.store(root.store, frozenset({column}), is_late=False)
        return outer.lines

    def looped(self) -> None:
        """Columns are walked: a loop per level makes what reductions of that level need, and stores what can be stored."""
        roots = self.by_level()
        reductions = self.reductions_by_level()
        if self.shape.kind == "looped row":
            self.ask_for_rows()
        for level in range(max([*roots, *reductions], default=0) + 1):
            self.barrier(level)
            here = roots.get(level, [])
            self.body.hints = self.hints_of(level, roots, reductions)
            self.body.is_last = "evict_first" in self.body.hints.values()
            for column in self.space.columns:
                stores = [r for r in here if column in self.axes_of(r)]
                states = [s for s in reductions.get(level, []) if column in s[1]]
                if stores or states:
                    self.loop(column, states, stores)
            for root in here:
                if not self.axes_of(root) & frozenset(self.space.columns):
                    self.body.store(root.store, self.axes_of(root), is_late=False)

    def ask_for_rows(self) -> None:
        """Read what is stored at the end of a row depends on, like the element at a given place: it is there when the loops end."""
        levels, body = levels_of(self.space), self.body
        waiting: list[tuple[Expr, Mask | None]] = [(e, None) for r in self.space.roots for e in r.store.roots()]
        while waiting:
            node, mask = waiting.pop()
            if node.op == "reduce" or node.axes & {*self.space.columns}:
                continue
            if levels[node] == 0 and body.reads_memory(node):
                body.value(node, mask)
            elif node.op != "masked":
                waiting += [(a, mask) for a in node.args]
            elif mask is None and levels[node.args[0]] == 0:
                waiting.append((node.args[1], Mask(body.value(node.args[0]), node.args[0].axes)))

    def hints_of(self, level: int, roots: Mapping[int, Sequence[Root]], reductions: Mapping[int, Sequence[State]]) -> dict[Expr, str]:
        """Rows that a later loop reads again are worth their place in the cache, and what is read for the last time is not."""
        if self.shape.kind != "looped row":
            return self.hints
        at = {
            k: loads_of([*(r.store.value for r in roots.get(k, ())), *(s[2] for s in reductions.get(k, ()))]) for k in {*roots, *reductions}
        }
        rows = {e for e in at.get(level, ()) if self.space.rows in e.axes and e.axes & set(self.space.columns)}
        later = frozenset().union(*(found for k, found in at.items() if k > level))
        before = frozenset().union(*(found for k, found in at.items() if k < level))
        return self.hints | {e: "evict_last" if e in later else "evict_first" for e in rows if e in later or e in before}

    def reductions_by_level(self) -> dict[int, list[State]]:
        found: dict[int, dict[State, None]] = {}
        levels = levels_of(self.space)
        for node in self.space.exprs():
            if node.op == "reduce":
                kind, axes, _ = node.attr
                found.setdefault(levels[node], {})[kind, axes, node.args[0]] = None
        return {level: list(states) for level, states in found.items()}

    def loop(self, column: Axis, states: Sequence[State], stores: Sequence[Root]) -> None:
        body, outer = self.body, self.body.at
        place = body.places[column]
        accumulators = {s: self.start(s, place) for s in states}
        length = number(column.extent)
        ragged = length % place.block
        has_scan = any(e.op == "scan" for e in walk(*(r.store.value for r in stores), *(s[2] for s in states)))
        whole = length // place.block
        peels = ragged and whole >= PEELED and not has_scan
        block = place.block

        def content(is_padded: bool, start: str, part: Part = INNER) -> list[str]:
            body.under({column: is_padded})
            body.part = part
            body.at = Lines(outer, column)
            body.starts.pop(column, None)
            if granule is None:
                body.starts[column] = start
            if granule is not None:
                body.at.lines += granule.lanes(f"{start} + {lane}", part)
            elif is_padded:
                body.at.lines.append(f"{column.name}_in = {column.name} < {dim_text(column.extent)}")
            if any(reduction(s[0], s[2].type).step and not takes_in(s, place) for s in states):
                body.at.lines.append(f"{column.name}_step = {start} // {block} + 1")
            for state in states:
                self.accumulate(state, accumulators[state], start)
            for root in stores:
                body.store(root.store, self.axes_of(root), is_late=False)
            lines = body.at.lines
            body.at = outer
            return lines

        granule, lane = self.kernel.granule, f"tl.arange(0, {block})[None, :]"
        together = not stores and whole >= 2 * TOGETHER and any(s[0] == "online_softmax" and takes_in(s, place) for s in states)
        if self.is_renamed:  # a name keeps its type in a loop
            names = [column.name, f"{column.name}_in", *([granule.at] if granule else [])]
            outer.lines += [f"{name} = {lane}{' < 0' if name.endswith('_in') else ''}" for name in names]
        if granule is not None:
            outer.lines += content(True, "0", FIRST_PART)
            if whole > 1:
                inner = content(False, "at")
                bounds = f"{block}, {whole * block}, {block}"
                loop = f"tl.range({bounds}, loop_unroll_factor={TOGETHER})" if together else f"range({bounds})"
                outer.lines += [f"for at in {loop}:", *(f"    {line}" for line in inner)]
            for start in range(whole * block, length + granule.size - 1, block):
                outer.lines += content(True, str(start), LAST_PART)
            self.edges(stores)
        else:
            main = content(bool(ragged) and not peels, "at")
            end = whole * block if peels else length
            is_short = block <= SHORT and length <= SHORT * block
            loop = "tl.static_range" if is_short else "tl.range" if self.shape.stages else "range"
            ahead = f", num_stages={self.shape.stages}" if loop == "tl.range" else ""
            if together and loop == "range":
                loop, ahead = "tl.range", f", loop_unroll_factor={TOGETHER}"
            outer.lines += [
                f"for at in {loop}(0, {end}, {block}{ahead}):",
                f"    {column.name} = at + {lane}",
                *(f"    {line}" for line in main),
            ]
            if peels:
                outer.lines += [f"{column.name} = {end} + {lane}", *content(True, str(end))]
        for state in states:
            self.finish(state, accumulators[state], place)

    def edges(self, roots: Sequence[Root]) -> None:
        """Store what is in pieces that a row shares with its neighbours."""
        granule, body = self.kernel.granule, self.body
        if granule is None or all(r.store.index is not granule.index for r in roots):
            return
        column, outer, place, part = granule.column, body.at, body.places[granule.column], body.part
        body.places[column], body.part = Place(column, 2 * granule.size, is_padded=True), EDGES
        body.at = Lines(outer, column)
        body.at.lines += granule.edges()
        for root in roots:
            if root.store.index is granule.index:
                body.store(root.store, self.axes_of(root), is_late=False)
        outer.lines += body.at.lines
        body.at, body.places[column], body.part = outer, place, part
        self.is_renamed = True

    def start(self, state: State, place: Place) -> list[str]:
        """Neutral states of all lanes."""
        row = reduction(state[0], state[2].type)
        takes = takes_in(state, place)
        lanes = place.block // LANE if takes else place.block
        names = []
        for k, (type_text, neutral) in enumerate(row.state if takes else row.carried):
            neutral = "0" if takes and k and state[0] in FIRST else neutral
            names.append(self.body.fresh("acc"))
            self.body.at.lines.append(f"{names[-1]} = tl.full([{self.body.row_block}, {lanes}], {neutral}, {type_text})")
        return names

    def accumulate(self, state: State, names: Sequence[str], start: str) -> None:
        """Take in the block of columns that begins at `start`."""
        node = Expr("reduce", state[2].type, (state[2],), (state[0], state[1], 0))
        row, texts = self.body.states_of(node)
        self.body.remark(self.body.at, self.space.owner.get(state[2], ()))
        place = self.body.places[state[1][0]]
        if takes_in(state, place):
            helper, given = takes_in(state, place), texts[:1]
            if state[0] == "welford" and place.is_padded:
                helper, given = "take_in_some_moments", [texts[0], texts[2]]
            parts = [f"tl.reshape({t}, [{self.body.row_block}, {place.block // LANE}, {LANE}])" for t in given]
            parts += [start] if state[0] in FIRST else []
            self.body.at.lines.append(f"{', '.join(names)} = {self.body.use(helper)}({', '.join([*names, *parts])})")
        elif row.step:
            self.step(state, row, names)
        elif row.combine in ("add", "mul"):
            self.body.at.lines.append(f"{names[0]} {'+' if row.combine == 'add' else '*'}= {texts[0]}")
        else:
            helper = self.body.use(row.combine)
            self.body.at.lines.append(f"{', '.join(names)} = {helper}({', '.join([*names, *texts])})")

    def step(self, state: State, row: Reduction, names: Sequence[str]) -> None:
        """One more value for every lane, of which the loop knows the number."""
        place, body = self.body.places[state[1][0]], self.body
        value = body.tensor(state[2])
        count = f"tl.full([1, 1], {place.axis.name}_step, {row.state[-1][0]})"
        call = f"{body.use(row.step)}({', '.join([*names, value, count])})"
        if not place.is_padded:
            body.at.lines.append(f"{', '.join(names)} = {call}")
            return
        new = [body.fresh() for _ in names]
        body.at.lines.append(f"{', '.join(new)} = {call}")
        body.at.lines += [f"{old} = tl.where({place.axis.name}_in, {v}, {old})" for old, v in zip(names, new, strict=True)]

    def finish(self, state: State, names: Sequence[str], place: Place) -> None:
        """One state per row."""
        if state[0] in FIRST and takes_in(state, place):
            self.find(state, names, place)
            return
        row = reduction(state[0], state[2].type)
        ends = list(names)
        if row.step and not takes_in(state, place):
            length = number(place.axis.extent)
            whole, ragged = divmod(length, place.block)
            lanes = f"tl.arange(0, {place.block})[None, :]"
            count = f"tl.where({lanes} < {ragged}, {whole + 1}, {whole})" if ragged else f"tl.full([1, {place.block}], {whole}, tl.int32)"
            ends.append(f"tl.broadcast_to({count}, [{self.body.row_block}, {place.block}]).to({row.state[-1][0]})")
        if place.block > 1:
            given = ends[0] if len(ends) == 1 else f"({', '.join(ends)})"
            end = END.get(state[0]) if takes_in(state, place) else None
            ends = [self.body.fresh() for _ in (row.results if end else ends)]
            call = (
                f"{self.body.use(end)}({', '.join(names)})"
                if end
                else f"tl.reduce({given}, 1, {self.body.use(row.combine)}, keep_dims=True)"
            )
            self.body.at.lines.append(f"{', '.join(ends)} = {call}")
        self.body.results(row, state, ends)

    def find(self, state: State, names: Sequence[str], place: Place) -> None:
        """The extreme value of all lanes, the first eight values of which one is it, and of these the first that is."""
        body, (extreme, began) = self.body, names
        helper, outer = FIRST[state[0]][TYPES[state[2].type].kind == "float"], body.at
        end = body.let(f"tl.reduce({extreme}, 1, {body.use(helper)}, keep_dims=True)", outer)
        position = f"{began} + tl.arange(0, {place.block // LANE})[None, :] * {LANE}"
        least = f"tl.where({body.same(extreme, end, state[2].type)}, {position}, 2147483647)"
        first = body.let(f"tl.reduce({least}, 1, {body.use('smallest')}, keep_dims=True)", outer)
        column = place.axis
        lane, granule = f"{first} + tl.arange(0, {LANE})[None, :]", self.kernel.granule
        is_ragged = number(column.extent) % LANE != 0
        body.places[column] = replace(place, block=LANE, is_padded=is_ragged)
        body.starts.pop(column, None)
        body.at, body.part = Lines(outer, column), EDGES
        if granule is not None:
            body.at.lines += granule.lanes(lane, EDGES)
        else:
            body.at.lines.append(f"{column.name} = {lane}")
            body.at.lines += [f"{column.name}_in = {column.name} < {dim_text(column.extent)}"] if is_ragged else []
        node = Expr("reduce", state[2].type, (state[2],), (state[0], state[1], 0))
        row, texts = body.states_of(node)
        value = body.let(texts[0], body.at)
        least = f"tl.where({body.same(value, end, state[2].type)}, {texts[1]}, 2147483647)"
        found = body.let(f"tl.reduce({least}, 1, {body.use('smallest')}, keep_dims=True)", body.at)
        outer.lines += body.at.lines
        body.at = outer
        body.places[column] = place
        self.is_renamed = True
        body.results(row, state, [end, found])


def takes_in(state: State, place: Place) -> str:
    """The helper by which a lane keeps one state for several neighbours, which costs no exchange, or '' where it keeps one for each."""
    if place.block < 32 * LANE:
        return ""
    if state[0] in FIRST:
        return f"take_in_{FIRST[state[0]][TYPES[state[2].type].kind == 'float']}"
    return TAKE_IN.get(state[0], ("", ""))[state[2].type == "f64"]


def with_powers(space: Space) -> frozenset[Expr]:
    """Values along columns of whose powers over their maximum the sum is taken: -inf behind the ends changes neither."""
    nodes = space.exprs()
    if any(e.op == "masked" for e in nodes):
        return frozenset()
    found = [of_powers(e) for e in nodes if e.op == "reduce" and e.attr[0] == "sum"]
    return frozenset(f[0] for f in found if f is not None and f[0].op != "const" and f[0].axes & {*space.columns})


def only_summed(ends: Sequence[Expr]) -> frozenset[Expr]:
    """Powers over a maximum of which nothing is left but the sum that is stored, as of a part of a row: short, as in a loop."""
    sums = [e for e in ends if e.op == "reduce" and of_powers(e) is not None]
    return frozenset(e.args[0] for e in sums if not any(e.args[0] in other.args for other in walk(*ends) if other is not e))


def loads_of(values: Sequence[Expr]) -> set[Expr]:
    """What is read for values whose reductions are known."""
    found, waiting = {}, list(values)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = node.op == "load"
            waiting += node.args if node.op != "reduce" else ()
    return {node for node, is_load in found.items() if is_load}


def levels_of(space: Space) -> dict[Expr, int]:
    """The loop in which each node can be known: see `space.py`."""
    known: dict[Expr, int] = {}
    stored = {r.store.buffer: r.level for r in space.roots}
    for node in space.exprs():
        own = max((known[a] + (a.op == "reduce") for a in node.args), default=0)
        if node.op == "load" and node.attr[0] in space.through:
            own = max(own, stored[node.attr[0]] + 1)
        known[node] = own
    return known


def parameter_names(kernel: TritonKernel) -> dict[str, str]:
    """What the kernel calls its buffers: the same for equal kernels. A batch calls those of its first row so."""
    if kernel.rows:
        return {b: f"p{i}" for i, b in enumerate(kernel.rows[0])}
    names = {b: f"in{i}" for i, b in enumerate(kernel.reads)}
    return names | {b: f"out{i}" for i, b in enumerate(kernel.writes)}


def function_name(kernel: TritonKernel) -> str:
    """The kind of kernel and the first operators, as profilers show it."""
    assert kernel.shape is not None
    ops = list(dict.fromkeys(o.op.partition(".")[0].strip("_") for o in kernel.origins))[:4]
    return re.sub(r"\W+", "_", "_".join([kernel.shape.kind, *ops]).replace(" ", "_"))
