"""Faults of memory, planted in kernels one at a time: in the loops that a kernel runs, and in the text that is printed of them.

A rule gives the faults of its kind in a kernel, each of which is one by construction: an access whose bounds leave the buffer, two
iterations that meet, an order in which something is read first. What a rule cannot be sure of it does not plant.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from inductor.ir.affine import Axis, Index, of_atom
from inductor.ir.dims import number
from inductor.ir.expr import Expr
from inductor.ir.interp import Access, Memory, NestRun, run_extern
from inductor.ir.nest import Buffer, Extern, Nest, Program, Store
from inductor.sanitizer.backend import Run, planned
from inductor.sanitizer.faults import LOOPS, PRINTED, Fault
from inductor.schedule.kernel import Kernel
from inductor.schedule.plan import Plan
from inductor.schedule.stages import Stage


@dataclass(frozen=True)
class Planted:
    """A kernel with a fault: its loops or its text are other ones, or the program's buffers are."""

    kind: str
    form: str
    kernel: Kernel
    text: str
    buffers: dict[str, Buffer]
    values: dict[str, torch.Tensor]  # of buffers, in the place of what they hold


Rule = Callable[["Subject"], Iterator[Planted]]
RULES: dict[str, Rule] = {}


def rule(form: str, kind: str) -> Callable[[Callable[..., Iterator[Any]]], Any]:
    """A function of a subject that gives changes, as a rule: its loops (stages), or its text."""

    def put(function: Callable[..., Iterator[Any]]) -> Any:
        def planted(subject: Subject) -> Iterator[Planted]:
            for change in function(subject):
                yield subject.planted(kind, form, change)

        RULES[kind] = planted
        return function

    return put


@dataclass
class Subject:
    """A kernel of a plan with its text ('' where there is no Triton form), before the memory it meets."""

    kernel: Kernel
    text: str
    program: Program
    memory: Memory

    def planted(self, kind: str, form: str, change: Any) -> Planted:
        kernel, text, buffers, values = self.kernel, self.text, self.program.buffers, {}
        if isinstance(change, tuple):
            change, values = change
        if isinstance(change, str):
            text = change
        elif isinstance(change, Buffer):
            buffers = {**buffers, change.name: change}
        else:
            kernel = with_stages(kernel, change)
        return Planted(kind, form, kernel, text, buffers, values)

    def size(self, buffer: str) -> int:
        return max(number(self.program.buffers[buffer].size), 1)

    def nests(self) -> Iterator[tuple[int, int, Nest]]:
        if not self.kernel.is_batch:
            for s, stage in enumerate(self.kernel.stages):
                for m, nest in enumerate(stage.members):
                    yield s, m, nest

    def stores(self) -> Iterator[tuple[int, int, int, Nest, Store]]:
        for s, m, nest in self.nests():
            for k, store in enumerate(nest.stores):
                yield s, m, k, nest, store

    def with_nest(self, s: int, m: int, nest: Nest) -> list[Stage]:
        stages = [copy.copy(stage) for stage in self.kernel.stages]
        stages[s].members = [*stages[s].members]
        stages[s].members[m] = nest
        return stages

    def with_store(self, s: int, m: int, k: int, nest: Nest, store: Store) -> list[Stage]:
        return self.with_nest(s, m, replace(nest, stores=(*nest.stores[:k], store, *nest.stores[k + 1 :])))

    def leaves(self, buffer: str, index: Index) -> bool:
        """Whether an access goes to every end of its bounds, and one of them is outside: so it is for sums of loops."""
        low, high = index.bounds
        return index.is_affine and (number(low) < 0 or number(high) >= self.size(buffer))


def with_stages(kernel: Kernel, stages: list[Stage]) -> Kernel:
    changed = copy.copy(kernel)
    changed.stages = stages
    return changed


# loops


@rule(LOOPS, "store one element further")
def store_further(subject: Subject) -> Iterator[Any]:
    for s, m, k, nest, store in subject.stores():
        index = store.index + 1
        if not store.indirect and subject.leaves(store.buffer, index):
            yield subject.with_store(s, m, k, nest, replace(store, index=index))


@rule(LOOPS, "load one element further")
def load_further(subject: Subject) -> Iterator[Any]:
    yield from loads_changed(subject, lambda index: index + 1)


