"""The one interface to sizes.

A dimension is a Python int today. Code outside this file and `affine.py` may add, subtract and multiply dims, and otherwise asks the
questions below, so that a symbolic dim needs a change here and there only (`tests/inductor/test_sizes.py` holds it). What a question
answers is what is *known*: where `known_equal` says no, two sizes may still be equal, so the answer no must be safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

Dim = int
Shape = tuple[Dim, ...]
LEAST = 2  # what a size may be that is known only when a kernel runs: 0 and 1 change how programs look, and get programs of their own


SIZES = "sizes"  # the buffer, of i64, with those sizes


class SizeUnknown(Exception):
    """A size that is known only when the kernel runs was taken for a number."""


class RunSize(int):
    """Size `number` of those that a kernel is told when it runs. An int, its hint, for the type checker only: nobody may compute with it.

    Nothing makes these yet: they are the place where sizes that change will come in. `tests/inductor/test_sizes.py` shows the way.
    """

    number: int

    def __new__(cls, number: int, hint: int) -> Self:
        made = super().__new__(cls, hint)
        made.number = number
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunSize) and other.number == self.number

    def __hash__(self) -> int:
        return hash((RunSize, self.number))

    def _refuse(self, *others: object) -> Any:
        raise SizeUnknown(f"size {self.number} is known only when the kernel runs")

    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __index__ = __str__ = __format__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __truediv__ = __rtruediv__ = _refuse


def as_shape(values: Sequence[Any]) -> Shape:
    """Sizes as found in FX metadata: ints, or SymInts with a hint."""
    return tuple(int(v) for v in values)


def numel(shape: Sequence[Dim]) -> Dim:
    total = 1
    for extent in shape:
        total *= extent
    return total


def hint(dim: Dim) -> int:
    """A concrete number for heuristics; never for correctness."""
    return int(dim)


def volume(shape: Iterable[Dim]) -> int:
    """`numel` by hints."""
    total = 1
    for extent in shape:
        total *= int(extent)
    return total


def is_known(dim: Dim) -> bool:
    return not isinstance(dim, RunSize)


def number(dim: Dim) -> int:
    """The size itself, for who runs a program, or prints code that holds for this size only."""
    if isinstance(dim, RunSize):
        raise SizeUnknown(f"size {dim.number} is wanted as a number")
    return dim


def dim_text(dim: Dim) -> str:
    """A size in programs and in C, where `sizes` are those that the kernel is told."""
    return f"{SIZES}[{dim.number}]" if isinstance(dim, RunSize) else str(dim)


def known_equal(a: Dim, b: Dim) -> bool:
    return a == b


def is_one(dim: Dim) -> bool:
    return dim == 1


def is_empty(dim: Dim) -> bool:
    return dim == 0


def no_elements(shape: Iterable[Dim]) -> bool:
    return any(map(is_empty, shape))


def at_least(dim: Dim, bound: Dim) -> bool:
    if isinstance(bound, RunSize):
        return dim == bound
    return (LEAST if isinstance(dim, RunSize) else dim) >= bound


def divides(by: Dim, dim: Dim) -> bool:
    if is_known(by) and is_known(dim):
        return dim % by == 0
    return by == 1 or by == dim


def quotient(dim: Dim, by: Dim) -> Dim:
    """How often `by` fits into `dim`, rounded down."""
    return dim // by


def in_order(terms: Iterable[tuple[Dim, Dim]]) -> list[tuple[Dim, Dim]]:
    """Pairs of sizes from small to large, as their hints are."""
    return sorted(terms, key=lambda term: (hint(term[0]), hint(term[1])))


def start_in(start: int | None, dim: Dim) -> Dim:
    """Where a slice begins: negative places count from the end, and none lies outside."""
    begin = 0 if start is None else start
    return max(0, min(begin + dim if begin < 0 else begin, dim))


def contiguous_strides(shape: Sequence[Dim]) -> Shape:
    strides: list[Dim] = []
    running = 1
    for extent in reversed(shape):
        strides.append(running)
        running *= max(extent, 1)
    return tuple(reversed(strides))


def span(shape: Sequence[Dim], strides: Sequence[Dim]) -> Dim:
    """Elements of storage that a strided layout touches, counted from its first element."""
    if no_elements(shape):
        return 0
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))


def is_dense(shape: Sequence[Dim], strides: Sequence[Dim]) -> bool:
    """True when the layout fills its span without gaps or overlaps, in any dimension order."""
    expected = 1
    for stride, extent in sorted((s, n) for n, s in zip(shape, strides, strict=True) if n != 1):
        if stride != expected:
            return False
        expected *= extent
    return True
