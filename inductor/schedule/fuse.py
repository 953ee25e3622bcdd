"""Group nests whose outer loops can be shared, so that what one produces the next finds in registers or L1.

In: simplified nests and extern calls in topological order. Out: a topological list of groups and externs. Within a group,
every element a member reads from another member was written in the same iteration of the shared loops. Each candidate is
accepted or refused with a reason, which `reasons` keeps for the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dynamo.decisions import decide, refuse
from dynamo.faults import through
from inductor.ir.affine import Axis, Index, of_atom
from inductor.ir.dims import hint, is_one, volume
from inductor.ir.nest import Extern, Nest, Opaque, Program, Step
from inductor.ir.overwrites import Memory, is_harmless
from inductor.schedule.domain import align, fresh_axis, is_local, loops_apart, simplify
from inductor.schedule.group import Group
from inductor.schedule.limits import Limits
from inductor.schedule.order import in_order, may_refuse, numbers_of
from inductor.schedule.persistent import staying

BESIDE = 1 << 20  # points of a step that takes less time than starting it


@dataclass
class Refused(Exception):
    """Why two groups stay apart."""

    reason: str


class Before:
    """Which steps must run before which, over any number of steps between: one bit per step, kept up to date by fusions.

    A fused step has the bits of all its members; who needs it has at least one of them.
    """

    def __init__(self) -> None:
        self.bits: dict[int, int] = {}
        self.reach: dict[int, int] = {}  # in the order of `youngest`
        self.oldest: dict[int, int] = {}  # number of a step's first member
        self.youngest: dict[int, int] = {}  # at least the number of every step whose bit it has or needs
        self.count = 0

    def add(self, step: Group | Opaque, producers: Iterable[Group | Opaque]) -> None:
        """The next step of the program, and what must run right before it."""
        self.bits[id(step)] = 1 << len(self.bits)
        self.oldest[id(step)] = self.youngest[id(step)] = self.count
        self.count += 1
        found = 0
        for producer in producers:
            found |= self.bits[id(producer)] | self.reach[id(producer)]
        self.reach[id(step)] = found

    def includes(self, step: Group | Opaque, early: Group) -> bool:
        return self.reach[id(step)] & self.bits[id(early)] != 0

    def fuse(self, kept: Group, gone: Group) -> None:
        both = self.bits[id(kept)] | self.bits[id(gone)]
        reach = (self.reach[id(kept)] | self.reach.pop(id(gone))) & ~both
        self.oldest[id(kept)] = oldest = min(self.oldest[id(kept)], self.oldest[id(gone)])
        del self.reach[id(kept)]
        self.bits[id(kept)] = both
        changed = {id(kept): reach}
        for step, found in reversed(self.reach.items()):
            if self.youngest[step] < oldest:  # neither this one nor those before it need them
                break
            if found & both and reach & ~found:
                changed[step] = found | reach
        for step, found in changed.items():
            self.reach.pop(step, None)
            self.reach[step] = found
            self.youngest[step] = self.count - 1


@dataclass
class Fuser:
    program: Program
    limits: Limits
    order: list[Group | Opaque] = field(default_factory=list)
    reasons: list[tuple[str, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.writer: dict[str, Group | Opaque] = {}
        self.many_writers: set[str] = set()
        self.readers: dict[str, list[Group]] = {}
        self.externs: dict[str, Extern] = {}
        self.writers: dict[str, list[Group | Opaque]] = {}
        self.all_readers: dict[str, list[Group | Opaque]] = {}
        self.before = Before()
        self.mutated = self.program.mutated
        self.memory = Memory(self.program.steps)

    def run(self) -> list[Group | Opaque]:
        for step in self.program.steps:
            self.add(step)
        written = {buffer: i for i, step in enumerate(self.program.steps) for buffer in step.writes()}
        alive = [s for s in self.order if _alive(s)]
        return in_order(alive, self.mutated, written, self.memory, numbers_of(self.program))

    def add(self, step: Step) -> None:
        for buffer in step.writes():
            if buffer in self.writer:
                self.many_writers.add(buffer)
        if not isinstance(step, Nest):
            self.order.append(step)
            if isinstance(step, Extern):
                self.externs[step.name] = step
            self.own(step)
            self.before.add(step, self.producers(step))
            return
        nest = through("group", renamed(simplify(step)), step)
        group = Group.alone(nest)
        self.order.append(group)
        self.own(group)
        self.before.add(group, self.producers(group))
        for other in self.candidates(group):
            if other.alive and group.alive and other is not group:
                group = self.attempt(other, group)

    def own(self, step: Group | Opaque) -> None:
        for buffer in step.writes():
            self.writer[buffer] = step
            self.writers.setdefault(buffer, []).append(step)
        for buffer in self.memory.read_by(step):
            self.all_readers.setdefault(buffer, []).append(step)
        if isinstance(step, Group):
            for buffer in step.reads():
                self.readers.setdefault(buffer, []).append(step)

    def writer_besides(self, group: Group, buffer: str) -> Group | Opaque | None:
        """What wrote a buffer last; a scatter, which reads what it adds to, is not its own producer."""
        return next((w for w in reversed(self.writers.get(buffer, ())) if w is not group), None)

    def candidates(self, group: Group) -> list[Group]:
        """Groups whose results this one reads, then groups that read the same data."""
        producers = [self.writer_besides(group, b) for b in sorted(group.reads())]
        found = {id(p): p for p in producers if isinstance(p, Group)}
        for buffer in sorted(group.reads()):
            for reader in self.readers.get(buffer, ())[-4:]:
                if reader.alive and reader is not group and self.program.buffers[buffer].size * 2 >= group.points:
                    found.setdefault(id(reader), reader)
        if self.limits.programs and group.has_reduction and group.points <= BESIDE:
            made = [b for p in producers if isinstance(p, Group) for b in sorted(p.writes())]
            beside = [r for b in made for r in self.readers.get(b, ()) if r.alive and r is not group and r.has_reduction]
            found.update({id(r): r for r in beside if id(r) not in found and r.points <= BESIDE})
        return list(found.values())

    def attempt(self, first: Group, second: Group) -> Group:
        """Fuse two groups if that is legal and pays; returns the group that now holds the second's members."""
        try:
            merged = through("fuse", self.fused(first, second), first, second)
        except Refused as refusal:
            self.reasons.append((first.name, second.name, refusal.reason))
            refuse("fuse", f"{first.name} + {second.name}", refusal.reason)
            return second
        if not decide("fuse", f"{first.name} + {second.name}", why_fused(first, second)):
            self.reasons.append((first.name, second.name, "no fuel"))
            return second
        self.reasons.append((first.name, second.name, "fused"))
        first.take(merged)
        second.alive = False
        self.before.fuse(first, second)
        self.own(first)
        return first

    def fused(self, first: Group, second: Group) -> Group:
        if len(first.members) + len(second.members) > self.limits.members:
            raise Refused("too many members")
        self.check_cycle(first, second)
        if not all(m.has_plain_stores for g in (first, second) for m in g.members):
            merged = filled_where_scattered(first, second, self.mutated, self.limits)
            self.check_refusals(merged)
            return merged
        shared = (first.writes() | second.writes()) & self.many_writers
        if shared & (first.reads() | second.reads()):
            raise Refused("a buffer written piece by piece is read")
        special = self.staying(first, second) or self.beside(first, second)
        if special is not None:
            return special
        base, other = (second, first) if second.has_reduction and not first.has_reduction else (first, second)
        merged = Fitter(base, other, self.mutated).run()
        check_write_back(merged, self.mutated, self.memory)
        self.check_refusals(merged)
        check_profit(merged, self.limits)
        return merged

    def staying(self, first: Group, second: Group) -> Group | None:
        """The groups over parts of rows, where one sums the columns of the rows that the other reduces."""
        is_begun = first.walk is not None or second.walk is not None
        if not is_begun and not (self.limits.staying and first.has_reduction and second.has_reduction):
            return None
        both = staying(first, second, self.limits)
        if both is None and is_begun:
            raise Refused("one walks rows and sums their columns, the other has other loops")
        if both is None:
            return None
        if both.writes() & self.mutated:
            raise Refused("an input is overwritten where rows are walked")
        members = order_members(both.members, self.mutated)
        check_local(both.outer, members, self.mutated)
        return Group(both.outer, members, walk=both.walk)

    def beside(self, first: Group, second: Group) -> Group | None:
        """Two groups that read what one step made, but nothing in common: their loops side by side, where starting a kernel costs."""
        if not self.limits.programs or (first.reads() | first.writes()) & (second.reads() | second.writes()):
            return None
        if [a.extent for a in first.outer] != [a.extent for a in second.outer]:
            raise Refused("they have nothing in common")
        names = dict(zip(second.outer, first.outer, strict=True))
        mapping = {old: of_atom(new) for old, new in names.items()}
        moved = [m.substitute(mapping, tuple(names.get(a, a) for a in m.axes)) for m in second.members]
        return Group(first.outer, [*first.members, *moved])

    def check_refusals(self, merged: Group) -> None:
        if merged.writes() & self.mutated and may_refuse(merged):
            raise Refused("an input is written only once no index can be refused any more")

    def check_cycle(self, first: Group, second: Group) -> None:
        """A path between the groups through a third step would become a cycle. Earlier fusions can make either one the later."""
        for late, early in ((second, first), (first, second)):
            if any(self.before.includes(step, early) for step in self.producers(late) if step is not early):
                raise Refused("another step lies between them")

    def producers(self, step: Group | Opaque) -> Iterable[Group | Opaque]:
        """Steps that must run right before this one."""
        found = {id(w): w for w in (self.writer.get(b) for b in step.reads()) if w is not None}
        for buffer in step.reads() & self.many_writers:
            found.update({id(s): s for s in self.writers[buffer] if _alive(s)})
        if isinstance(step, Extern):
            earlier = self.externs.get(step.after)
            found.update({id(earlier): earlier} if earlier is not None else {})
        for buffer in step.writes() & self.mutated:  # an input is overwritten only after everything that reads it
            found.update({id(s): s for s in self.all_readers.get(buffer, ()) if _alive(s)})
        if step.writes() & self.mutated:
            found.update({id(s): s for s in self.order if _alive(s) and may_refuse(s)})
        found.pop(id(step), None)
        return found.values()