@rule(LOOPS, "load one element earlier")
def load_earlier(subject: Subject) -> Iterator[Any]:
    yield from loads_changed(subject, lambda index: index + -1)


@rule(LOOPS, "load with a wrong stride")
def load_stride(subject: Subject) -> Iterator[Any]:
    yield from loads_changed(subject, lambda index: index * 2)


def loads_changed(subject: Subject, change: Callable[[Index], Index]) -> Iterator[Any]:
    for s, m, nest in subject.nests():
        hidden = {n for e in nest.exprs() if e.op == "masked" for n in under(e.args[1])}
        for load in dict.fromkeys(nest.loads()):
            index = change(load.attr[1])
            if load not in hidden and not load.args and subject.leaves(load.attr[0], index):
                changed = Expr("load", load.type, (), (load.attr[0], index))
                yield subject.with_nest(s, m, nest.rewrite(exchanged(load, changed)))


def under(node: Expr) -> set[Expr]:
    found, left = set(), [node]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += one.args
    return found


def exchanged(old: Expr, new: Expr) -> Any:
    def change(node: Expr, args: tuple[Expr, ...]) -> Expr:
        return new if node is old else rebuilt(node, args)

    return change


def rebuilt(node: Expr, args: tuple[Expr, ...]) -> Expr:
    return node if args == node.args else Expr(node.op, node.type, args, node.attr)


@rule(LOOPS, "store with a wrong stride")
def store_stride(subject: Subject) -> Iterator[Any]:
    for s, m, k, nest, store in subject.stores():
        index = store.index * 2
        if not store.indirect and subject.leaves(store.buffer, index):
            yield subject.with_store(s, m, k, nest, replace(store, index=index))


@rule(LOOPS, "one iteration too many")
def extent(subject: Subject) -> Iterator[Any]:
    for s, m, nest in subject.nests():
        for axis in nest.axes:
            longer = Axis(axis.name, number(axis.extent) + 1)
            axes = tuple(longer if a == axis else a for a in nest.axes)
            changed = nest.substitute({axis: of_atom(longer)}, axes)
            if axis not in nest.scanned and any(not t.indirect and subject.leaves(t.buffer, t.index) for t in changed.stores):
                yield subject.with_nest(s, m, changed)


@rule(LOOPS, "dropped mask")
def dropped_mask(subject: Subject) -> Iterator[Any]:
    for s, m, nest in subject.nests():
        for node in nest.exprs():
            if node.op == "masked" and any(e.op == "load" and subject.leaves(*e.attr) for e in under(node.args[1]) if not e.args):
                yield subject.with_nest(s, m, nest.rewrite(exchanged(node, node.args[1])))


@rule(LOOPS, "iterations that store one element")
def same_element(subject: Subject) -> Iterator[Any]:
    for s, m, k, nest, store in subject.stores():
        for axis in subject.kernel.outer:
            if axis in store.index.axes and not store.indirect and store.mode == "set":
                yield subject.with_store(s, m, k, nest, replace(store, index=store.index.substitute({axis: Index(0)})))


@rule(LOOPS, "stages in the wrong order")
def wrong_order(subject: Subject) -> Iterator[Any]:
    stages = list(subject.kernel.stages)
    for k in range(len(stages) - 1):
        if made_by(stages[k]) & read_by(stages[k + 1]) - subject.program.mutated and not subject.kernel.is_batch:
            yield [*stages[:k], stages[k + 1], stages[k], *stages[k + 2 :]]


@rule(LOOPS, "missing barrier between stages")
def no_barrier(subject: Subject) -> Iterator[Any]:
    stages = list(subject.kernel.stages)
    for k in range(len(stages) - 1):
        first, second = stages[k], stages[k + 1]
        shared = made_by(first) & read_by(second)
        if (
            shared
            and not subject.kernel.is_batch
            and any(n.reduced for n in first.members)
            and any(a not in subject.kernel.outer for n in second.members for a in (*n.axes, *n.reduced))
        ):
            both = copy.copy(first)
            both.members = [*first.members, *second.members]
            yield [*stages[:k], both, *stages[k + 2 :]]


