"""From texts to kernels: the files of a graph, what Triton makes of them, and the same as ATen calls where it makes nothing.

Compiled kernels are kept in the cache on disk with what a launch has to know, so a second process needs neither Triton nor the files.
"""

from __future__ import annotations

import functools
import hashlib
import json
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from dynamo.surroundings.locks import cached_property
from dynamo.trace import emit
from dynamo.trace.events import Note
from inductor.errors import BuildError
from inductor.runtime import cache
from inductor.targets.triton import worker
from inductor.targets.triton.bundle import parted
from inductor.targets.triton.comments import without_comments
from inductor.targets.triton.table import Launch
from inductor.targets.triton.worker import Image, Refused

FAILED = "DI021"


def check_triton() -> None:
    """Raises BuildError where Triton is missing."""
    try:
        worker.the_compiler()
    except ImportError as error:
        raise BuildError(f"triton cannot be imported: {error}; install it with pip install triton [{BuildError.id}]") from error


@functools.cache
def triton_version() -> str:
    try:
        return version("triton")
    except PackageNotFoundError:
        return ""


# files


def module_of(text: str, interpreted: bool) -> ModuleType:
    """The module of a kernel's file. Equal kernels of other lines are one module."""
    return imported(file_key(text), interpreted, Text(text))


def file_key(text: str) -> str:
    return hashlib.sha256(without_comments(text).encode()).hexdigest()[:24]


