"""From texts to kernels: the files of a graph, each imported once per process, and how each is launched.

`Launch` is the seam for other ways to start a kernel: it is called with the tensors of a step, and everything else is prepared.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import torch

from dynamo.trace import emit
from dynamo.trace.events import Note
from inductor.errors import BuildError
from inductor.runtime import cache
from inductor.targets.triton.bundle import parted
from inductor.targets.triton.comments import without_comments

FAILED = "DI021"


class Launch(Protocol):
    """Starts one kernel."""

    notes_indices: bool

    def __call__(self, tensors: Sequence[torch.Tensor], bad: torch.Tensor | None) -> None:
        """Run it on the buffers of a step. `bad` is where indices out of range are noted, which kernels with `notes_indices` do."""


def library_of(source: str, *, interpreted: bool = False) -> list[Launch]:
    """The kernels of a graph, in order. Raises BuildError where Triton is missing."""
    try:
        import triton  # noqa: F401, PLC0415  # the files import it; here the message is ours
    except ImportError as error:
        raise BuildError(f"triton cannot be imported: {error}") from error
    return [Started(module_of(text, interpreted)) for text in parted(source)]


def module_of(text: str, interpreted: bool) -> ModuleType:
    """The module of a kernel's file. Equal kernels of other lines are one module."""
    return imported(hashlib.sha256(without_comments(text).encode()).hexdigest()[:24], interpreted, Text(text))


class Text(str):
    """A kernel's file that is no part of a key."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text)


@functools.lru_cache(maxsize=4096)
def imported(key: str, interpreted: bool, text: Text) -> ModuleType:
    path = folder() / f"{key}.py"
    if not path.exists():
        cache.write(path, str(text).encode())
    name = f"dynamo_debug_triton_{key}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if interpreted:
        from inductor.targets.triton.interpret import load  # noqa: PLC0415  # triton is optional

        load(module, str(text), str(path))
    else:
        spec.loader.exec_module(module)
    return module


@functools.cache
def folder() -> Path:
    """Where the files are: in the cache, or in a folder of this process where that is not used."""
    path = Path(tempfile.mkdtemp(prefix="dynamo-debug-triton-")) if cache.refusal() else cache.root() / "triton"
    path.mkdir(parents=True, exist_ok=True)
    return path


class Started:
    """A kernel launched by Triton's own launcher. When Triton fails on it, its ATen form runs from then on."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.run = module.KERNEL
        self.has_failed = module.KERNEL is None
        self.notes_indices: bool = module.TAKES_BAD

    def __call__(self, tensors: Sequence[torch.Tensor], bad: torch.Tensor | None) -> None:
        module = self.module
        extra = (bad,) if module.TAKES_BAD else ()
        if not module.ROWS:
            self.start(tensors, extra, module.GRID)
            return
        for positions, length in module.ROWS:
            if length:
                self.start([tensors[k] for k in positions], (*extra, length), (-(-length // module.BLOCK),))

    def start(self, tensors: Sequence[torch.Tensor], extra: tuple[Any, ...], grid: tuple[int, ...]) -> None:
        if not self.has_failed:
            try:
                self.run[grid](*tensors, *extra, **self.module.OPTIONS)
                return
            except self.failures() as error:
                self.has_failed = True
                first = str(error).splitlines()[0] if str(error) else type(error).__name__
                emit(Note(FAILED, f"{getattr(self.run, '__name__', 'a kernel')} runs as ATen calls: Triton refused it: {first}"))
        self.module.reference(*map(flat, tensors), *extra)

    def failures(self) -> tuple[type[BaseException], ...]:
        """What Triton raises for a kernel that it cannot compile, or that the device has no room for."""
        from triton import compiler, runtime  # noqa: PLC0415  # triton is optional

        return compiler.CompilationError, runtime.errors.OutOfResources, runtime.errors.PTXASError


def flat(t: torch.Tensor) -> torch.Tensor:
    """The elements of a buffer by position in memory."""
    size = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) if t.numel() else 0
    return t.as_strided((size,), (1,))