def made_by(stage: Stage) -> frozenset[str]:
    return frozenset().union(*(n.writes() for n in stage.members))


def read_by(stage: Stage) -> frozenset[str]:
    return frozenset().union(*(n.reads() for n in stage.members))


@rule(LOOPS, "index out of range, and no check")
def unchecked(subject: Subject) -> Iterator[Any]:
    for s, m, nest in subject.nests():
        for node in nest.exprs():
            if node.op == "check" and node.args[0].op in ("load", "select", "where", "cast"):
                source = next((e for e in under(node) if e.op == "load" and subject.program.buffers[e.attr[0]].dtype == torch.int64), None)
                if source is not None:
                    name = source.attr[0]
                    content = subject.memory.data[name].clone()
                    content[int(number(source.attr[1].bounds[1]))] = 1 << 20
                    yield subject.with_nest(s, m, nest.rewrite(exchanged(node, node.args[0]))), {name: content}


@rule(LOOPS, "memory of the wrong size")
def small_buffer(subject: Subject) -> Iterator[Any]:
    for _, _, _, _, store in subject.stores():
        buffer = subject.program.buffers[store.buffer]
        high = store.index.bounds[1]
        if not store.indirect and store.index.is_affine and number(high) == subject.size(buffer.name) - 1 > 0 and buffer.kind == "temp":
            yield replace(buffer, shape=(number(high),), strides=(1,))


# text


def in_text(subject: Subject, pattern: str, put: Callable[[re.Match[str]], str | None]) -> Iterator[str]:
    """The text with one match in the kernel's function put differently, for every match."""
    head, mark, tail = subject.text.partition("\n\nKERNEL = ")
    begin = head.rfind("@triton.jit")
    if not mark or "KERNEL = None" in subject.text:
        return
    for match in re.finditer(pattern, head[begin:]):
        text = put(match)
        if text is not None:
            yield f"{head[: begin + match.start()]}{text}{head[begin + match.end() :]}{mark}{tail}"


def everywhere(subject: Subject, pattern: str, put: str) -> Iterator[str]:
    """The text with all matches in the kernel's function put differently: its branches do the same."""
    head, mark, tail = subject.text.partition("\n\nKERNEL = ")
    begin = head.rfind("@triton.jit")
    changed, count = re.subn(pattern, put, head[begin:])
    if mark and count and "KERNEL = None" not in subject.text:
        yield f"{head[:begin]}{changed}{mark}{tail}"


@rule(PRINTED, "pointer one element further")
def pointer_further(subject: Subject) -> Iterator[str]:
    yield from in_text(subject, r"tl\.store\((out\d+) \+ \(", lambda m: f"tl.store({m[1]} + 1 + (" if plain(subject, m[1]) else None)


@rule(PRINTED, "pointer one element earlier")
def pointer_earlier(subject: Subject) -> Iterator[str]:
    yield from in_text(subject, r"tl\.store\((out\d+) \+ \(", lambda m: f"tl.store({m[1]} - 1 + (" if plain(subject, m[1]) else None)


def plain(subject: Subject, parameter: str) -> bool:
    """A parameter that the kernel stores from its first to its last element, not by computed indices."""
    name = (*subject.kernel.reads, *subject.kernel.writes)[len(subject.kernel.reads) + int(parameter[3:])]
    nests = [n for _, _, n in subject.nests()]
    bounds = [t.index.bounds for n in nests for t in n.stores if t.buffer == name and not t.indirect]
    whole = bounds and min(number(b[0]) for b in bounds) == 0 and max(number(b[1]) for b in bounds) == subject.size(name) - 1
    return bool(whole) and all(not t.indirect for n in nests for t in n.stores if t.buffer == name)


@rule(PRINTED, "dropped mask of a store")
def unmasked_store(subject: Subject) -> Iterator[str]:
    """Of the last program of a flat kernel, whose lanes go past the end."""
    if subject.text.count("_in = ") == 1 and " x_in = x < " in subject.text:
        yield from in_text(subject, r"(tl\.store\((out\d+) \+ \(x\), \w+), x_in\)", lambda m: f"{m[1]})" if plain(subject, m[2]) else None)