def _alive(step: Group | Opaque) -> bool:
    return not isinstance(step, Group) or step.alive


def renamed(nest: Nest) -> Nest:
    """Axes with names of their own, so that two nests never share one by accident."""
    mapping: dict[Axis, Index] = {}
    axes = []
    for axis in nest.axes:
        new = fresh_axis(axis.extent, "i")
        mapping[axis] = of_atom(new)
        axes.append(new)
    for axis in nest.reduced:
        mapping[axis] = of_atom(fresh_axis(axis.extent, "r"))
    return nest.substitute({a: i for a, i in mapping.items() if not is_one(a.extent)}, tuple(a for a in axes if not is_one(a.extent)))


class Fitter:
    """Expresses the members of one group in the shared loops of another."""

    def __init__(self, base: Group, other: Group, mutated: set[str]) -> None:
        self.mutated = mutated
        self.outer = base.outer
        self.placed = list(base.members)
        self.waiting = list(other.members)
        self.is_pointwise = not base.has_reduction and not other.has_reduction

    def run(self) -> Group:
        progress = True
        while self.waiting and progress:
            progress = False
            for nest in list(self.waiting):
                if self.place(nest):
                    self.waiting.remove(nest)
                    progress = True
        if self.waiting:
            raise Refused("no common outer loops")
        members = order_members(self.placed, self.mutated)
        check_local(self.outer, members, self.mutated)
        return Group(self.outer, members)

    def place(self, nest: Nest) -> bool:
        if not self.outer:
            if nest.axes and (nest.reduced or nest.scanned):
                return False
            self.placed.append(nest)
            return True
        for there, here in self.anchors(nest):
            scanned = tuple(a for a in nest.axes if a in nest.scanned)  # walked in order, so never shared out
            alignment = align(self.outer, there, [a for a in nest.axes if a not in scanned], here)
            if alignment is None:
                continue
            outer = tuple(o for old in self.outer for o in _replacement(old, alignment.outer_map))
            axes = tuple(dict.fromkeys([*outer, *(a for index in alignment.nest_map.values() for a in _axes_in_order(index)), *scanned]))
            if len(axes) != len(outer) and (self.is_pointwise or nest.reduced):
                continue  # left-over loops of pointwise groups and reductions would need accumulators per element
            if scanned and len(axes) != len(outer) + len(scanned):
                continue  # as would those of a scan
            if alignment.outer_map:
                self.placed = [m.substitute(alignment.outer_map, _expand(m.axes, alignment.outer_map)) for m in self.placed]
            self.outer = outer
            self.placed.append(nest.substitute(alignment.nest_map, axes))
            return True
        return False

    def anchors(self, nest: Nest) -> Iterable[tuple[Index, Index]]:
        """Pairs of accesses to one buffer, stores of the placed members first."""
        mine: dict[str, list[Index]] = {}
        for buffer, index, _ in _accesses(nest):
            mine.setdefault(buffer, []).append(index)
        for by_store in (True, False):
            for member in self.placed:
                for buffer, index, is_store in _accesses(member):
                    if is_store == by_store:
                        yield from ((index, other) for other in mine.get(buffer, ()))


