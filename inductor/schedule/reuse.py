"""Results in place: a kernel writes over a value that nothing reads again, element by element as it reads it.

The result takes over the memory: one allocation less, and the cache lines written are those just read. The value may be one that an
earlier stage of the kernel made, too large for a tile. In: the steps of a plan, in order. Out: for every kernel the pairs (result,
value it is written over), in `Kernel.over`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dynamo.decisions import decide
from dynamo.faults import through
from inductor.ir.affine import Axis, Index
from inductor.ir.aliasing import held_by_others
from inductor.ir.dims import Dim, in_order
from inductor.ir.expr import Expr
from inductor.ir.nest import Extern, Nest, Program, Store
from inductor.schedule.kernel import Kernel
from inductor.schedule.stages import Stage


def touched(step: Kernel | Extern) -> tuple[str, ...]:
    """Every buffer that a step reads or writes, reads first."""
    return (*step.reads, *step.writes) if isinstance(step, Kernel) else (*step.reads(), *step.writes())


def write_in_place(steps: Sequence[Kernel | Extern], program: Program) -> None:
    """Choose the pairs of every kernel."""
    last = {buffer: i for i, step in enumerate(steps) for buffer in touched(step)}
    held = held_by_others(s for s in steps if isinstance(s, Extern))
    outputs = program.output_buffers()
    writers = Counter(b for step in steps for b in (step.writes if isinstance(step, Kernel) else step.writes()))

    def dies(buffer: str, at: int) -> bool:
        is_ours = program.buffers[buffer].kind in ("temp", "extern") and buffer not in outputs
        return is_ours and last[buffer] == at and buffer not in held

    for i, step in enumerate(steps):
        if not isinstance(step, Kernel) or not step.keeps_order:
            continue
        dying = [b for b in step.reads if dies(b, i)] + [b for b in step.writes if writers[b] == 1 and dies(b, i)]
        for result in by_stage(step):
            if program.buffers[result].kind != "temp" or result in held or writers[result] > 1:
                continue
            others = (b for b in dying if b != result)
            fitting = (b for b in others if alike(program, outputs, result, b))
            value = next((b for b in fitting if through("overwrite", dies_where_written(step, result, b), step)), None)
            if value is not None and decide("reuse", f"{step.name}: {result} over {value}", "nothing reads it again"):
                dying.remove(value)
                step.over[result] = value
        step.writes = (*(b for b in step.writes if b not in step.over), *step.over)  # memory is found in this order


def by_stage(kernel: Kernel) -> list[str]:
    """What a kernel writes, in the order in which it is made."""
    made = {s.buffer: k for k, stage in enumerate(kernel.stages) for m in stage.members for s in m.stores}
    return sorted(kernel.writes, key=lambda b: made[b])


def alike(program: Program, outputs: frozenset[str], result: str, value: str) -> bool:
    """One's memory does for the other. Results that are handed out are no views of something else, so they need the very layout."""
    a, b = program.buffers[result], program.buffers[value]
    if a.dtype != b.dtype or a.size != b.size:
        return False
    return a.is_laid_out_as(b) or result not in outputs


def dies_where_written(kernel: Kernel, result: str, value: str) -> bool:
    """Every element of `value` is read for the last time at the point of the loops, or in the outer iteration, that stores over it.

    Where the kernel makes the value itself, it does so in an earlier stage of that outer iteration.
    """
    stores = [(k, m, s) for k, stage in enumerate(kernel.stages) for m in stage.members for s in m.stores if s.buffer in (result, value)]
    if [s.buffer for _, _, s in stores].count(result) != 1:
        return False
    at, nest, store = next(found for found in stores if found[2].buffer == result)
    if not is_stored_per_point(nest, store, kernel.stages[at]):
        return False
    if not all(k < at and fills(s, store.index, kernel.outer) for k, _, s in stores if s is not store):
        return False
    for k, stage in enumerate(kernel.stages):
        loads = [e for m in stage.members for e in m.loads() if e.attr[0] == value]
        if loads and (k > at or not stage.is_plain):
            return False
        if not all(is_same_place(e, store.index, kernel.outer, in_body=k == at) for e in loads):
            return False
    return True


def is_stored_per_point(nest: Nest, store: Store, stage: Stage) -> bool:
    return nest.is_pointwise and store.mode == "set" and not store.indirect and store.index.is_affine and stage.is_plain


def fills(store: Store, target: Index, outer: Sequence[Axis]) -> bool:
    """Within an outer iteration the store sets the very elements that the target stands for."""
    is_plain = store.mode == "set" and not store.indirect and store.index.is_affine
    return is_plain and footprint(store.index, outer) == footprint(target, outer)


def is_same_place(load: Expr, target: Index, outer: Sequence[Axis], *, in_body: bool) -> bool:
    """The load reads the element that is stored at this point; in an earlier stage, one that is stored in this outer iteration."""
    index = load.attr[1]
    if load.args or not index.is_affine:
        return False
    return index == target or (not in_body and footprint(index, outer) == footprint(target, outer))


def footprint(index: Index, outer: Sequence[Axis]) -> tuple[Dim, list[Dim], list[tuple[Dim, Dim]]]:
    """What an affine access touches in one outer iteration, by (start, steps of the outer loops, steps and lengths of the others)."""
    inner = [(step, a.extent) for a, step in index.terms if isinstance(a, Axis) and a not in outer]
    return index.const, [index.coef(a) for a in outer], in_order(inner)
