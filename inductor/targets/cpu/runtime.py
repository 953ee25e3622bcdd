"""Runs on processors: libraries of C kernels, driven by the host program in C."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from inductor.runtime.pool import Job
from inductor.runtime.recipe import Recipe
from inductor.targets.cpu import build, host, machine, mathlib


class CpuRuntime:
    def versions(self) -> tuple[str, ...]:
        command = build.compiler()
        compiler = build.compiler_identity(command) if command is not None else ""
        return (*_fixed(), compiler, " ".join(build.flags()), machine.key())

    def start(self, source: str) -> ctypes.CDLL | Job[ctypes.CDLL]:
        return build.start(source)

    def program(self, recipe: Recipe, library: ctypes.CDLL | None) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        return host.make_host(recipe, library)


@functools.cache
def _fixed() -> tuple[str, ...]:
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in getattr(os, "confstr_names", {}) else ""
    return (" ".join(build.link_flags()), build.cpu_identity(), libc or "", str(mathlib.has_any()))
