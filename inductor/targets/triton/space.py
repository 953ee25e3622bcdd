"""A group in the loops of a kernel: rows `x`, and for members with loops of their own columns `r`.

In: a group. Out: its stores over at most one row axis and one column axis each, with what the group itself makes put in where it is
read. So a value is computed where it is wanted, and a printer that computes equal expressions once keeps it in a register.

A read of another element than the one that was stored goes through memory: the program waits for its own stores. Everything has a level:
0 is what needs no reduction, and a reduction over level n is known from level n + 1 on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from inductor.ir.affine import Axis, Index, digits, of_atom
from inductor.ir.dims import Dim, is_known, is_one, known_equal, number, numel, quotient
from inductor.ir.expr import Expr, call, cast, const, const_value, holds, rebuild, reduce, walk
from inductor.ir.nest import Nest, Origin, Program, Store
from inductor.ir.types import is_half
from inductor.schedule.group import Group
from inductor.schedule.moments import single
from inductor.schedule.stages import Stage, Stager


class Unprintable(Exception):
    """Why there is no Triton kernel for a group; it runs as ATen calls."""


@dataclass(frozen=True)
class Root:
    """A store that the kernel has to do."""

    store: Store
    level: int
    is_update: bool  # it overwrites an input


@dataclass
class Space:
    """`rows` is the axis over all iterations of the shared loops (None: there is one); `columns` are those of the loops inside.

    Where programs stay (`schedule/persistent.py`), `part` is the axis over programs and `rows` are those that one of them walks.
    """

    rows: Axis | None
    columns: tuple[Axis, ...]
    roots: list[Root]
    stages: list[Stage]  # as the verifier of schedules sees the group
    through: frozenset[str] = frozenset()  # buffers that are read back from memory
    owner: Mapping[Expr, tuple[Origin, ...]] = field(default_factory=dict)  # user lines of a value
    part: Axis | None = None

    @property
    def n_rows(self) -> Dim:
        return self.rows.extent if self.rows is not None else 1

    def exprs(self) -> list[Expr]:
        """Every distinct node, operands first."""
        return list(walk(*(e for root in self.roots for e in root.store.roots())))

    def column_of(self, axes: Iterable[Axis]) -> Axis | None:
        """The column axis among some axes."""
        found = [a for a in self.columns if a in axes]
        if len(found) > 1:
            raise Unprintable("one value varies along two different inner loops")
        return found[0] if found else None

    @property
    def depth(self) -> int:
        return max(root.level for root in self.roots)


def space_of(group: Group, program: Program, needed: frozenset[str]) -> Space:
    """The group over rows and columns."""
    stages = Stager(group, program.mutated).run()
    stored = [s for stage in stages for m in stage.members for s in m.stores]
    if any(s.mode != "set" or s.indirect for s in stored) and len(stages) > 1:
        raise Unprintable("a scatter shares its loops with another step")
    rows, mapping = flattened("x", ordered(group.outer, [m for stage in stages for m in stage.members]))
    columns: dict[Dim, Axis] = {}
    stores: list[tuple[Store, tuple[Origin, ...]]] = []
    for stage in stages:
        inner = inner_axes(stage)
        extent = numel([a.extent for a in inner])
        known = columns.get(extent)
        column, inside = flattened(known.name if known else f"r{len(columns)}", inner)
        if column is not None:
            columns[extent] = column
        for nest in stage.members:
            memo: dict[Expr, Expr] = {}
            stores += [(s.substitute({**mapping, **inside}, memo), nest.origins) for s in nest.stores]
    return Inliner(rows, tuple(columns.values()), stages, program, needed).run(stores)


def walking_space(group: Group, program: Program, needed: frozenset[str]) -> Space:
    """A group whose programs stay, over the rows of one program and their columns."""
    (outer,), walking = group.outer, group.walk
    assert walking is not None
    part, rows = Axis("p", outer.extent), Axis("x", walking.extent)
    columns: dict[Dim, Axis] = {}
    stores: list[tuple[Store, tuple[Origin, ...]]] = []
    for nest in group.members:
        column, inside = flattened("r0", ordered([a for a in (*nest.axes, *nest.reduced) if a not in (outer, walking)], [nest]))
        if column is not None:
            columns[column.extent] = column
        mapping = {**inside, outer: of_atom(part), walking: of_atom(rows)}
        memo: dict[Expr, Expr] = {}
        stores += [(s.substitute(mapping, memo), nest.origins) for s in nest.stores]
    if len(columns) > 1:
        raise Unprintable("rows of several lengths are walked together")
    is_free = all(rows in s.index.axes or is_summed(s.buffer, s.index.coef(part), part.extent, program) for s, _ in stores)
    if is_free and is_known(walking.extent):
        turns: dict[Expr, Expr] = {}
        stores = [(in_turns(s, part, rows, turns), origins) for s, origins in stores]
    stages = Stager(group, program.mutated).run()
    space = Inliner(rows, tuple(columns.values()), stages, program, needed).run(stores)
    if space.through:
        raise Unprintable("walked rows are read back from memory")
    return replace(space, part=part)


def in_turns(store: Store, part: Axis, rows: Axis, known: dict[Expr, Expr]) -> Store:
    """The store with other rows for each program: all of them together read rows that lie side by side."""
    row = of_atom(rows) * part.extent + of_atom(part)
    count = number(rows.extent)
    mapping = {part: row // count, rows: row % count}

    def change(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op == "load":
            return rebuild(node, args, (node.attr[0], node.attr[1].substitute(mapping)))
        return rebuild(node, args, node.attr.substitute(mapping) if node.op == "index" else node.attr)

    moved = store.rewrite(change, known)
    return replace(moved, index=store.index.substitute(mapping)) if rows in store.index.axes else moved


def is_summed(buffer: str, step: Dim, parts: Dim, program: Program) -> bool:
    """Whether of what a buffer has for each part, `step` elements apart, only the sum is used: then it may have any rows."""
    if program.buffers[buffer].kind != "temp" or buffer in program.output_buffers():
        return False
    for reader in (s for s in program.steps if buffer in s.reads()):
        if not isinstance(reader, Nest):
            return False
        values: dict[Expr, Expr] = {e: e for e in reader.exprs() if e.op == "load" and e.attr[0] == buffer}
        values |= {e: e.args[0] for e in reader.exprs() if e.op == "cast" and e.args[0] in values}
        if any(root in values for s in reader.stores for root in s.roots()):
            return False
        for node in (e for e in reader.exprs() if e not in values):
            axes = node.attr[1] if node.op == "reduce" and node.attr[0] == "sum" else ()
            for index in (values[a].attr[1] for a in node.args if a in values):
                if not any(known_equal(index.coef(a), step) and known_equal(a.extent, parts) for a in axes):
                    return False
    return True


def flattened(name: str, axes: Sequence[Axis]) -> tuple[Axis | None, dict[Axis, Index]]:
    """One axis for several, outermost first, and each of them in terms of it."""
    length = numel([a.extent for a in axes])
    if is_one(length):
        return None, {a: Index(0) for a in axes}
    whole = Axis(name, length)
    mapping, below = {}, length
    for axis in axes:
        below = quotient(below, axis.extent)
        mapping[axis] = digits(of_atom(whole) // below, axis.extent)[1]
    return whole, mapping


def ordered(axes: Sequence[Axis], nests: Sequence[Nest]) -> list[Axis]:
    """Axes in the order in which most of the memory is walked, that of stores first."""
    votes: list[tuple[int, Index]] = []
    for nest in nests:
        for is_store, index in [(1, s.index) for s in nest.stores] + [(0, e.attr[1]) for e in nest.loads()]:
            met = [a for a in axes if index.coef(a)]
            votes.append((2 * numel([a.extent for a in met]) + is_store, index))
    best = max(votes, key=lambda v: v[0], default=(0, Index(0)))[1]
    return sorted(axes, key=lambda a: -abs(best.coef(a)) if best.coef(a) else -(1 << 62))


def inner_axes(stage: Stage) -> Sequence[Axis]:
    """The loops of a stage in an order that suits its accesses; positions of argmax are counted in the order of the reduction."""
    for node in (e for m in stage.members for e in m.exprs()):
        if node.op == "reduce" and node.attr[0].startswith("arg"):
            return node.attr[1] if walked(node.attr[1]) == walked(stage.axes) else stage.axes
        if node.op == "scan" and walked(stage.axes) != {node.attr[1]}:
            raise Unprintable("a scan beside other inner loops")
    for nest in stage.members:
        if any(e.op == "reduce" and walked(e.attr[1]) != walked(nest.reduced) for e in nest.exprs()):
            raise Unprintable("reductions over different loops in one nest")
        if nest.reduced and walked(nest.reduced) != walked(stage.axes):
            raise Unprintable("a reduction inside another inner loop")
    return ordered(stage.axes, stage.members)


def walked(axes: Iterable[Axis]) -> set[Axis]:
    """The loops among some that take more than one step."""
    return {a for a in axes if not is_one(a.extent)}


class Inliner:
    """Puts what the group makes in where it is read, and finds the stores that are left to do."""

    def __init__(self, rows: Axis | None, columns: tuple[Axis, ...], stages: list[Stage], program: Program, needed: frozenset[str]) -> None:
        self.program, self.needed = program, needed
        self.rows, self.columns, self.stages = rows, columns, stages
        self.made: dict[str, Store] = {}
        self.through: set[str] = set()
        self.memo: dict[Expr, Expr] = {}

    def run(self, stores: Sequence[tuple[Store, tuple[Origin, ...]]]) -> Space:
        for store, _ in stores:
            if store.buffer not in self.program.mutated and store.mode == "set" and not store.indirect:
                self.made.setdefault(store.buffer, store)  # of a buffer that is written piece by piece the group reads nothing
        owner: dict[Expr, tuple[Origin, ...]] = {}
        done = []
        for store, origins in stores:
            done.append(self.inlined_store(store))
            for node in walk(*done[-1].roots()):
                owner.setdefault(node, origins)
        through = frozenset(self.through)
        roots = levelled([s for s in done if self.is_kept(s)], through, self.program.mutated)
        space = Space(self.rows, self.columns, roots, self.stages, through, owner)
        for node in space.exprs():
            space.column_of(node.axes | frozenset(node.attr[1] if node.op == "reduce" else ()))
        return space

    def is_kept(self, store: Store) -> bool:
        if store.buffer in self.needed or store.buffer in self.through or self.program.buffers[store.buffer].kind != "temp":
            return True
        return any(e.op == "check" for e in walk(*store.roots()))

    def inlined_store(self, store: Store) -> Store:
        return Store(store.buffer, store.index, self.inlined(store.value), store.mode, tuple(map(self.inlined, store.indirect)))

    def inlined(self, node: Expr) -> Expr:
        found = self.memo.get(node)
        if found is None:
            found = self.memo[node] = self.inlined_once(node)
        return found

    def inlined_once(self, node: Expr) -> Expr:
        if node.op == "load" and node.attr[0] in self.made:
            buffer, index = node.attr
            source = self.made[buffer]
            if source.index is index and not node.args:
                return self.inlined(source.value)
            self.through.add(buffer)
        args = tuple(map(self.inlined, node.args))
        if node.op == "cast" and is_half(args[0].type):
            (half,) = args
            if half.op == "cast" and half.args[0].type == node.type and holds(half.args[0], half.type):
                return half.args[0]  # rounding it again changes nothing
        return rebuild(node, args, node.attr)


def levelled(stores: Sequence[Store], through: frozenset[str], mutated: Collection[str]) -> list[Root]:
    """The stores with their levels, in their order."""
    known: dict[Expr, int] = {}
    stored: dict[str, int] = {}
    roots: list[Root] = []
    for store in stores:
        for node in walk(*store.roots()):
            if node not in known:
                own = max((known[a] + (a.op == "reduce") for a in node.args), default=0)
                if node.op == "load" and node.attr[0] in through:
                    own = max(own, stored[node.attr[0]] + 1)
                known[node] = own
        level = max(known[e] + (e.op == "reduce") for e in store.roots())
        stored[store.buffer] = max(level, stored.get(store.buffer, 0))
        roots.append(Root(store, level, store.buffer in mutated))
    return roots


def without_one_hots(space: Space) -> Space:
    """Sums of values of which only one is not zero, at a position that is known, as that value: no loop is needed for them."""
    sums = [node for node in space.exprs() if node.op == "reduce" and node.attr[0] == "sum"]
    return swapped(space, {node: value for node in sums if (value := only_value(node)) is not None})


def only_value(node: Expr) -> Expr | None:
    """`where(0 <= p < n, v, 0)` where the node is the sum of `where(p == i, v, 0)` over i < n."""
    choice, axes = node.args[0], node.attr[1]
    if choice.op != "where" or const_value(choice.args[2]) != 0 or len(axes) != 1 or choice.args[1].axes & set(axes):
        return None
    (axis,) = axes
    if not is_known(axis.extent):
        return None
    position, kept = None, []
    for term in conjuncts(choice.args[0]):
        here = [k for k in (0, 1) if term.op == "eq" and term.args[k].op == "index" and term.args[k].attr is of_atom(axis)]
        if here and position is None and axis not in term.args[1 - here[0]].axes:
            position = term.args[1 - here[0]]
        elif axis in term.axes:
            return None
        else:
            kept.append(term)
    if position is None:
        return None
    condition = call("and", call("ge", position, const(0, "i64")), call("lt", position, const(number(axis.extent), "i64")))
    for term in kept:
        condition = call("and", term, condition)
    return call("where", condition, choice.args[1], choice.args[2])


def conjuncts(condition: Expr) -> list[Expr]:
    """The conditions that must all hold."""
    return [t for a in condition.args for t in conjuncts(a)] if condition.op == "and" else [condition]


def with_online_sums(space: Space) -> Space:
    """`m = max(v)` and `sum(exp(v - m))` as two results of one reduction, and so `m = sum(v) / n` and `sum((v - m) ** 2)`."""
    pairs: dict[Expr, Expr] = {}
    for node in space.exprs():
        if node.op == "reduce" and node.attr[0] == "sum":
            for kind, found in (("online_softmax", of_powers(node)), ("welford", of_squares(node))):
                if found is not None:
                    value, first = found
                    pairs[node], pairs[first] = (Expr("reduce", node.type, (value,), (kind, node.attr[1], k)) for k in (1, 0))
    return swapped(space, pairs)


def with_moments_apart(space: Space) -> Space:
    """Moments of values that a program holds, as their mean and then the sum of squared deviations: a tree that merges moments divides.
    Those of float32 are summed as such, where the user's program widens them: what differs is taken off before it is squared.
    In the same way the maximum, and then the sum of powers."""
    pairs: dict[Expr, Expr] = {}
    for node in space.exprs():
        if node.op == "reduce" and node.attr[0] == "welford":
            (value,), axes = node.args, node.attr[1]
            mean = call("div", reduce("sum", value, axes), const(numel([a.extent for a in axes]), value.type))
            deviation = call("sub", value, mean)
            pairs[node] = reduce("sum", call("mul", deviation, deviation), axes) if node.attr[2] else mean
        elif node.op == "reduce" and node.attr[0] == "online_softmax":
            (value,), axes = node.args, node.attr[1]
            most = reduce("max", value, axes)
            pairs[node] = reduce("sum", call("exp", call("sub", value, most)), axes) if node.attr[2] else most
        elif node.op == "reduce" and node.type == "f64" and (found := of_squares(node)) is not None and single(found[0]) is not found[0]:
            value, axes = single(found[0]), node.attr[1]
            mean = call("div", reduce("sum", value, axes), const(numel([a.extent for a in axes]), value.type))
            deviation = call("sub", value, mean)
            pairs[found[1]] = cast(mean, "f64")
            pairs[node] = cast(reduce("sum", call("mul", deviation, deviation), axes), "f64")
    return swapped(space, pairs)


def swapped(space: Space, pairs: Mapping[Expr, Expr]) -> Space:
    """The space with some values in place of others."""
    if not pairs:
        return space
    memo: dict[Expr, Expr] = {}

    def changed(node: Expr) -> Expr:
        if node not in memo:
            new = pairs.get(node, node)
            memo[node] = rebuild(new, tuple(map(changed, new.args)), new.attr)
        return memo[node]

    stores = [replace(r.store, value=changed(r.store.value), indirect=tuple(map(changed, r.store.indirect))) for r in space.roots]
    return replace(space, roots=levelled(stores, space.through, [r.store.buffer for r in space.roots if r.is_update]))


def of_powers(node: Expr) -> tuple[Expr, Expr] | None:
    """`v` and `max(v)` where the node is `sum(exp(v - max(v)))`."""
    found = of_power(node.args[0])
    return found if found is not None and found[1].attr[1] == node.attr[1] else None


def of_power(node: Expr) -> tuple[Expr, Expr] | None:
    """`v` and `max(v)` where the node is `exp(v - max(v))`."""
    if node.op != "exp" or node.args[0].op != "sub":
        return None
    value, most = node.args[0].args
    return (value, most) if most.op == "reduce" and most.args[0] is value and most.attr[0] == "max" else None


def of_squares(node: Expr) -> tuple[Expr, Expr] | None:
    """`v` and its mean where the node is the sum of the squares of `v` less its mean."""
    square = node.args[0]
    is_square = square.op == "mul" or (square.op == "fma" and const_value(square.args[2]) == 0)
    if not is_square or square.args[0] is not square.args[1] or square.args[0].op != "sub":
        return None
    value, mean = square.args[0].args
    if mean.op != "div" or mean.args[0].op != "reduce" or const_value(mean.args[1]) != numel([a.extent for a in node.attr[1]]):
        return None
    total = mean.args[0]
    return (value, mean) if total.args[0] is value and total.attr == ("sum", node.attr[1], 0) else None
