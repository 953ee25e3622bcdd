"""C kernels for the host program in Python."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch

from inductor.runtime.recipe import KernelCall, Recipe
from inductor.targets.cpu import machine


class CalledKernel:
    """Calls one kernel with a table of addresses."""

    notes_indices = True

    def __init__(self, kernel: ctypes._CFunctionType, step: KernelCall, recipe: Recipe) -> None:
        self.kernel = kernel
        self.slots = [recipe.slots[name] for name in (*step.reads, *step.writes)]
        self.table = ctypes.c_void_p * (len(recipe.slots) + 1)
        threads = torch.get_num_threads()
        self.threads = threads if step.work >= machine.team_work(threads, machine.assumed_region_us(threads)) else 1

    def __call__(self, tensors: Sequence[torch.Tensor], bad: torch.Tensor | None) -> None:
        table = self.table()
        table[0] = bad.data_ptr() if bad is not None else None
        for slot, tensor in zip(self.slots, tensors, strict=True):
            table[slot] = tensor.data_ptr()
        self.kernel(table, self.threads)


def kernels_of(recipe: Recipe, library: ctypes.CDLL | None) -> list[CalledKernel]:
    """The kernels of a library, in the recipe's order."""
    steps = [s for s in recipe.steps if isinstance(s, KernelCall)]
    if library is None or not steps:
        return []
    kind = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int)
    return [CalledKernel(f, s, recipe) for f, s in zip((kind * len(steps)).in_dll(library, "dd_kernels"), steps, strict=True)]
