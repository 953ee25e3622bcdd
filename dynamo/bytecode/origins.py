"""Which code a continuation continues: code objects made from the middle of others know their originals."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType

from dynamo.bytecode.decode import Program, decode

Shape = tuple[bool, ...]  # per stack position, bottom first: is it a NULL?


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Says of a continuation which code it continues. `indices` and `slot_map` lead from its own instructions and slots to those of `code`;
    None where there is no counterpart (prologue, stack parameters, exits)."""

    code: CodeType
    kind: str  # "resume" or "native"
    index: int
    stack_shape: Shape
    slots: tuple[int, ...]
    indices: tuple[int | None, ...]
    slot_map: tuple[int | None, ...]


_origins: dict[int, tuple[weakref.ref[CodeType], Origin]] = {}


def add_origin(made: CodeType, known: Origin) -> None:
    """Remember what `made` continues, as long as it lives."""
    identity = id(made)
    _origins[identity] = (weakref.ref(made, lambda _: _origins.pop(identity, None)), known)


def origin(code: CodeType) -> Origin | None:
    """What `code` continues, or None when it is no continuation."""
    found = _origins.get(id(code))
    return None if found is None else found[1]


def original(code: CodeType) -> CodeType:
    """The code of the program that `code` is or continues."""
    while (known := origin(code)) is not None:
        code = known.code
    return code


def resumes(code: CodeType) -> bool:
    """Whether `code` is the rest of a frame behind a break, or a step of such a rest."""
    known = origin(code)
    return known is not None and (known.kind == "resume" or resumes(known.code))


def is_resume(code: CodeType) -> bool:
    """Whether `code` goes on from an instruction to the end of its frame."""
    known = origin(code)
    return known is not None and known.kind == "resume"


def to_root(code: CodeType, index: int) -> tuple[CodeType, int]:
    """The outermost original code and its instruction for which `index` of `code` stands. The state there is the same."""
    while (known := origin(code)) is not None and index < len(known.indices) and (outer := known.indices[index]) is not None:
        code, index = known.code, outer
    return code, index


def root_slots(code: CodeType, root: CodeType, slots: Iterable[int]) -> tuple[int, ...]:
    """Slots of `code` as slots of `root`, one of the codes it continues; the order is kept."""
    found = tuple(slots)
    while code is not root and (known := origin(code)) is not None:
        found = tuple(_known(known.slot_map[slot]) for slot in found)
        code = known.code
    return found


def _known(slot: int | None) -> int:
    if slot is None:
        raise ValueError("a stack parameter of a continuation is no variable of its original")
    return slot


def is_free(program: Program, slot: int) -> bool:
    """Whether a slot is that of a free variable, in the outermost original too: continuations have cells there."""
    code = program.code
    while (known := origin(code)) is not None and (outer := known.slot_map[slot]) is not None:
        code, slot = known.code, outer
    return decode(code).slots[slot].kind == "free"
