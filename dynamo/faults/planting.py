"""Planting faults: what `DYNAMO_FAULT` says, and what becomes of a value at a point of the compiler.

    DYNAMO_FAULT=wrong-lowering:op=sin,numel=1024
    DYNAMO_FAULT="wrong-lowering;lower-error:op=tanh"

Faults are rows of `rows.py`; `;` separates several. Conditions, all of which must hold:

| condition | the fault acts only |
|---|---|
| `op=sin` | on this operator (every row has a default; `op=` is any) |
| `reads=cos` | where an operand was made by this operator |
| `numel=1024` | where a tensor has more elements than this |
| `strided=1` | where a tensor is not contiguous |
| `dtype=bfloat16` | where a tensor has this dtype |
| `backward=1` | in the backward; with 0 only in the forward |
| `p=0.3` | with this probability, drawn anew each time from the system |

Anything else (`as=cos`) is an option of the fault. What a fault does is one decision of its stage, so that fuel switches it off; where it
spoils a decision of the compiler's own, that decision is the culprit.
"""

from __future__ import annotations

import difflib
import importlib
import os
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dynamo.decisions import decide
from dynamo.faults.points import VARIABLE, pass_through
from dynamo.faults.rows import FAULTS, POINTS, Fault
from dynamo.faults.subjects import Subject

T = TypeVar("T")
CONDITIONS = ("op", "reads", "numel", "strided", "dtype", "backward", "p")
_chance = random.SystemRandom()


class UnknownFault(ValueError):
    """`DYNAMO_FAULT` names a fault that is no row, or has a condition that can't be read."""


@dataclass(frozen=True)
class Planted:
    """A row with the conditions and options it was planted with."""

    fault: Fault
    conditions: Mapping[str, str]
    options: Mapping[str, str] = field(default_factory=dict)

    def hits(self, about: Subject) -> bool:
        """Whether the fault acts on this."""
        wanted = self.conditions
        return (
            wanted.get("op", "") in ("", *about.ops)
            and wanted.get("reads", "") in ("", *about.reads)
            and about.elements > int(wanted.get("numel", -1))
            and wanted.get("strided", str(int(about.is_strided))) == str(int(about.is_strided))
            and wanted.get("dtype", "") in ("", *about.dtypes)
            and wanted.get("backward", str(int(about.is_backward))) == str(int(about.is_backward))
            and _chance.random() < float(wanted.get("p", 1.0))
        )


@dataclass(frozen=True)
class Hit:
    """One moment at which a fault acts: what an act is told. `about` is what the point was given."""

    fault: Fault
    subject: Subject
    about: tuple[Any, ...]
    options: Mapping[str, str]


def parse(text: str) -> tuple[Planted, ...]:
    """Read the value of `DYNAMO_FAULT`. Raises UnknownFault."""
    return tuple(_one(part.strip()) for part in text.split(";") if part.strip())


def _one(text: str) -> Planted:
    name, _, rest = text.partition(":")
    fault = FAULTS.get(name)
    if fault is None:
        near = difflib.get_close_matches(name, FAULTS, 1)
        raise UnknownFault(f"{VARIABLE}: no fault {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    given = {
        key.strip(): value.strip() for key, _, value in (part.partition("=") for part in [*fault.where, *filter(None, rest.split(","))])
    }
    conditions = {key: value for key, value in given.items() if key in CONDITIONS}
    try:
        int(conditions.get("numel", 0)), float(conditions.get("p", 0))
    except ValueError:
        raise UnknownFault(f"{VARIABLE}: {text!r}: numel and p are numbers") from None
    return Planted(fault, conditions, {key: value for key, value in given.items() if key not in CONDITIONS})


def _plant(faults: tuple[Planted, ...]) -> None:
    global _planted
    _planted = faults
    pass_through(_passed if faults else None)


@contextmanager
def planted(text: str) -> Iterator[None]:
    """Other faults for a while. For tests. What is compiled stays so until `dynamo.reset()`. Raises UnknownFault."""
    before = _planted
    _plant(parse(text))
    try:
        yield
    finally:
        _plant(before)


def _passed(point: str, value: Any, about: tuple[Any, ...]) -> Any:
    for one in _planted:
        act = one.fault.acts.get(point)
        if act is not None:
            value = _acted(one, act, point, value, about)
    return value


def _acted(one: Planted, act: str, point: str, value: T, about: tuple[Any, ...]) -> T:
    subject: Subject = _found(POINTS[point].describe)(*about)
    if not one.hits(subject):
        return value
    stage = one.fault.stage
    if one.fault.decides and not decide(stage, f"{one.fault.name} {subject.name}", "a planted fault"):
        return value
    return _found(act)(value, Hit(one.fault, subject, about, one.options))


def _found(path: str) -> Callable[..., Any]:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


_planted: tuple[Planted, ...] = ()
_plant(parse(os.environ.get(VARIABLE, "")))
