"""Runs on GPUs: files of Triton kernels, driven by the host program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from inductor.runtime.recipe import Recipe
from inductor.targets.triton.host import Host
from inductor.targets.triton.library import Launch, library_of


class TritonRuntime:
    """`interpreted`: tensors of processors go through Triton's interpreter."""

    def __init__(self, *, interpreted: bool = False) -> None:
        self.interpreted = interpreted

    def versions(self) -> tuple[str, ...]:
        return (*_fixed(), str(self.interpreted))

    def start(self, source: str) -> list[Launch]:
        return library_of(source, interpreted=self.interpreted)

    def program(self, recipe: Recipe, library: list[Launch] | None) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        return Host(recipe, library or [])


@functools.cache
def _fixed() -> tuple[str, ...]:
    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = ""
    devices = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    return (triton, str(torch.version.cuda), *devices)
