"""The host program in Python: what the C one does, one step at a time. Used where the C extension cannot read tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from inductor.ir.nest import Extern, View
from inductor.runtime.recipe import KernelCall, Recipe
from inductor.targets.cpu import machine


class PythonHost:
    """Runs a recipe step by step."""

    def __init__(self, recipe: Recipe, library: ctypes.CDLL | None) -> None:
        self.recipe, self.library = recipe, library
        count = recipe.kernels
        kind = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int)
        self.kernels = list((kind * max(count, 1)).in_dll(library, "dd_kernels")) if library is not None and count else []

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        recipe = self.recipe
        tensors: dict[str, Any] = dict(zip(recipe.inputs, inputs, strict=True)) | dict(recipe.constants)
        for name, buffer in recipe.buffers.items():
            if buffer.kind == "temp" and name in recipe.slots and name not in recipe.over:
                tensors[name] = torch.empty_strided(buffer.shape, buffer.strides, dtype=buffer.dtype)
        table = (ctypes.c_void_p * (len(recipe.slots) + 1))()
        bad = ctypes.c_int(0)
        table[0] = ctypes.addressof(bad)

        def fill(name: str) -> None:
            if isinstance(tensors.get(name), torch.Tensor) and name in recipe.slots:
                table[recipe.slots[name]] = tensors[name].data_ptr()

        for name in tensors:
            fill(name)
        kernels = iter(self.kernels)
        threads = torch.get_num_threads()
        least = machine.team_work(threads, machine.assumed_region_us(threads))
        with torch._C._AutoDispatchBelowAutograd():
            for step in recipe.steps:
                if isinstance(step, KernelCall):
                    if bad.value and any(recipe.buffers[name].kind == "input" for name in step.writes):
                        break
                    for name in step.writes:
                        if name in recipe.over:
                            buffer, old = recipe.buffers[name], tensors[recipe.over[name]]
                            tensors[name] = old.as_strided(buffer.shape, buffer.strides, old.storage_offset())
                            fill(name)
                    next(kernels)(table, threads if step.work >= least else 1)
                else:
                    self.extern(step, tensors)
                    for out in step.outs:
                        if out is not None:
                            fill(out)
            if bad.value:
                raise IndexError("index out of range in a compiled graph")
            return tuple(self.resolve(o, tensors) for o in recipe.outputs)

    def resolve(self, tree: Any, tensors: dict[str, Any]) -> Any:
        if isinstance(tree, View):
            base = tensors[tree.buffer]
            buffer = self.recipe.buffers[tree.buffer]
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
                if value.stride() != buffer.strides and value.numel():
                    value = torch.empty_strided(buffer.shape, buffer.strides, dtype=buffer.dtype).copy_(value)
                tensors[name] = value
