"""What every statement of a tensor program is drawn with: choices in a fixed order, and eager's value of each name so far."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st

from minifier.fuzz.draw.values import make

MOST_ELEMENTS = 30_000


@dataclass
class Writer:
    """Draws one program. `env` holds eager's value of every name so far, `wanted` the only operators, where there are any.

    Of choices that have it, `row` is taken.
    """

    draw: st.DrawFn
    env: dict[str, Any] = field(default_factory=lambda: {"torch": torch, "F": torch.nn.functional, "make": make})
    inputs: list[tuple[str, str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    wanted: frozenset[str] = frozenset()
    row: str = ""

    # ---- draws ----

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def one_of(self, choices: Sequence[Any]) -> Any:
        if self.row and self.row in choices:
            return self.row
        if self.wanted:
            choices = [c for c in choices if isinstance(c, str) and self.is_wanted(c)] or choices
        return choices[self.number(0, len(choices) - 1)]

    def is_wanted(self, text: str) -> bool:
        """Whether a text names an operator that is wanted."""
        return not self.wanted.isdisjoint(re.findall(r"\w+", text))

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
        """Add a statement when it has an operator that is wanted and eager takes it."""
        if self.wanted and not self.is_wanted(line):
            return False
        before = set(self.env)
        try:
            if self.gives_history(line):
                return False
            exec(line, self.env)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError, ZeroDivisionError, OverflowError):
            return False
        # Of the first line that warns, `exec` keeps a registry there too.
        for name in [n for n in self.env if n not in before and not n.startswith("__")]:
            made = self.env[name]
            if not isinstance(made, torch.Tensor) or made.numel() > MOST_ELEMENTS or made.is_complex():
                del self.env[name]
                return False
            self.names.append(name)
        self.body.append(line)
        return True

    def gives_history(self, line: str) -> bool:
        """Whether a write leaves whole numbers or truth values that need a gradient, which no graph can hold: tried on copies."""
        writes = "_(" in line or not re.match(r"v\d+ = ", line)
        if not writes or not any(self.value(n).requires_grad for n in self.names):
            return False
        copies = {n: self.value(n).clone() for n in self.names}
        exec(line, {**self.env, **copies})
        return any(t.requires_grad and not t.is_floating_point() for t in copies.values())


def _broadcasts(a: Sequence[int], b: Sequence[int]) -> bool:
    return all(p == q or 1 in (p, q) for p, q in zip(reversed(a), reversed(b), strict=False))
