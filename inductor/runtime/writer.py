"""Writes the host program: slots for every buffer and view, and steps for the C loop of `inductor/csrc/run.c`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dynamo.ops.facts import acts, is_random
from inductor import _host
from inductor.ir.aliasing import held_by_others
from inductor.ir.dims import contiguous_strides, is_dense, numel
from inductor.ir.nest import Buffer, Extern, View, views_of
from inductor.runtime.layout import dtype_number
from inductor.runtime.packed import PACKED, PackedConvolution
from inductor.runtime.recipe import KernelCall, Recipe

KERNEL, CALL, EMPTY, VIEW, DROP, CHECK, LAUNCH = range(7)
Step = tuple[Any, ...]

# Bindings that skip the generic schema-driven call path. All are exact: same operator, same overload.
DIRECT: dict[str, Callable[..., Any]] = {
    f"aten.{name}.default": getattr(torch, name) for name in ("mm", "bmm", "addmm", "baddbmm", "convolution", "addmv", "mv", "dot")
}

# Those of them that can write their result to memory they are given.
INTO: dict[str, Callable[..., Any]] = {f"aten.{name}.default": getattr(torch, name) for name in ("mm", "bmm", "addmm", "baddbmm")}


@dataclass(frozen=True)
class Platform:
    """What differs between kinds of devices.

    kernel: the steps of the kernel of some number, whose buffers have their slots.
    device: (type, index) as torch counts them; on a GPU also what `read_device` in program.c takes.
    make_base, make_views: of the arena for temporaries; without them each is allocated alone.
    fresh_pages: bytes from which on an allocation is worth huge pages, and products are written to memory of ours (0: none is).
    keep: what the program needs as long as it lives.
    """

    kernel: Callable[[int, KernelCall, Mapping[str, int]], Iterable[Step]]
    device: tuple[Any, ...] = (0, 0)
    make_base: Callable[[int], torch.Tensor] | None = None
    make_views: Callable[[list[tuple[View, Buffer, int]], torch.Tensor], tuple[torch.Tensor, ...]] | None = None
    fresh_pages: int = 0
    keep: object = None


def callable_of(step: Extern) -> Any:
    """What C calls for an ATen operator, with constant keyword arguments bound."""
    if step.target is PACKED:
        return PackedConvolution()
    op = DIRECT.get(str(step.target)) or getattr(step.target, "_op", step.target)
    constant = {k: v for k, v in step.kwargs.items() if not any(True for _ in views_of(v))}
    return functools.partial(op, **constant) if constant else op


def with_keywords(op: Any, names: Sequence[str]) -> Any:
    """A callable that takes the values of some keyword arguments last."""
    count = len(names)
    return lambda *args: op(*args[:-count], **dict(zip(names, args[-count:], strict=True)))


class HostWriter:
    """Collects slots and steps for one recipe."""

    def __init__(self, recipe: Recipe, platform: Platform) -> None:
        self.recipe, self.platform = recipe, platform
        self.slots = dict(recipe.slots)
        self.view_slots: dict[View, int] = {}
        self.slots_of_views: dict[str, list[int]] = {}
        self.n_slots = len(self.slots) + 1
        self.steps: list[tuple[Any, ...]] = []
        self.outputs = self.recipe.output_buffers()
        self.pinned = held_by_others(s for s in recipe.steps if isinstance(s, Extern))
        self.arena_views: list[View] = []
        self.constant_views: list[View] = []
        self.made: set[str] = set()
        self.handed_on = {old for new, old in recipe.over.items() if self.slots[new] == self.slots[old]}  # their slots live on
        self.last_use = self.find_last_uses()
        self.dying: dict[int, list[str]] = {}
        for name, position in self.last_use.items():
            self.dying.setdefault(position, []).append(name)
        reads = (s.reads if isinstance(s, KernelCall) else s.reads() for s in recipe.steps)
        self.wanted = frozenset().union(self.outputs, *reads)

    def find_last_uses(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for i, step in enumerate(self.recipe.steps):
            touched = (*step.reads, *step.writes) if isinstance(step, KernelCall) else (*step.reads(), *step.writes())
            found.update(dict.fromkeys(touched, i))
        return found

    def in_arena(self, buffer: str) -> bool:
        return self.platform.make_base is not None and buffer in self.recipe.arena and buffer not in self.pinned

    def is_whole(self, view: View) -> bool:
        buffer = self.recipe.buffers[view.buffer]
        return view.offset == 0 and view.shape == buffer.shape and view.strides == buffer.strides

    def new_slot(self) -> int:
        self.n_slots += 1
        return self.n_slots - 1

    def slot_of(self, view: View) -> int:
        """The slot with the tensor of a view; makes the view when nothing has yet, and a buffer without elements, which no kernel does."""
        self.make(view.buffer)
        if not self.in_arena(view.buffer) and self.is_whole(view):
            return self.slots[view.buffer]
        if view not in self.view_slots:
            slot = self.view_slots[view] = self.new_slot()
            self.slots_of_views.setdefault(view.buffer, []).append(slot)
            if self.in_arena(view.buffer):
                self.arena_views.append(view)
            elif view.buffer in self.recipe.constants:
                self.constant_views.append(view)
            else:
                self.steps.append((VIEW, slot, self.slots[view.buffer], view.shape, view.strides, view.offset))
        return self.view_slots[view]

    def template(self, tree: Any) -> Any:
        if isinstance(tree, View):
            return _host.Ref(self.slot_of(tree))
        if isinstance(tree, (list, tuple)) and any(True for _ in views_of(tree)):
            return _host.Build(tuple(self.template(t) for t in tree), isinstance(tree, list))
        return tree

    def make(self, name: str) -> None:
        """Allocate a temporary that lives outside the arena, or find it the memory it takes over, before its first write."""
        buffer = self.recipe.buffers[name]
        if buffer.kind == "temp" and not self.in_arena(name) and name not in self.made:
            self.made.add(name)
            if name in self.recipe.over:
                old = self.slots[self.recipe.over[name]]
                if old != self.slots[name]:
                    self.steps.append((VIEW, self.slots[name], old, buffer.shape, buffer.strides, 0))
                return
            self.allocate(buffer, self.slots[name])

    def allocate(self, buffer: Buffer, slot: int) -> None:
        huge = buffer.nbytes if 0 < self.platform.fresh_pages <= buffer.nbytes else 0
        self.steps.append((EMPTY, slot, buffer.shape, buffer.strides, dtype_number(buffer.dtype), huge))

    def call(self, step: Extern) -> None:
        if self.writes_large(step):
            self.call_into(step)
            return
        if acts(step.target) and not is_random(step.target):
            self.steps.append((CHECK,))
        op = callable_of(step)
        keywords = [k for k, v in step.kwargs.items() if any(True for _ in views_of(v))]
        if keywords:
            op = with_keywords(op, keywords)
        args = tuple(self.template(a) for a in (*step.args, *(step.kwargs[k] for k in keywords)))
        outs = tuple(self.slots.get(o, -1) if o in self.wanted else -1 for o in step.outs)
        self.steps.append((CALL, op, args, outs, int(step.single)))

    def writes_large(self, step: Extern) -> bool:
        """Whether the result is large and its memory can be ours, which is faulted in by huge pages."""
        (out, *rest) = step.outs
        if rest or out is None or out not in self.wanted or step.kwargs or str(step.target) not in INTO:
            return False
        buffer = self.recipe.buffers[out]
        return 0 < self.platform.fresh_pages <= buffer.nbytes and buffer.strides == contiguous_strides(buffer.shape)

    def call_into(self, step: Extern) -> None:
        out = step.outs[0]
        assert out is not None
        buffer, slot = self.recipe.buffers[out], self.slots[out]
        args = tuple(self.template(a) for a in step.args)
        self.allocate(buffer, slot)
        self.steps.append((CALL, with_keywords(INTO[str(step.target)], ("out",)), (*args, _host.Ref(slot)), (-1,), 1))

    def drop_dead(self, position: int) -> None:
        for name in self.dying.get(position, ()):
            kind = self.recipe.buffers[name].kind
            ours = kind == "extern" or name in self.made or (kind == "input" and self.recipe.owns_inputs)
            if name not in self.outputs and ours and name in self.slots:
                if name not in self.handed_on:
                    self.steps.append((DROP, self.slots[name]))
                self.steps.extend((DROP, slot) for slot in self.slots_of_views.get(name, ()))

    def run(self) -> Any:
        at, wrote = 0, False
        for position, step in enumerate(self.recipe.steps):
            if isinstance(step, KernelCall):
                for name in step.writes:
                    self.make(name)
                if not wrote and any(self.recipe.buffers[name].kind == "input" for name in step.writes):
                    self.steps.append((CHECK,))
                    wrote = True
                self.steps.extend(self.platform.kernel(at, step, self.slots))
                at += 1
            else:
                self.call(step)
            self.drop_dead(position)
        for name in sorted(self.outputs):
            self.make(name)
        outputs = [self.slot_of(o) if isinstance(o, View) else -1 for o in self.recipe.outputs]
        return self.finish(outputs)

    def finish(self, outputs: list[int]) -> Any:
        recipe = self.recipe
        inputs = [self.slots.get(name, -1) if recipe.buffers[name].kind == "input" and self.is_used(name) else -1 for name in recipe.inputs]
        constants = [(self.slots[name], value) for name, value in recipe.constants.items()]
        constants += [(self.view_slots[v], as_view(recipe.constants[v.buffer], v)) for v in self.constant_views]
        temps = [name for name in recipe.arena if self.in_arena(name)]
        expected: list[tuple[Any, ...] | None] = [None] * self.n_slots
        checked = {"extern", "input"} if recipe.owns_inputs else {"extern"}
        for name, slot in self.slots.items():
            buffer = recipe.buffers[name]
            if buffer.kind in checked and numel(buffer.shape) > 1:
                dense = numel(buffer.shape) if is_dense(buffer.shape, buffer.strides) else 0
                expected[slot] = (buffer.shape, buffer.strides, dtype_number(buffer.dtype), buffer.dtype.itemsize, dense)
        arena_slots = tuple(self.view_slots[v] for v in self.arena_views)
        over_arena = [(v, recipe.buffers[v.buffer], recipe.arena[v.buffer]) for v in self.arena_views]
        return _host.Program(
            self.n_slots,
            tuple(inputs),
            tuple(self.steps),
            tuple(outputs),
            tuple(None if isinstance(o, View) else o for o in recipe.outputs),
            tuple(value for _, value in constants),
            tuple(slot for slot, _ in constants),
            tuple(self.slots[name] for name in temps),
            tuple(recipe.arena[name] for name in temps),
            arena_slots,
            tuple(expected),
            recipe.arena_bytes if temps else 0,
            self.platform.make_base,
            functools.partial(self.platform.make_views, over_arena) if self.platform.make_views is not None else None,
            functools.partial(restride, {slot: recipe.buffers[name] for name, slot in self.slots.items()}),
            recipe.owns_inputs,
            self.platform.device,
            (self.platform.keep, recipe),
        )

    def is_used(self, name: str) -> bool:
        return name in self.last_use or name in self.outputs


def as_view(base: torch.Tensor, view: View) -> torch.Tensor:
    return base.as_strided(view.shape, view.strides, base.storage_offset() + view.offset)


def restride(buffers: dict[int, Buffer], slot: int, value: torch.Tensor) -> torch.Tensor:
    """A result whose strides differ from its fake's, in the strides that kernels were printed for."""
    return empty(buffers[slot]).copy_(value)


def empty(buffer: Buffer) -> torch.Tensor:
    """Fresh memory for a buffer."""
    return torch.empty_strided(buffer.shape, buffer.strides, dtype=buffer.dtype, device=buffer.device)