def why_fused(first: Group, second: Group) -> str:
    """What two groups save by sharing their loops."""
    passed = sorted((first.writes() & second.reads()) | (second.writes() & first.reads()))
    if passed:
        return f"{', '.join(passed)} {'is' if len(passed) == 1 else 'are'} read where written"
    return f"both read {', '.join(sorted(first.reads() & second.reads()))}"


def _accesses(nest: Nest) -> list[tuple[str, Index, bool]]:
    found = [(s.buffer, s.index, True) for s in nest.stores]
    found += [(e.attr[0], e.attr[1], False) for e in nest.loads() if not e.args]
    return found


def _axes_in_order(index: Index) -> list[Axis]:
    return [a for a, _ in sorted(index.terms, key=lambda t: -t[1]) if isinstance(a, Axis)]


def _replacement(axis: Axis, mapping: object) -> list[Axis]:
    assert isinstance(mapping, dict)
    return _axes_in_order(mapping[axis]) if axis in mapping else [axis]


def _expand(axes: Sequence[Axis], mapping: object) -> tuple[Axis, ...]:
    return tuple(n for a in axes for n in _replacement(a, mapping))


def order_members(members: Sequence[Nest], mutated: set[str]) -> list[Nest]:
    """Producers before consumers, what overwrites an input after the others that read it where it can, otherwise in the given order."""
    writer = {b: m.name for m in members for b in m.writes() if b not in mutated}
    placed: dict[str, Nest] = {}
    waiting = list(members)
    while waiting:
        ready = [m for m in waiting if all(writer.get(b, m.name) in placed or writer.get(b, m.name) == m.name for b in m.reads())]
        if not ready:
            raise Refused("members depend on each other in a circle")
        ready = [m for m in ready if not any(m.writes() & mutated & other.reads() for other in waiting if other is not m)] or ready
        placed.update({m.name: m for m in ready})
        waiting = [m for m in waiting if m.name not in placed]
    return list(placed.values())


