"""The verifier: what every program must satisfy at a stage boundary. A failure prints the nest around the bad node."""

from __future__ import annotations

from inductor.ir.affine import Axis, Index
from inductor.ir.dims import at_least, dim_text, is_empty
from inductor.ir.expr import Expr
from inductor.ir.nest import Batch, Buffer, Nest, Program, Store, views_of
from inductor.ir.ops import OPS, REDUCTIONS
from inductor.ir.overwrites import read_too_late
from inductor.ir.text import print_nest
from inductor.ir.types import TYPES


class VerifyError(AssertionError):
    """The IR is malformed: a defect of the stage named in the message."""


class _Checker:
    def __init__(self, stage: str, buffers: dict[str, Buffer], nest: Nest) -> None:
        self.stage, self.buffers, self.nest = stage, buffers, nest
        self.is_empty = any(is_empty(a.extent) for a in nest.axes + nest.reduced)

    def fail(self, what: str) -> None:
        raise VerifyError(f"after {self.stage}: {self.nest.name}: {what}\n{print_nest(self.nest)}")

    def access(self, name: str, index: Index, indirect: tuple[Expr, ...], scope: frozenset[Axis]) -> None:
        if name not in self.buffers:
            self.fail(f"unknown buffer {name}")
        free = frozenset(a for a in index.axes if not a.name.startswith("$"))
        if not free <= scope:
            self.fail(f"{name}[{index}] uses axes that no loop declares: {sorted(a.name for a in free - scope)}")
        numbers = {int(a.name[1:]) for a in index.axes if a.name.startswith("$")}
        if numbers and max(numbers) >= len(indirect):
            self.fail(f"{name}[{index}] has {len(indirect)} indirect values")
        if any(e.type != "i64" for e in indirect):
            self.fail(f"{name}[{index}] has an indirect index that is not i64")

    def bounds(self, name: str, index: Index, is_masked: bool) -> None:
        if self.is_empty or is_masked:
            return
        low, high = index.bounds
        if low < 0 or high >= max(self.buffers[name].size, 1):
            self.fail(f"{name}[{index}] reaches {low}..{high}, outside 0..{self.buffers[name].size - 1}")

    def expr(self, node: Expr, scope: frozenset[Axis], is_masked: bool) -> None:
        if node.op in OPS:
            row = OPS[node.op]
            operands = node.args[1:] if node.op == "where" else node.args
            if len(node.args) != row.arity or any(a.type != operands[0].type for a in operands):
                self.fail(f"{node.op}: operand types {[a.type for a in node.args]}")
            if TYPES[operands[0].type].compute != operands[0].type:
                self.fail(f"{node.op} computes in the storage type {operands[0].type}")
        elif node.op == "load":
            name, index = node.attr
            self.access(name, index, node.args, scope)
            if self.buffers[name].type != node.type:
                self.fail(f"load of {name} as {node.type}, which is {self.buffers[name].type}")
            self.bounds(name, index, is_masked)
        elif node.op == "reduce":
            kind, axes, output = node.attr
            if output >= REDUCTIONS[kind] or not axes:
                self.fail(f"reduce {kind}.{output} over {axes}")

    def store(self, store: Store, scope: frozenset[Axis]) -> None:
        self.access(store.buffer, store.index, store.indirect, scope)
        if store.value.type != self.buffers[store.buffer].type:
            self.fail(f"store of {store.value.type} into {store.buffer}, which is {self.buffers[store.buffer].type}")
        self.bounds(store.buffer, store.index, is_masked=False)


def verify_nest(nest: Nest, buffers: dict[str, Buffer], stage: str) -> None:
    """Check one nest: axes declared, types agree, accesses in bounds (masked ones excepted)."""
    checker = _Checker(stage, buffers, nest)
    for walked in ((), *(node.attr[1] for node in nest.exprs() if node.op == "reduce")):
        names = [a.name for a in (*nest.axes, *walked)]
        if len(set(names)) != len(names):
            checker.fail("an axis is declared twice")
    scope = frozenset(nest.axes) | frozenset(nest.reduced)
    guarded = {e for m in nest.exprs() if m.op == "masked" for e in _below(m.args[1])}
    for node in nest.exprs():
        checker.expr(node, scope, node in guarded)
    for store in nest.stores:
        checker.store(store, frozenset(nest.axes))


def _below(root: Expr) -> set[Expr]:
    found, todo = set(), [root]
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo.extend(node.args)
    return found


def verify_batch(batch: Batch, buffers: dict[str, Buffer], stage: str) -> None:
    """Check the nest over the first row, and that every other row has the same types and room for its own extent."""
    first, nest = batch.rows[0], batch.nest
    checker = _Checker(stage, buffers, nest)
    if len(nest.axes) > 1 or len(batch.extents) != len(batch.rows) or not nest.is_pointwise or not nest.has_plain_stores:
        checker.fail("not a nest that can be run row by row")
    written = [buffer for row in batch.rows for k, buffer in enumerate(row) if first[k] in nest.writes()]
    if len(set(written)) != len(written):
        checker.fail("two rows write one buffer")
    per_row = {first.index(load.attr[0]) for load in nest.loads() if load.attr[1].axes}
    per_row |= {first.index(s.buffer) for s in nest.stores if s.index.axes}
    for row, extent in zip(batch.rows, batch.extents, strict=True):
        if [buffers[b].type for b in row] != [buffers[b].type for b in first]:
            checker.fail(f"row {row} has other types than row {first}")
        if not all(at_least(buffers[row[k]].size, extent) for k in per_row):
            checker.fail(f"row {row} has buffers with less than {dim_text(extent)} elements")
        if len(batch.rows) > 1 and {b for k, b in enumerate(row) if first[k] not in nest.writes()} & set(written):
            checker.fail(f"row {row} reads what another row writes")
    verify_nest(nest, buffers, stage)


def verify(program: Program, stage: str) -> None:
    """Check a whole program: every buffer is written before it is read, none after it is overwritten, and every nest is well formed."""
    written = {b.name for b in program.buffers.values() if b.kind in ("input", "const")}
    for step in program.steps:
        missing = sorted((step.reads() - step.writes() if isinstance(step, Nest) else step.reads()) - written)
        if missing:
            raise VerifyError(f"after {stage}: {step.name} reads {missing} before anything writes them")
        if isinstance(step, Nest):
            verify_nest(step, program.buffers, stage)
        elif isinstance(step, Batch):
            verify_batch(step, program.buffers, stage)
        written |= step.writes()
    late = read_too_late(program.steps, program.mutated)
    if late is not None:
        step, buffer = late
        shown = f"\n{print_nest(step)}" if isinstance(step, Nest) else ""
        raise VerifyError(f"after {stage}: {step.name} reads {buffer} after it is overwritten{shown}")
    for view in views_of(program.outputs):
        if view.buffer not in written and program.buffers[view.buffer].size:
            raise VerifyError(f"after {stage}: output {view.buffer} is never written")
