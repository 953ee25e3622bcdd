"""A Hypothesis strategy for tensor programs: the text of a function over tensors, and of the tensors it is called with.

While a program is drawn, every statement is run in eager at once. So the writer knows the shape, dtype and strides of every name and can
choose operands that fit; a statement that eager refuses is dropped. Draws are indices into lists with the plain choice first and
come in a fixed order, so that shrinking removes statements and makes the rest plainer.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st

from minifier.fuzz.draw import tensor_ops as ops
from minifier.fuzz.draw.values import make
from minifier.fuzz.draw.writer import Writer

FLOATS = ("float32", "float64", "bfloat16", "float16")
INTEGERS = ("int64", "int32", "uint8", "bool", "int8", "int16")
EXTENTS = (2, 3, 1, 4, 5, 7, 0, 8, 16, 17, 33, 65)
LONG_EXTENTS = (130, 300, 1030)
FILLS = ("normal", "simple", "special", "zeros", "positive")
LAYOUTS = ("dense", "transposed", "strided", "offset", "reversed", "expanded", "channels_last")
MOST_INPUT_ELEMENTS = 5_000
TRIES = 12  # at a statement, where few operators are wanted


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
        header = ["import torch", "import torch.nn.functional as F", "from minifier.fuzz.draw.values import make"]
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
class ProgramWriter(Writer):
    """Draws one program."""

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
        grads = self.marked() if wants_grad else ()
        for _ in range(self.number(1, 16) * (TRIES if self.wanted else 1)):
            self.statement()
        return Program(tuple(self.inputs), tuple(self.body), self.outputs(), grads)

    def marked(self) -> tuple[str, ...]:
        """The inputs that gradients are wanted for from now on: floats with memory of their own."""
        plain = [n for n, text in self.inputs if text.startswith("make(") and self.value(n).is_floating_point()]
        grads = tuple(n for n in plain if not self.shared(n))
        for name in grads:
            self.env[name].requires_grad_()
        return grads

    def shared(self, name: str) -> bool:
        storage = self.value(name).untyped_storage()._cdata
        return any(n != name and self.value(n).untyped_storage()._cdata == storage for n, _ in self.inputs)

    def statement(self) -> None:
        self.add(self.one_of(ops.KINDS))

    def add(self, kind: ops.Kind, row: str = "") -> bool:
        """A statement of a kind, with a row of its table if one is named; False where eager refuses it."""
        self.row = row
        line = kind(self)
        self.row = ""
        return line is not None and self.run(line)

    def outputs(self) -> tuple[str, ...]:
        """What nothing else reads, and some more."""
        found = [n for n in self.names if n not in self.used and n.startswith("v")]
        for _ in range(self.number(0, 2)):
            found.append(self.one_of(self.names))
        return tuple(found or self.names[-1:])


@st.composite
def programs(draw: st.DrawFn, ops: frozenset[str] = frozenset()) -> Program:
    """One program. Of `ops`, where any are named, each of its statements has one: the last part of a name, as `sin` or `layer_norm`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ProgramWriter(draw, wanted=ops).program()
