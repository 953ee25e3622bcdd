"""A Hypothesis strategy for tensor programs: the text of a function over tensors, and of the tensors it is called with.

While a program is drawn, every statement is run in eager at once. So the writer knows the shape, dtype and strides of every name and can
choose operands that fit; a statement that eager refuses is dropped. Draws are indices into lists with the plain choice first and
come in a fixed order, so that shrinking removes statements and makes the rest plainer.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st

from tests.inductor import program_ops as ops

FLOATS = ("float32", "float64", "bfloat16", "float16")
INTEGERS = ("int64", "int32", "uint8", "bool", "int8", "int16")
EXTENTS = (2, 3, 1, 4, 5, 7, 0, 8, 16, 17, 33, 65)
LONG_EXTENTS = (130, 300, 1030)
FILLS = ("normal", "simple", "special", "zeros", "positive")
LAYOUTS = ("dense", "transposed", "strided", "offset", "reversed", "expanded", "channels_last")
MOST_ELEMENTS, MOST_INPUT_ELEMENTS = 30_000, 5_000

_SPECIAL = (0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.0, 0.5, 1e-40, -1e-7, 3e4, -7e4, 1e30, -2.5, 3.5, 88.8)
_SIMPLE = tuple(n / 4 for n in range(-16, 17))


def values(count: int, dtype: torch.dtype, fill: str, seed: int) -> torch.Tensor:
    """`count` numbers, always the same for one seed."""
    generator = torch.Generator().manual_seed(seed)
    pick = torch.randint(0, 1 << 30, (count,), generator=generator)
    if fill == "zeros":
        return torch.zeros(count, dtype=dtype)
    if dtype == torch.bool:
        return pick % 2 == 0
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        if fill == "special":
            table = torch.tensor([0, 1, 2, info.max, info.min, info.max - 1, max(info.min, -1), 7], dtype=dtype)
            return table[pick % len(table)]
        low = 0 if fill == "positive" else max(info.min, -9)
        return (pick % 17 + low).to(dtype)
    if fill == "special":
        return torch.tensor(_SPECIAL, dtype=torch.float64).to(dtype)[pick % len(_SPECIAL)]
    if fill == "simple":
        return torch.tensor(_SIMPLE, dtype=torch.float64).to(dtype)[pick % len(_SIMPLE)]
    normal = torch.randn(count, generator=generator, dtype=torch.float64)
    return (normal.abs() + 0.1 if fill == "positive" else normal).to(dtype)


def make(shape: Sequence[int], dtype: torch.dtype, fill: str = "normal", layout: str = "dense", seed: int = 0) -> torch.Tensor:
    """An input: its values, and how they lie in memory."""
    shape = tuple(shape)
    rank, count = len(shape), math.prod(shape)
    if layout == "transposed" and rank >= 2:
        turned = (*shape[:-2], shape[-1], shape[-2])
        return values(count, dtype, fill, seed).view(turned).transpose(-1, -2)
    if layout == "reversed" and rank >= 2:
        return values(count, dtype, fill, seed).view(shape[::-1]).permute(*range(rank - 1, -1, -1))
    if layout == "channels_last" and rank >= 3:  # the second dim varies fastest, as torch's memory formats for images and volumes have it
        last = (shape[0], *shape[2:], shape[1])
        return values(count, dtype, fill, seed).view(last).movedim(-1, 1)
    if layout == "strided" and rank >= 1:
        return values(count * 2, dtype, fill, seed).view(*shape[:-1], shape[-1] * 2)[..., ::2]
    if layout == "offset":
        return values(count + 3, dtype, fill, seed)[3:].view(shape)
    if layout == "expanded" and rank >= 1:
        return values(math.prod(shape[1:]), dtype, fill, seed).view(1, *shape[1:]).expand(shape)
    return values(count, dtype, fill, seed).view(shape)


@dataclass(frozen=True)
class Program:
    """`inputs` are (name, expression) in order; an expression may use earlier names. `body` are the lines of `f`."""

    inputs: tuple[tuple[str, str], ...]
    body: tuple[str, ...]
    outputs: tuple[str, ...]
    grads: tuple[str, ...] = ()

    def function(self) -> str:
        names = ", ".join(name for name, _ in self.inputs)
        return "\n".join([f"def f({names}):", *(f"    {line}" for line in self.body), f"    return [{', '.join(self.outputs)}]"]) + "\n"

    def __repr__(self) -> str:
        made = [f"{name} = {text}" for name, text in self.inputs] + [f"{name}.requires_grad_()" for name in self.grads]
        header = ["import torch", "import torch.nn.functional as F", "from tests.inductor.programs import make"]
        return "\n" + "\n".join([*header, *made, ""]) + self.function()

    def arguments(self) -> list[torch.Tensor]:
        """Fresh inputs, equal in every call."""
        names: dict[str, Any] = {"torch": torch, "make": make}
        for name, text in self.inputs:
            names[name] = eval(text, names)
        for name in self.grads:
            names[name].requires_grad_()
        return [names[name] for name, _ in self.inputs]

    def compile(self) -> Callable[..., list[torch.Tensor]]:
        """A new function object, with a code object of its own."""
        names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        exec(compile(self.function(), "<program>", "exec"), names)
        return names["f"]


@dataclass
class Writer:
    """Draws one program. `env` holds eager's value of every name so far."""

    draw: st.DrawFn
    env: dict[str, Any] = field(default_factory=lambda: {"torch": torch, "F": torch.nn.functional, "make": make})
    inputs: list[tuple[str, str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    # ---- draws ----

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def one_of(self, choices: Sequence[Any]) -> Any:
        return choices[self.number(0, len(choices) - 1)]

    def chance(self, percent: int) -> bool:
        """Plain answer (False) first: what shrinks."""
        return self.number(0, 99) >= 100 - percent

    # ---- names and their values ----

    def value(self, name: str) -> torch.Tensor:
        return self.env[name]

    def name_where(self, fits: Callable[[torch.Tensor], bool]) -> str | None:
        """A name whose value fits, newest first; None when there is none."""
        found = [n for n in reversed(self.names) if fits(self.value(n))]
        if not found:
            return None
        name = self.one_of(found)
        self.used.add(name)
        return name

    def any_name(self) -> str:
        name = self.name_where(lambda t: True)
        assert name is not None
        return name

    def dim_of(self, name: str) -> int | None:
        rank = self.value(name).ndim
        if rank == 0:
            return None
        at = self.number(0, rank - 1)
        return at if self.number(0, 1) == 0 else at - rank

    def partner(self, name: str, fits: Callable[[torch.Tensor], bool] = lambda t: True) -> str:
        """A name that broadcasts with this one; itself fits at the least."""
        shape = self.value(name).shape
        found = self.name_where(lambda t: _broadcasts(t.shape, shape) and fits(t))
        return name if found is None else found

    def fresh(self) -> str:
        return f"v{len(self.body)}"

    def run(self, line: str) -> bool:
        """Add a statement when eager takes it."""
        before = set(self.env)
        try:
            exec(line, self.env)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError, ZeroDivisionError, OverflowError):
            return False
        for name in [n for n in self.env if n not in before]:
            made = self.env[name]
            if not isinstance(made, torch.Tensor) or made.numel() > MOST_ELEMENTS or made.is_complex():
                del self.env[name]
                return False
            self.names.append(name)
        self.body.append(line)
        return True

    # ---- the program ----

    def shape(self) -> tuple[int, ...]:
        rank = self.one_of((2, 1, 3, 2, 0, 4))
        extents = [self.one_of(EXTENTS) for _ in range(rank)]
        if rank and self.chance(10):
            extents[self.number(0, rank - 1)] = self.one_of(LONG_EXTENTS)
        while math.prod(extents) > MOST_INPUT_ELEMENTS:
            extents[extents.index(max(extents))] = 3
        return tuple(extents)

    def related(self, base: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that broadcasts with `base`, or one that has nothing to do with it."""
        kind = self.number(0, 5)
        if kind <= 2:
            return base
        if kind == 3:
            return tuple(1 if self.number(0, 1) else n for n in base)
        if kind == 4:
            return base[self.number(0, len(base)) :]
        return self.shape()

    def add_input(self, base: tuple[int, ...], dtypes: Sequence[str]) -> None:
        name = "abcd"[len(self.inputs)]
        text = None
        if self.inputs and self.chance(8):  # another look at the memory of an earlier input
            other = self.one_of([n for n, _ in self.inputs])
            text = self.one_of(ops.shared_inputs(self.value(other), other))
        if text is None:
            dtype = self.one_of(dtypes)
            fill, layout = self.one_of(FILLS), self.one_of(("dense", *LAYOUTS))
            text = f"make({self.related(base)}, torch.{dtype}, {fill!r}, {layout!r}, {len(self.inputs)})"
        self.inputs.append((name, text))
        self.env[name] = eval(text, self.env)
        self.names.append(name)

    def program(self) -> Program:
        wants_grad = self.chance(25)
        base = self.shape()
        main = self.one_of(FLOATS)
        dtypes = [main, main, *FLOATS[:2]] if wants_grad else [main, main, *FLOATS, *INTEGERS]
        for _ in range(self.number(1, 4)):
            self.add_input(base, dtypes)
        grads: list[str] = []
        if wants_grad:
            plain = [n for n, text in self.inputs if text.startswith("make(") and self.value(n).is_floating_point()]
            grads = [n for n in plain if not self.shared(n)]
            for name in grads:
                self.env[name].requires_grad_()
        for _ in range(self.number(1, 16)):
            self.statement()
        return Program(tuple(self.inputs), tuple(self.body), self.outputs(), tuple(grads))

    def shared(self, name: str) -> bool:
        storage = self.value(name).untyped_storage()._cdata
        return any(n != name and self.value(n).untyped_storage()._cdata == storage for n, _ in self.inputs)

    def statement(self) -> None:
        kind = self.one_of(ops.KINDS)
        line = kind(self)
        if line is not None:
            self.run(line)

    def outputs(self) -> tuple[str, ...]:
        """What nothing else reads, and some more."""
        found = [n for n in self.names if n not in self.used and n.startswith("v")]
        for _ in range(self.number(0, 2)):
            found.append(self.one_of(self.names))
        return tuple(found or self.names[-1:])


def _broadcasts(a: Sequence[int], b: Sequence[int]) -> bool:
    return all(p == q or 1 in (p, q) for p, q in zip(reversed(a), reversed(b), strict=False))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Writer(draw).program()