@rule(PRINTED, "dropped mask of a load")
def unmasked_load(subject: Subject) -> Iterator[str]:
    if subject.text.count("_in = ") == 1 and " x_in = x < " in subject.text:
        length = re.search(r"x_in = x < (\d+)", subject.text)
        yield from in_text(
            subject,
            r"tl\.load\(in(\d+) \+ x, x_in\)",
            lambda m: f"tl.load(in{m[1]} + x)" if length and reads_all(subject, int(m[1]), int(length[1])) else None,
        )


def reads_all(subject: Subject, parameter: int, length: int) -> bool:
    return subject.size(subject.kernel.reads[parameter]) == length


@rule(PRINTED, "mask one element too wide")
def wide_mask(subject: Subject) -> Iterator[str]:
    if any(plain(subject, f"out{k}") for k in range(len(subject.kernel.writes))):
        flat = subject.text.count("_in = ") == 1 and re.search(r"tl\.store\(out\d+ \+ \(x\), \w+, x_in\)", subject.text)
        if flat and stored_flat(subject):
            yield from in_text(subject, r"x_in = x < (\d+)", lambda m: f"x_in = x < {int(m[1]) + 1}")


def stored_flat(subject: Subject) -> bool:
    length = re.search(r"x_in = x < (\d+)", subject.text)
    stored = re.findall(r"tl\.store\(out(\d+) \+ \(x\), \w+, x_in\)", subject.text)
    return bool(length) and any(subject.size(subject.kernel.writes[int(k)]) == int(length[1]) for k in stored)  # type: ignore[index]  # is a match


@rule(PRINTED, "wrong stride of a store")
def text_stride(subject: Subject) -> Iterator[str]:
    yield from in_text(
        subject,
        r"tl\.store\((out\d+) \+ \((r0) \+ x \* (\d+)\)",
        lambda m: f"tl.store({m[1]} + ({m[2]} + x * {int(m[3]) + 1})" if rows(subject) > 1 and plain(subject, m[1]) else None,
    )
    yield from in_text(
        subject,
        r"tl\.store\((out\d+) \+ \(x\)",
        lambda m: f"tl.store({m[1]} + (x * 2)" if rows(subject) > 1 and plain(subject, m[1]) else None,
    )


def rows(subject: Subject) -> int:
    return number(getattr(subject.kernel.space, "n_rows", 1))  # type: ignore[attr-defined]  # of Triton's kernels


@rule(PRINTED, "wrong stride of a load")
def text_load_stride(subject: Subject) -> Iterator[str]:
    def put(m: re.Match[str]) -> str | None:
        reads = subject.size(subject.kernel.reads[int(m[1])])
        length = int(m[3])
        whole = f"r0_in = r0 < {length}\n" in subject.text or "r0_in" not in subject.text
        is_one = whole and rows(subject) > 1 and reads == rows(subject) * length
        return f"tl.load(in{m[1]} + ({m[2]} + x * {length + 1})" if is_one else None

    yield from in_text(subject, r"tl\.load\(in(\d+) \+ \((r0) \+ x \* (\d+)\)", put)


def grid_of(subject: Subject) -> int:
    """Programs of a kernel that stores some buffer from its first to its last element; else 0."""
    found = re.search(r"\nGRID = \((\d+),\)", subject.text)
    is_whole = any(plain(subject, f"out{k}") for k in range(len(subject.kernel.writes)))
    return int(found[1]) if found and is_whole and "ROWS = []" in subject.text else 0


def with_grid(subject: Subject, count: int) -> str:
    return re.sub(r"\nGRID = \(\d+,\)", f"\nGRID = ({count},)", subject.text)


@rule(PRINTED, "a program too few")
def few_programs(subject: Subject) -> Iterator[str]:
    if grid_of(subject) > 1:
        yield with_grid(subject, grid_of(subject) - 1)


@rule(PRINTED, "a program too many")
def many_programs(subject: Subject) -> Iterator[str]:
    body = subject.text.partition("\n\nKERNEL")[0].rpartition("@triton.jit")[2]
    if grid_of(subject) and "_in" not in body and "if tl.program_id" not in body and "tl.program_id" in body:
        yield with_grid(subject, grid_of(subject) + 1)


