"""Writes over memory that is still to be read.

An input that a program changes is the one buffer whose old and new value have the same name. Every step that reads it means the old
value, so it must run before the step that overwrites it; and the step that overwrites it may read, at each of its points, only the
element that it stores there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from inductor.ir.aliasing import may_alias
from inductor.ir.expr import Expr
from inductor.ir.nest import Extern, Nest, Program, Step, Store


class Reads(Protocol):
    def reads(self) -> frozenset[str]: ...


class Memory:
    """Whose memory a buffer may have: its own, and that of the arguments of the calls that made it."""

    def __init__(self, steps: Iterable[object] = ()) -> None:
        self.bases: dict[str, frozenset[str]] = {}
        for step in steps:
            if isinstance(step, Extern):
                self.add(step)

    def add(self, step: Extern) -> None:
        """The next call of the program."""
        if may_alias(step):
            bases = frozenset().union(*(self.of(b) for b in step.reads()))
            self.bases.update({out: bases | {out} for out in step.writes()})

    def of(self, buffer: str) -> frozenset[str]:
        return self.bases.get(buffer, frozenset((buffer,)))

    def read_by(self, step: Reads) -> frozenset[str]:
        """Buffers whose memory the step reads."""
        reads = step.reads()
        return reads if not self.bases else reads.union(*(self.of(b) for b in reads))


def is_harmless(load: Expr, store: Store, memory: Memory) -> bool:
    """The load does not see what the store leaves at other points of the loops."""
    buffer, index = load.attr
    if store.buffer not in memory.of(buffer):
        return True
    return buffer == store.buffer and index is store.index and not load.args and not store.indirect


def reads_elsewhere(nest: Nest, memory: Memory, buffers: Iterable[str] | None = None) -> str | None:
    """A buffer (of `buffers`; None: any) that the nest stores to and reads at another place than where it stores."""
    stores = [s for s in nest.stores if buffers is None or s.buffer in buffers]
    if stores:
        for load in nest.loads():
            for store in stores:
                if not is_harmless(load, store, memory):
                    return store.buffer
    return None


def must_precede(steps: Sequence[Step], mutated: Iterable[str]) -> list[set[int]]:
    """For every step, the steps that overwrite what it reads."""
    memory, mutated = Memory(steps), frozenset(mutated)
    writers: dict[str, list[int]] = {}
    for i, step in enumerate(steps):
        for buffer in step.writes() & mutated:
            writers.setdefault(buffer, []).append(i)
    return [{w for b in memory.read_by(step) & mutated for w in writers.get(b, ())} - {i} for i, step in enumerate(steps)]


def put_writes_last(program: Program) -> None:
    """Move steps that read the old value of an input before the one that overwrites it; all others stay in their order."""
    if not program.mutated:
        return
    steps = program.steps
    before = must_precede(steps, program.mutated)
    if not any(w < i for i, found in enumerate(before) for w in found):
        return
    needs: list[set[int]] = [set() for _ in steps]
    made: dict[str, set[int]] = {}
    named: dict[str, int] = {}
    for i, step in enumerate(steps):
        needs[i] |= {w for b in step.reads() | step.writes() if b not in program.mutated for w in made.get(b, ())}
        for buffer in step.writes():
            made.setdefault(buffer, set()).add(i)
        if isinstance(step, Extern):
            needs[i] |= {named[step.after]} if step.after in named else set()
            named[step.name] = i
        for late in before[i]:
            needs[late].add(i)
        needs[i].discard(i)
    _follow(program, needs)


def _follow(program: Program, needs: Sequence[set[int]]) -> None:
    """Put the steps in an order in which what each needs comes first. A circle leaves them as they are, for the verifier to show."""
    placed: dict[int, None] = {}
    waiting: dict[int, None] = {}

    def place(i: int) -> bool:
        if i in placed:
            return True
        if i in waiting:
            return False
        waiting[i] = None
        if not all(place(n) for n in sorted(needs[i])):
            return False
        del waiting[i]
        placed[i] = None
        return True

    if all(place(i) for i in range(len(program.steps))):
        program.steps = [program.steps[i] for i in placed]


class WriteBacks:
    """Which of the steps that overwrite inputs must run before which, while the reads of nests still change."""

    def __init__(self, program: Program) -> None:
        self.mutated = frozenset(program.mutated)
        self.memory = Memory(program.steps)
        self.owner = {b: step.name for step in program.steps for b in step.writes() & self.mutated}
        owners = frozenset(self.owner.values())
        self.reads = {step.name: self.read_by(step) for step in program.steps if step.name in owners}

    def read_by(self, step: Reads) -> frozenset[str]:
        return self.memory.read_by(step) & self.mutated

    def owns(self, nest: Nest) -> bool:
        return nest.name in self.reads

    def allows(self, nest: Nest) -> bool:
        """With the reads it has now the nest can run: it sees nothing that it overwrites, and some order suits all such steps."""
        found = self.read_by(nest) if self.owns(nest) else frozenset()
        if not found:
            return True
        if reads_elsewhere(nest, self.memory, self.mutated) is not None:
            return False
        todo, seen = [b for b in found if self.owner[b] != nest.name], {nest.name}
        while todo:  # what overwrites these must run later, and what overwrites that step's reads later still
            name = self.owner[todo.pop()]
            if name not in seen:
                seen.add(name)
                if any(self.owner[b] == nest.name for b in self.reads[name]):
                    return False
                todo += self.reads[name]
        return True

    def replace(self, nest: Nest) -> None:
        """The nest as it is from now on."""
        if self.owns(nest):
            self.reads[nest.name] = self.read_by(nest)


def read_too_late(steps: Sequence[Step], mutated: Iterable[str]) -> tuple[Step, str] | None:
    """A step that reads an input which an earlier one has overwritten, or which it overwrites itself at other points of its loops."""
    memory, mutated, gone = Memory(steps), frozenset(mutated), set[str]()
    for step in steps:
        for buffer in sorted(memory.read_by(step) & gone):
            return step, buffer
        for nest in (step,) if isinstance(step, Nest) else ():
            own = reads_elsewhere(nest, memory)
            if own is not None:
                return step, own
        gone |= step.writes() & mutated
    return None
