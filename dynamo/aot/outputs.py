"""What a call gives, one output after the other: some are views of others, see `nested`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OfAnother:
    """Makes an output of another one, by its position. Other builders are functions of the arguments and the results of the graph."""

    of: int
    view: Callable[[Any], Any]


def output(p: int, builders: Sequence[Any], args: Any, results: Sequence[Any], made: dict[int, Any]) -> Any:
    """One output for the caller, made once, and behind the one that it is a view of."""
    if p not in made:
        b = builders[p]
        made[p] = b.view(output(b.of, builders, args, results, made)) if isinstance(b, OfAnother) else b(args, results)
    return made[p]


def outputs_of(builders: Sequence[Any], args: Any, results: Sequence[Any], made: dict[int, Any]) -> list[Any]:
    """All outputs, those that are `made` already among them."""
    return [output(p, builders, args, results, made) for p in range(len(builders))]
