"""The verifier of schedules: no kernel reads what it, or an earlier step, has overwritten, none shares out what is walked in order, and
nothing fills what was scattered to.

Memory is written over in two ways: an input gets its new value, and a result takes the memory of a value that dies (`Kernel.over`).
Either way, old values are read before, in steps and stages that come earlier, or at the very point that stores over them.
"""

from __future__ import annotations

from collections.abc import Iterator

from inductor.ir.expr import Expr
from inductor.ir.nest import Extern, Nest, Program, Store
from inductor.ir.overwrites import Memory
from inductor.ir.text import print_nest
from inductor.ir.verify import VerifyError
from inductor.schedule.domain import is_local
from inductor.schedule.kernel import Kernel
from inductor.schedule.order import numbers_of
from inductor.schedule.plan import Plan
from inductor.schedule.reuse import footprint, touched


def verify_plan(plan: Plan) -> None:
    """Check the steps in the order in which they will run."""
    program = plan.program
    memory = Memory(s for s in plan.steps if isinstance(s, Extern))
    gone: dict[str, str] = {}
    for step in plan.steps:
        for buffer in touched(step):
            for base in memory.of(buffer):
                if base in gone:
                    raise VerifyError(f"after schedule: {step.name} reads {base} after {gone[base]} has written over it")
        if isinstance(step, Kernel) and not step.is_batch:
            _check_kernel(step, program, memory)
        if isinstance(step, Kernel):
            gone.update(dict.fromkeys(frozenset(step.writes) & program.mutated, step.name))
            gone.update(dict.fromkeys(step.over.values(), step.name))
    _check_order(plan)


def _check_order(plan: Plan) -> None:
    """What is stored onto earlier values, as a scatter is, comes where the program has it among the writes to its buffer."""
    numbers = numbers_of(plan.program)
    writes: dict[str, list[tuple[int, int, int, Nest, Store]]] = {}
    for at, step in enumerate(plan.steps):
        for stage, nest, store in _stores(step) if isinstance(step, Kernel) and not step.is_batch else ():
            writes.setdefault(store.buffer, []).append((numbers[nest.name], at, stage, nest, store))
    for found in writes.values():
        for number, at, stage, nest, store in found:
            for other, at_other, stage_other, filler, fill in found if store.buffer in nest.reads() else ():
                is_early, is_late = (at_other, stage_other) < (at, stage), (at_other, stage_other) > (at, stage)
                if (other < number and not is_early) or (other > number and not is_late):
                    raise VerifyError(
                        f"after schedule: {nest.name} stores onto {store.buffer}, which {filler.name} writes "
                        f"{'no earlier' if other < number else 'no later'}\n{print_nest(filler)}\n{print_nest(nest)}"
                    )
                step = plan.steps[at]
                assert isinstance(step, Kernel)
                if at == at_other and other != number and not is_local(fill.index, store.index, step.outer):
                    raise VerifyError(f"after schedule: {step.name}: {nest.name} stores onto {store.buffer} across iterations")


def _check_kernel(kernel: Kernel, program: Program, memory: Memory) -> None:
    for _, nest, _ in _stores(kernel):
        for axis in nest.scanned.intersection(kernel.outer):
            raise VerifyError(f"after schedule: {kernel.name} shares out {axis.name}, along which {nest.name} scans")
    for at, nest, store in _stores(kernel):
        for old in _old_values(kernel, store.buffer, program):
            for k, reader, load in _loads(kernel):
                if old in memory.of(load.attr[0]) and not _is_before(kernel, (k, load), (at, store)):
                    raise VerifyError(
                        f"after schedule: {kernel.name}: {reader.name} reads {load.attr[0]} where {nest.name} may have written over it"
                        f"\n{print_nest(reader)}\n{print_nest(nest)}"
                    )


def _old_values(kernel: Kernel, buffer: str, program: Program) -> Iterator[str]:
    """What a store to the buffer destroys."""
    if buffer in program.mutated:
        yield buffer
    while buffer in kernel.over:
        buffer = kernel.over[buffer]
        yield buffer


def _stores(kernel: Kernel) -> Iterator[tuple[int, Nest, Store]]:
    for at, stage in enumerate(kernel.stages):
        for nest in stage.members:
            for store in nest.stores:
                yield at, nest, store


def _loads(kernel: Kernel) -> Iterator[tuple[int, Nest, Expr]]:
    for at, stage in enumerate(kernel.stages):
        for nest in stage.members:
            for load in nest.loads():
                yield at, nest, load


def _is_before(kernel: Kernel, read: tuple[int, Expr], write: tuple[int, Store]) -> bool:
    (k, load), (at, store) = read, write
    index = load.attr[1]
    if k < at and not kernel.outer:  # one iteration, which runs its stages in order
        return True
    if k > at or load.args or store.indirect:
        return False
    if index is store.index:
        return True
    return k < at and index.is_affine and store.index.is_affine and footprint(index, kernel.outer) == footprint(store.index, kernel.outer)
