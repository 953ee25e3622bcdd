"""What runs of one program in eager say of it: as it is, in float64, and with other rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from minifier.compare.modes import Draws, Exact, Noisy, NoReference, Recorded, widened
from minifier.compare.verdict import Sample

# run(change, mode): the results of eager under the mode, on inputs that are made outside of it, each changed by `change`
Run = Callable[[Callable[[Any], Any], AbstractContextManager[Any]], Sequence[Any]]


@dataclass
class Evidence:
    """Runs of a program in eager, all on the same inputs and random numbers. `eager` is what it gave without any mode."""

    run: Run
    eager: Sequence[Any]
    recorded: Recorded | None = None

    def sample(self, found: Sequence[Any]) -> Sample:
        """What is judged: `found`, beside eager."""
        return Sample([f"result {i}" for i in range(len(found))], self.eager, found, self.exact, self.noisy)

    def draws(self) -> Draws:
        if self.recorded is None:
            self.recorded = Recorded()
            self.run(_same, self.recorded)
        return self.recorded.draws

    def exact(self) -> Sequence[Any] | None:
        """In float64, or None where that can't be run."""
        before = torch.get_default_dtype()
        try:
            draws = self.draws()
            torch.set_default_dtype(torch.float64)
            return self._like_eager(self.run(widened, Exact(draws)))
        except (RuntimeError, TypeError, ValueError, NotImplementedError, LookupError, NoReference):
            return None
        finally:
            torch.set_default_dtype(before)

    def noisy(self, seed: int, amplitude: float) -> Sequence[Any]:
        """With other rounding; eager's own results where that changes the way the program takes."""
        try:
            return self._like_eager(self.run(_same, Noisy(self.draws(), seed, amplitude))) or self.eager
        except (RuntimeError, TypeError, ValueError, LookupError, ArithmeticError):
            return self.eager

    def _like_eager(self, found: Sequence[Any]) -> Sequence[Any] | None:
        same = len(found) == len(self.eager) and all(_shape(f) == _shape(e) for f, e in zip(found, self.eager, strict=True))
        return found if same else None


def _same(value: Any) -> Any:
    return value


def _shape(value: Any) -> Any:
    return value.shape if isinstance(value, torch.Tensor) else type(value)
