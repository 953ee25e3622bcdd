"""Replace loads of a cheap or single-use pointwise producer by the expression it would have stored.

In: nests in topological order, one per op. Out: the same program with fewer buffers. Each consumer point still computes
the value that the producer stored, so only cost decides; `decide("inline", ...)` can refuse any of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from dynamo.decisions import decide, refuse
from dynamo.faults import through
from dynamo.ops.facts import acts
from inductor.ir.affine import Axis, Index
from inductor.ir.dims import Dim, at_least, is_known, is_one, known_equal, volume
from inductor.ir.expr import Expr, kept, rewrite, walk
from inductor.ir.expr import load as load_at
from inductor.ir.nest import Batch, Extern, Nest, Program, Step, views_of
from inductor.ir.ops import OPS
from inductor.ir.overwrites import WriteBacks, put_writes_last
from inductor.schedule.limits import Limits

CHEAP = 6  # arithmetic that costs less than storing and reading back one element
BROADCAST_CHEAP = 2  # the same where every value would be computed many times, and is computed here
GIVEN = 1 << 13  # values that stay near while they are computed at every read
MAX_NODES = 400  # a bigger expression spills registers and compiles slowly


def invert(nest: Nest, address: Index) -> Mapping[Axis, Index] | None:
    """Values of the nest's axes that store to `address`; None when its store is not one digit per axis."""
    store = nest.stores[0].index
    if not store.is_affine:
        return None
    digits = sorted(((coef, atom) for atom, coef in store.terms if isinstance(atom, Axis)), key=lambda t: -t[0])
    rest, found = address - store.const, {}
    limit: Dim | None = None
    for coef, axis in digits:
        if coef <= 0 or (limit is not None and not (is_known(axis.extent) and at_least(limit, coef * axis.extent))):
            return None
        quotient = rest // coef
        found[axis] = quotient if limit is None else quotient % (limit // coef)
        limit = coef
    live = [a for a in nest.axes if not is_one(a.extent)]
    return found if len(found) == len(live) and (limit in (None, 1)) else None


def arithmetic(nest: Nest) -> int:
    return sum(OPS[e.op].cost for e in nest.exprs() if e.op in OPS)


def wide_loads(nest: Nest) -> list[str]:
    """Buffers of the loads that touch about as many elements as the nest has points."""
    found = []
    for node in nest.loads():
        reach = volume(axis.extent for axis in node.attr[1].axes)
        if reach * 4 >= nest.points:
            found.append(node.attr[0])
    return found


class Inliner:
    def __init__(self, program: Program, limits: Limits) -> None:
        self.program, self.limits = program, limits
        self.nests = {s.name: s for s in program.steps if isinstance(s, Nest)}
        self.writers: dict[str, list[str]] = {}
        self.uses: Counter[str] = Counter()
        self.inlined: set[str] = set()
        self.readers: dict[str, list[str]] = {}
        self.pinned = {v.buffer for v in views_of(program.outputs)}
        self.write_backs = WriteBacks(program)
        for step in program.steps:
            if isinstance(step, Nest):
                self.uses.update(step.reads())
                for buffer in step.reads():
                    self.readers.setdefault(buffer, []).append(step.name)
            else:
                self.pinned |= step.reads()
            for buffer in step.writes():
                self.writers.setdefault(buffer, []).append(step.name)

    def producer(self, buffer: str) -> Nest | None:
        """The one pointwise nest that fills a temporary, if that is how the buffer is made."""
        names = self.writers.get(buffer, [])
        nest = self.nests.get(names[0]) if len(names) == 1 else None
        if nest is None or self.program.buffers[buffer].kind != "temp":
            return None
        return nest if len(nest.stores) == 1 and nest.has_plain_stores and nest.is_pointwise else None

    def wanted(self, producer: Nest, consumer: Nest, load: Expr) -> bool:
        """Is recomputing at this load cheaper than going through memory?"""
        work, buffer = arithmetic(producer), load.attr[0]
        wide = len(wide_loads(producer))
        if wide == 0 and work <= CHEAP and not any(True for _ in producer.loads()):
            return True
        if buffer in self.pinned:
            return False
        taps = sum(1 for e in consumer.loads() if e.attr[0] == buffer)
        if consumer.points * taps > producer.points * (1 if work > CHEAP else 2):
            return (work <= BROADCAST_CHEAP and wide <= 1) or (work <= self.limits.again and self.is_given(producer))
        return self.uses[buffer] == 1 or (work <= CHEAP and (wide <= 1 or self.shares(producer, buffer)))

    def is_given(self, producer: Nest) -> bool:
        """The producer reads a little of what the program is given: nothing that is computed here could make its value on the way."""
        return producer.points <= GIVEN and all(self.program.buffers[b].kind in ("input", "const") for b in producer.reads())

    def shares(self, producer: Nest, buffer: str) -> bool:
        """Reading the producer's operands again costs little more than the buffer, as its readers need them anyway.

        Kept, the buffer is written once (which reads it too) and read by everyone; inlined, all read its operands.
        """
        operands, extra = wide_loads(producer), 0
        for reader in self.readers.get(buffer, ()):
            nest = self.nests[reader]
            near = [self.producer(b) for b in nest.reads() if b != buffer]
            known = nest.reads().union(*(p.reads() for p in near if p is not None))
            extra += sum(1 for b in operands if b not in known)
        return extra <= self.uses[buffer] + 1

    def run(self) -> None:
        for step in list(self.program.steps):
            if isinstance(step, Nest):
                self.nests[step.name] = self.rewrite(step)
        self.program.steps = [self.nests[s.name] if isinstance(s, Nest) else s for s in self.program.steps]

    def rewrite(self, nest: Nest) -> Nest:
        size = sum(1 for _ in nest.exprs())
        replacements: dict[Expr, Expr] = {}
        for load in list(nest.loads()):
            producer = self.producer(load.attr[0])
            if producer is None:
                continue
            what, again = f"{_label(producer)} into {_label(nest)}", arithmetic(producer)
            if not self.wanted(producer, nest, load):
                refuse("inline", what, f"computing it at every read costs {again}, keeping {load.attr[0]} less")
                continue
            size += sum(1 for _ in producer.exprs())
            mapping = invert(producer, load.attr[1])
            if mapping is None or size > MAX_NODES:
                refuse("inline", what, "the store can't be inverted" if mapping is None else f"the expression would pass {MAX_NODES} nodes")
                continue
            if load.args and not follows_indirection(producer, mapping):
                refuse("inline", what, "an indirect read needs the whole buffer")
                continue
            value = producer.stores[0].substitute(mapping, {}).value
            value = indirect(value, load.args) if load.args else value
            if loses_checks(producer, mapping, load.args, value):
                refuse("inline", what, "an index would no longer be checked")
                continue
            if producer.checks and nest.writes() & self.program.mutated:
                refuse("inline", what, "an input is written only once no index can be refused any more")
                continue
            if self.write_backs.owns(nest) and not self.write_backs.allows(with_values(nest, {**replacements, load: value})):
                refuse("inline", what, "an input would be read after it is overwritten")
                continue
            if decide("inline", what, f"computing it here costs {again}, less than storing and reading back {load.attr[0]}"):
                replacements[load] = through("inline", value, producer, nest)
                self.inlined.add(producer.name)
        if not replacements:
            return nest
        used = [self.producer(load.attr[0]) for load in replacements]
        origins = tuple(dict.fromkeys(o for p in used if p is not None for o in p.origins))
        new = with_values(nest, replacements)
        self.write_backs.replace(new)
        return replace(new, origins=origins + tuple(o for o in nest.origins if o not in origins))


def with_values(nest: Nest, values: Mapping[Expr, Expr]) -> Nest:
    """The nest with expressions in place of loads."""
    return nest.rewrite(kept, dict(values))


def is_indirect(index: Index) -> bool:
    return any(a.name.startswith("$") for a in index.axes)


def follows_indirection(producer: Nest, mapping: Mapping[Axis, Index]) -> bool:
    """The producer uses the axes that become indirect in plain loads only, so that one element of it can be computed alone."""
    moved = {a for a, index in mapping.items() if is_indirect(index)}
    return all(not e.args if e.op == "load" else e.op != "index" or not e.attr.axes & moved for e in producer.exprs())


def indirect(value: Expr, places: tuple[Expr, ...]) -> Expr:
    """A producer's expression whose loads at `$k` take their place from the indices of the load it replaces."""

    def change(node: Expr, args: tuple[Expr, ...]) -> Expr:
        if node.op == "load" and is_indirect(node.attr[1]):
            return load_at(node.attr[0], node.type, node.attr[1], places)
        return kept(node, args)

    return rewrite((value,), change)[0]


def has_check(expr: Expr) -> bool:
    return any(e.op == "check" for e in walk(expr))


def loses_checks(producer: Nest, mapping: Mapping[Axis, Index], args: tuple[Expr, ...], value: Expr) -> bool:
    """Would an index that the program asks for go unchecked, once the producer's `value` stands where it was read?

    Either the producer checks and is not read everywhere, or it is read at checked places that its value does not depend on.
    """
    checked = [a for a in args if has_check(a)]
    if checked:
        inside = set(walk(value))
        if not all(a in inside for a in checked):
            return True
    if not producer.checks:
        return False
    whole = [index.terms[0][0] for axis, index in mapping.items() if is_whole(index, axis)]
    return len(whole) < len(mapping) or len(set(whole)) < len(whole)


def is_whole(index: Index, axis: Axis) -> bool:
    """Does the index run over all places of the axis, as one loop does?"""
    if len(index.terms) != 1:
        return is_one(axis.extent)
    ((atom, coef),) = index.terms
    return isinstance(atom, Axis) and not atom.name.startswith("$") and known_equal(atom.extent, axis.extent) and abs(coef) == 1


def does_more(step: Step) -> bool:
    """Has the step an effect besides its results, or does it check what the program wants checked?"""
    if isinstance(step, Extern):
        return acts(step.target) or step.may_raise or not step.writes()
    return (step.nest if isinstance(step, Batch) else step).checks


def _label(nest: Nest) -> str:
    return f"{nest.name}:{nest.origins[-1].op if nest.origins else '?'}"


def inline(program: Program, limits: Limits) -> None:
    """Inline producers, then drop nests whose result nothing reads. Reads of inputs move with it, and writes to them go after."""
    inliner = Inliner(program, limits)
    inliner.run()
    drop_dead(program, inliner.inlined)
    put_writes_last(program)


def drop_dead(program: Program, inlined: Collection[str] = ()) -> None:
    """Remove steps none of whose results are used and that do nothing besides. The checks of a nest that was inlined are elsewhere."""
    live = {v.buffer for v in views_of(program.outputs)}
    live |= {b.name for b in program.buffers.values() if b.kind in ("input", "const")}
    left = []
    for step in reversed(program.steps):
        writes = step.writes()
        if writes & live or (does_more(step) and getattr(step, "name", "") not in inlined):
            left.append(step)
            live |= step.reads()
    program.steps = left[::-1]
    named = set(live).union(*(s.writes() for s in program.steps)) if program.steps else set(live)
    program.buffers = {k: b for k, b in program.buffers.items() if k in named or b.kind in ("input", "object")}