@rule(PRINTED, "programs on the same rows")
def same_rows(subject: Subject) -> Iterator[str]:
    if grid_of(subject) > 1:
        yield from in_text(subject, r"x = tl\.program_id\(0\)(?= [*+])", lambda m: "x = 0 * tl.program_id(0)")


@rule(PRINTED, "overlapping programs")
def overlapping(subject: Subject) -> Iterator[str]:
    if grid_of(subject) > 1:
        yield from in_text(
            subject,
            r"x = tl\.program_id\(0\) \* (\d+) \+",
            lambda m: f"x = tl.program_id(0) * {int(m[1]) - 1} +" if int(m[1]) > 1 else None,
        )


class Additions(NestRun):
    """A nest that tells whether several of its points add to one element."""

    meets = False

    def accessed(self, access: Access, at: torch.Tensor, live: torch.Tensor) -> None:
        if access.is_atomic:
            self.meets = self.meets or at[live].unique().numel() < int(live.sum())


def meets(subject: Subject) -> bool:
    memory = copied(subject.memory, subject.planted("", PRINTED, subject.text))
    runs = [Additions(nest, memory, lambda origin: None) for _, _, nest in subject.nests()]
    for run in runs:
        run.run()
    return any(run.meets for run in runs)


@rule(PRINTED, "missing atomic")
def no_atomic(subject: Subject) -> Iterator[str]:
    if meets(subject):
        yield from everywhere(subject, r"tl\.atomic_add\((.*), sem=\"relaxed\"\)", r"tl.store(\1)")


@rule(PRINTED, "loop too long")
def long_loop(subject: Subject) -> Iterator[str]:
    """A walk over columns that are not masked goes one block further."""

    def put(m: re.Match[str]) -> str | None:
        return f"{m[1]}(0, {int(m[2]) + int(m[3])}, {m[3]}" if int(m[2]) % int(m[3]) == 0 and "r0_in" not in subject.text else None

    yield from in_text(subject, r"(range|tl\.range|tl\.static_range)\(0, (\d+), (\d+)", put)


@rule(PRINTED, "index out of range, and not clamped")
def unclamped(subject: Subject) -> Iterator[Any]:
    if "TAKES_BAD = True" in subject.text:
        for _, values in unchecked(subject):
            for text in everywhere(subject, r"tl\.where\(v\d+, 0, (v\d+)\)", r"\1"):
                yield text, values


# running


def subjects_of(gm: torch.fx.GraphModule, values: list[Any]) -> Iterator[Subject]:
    """The kernels of a graph, each with the memory it meets. Kernels that were given run when the next is asked for."""
    plan, texts = planned(gm, "cuda")
    run = Run(plan, texts, none)
    run.memory.begin(plan.program, values)
    for step in plan.steps:
        if isinstance(step, Extern):
            run_extern(step, plan.program, run.memory)
            continue
        yield Subject(step, texts.get(step.name, ""), plan.program, run.memory)
        Run(plan, {}, none).on(run.memory).kernel(step)


def none(fault: Fault) -> None:
    raise AssertionError(str(fault))


def checked(subject: Subject, planted: Planted | None = None) -> list[Fault]:
    """What the sanitizer finds in the kernel, or in what was planted into it."""
    faults: list[Fault] = []
    one = planted or Planted("", "", subject.kernel, subject.text, subject.program.buffers, {})
    program = replace(subject.program, buffers=one.buffers)
    memory = copied(subject.memory, one)
    plan = Plan(program, [one.kernel], {})
    texts = {one.kernel.name: one.text} if one.text and (planted is None or planted.form == PRINTED) else {}
    Run(plan, texts, faults.append).on(memory).kernel(one.kernel)
    return faults


def copied(memory: Memory, one: Planted) -> Memory:
    made = Memory(memory.device, dict(memory.data), dict(memory.written), set(memory.old))
    stored = {b for stage in one.kernel.stages for nest in stage.members for b in nest.writes()}
    for name in {*one.kernel.writes, *stored, *one.values, *(b for b, row in one.buffers.items() if row.size < memory.data[b].numel())}:
        size = max(number(one.buffers[name].size), 1)
        made.data[name] = one.values.get(name, memory.data[name])[:size].clone()
        made.written[name] = memory.written[name][:size].clone()
    return made
