"""Runs on GPUs: files of Triton kernels, driven by the host program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductor.runtime.pool import Job
from inductor.runtime.python_host import PythonHost
from inductor.runtime.recipe import Recipe
from inductor.targets.triton import build, launcher
from inductor.targets.triton.library import Kernel, Started, check_triton, library_of, triton_version


class TritonRuntime:
    """`interpreted`: tensors of processors go through Triton's interpreter."""

    def __init__(self, *, interpreted: bool = False) -> None:
        self.interpreted = interpreted

    def versions(self) -> tuple[str, ...]:
        return (*_fixed(), str(self.interpreted))

    def start(self, source: str) -> list[Kernel] | Job[list[Kernel]]:
        if self.interpreted:
            check_triton()
            return library_of(source, interpreted=True)
        return build.start(source)

    def program(self, recipe: Recipe, library: list[Kernel] | None) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        if self.interpreted:
            return PythonHost(recipe, [Started(k) for k in library or []])
        return launcher.program(recipe, library or [])


@functools.cache
def _fixed() -> tuple[str, ...]:
    devices = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    return (triton_version(), str(torch.version.cuda), *devices)
