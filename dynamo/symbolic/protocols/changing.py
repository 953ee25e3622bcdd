"""Python numbers that are other numbers at each call: a module's count of its calls, a step, a learning rate.

A number that came in is a constant of the trace, and calls with another number compile again. Once two entries didn't fit for the same
number it is one that changes: what is computed of it is computed again by the entry (`Source` steps), guarded only where its value decides
something, and tensor arithmetic takes it as a tensor without dimensions. Where the value itself is needed (a size, a dim, an index) it is
a constant as before.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynamo.source import Source
from dynamo.symbolic.values.kinds import Const, TensorValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

# Entries that a number didn't fit before it counts as one that changes.
TIMES = 2

_OF_NUMBER: weakref.WeakSet[Callable[[Any], Any]] = weakref.WeakSet()

KINDS: tuple[type, ...] = (int, float)
RESULTS = (int, float, bool)


class Changing(Const):
    """A number that came in, or one computed of such a number. Reading `.value` guards it, as for any constant."""

    __slots__ = ()


def step_of(fn: Callable[..., Any], before: tuple[Any, ...] = (), after: tuple[Any, ...] = ()) -> Callable[[Any], Any]:
    """`x -> fn(*before, x, *after)` as an argument of `Source` steps; equal ones are one object."""
    return _step(fn, before, after, repr((before, after)))


@functools.cache
def _step(fn: Callable[..., Any], before: tuple[Any, ...], after: tuple[Any, ...], exactly: str) -> Callable[[Any], Any]:
    """`exactly` tells -0.0 from 0.0 and True from 1."""

    def compute(x: Any) -> Any:
        return fn(*before, x, *after)

    compute.__name__ = f"{getattr(fn, '__name__', 'call')}{exactly}"
    return of_number(compute)


def of_number(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Marks a function of `Source` steps: it leads from a number to what is computed of it."""
    _OF_NUMBER.add(compute)
    return compute


def number_at(source: Source) -> Source:
    """Where the number lies that the value at `source` is, or is computed of."""
    while source.kind == "call" and source.base is not None and source.arg in _OF_NUMBER:
        source = source.base
    return source


def often(names: Iterable[set[str]]) -> frozenset[str]:
    """The sources that are in enough of the sets: numbers that change."""
    counts: dict[str, int] = {}
    for name in (name for found in names for name in found):
        counts[name] = counts.get(name, 0) + 1
    return frozenset(name for name, n in counts.items() if n >= TIMES)


def computed(tx: Tracer, fn: Callable[..., Any], args: Sequence[Value]) -> Const | None:
    """`fn(*args)` of one number that changes and constants: computed again by the entry. None for anything else, also if it raises.

    Nothing in a region is: what runs there later is the program's own code, with the numbers that it found while it was traced.
    """
    if tx.builder.scopes:
        return None
    at = [i for i, a in enumerate(args) if isinstance(a, Changing) and not a.guarded]
    if len(at) != 1 or not all(isinstance(a, Const) for a in args):
        return None
    number = args[at[0]]
    assert isinstance(number, Changing)
    assert number.source is not None
    before, after = (tuple(a.value for a in part if isinstance(a, Const)) for part in (args[: at[0]], args[at[0] + 1 :]))
    if not all(type(x) in (int, float, bool) for x in (*before, *after)):
        return None
    try:
        result = fn(*before, number.peek(), *after)
    except Exception:  # noqa: BLE001  # the program's own error, raised where the values are read
        return None
    if type(result) not in RESULTS:
        return None
    source = number.source.step("call", step_of(fn, before, after))
    tx.guard(source, "type", type(result))  # and fails where `fn` raises
    return (Const if type(result) is bool else Changing)(result, source, tx)


def as_tensor(n: Any) -> torch.Tensor:
    """The number as a tensor of Python's precision. An integer beyond 64 bits raises, so a guard on the tensor fails."""
    return torch.scalar_tensor(n, dtype=torch.int64 if type(n) is int else torch.float64, device="cpu")


def tensor_of(tx: Tracer, number: Changing) -> TensorValue | None:
    """The number as an input of the graph; None for an integer beyond 64 bits, and in a region."""
    assert number.source is not None
    if tx.builder.scopes:
        return None
    if type(number.peek()) is int and not -(1 << 63) <= number.peek() < 1 << 63:
        return None
    source = number.source.step("call", as_tensor)
    known = tx.numbers.get(source)
    if known is None:
        made = tx.add_input(as_tensor(number.peek()), source, baked=False)
        assert isinstance(made, TensorValue)
        known = tx.numbers[source] = made
    return known