def check_write_back(group: Group, mutated: set[str], memory: Memory) -> None:
    """Members may read an input that another member overwrites only at the very point where it does, and reductions only before that."""
    for k, member in enumerate(group.members):
        for store in (s for s in member.stores if s.buffer in mutated):
            read = [(i, e) for i, m in enumerate(group.members) for e in m.loads() if store.buffer in memory.of(e.attr[0])]
            is_early = not group.has_reduction or (member.axes == group.outer and all(i <= k for i, _ in read))
            if read and not (is_early and all(is_harmless(e, store, memory) for _, e in read)):
                raise Refused(f"{store.buffer} is read elsewhere than where it is overwritten")


def check_local(outer: Sequence[Axis], members: Sequence[Nest], mutated: set[str]) -> None:
    """Every value passed between members stays within one iteration of the shared loops."""
    written = {s.buffer: s.index for m in members for s in m.stores if s.buffer not in mutated}
    for member in members:
        own = member.writes()
        for load in member.loads():
            buffer, index = load.attr
            if buffer in written and buffer not in own:
                if load.args:
                    raise Refused("an indirect read needs the whole buffer")
                if not through("local", is_local(written[buffer], index, outer), member):
                    raise Refused(f"{buffer} is read across iterations")


def filled_where_scattered(first: Group, second: Group, mutated: set[str], limits: Limits) -> Group:
    """What fills a buffer and what is scattered onto it, where loops of the scatter keep to a piece each that stays near."""
    (fill, *more), (scatter, *others) = first.members, second.members
    outer = loops_apart(scatter)
    plain = fill.is_pointwise and fill.has_plain_stores and len(fill.stores) == 1
    if more or others or not outer or not plain or fill.writes() != scatter.writes() or fill.writes() & mutated:
        raise Refused("scatters keep their own loops")
    (base,), targets = fill.stores, [s.index for s in scatter.stores]
    alignment = align(outer, targets[0], fill.axes, base.index)
    if alignment is None or alignment.outer_map or any(t.coef(a) == 1 for t in targets for a in outer):
        raise Refused("the scatter does not go piece by piece through what it adds to")
    inner = dict.fromkeys(a for index in alignment.nest_map.values() for a in _axes_in_order(index) if a not in outer)
    piece = fill.substitute(alignment.nest_map, (*outer, *inner))
    if not all(is_local(piece.stores[0].index, t, outer) for t in targets):
        raise Refused(f"{base.buffer} is scattered to across iterations")
    iterations, points = volume(a.extent for a in outer), hint(fill.points)
    if points > iterations * limits.piece or (iterations < limits.few_iterations and points > limits.small_work):
        raise Refused("the pieces are too large, or too few to keep all threads busy")
    return Group(outer, [piece, scatter])


