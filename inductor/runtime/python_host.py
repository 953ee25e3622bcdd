"""The host program in Python: what the C one does, one step at a time. Used where the C extension cannot read tensors, for kernels in an
interpreter, and on a GPU whose driver cannot be reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from inductor.ir.dims import numel
from inductor.ir.nest import Extern, View
from inductor.runtime.recipe import KernelCall, Recipe
from inductor.runtime.writer import empty

OUT_OF_RANGE = "index out of range in a compiled graph"


class Launch(Protocol):
    """Starts one kernel."""

    notes_indices: bool

    def __call__(self, tensors: Sequence[torch.Tensor], bad: torch.Tensor | None) -> None:
        """Run it on the buffers of a step. `bad` is where indices out of range are noted, which kernels with `notes_indices` do."""


class PythonHost:
    """Allocates, launches kernels and calls operators, in the recipe's order. What nothing needs any more is freed at once."""

    def __init__(self, recipe: Recipe, kernels: Sequence[Launch]) -> None:
        self.recipe = recipe
        self.notes_indices = any(k.notes_indices for k in kernels)
        left = iter(kernels)
        self.steps = [(s, next(left)) if isinstance(s, KernelCall) else (s, None) for s in recipe.steps]
        self.index = next((torch.device(b.device).index for b in recipe.buffers.values() if b.device.startswith("cuda")), None)
        strided = [(k, recipe.buffers[n]) for k, n in enumerate(recipe.inputs) if recipe.buffers[n].kind == "input"]
        self.expected = [(k, b) for k, b in strided if numel(b.shape) > 1] if recipe.owns_inputs else []
        last: dict[str, int] = {}
        for i, step in enumerate(recipe.steps):
            last.update(dict.fromkeys((*step.reads, *step.writes) if isinstance(step, KernelCall) else (*step.reads(), *step.writes()), i))
        kept = recipe.output_buffers() | frozenset(recipe.constants)
        self.dying: list[list[str]] = [[] for _ in recipe.steps]
        for name, i in last.items():
            if name not in kept:
                self.dying[i].append(name)
        self.bad: torch.Tensor | None = None

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if self.index is None or self.index == torch.cuda.current_device():
            return self.run(inputs)
        with torch.cuda.device(self.index):
            return self.run(inputs)

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        recipe = self.recipe
        tensors: dict[str, Any] = dict(zip(recipe.inputs, inputs, strict=True))
        for k, buffer in self.expected:  # gradients come in strides that nobody could know
            if not has_strides(inputs[k], buffer.strides):
                tensors[buffer.name] = empty(buffer).copy_(inputs[k])
        tensors.update(recipe.constants)
        if recipe.owns_inputs and isinstance(inputs, list):
            inputs.clear()
        bad = self.flag()
        with torch._C._AutoDispatchBelowAutograd():
            for (step, launch), dying in zip(self.steps, self.dying, strict=True):
                if launch is not None:
                    assert isinstance(step, KernelCall)
                    if any(recipe.buffers[name].kind == "input" for name in step.writes):
                        self.check(bad)
                    names = (*step.reads, *step.writes)
                    for name in names:  # nothing has written what is read and has no elements
                        if name not in tensors:
                            tensors[name] = self.memory(name, tensors)
                    launch([tensors[name] for name in names], bad)
                else:
                    assert isinstance(step, Extern)
                    self.extern(step, tensors)
                for name in dying:
                    tensors.pop(name, None)
            self.check(bad)
            return tuple(self.resolve(o, tensors) for o in recipe.outputs)

    # indices out of range

    def flag(self) -> torch.Tensor | None:
        """Where kernels note an index that is out of range: memory of the host that the device sees, so reading it waits for nothing."""
        if not self.notes_indices:
            return None
        if self.bad is None:
            self.bad = torch.zeros(1, dtype=torch.int32, pin_memory=self.recipe.device == "cuda")
        self.check(self.bad)
        return self.bad

    def check(self, bad: torch.Tensor | None) -> None:
        """Raise for what is known by now. A GPU may still be at work: then the next call of this graph raises."""
        if bad is not None and bad.item():
            bad.zero_()
            error = IndexError(OUT_OF_RANGE)
            if self.recipe.device == "cuda":
                error.is_final = True  # type: ignore[attr-defined]  # see dynamo/graph/rescue.py
            raise error

    # memory

    def memory(self, name: str, tensors: dict[str, Any]) -> torch.Tensor:
        buffer = self.recipe.buffers[name]
        if name in self.recipe.over:
            old = tensors[self.recipe.over[name]]
            return old.as_strided(buffer.shape, buffer.strides, old.storage_offset())
        return empty(buffer)

    def resolve(self, tree: Any, tensors: dict[str, Any]) -> Any:
        if isinstance(tree, View):
            buffer = self.recipe.buffers[tree.buffer]
            if tree.buffer not in tensors:
                tensors[tree.buffer] = self.memory(tree.buffer, tensors)
            base = tensors[tree.buffer]
            if tree.offset == 0 and tree.shape == buffer.shape and tree.strides == buffer.strides:
                return base
            return base.as_strided(tree.shape, tree.strides, base.storage_offset() + tree.offset)
        if isinstance(tree, (list, tuple)):
            return type(tree)(self.resolve(t, tensors) for t in tree)
        return tree

    def extern(self, step: Extern, tensors: dict[str, Any]) -> None:
        args = self.resolve(step.args, tensors)
        result = step.target(*args, **{k: self.resolve(v, tensors) for k, v in step.kwargs.items()})
        for name, value in zip(step.outs, [result] if step.single else result, strict=True):
            if name is not None:
                buffer = self.recipe.buffers[name]
                if not has_strides(value, buffer.strides):
                    value = empty(buffer).copy_(value)
                tensors[name] = value


def has_strides(value: torch.Tensor, strides: Sequence[int]) -> bool:
    """Whether the elements are where a tensor of the same shape in these strides has them."""
    return not value.numel() or all(a == b or n == 1 for a, b, n in zip(value.stride(), strides, value.shape, strict=True))