class Text(str):
    """A kernel's file that is no part of a key."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text)


@functools.lru_cache(maxsize=4096)
def imported(key: str, interpreted: bool, text: Text) -> ModuleType:
    path = path_of(key, text)
    name = f"dynamo_debug_triton_{key}"
    if not interpreted:
        return worker.load(str(path), name)
    from inductor.targets.triton.interpret import load  # noqa: PLC0415  # triton is optional

    module = ModuleType(name)
    module.__file__ = str(path)
    load(module, path.read_text(), str(path))  # which may have other comments: Triton finds a function by its lines in the file
    return module


def path_of(key: str, text: str) -> Path:
    """The file of a kernel, which is written when it is not there."""
    path = folder() / f"{key}.py"
    if not path.exists():
        cache.write(path, str(text).encode())
    return path


@functools.cache
def folder() -> Path:
    """Where the files are: in the cache, or in a folder of this process where that is not used."""
    path = Path(tempfile.mkdtemp(prefix="dynamo-debug-triton-")) if cache.refusal() else cache.root() / "triton"
    path.mkdir(parents=True, exist_ok=True)
    return path


# compiled kernels


@dataclass(frozen=True)
class Facts:
    """How a kernel is launched. `launched`: of a batch, the positions of the buffers of every launch, the numbers after them, and its grid;
    without them it is one launch over `grid`. `rows`: of a batch, the positions of each row's buffers and its length."""

    grid: tuple[int, ...]
    takes_bad: bool
    launched: tuple[Launch, ...]
    rows: tuple[tuple[tuple[int, ...], int], ...]

    def launches(self, count: int) -> Sequence[Launch]:
        """(positions of the buffers, numbers after them, grid) of each launch of a kernel with `count` buffers."""
        return self.launched if self.rows else [(tuple(range(count)), (), self.grid)]

    def calls(self, count: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """(positions of the buffers, numbers after them) of each call of the same as ATen calls."""
        return [(positions, (length,)) for positions, length in self.rows if length] if self.rows else [(tuple(range(count)), ())]

    @classmethod
    def read(cls, grid: Any, takes_bad: bool, launched: Any, rows: Any) -> Facts:
        """From lists, as JSON has them."""
        launches = tuple((tuple(buffers), tuple(numbers), tuple(size)) for buffers, numbers, size in launched)
        return cls(tuple(grid), takes_bad, launches, tuple((tuple(positions), length) for positions, length in rows))


def facts_of(module: ModuleType) -> Facts:
    return Facts.read(module.GRID, bool(module.TAKES_BAD), module.LAUNCHES, module.ROWS)


class Packed(Mapping[str, str]):
    """Texts of a compiled kernel as the cache has them, unpacked when somebody reads one."""

    def __init__(self, packed: bytes) -> None:
        self.packed = packed

    @cached_property
    def texts(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(zlib.decompress(self.packed))
        return found

    def __getitem__(self, kind: str) -> str:
        return self.texts[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)


class Kernel:
    """One kernel of a graph, by its file."""

    def __init__(self, text: str, *, interpreted: bool = False) -> None:
        self.text, self.interpreted = text, interpreted
        self.images: dict[tuple[int, int], Image] = {}
        self.refused: dict[tuple[int, int], str] = {}  # why there is none
        self.keys: dict[tuple[int, int], str] = {}

    @cached_property
    def module(self) -> ModuleType:
        return module_of(self.text, self.interpreted)

    @property
    def step(self) -> str:
        """The name of its step in the graph, with which the file begins."""
        return self.text.partition('"""')[2].partition(":")[0]

    @cached_property
    def facts(self) -> Facts:
        return facts_of(self.module)

    def key(self, capability: int, misaligned: int) -> str:
        found = self.keys.get((capability, misaligned))
        if found is None:
            found = cache.key_of(without_comments(self.text), str(capability), str(misaligned), triton_version())
            self.keys[capability, misaligned] = found
        return found

    def find(self, capability: int, misaligned: int = 0) -> Image | None:
        """The compiled form for GPUs of a capability (90 for 9.0), of this process or the cache."""
        image = self.images.get((capability, misaligned))
        if image is None and not cache.refusal():
            image = self.read(cache.image_path(self.key(capability, misaligned)))
            if image is not None:
                self.images[capability, misaligned] = image
        return image

    def read(self, path: Path) -> Image | None:
        try:
            parts = cache.find_parts(path)
            if parts is None:
                return None
            about = json.loads(parts[0])
            facts = Facts.read(about["grid"], about["takes_bad"], about["launched"], about["rows"])
            image = Image(about["name"], about["threads"], about["shared"], parts[1], Packed(parts[2]))
        except (cache.Damaged, ValueError, KeyError, IndexError):
            return None  # it is made again
        self.facts = facts
        return image

    def compile(self, capability: int, misaligned: int = 0) -> Image:
        """The form, made where it is not there yet. Raises Refused."""
        image = self.find(capability, misaligned)
        if image is None:
            if (capability, misaligned) in self.refused:
                raise Refused(self.refused[capability, misaligned])
            if self.module.KERNEL is None:
                raise Refused("it has no Triton form")
            image = worker.image_of(self.module, capability, misaligned)
            self.keep(image, capability, misaligned)
        return image

    def keep(self, image: Image, capability: int, misaligned: int = 0) -> None:
        self.images[capability, misaligned] = image
        if not cache.refusal():
            facts = self.facts
            about = {"name": image.name, "threads": image.threads, "shared": image.shared, "grid": facts.grid}
            about |= {"takes_bad": facts.takes_bad, "launched": facts.launched, "rows": facts.rows}
            parts = [json.dumps(about).encode(), image.code, zlib.compress(json.dumps(image.texts).encode())]
            cache.put_parts(cache.image_path(self.key(capability, misaligned)), parts)


def library_of(source: str, *, interpreted: bool = False) -> list[Kernel]:
    """The kernels of a graph, in order."""
    return [Kernel(text, interpreted=interpreted) for text in parted(source)]


# other ways to run one


class Started:
    """A kernel launched by Triton's own launcher. When Triton fails on it, its ATen form runs from then on."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.module = kernel, kernel.module
        self.run = self.module.KERNEL
        self.has_failed = self.run is None
        self.notes_indices: bool = self.module.TAKES_BAD

    def __call__(self, tensors: Sequence[torch.Tensor], bad: torch.Tensor | None) -> None:
        extra, facts = (bad,) if self.notes_indices else (), self.kernel.facts
        if not self.has_failed:
            try:
                for positions, numbers, grid in facts.launches(len(tensors)):
                    self.run[grid](*(tensors[k] for k in positions), *extra, *numbers, **self.module.OPTIONS)
                return
            except self.failures() as error:
                self.has_failed = True
                note_refused(self.module, worker.first_line(error))
        for positions, numbers in facts.calls(len(tensors)):
            self.module.reference(*(flat(tensors[k]) for k in positions), *extra, *numbers)

    def failures(self) -> tuple[type[BaseException], ...]:
        """What Triton raises for a kernel that it cannot compile, or that the device has no room for."""
        triton = worker.the_compiler()
        errors = triton.runtime.errors
        return triton.compiler.CompilationError, errors.OutOfResources, errors.PTXASError


class Reference:
    """A kernel as its ATen calls, for the C program."""

    def __init__(self, kernel: Kernel, bad: torch.Tensor | None) -> None:
        self.kernel, self.bad = kernel, bad
        self.__name__ = getattr(kernel.module.KERNEL, "__name__", "kernel")

    def __call__(self, *tensors: torch.Tensor) -> None:
        extra = (self.bad,) if self.kernel.facts.takes_bad else ()
        for positions, numbers in self.kernel.facts.calls(len(tensors)):
            self.kernel.module.reference(*(flat(tensors[k]) for k in positions), *extra, *numbers)


def note_refused(module: ModuleType, why: str) -> None:
    name = getattr(module.KERNEL, "__name__", "a kernel")
    emit(Note(FAILED, f"{name} runs as ATen calls: Triton refused it: {why}"))


def flat(t: torch.Tensor) -> torch.Tensor:
    """The elements of a buffer by position in memory."""
    size = 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) if t.numel() else 0
    return t.as_strided((size,), (1,))