def check_profit(merged: Group, limits: Limits) -> None:
    """Refuse fusions that cost more parallelism or locality than they save."""
    iterations = volume(a.extent for a in merged.outer)
    walked = [(e.attr[1], m.reduced) for m in merged.members if m.reduced for e in m.loads()]
    is_column = any(i.coef(merged.outer[-1]) == 1 and i.axes & frozenset(reduced) for i, reduced in walked if merged.outer)
    if is_kept(merged, limits, is_column=is_column):
        return  # no iteration takes longer than to read once what it works on
    if is_column:
        iterations //= limits.columns
    if iterations < limits.few_iterations and merged.has_reduction and merged.points > limits.small_work:
        pointwise_inner = any(m.is_pointwise and m.points > limits.small_work for m in merged.members)
        if pointwise_inner:
            raise Refused("too few shared iterations to keep all threads busy")


def is_kept(group: Group, limits: Limits, *, is_column: bool) -> bool:
    """Whether an iteration keeps all that its loops walk: a row, or what lies below a few results side by side."""
    beside, most = (limits.narrow, limits.below) if is_column else (1, limits.row)
    longest = max(hint(m.points) for m in group.members) // max(hint(volume(a.extent for a in group.outer)), 1)
    reads = len({e.attr[0] for m in group.members for e in m.loads() if e.attr[1].axes - frozenset(group.outer)})
    elements = beside << max(longest - 1, 0).bit_length()
    return elements <= most and elements * reads <= most * limits.kept_buffers
