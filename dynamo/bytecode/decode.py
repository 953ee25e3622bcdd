"""Code object -> `Program`: its instructions, exception ranges and variable slots, twice.

`Program.instrs` is the code as CPython runs it (EXTENDED_ARG folded, caches and specialisations gone): indices into it are what
breaks and resume functions are named by. `Program.normal` is the same code with version differences hidden, for interpreters;
each of its instructions names in `orig` the original instruction at which one breaks or resumes.

What `normal` hides (tables `RENAMED`, `SPLIT`, `INTRINSICS` below):
- POP_JUMP_{FORWARD,BACKWARD}_IF_x are POP_JUMP_IF_x; JUMP_FORWARD, JUMP_BACKWARD are JUMP; `backward` tells the direction.
- LOAD_FAST_CHECK and LOAD_CLOSURE are LOAD_FAST (on a slot that holds a cell it yields the cell, as on 3.13).
- LOAD_METHOD is LOAD_ATTR with `method` set.
- PRECALL and KW_NAMES are folded into CALL: its `argval` is the tuple of keyword names and its `orig` the first of the group.
  (3.13 keeps CALL_KW, which pops that tuple.)
- RETURN_CONST is LOAD_CONST, RETURN_VALUE; super-instructions are their two halves; COMPARE_OP with `to_bool` is COMPARE_OP, TO_BOOL.
- UNARY_POSITIVE, LIST_TO_TUPLE, IMPORT_STAR, PREP_RERAISE_STAR, ASYNC_GEN_WRAP carry these names though 3.12 calls intrinsics.
- FOR_ITER pops the exhausted iterator and goes to `target`, which lies behind END_FOR (that is also what CPython does).
What it does not hide: where NULL stands (`facts.NULL_AFTER_CALLABLE`), FORMAT_VALUE, MAKE_FUNCTION flags, JUMP_IF_x_OR_POP.

Invariant: `target`, ranges and `Program.normal_index` always name existing indices of their own list (an end may be its length).
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Final, Literal, NamedTuple

from dynamo.bytecode import facts

SlotKind = Literal["local", "cell", "free"]


class Slot(NamedTuple):
    """One variable of the frame. `cell` and `free` slots hold a cell object once the code's prologue has run."""

    name: str
    kind: SlotKind


class Range(NamedTuple):
    """Instructions start..end-1 are protected: cut the stack to `depth`, push the offset if `lasti` and the exception, go to `target`."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


class Instr(NamedTuple):
    """One instruction. `argval` by opcode: the constant, the name, the variable's name, the operator's symbol, the intrinsic's name,
    the target index of a jump, otherwise the bare argument."""

    op: str
    arg: int
    argval: object
    target: int | None
    orig: int
    line: int | None
    end_line: int | None
    col: int | None
    end_col: int | None
    offset: int
    push_null: bool = False
    method: bool = False
    backward: bool = False
    to_bool: bool = False

    def moved(self, arg: int, target: int | None) -> Instr:
        """The same with another argument and target, faster than `_replace`: every instruction of a continuation passes here."""
        where = self.line, self.end_line, self.col, self.end_col, self.offset
        flags = self.push_null, self.method, self.backward, self.to_bool
        return Instr(self.op, arg, self.argval, target, self.orig, *where, *flags)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A decoded code object. `entry` is the first instruction behind RESUME; `normal_index` maps original to normalised indices."""

    code: CodeType
    instrs: tuple[Instr, ...]
    normal: tuple[Instr, ...]
    ranges: tuple[Range, ...]
    normal_ranges: tuple[Range, ...]
    normal_index: tuple[int, ...]
    slots: tuple[Slot, ...]
    nlocalsplus: int
    entry: int
    is_generator: bool
    facts: dict[Any, Any] = field(default_factory=dict)  # what analyses found, by analysis

    def handler(self, index: int) -> Range | None:
        """The range that protects original instruction `index`."""
        return _covering(self.ranges, index)


GENERATOR_FLAGS: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
CACHE_LIMIT: Final = 8192

_programs: dict[int, Program] = {}


def decode(code: CodeType) -> Program:
    """The program of `code`, made once per code object (by identity: equal code objects can differ in positions)."""
    program = _programs.get(id(code))
    if program is None:
        program = _decode(code)
        if len(_programs) >= CACHE_LIMIT:
            del _programs[next(iter(_programs))]
        _programs[id(code)] = program
    return program


def forget(code: CodeType) -> None:
    """Drop the program of a code object that is not run any more."""
    _programs.pop(id(code), None)


def slots_of(code: CodeType) -> tuple[Slot, ...]:
    """Variables in slot order: since 3.11 locals, cells and free variables share one numbering."""
    cells = frozenset(code.co_cellvars)
    local_names = frozenset(code.co_varnames)
    slots = [Slot(name, "cell" if name in cells else "local") for name in code.co_varnames]
    slots += [Slot(name, "cell") for name in code.co_cellvars if name not in local_names]
    slots += [Slot(name, "free") for name in code.co_freevars]
    return tuple(slots)


# -- reading ---------------------------------------------------------------------------------------------------------------------

Reader = Callable[[CodeType, tuple[Slot, ...], int], object]

_READ_BY_NAME: Final[dict[str, Reader]] = {
    "LOAD_GLOBAL": lambda code, slots, arg: code.co_names[arg >> facts.LOAD_GLOBAL_SHIFT],
    "LOAD_ATTR": lambda code, slots, arg: code.co_names[arg >> facts.LOAD_ATTR_SHIFT],
    "LOAD_SUPER_ATTR": lambda code, slots, arg: code.co_names[arg >> facts.LOAD_SUPER_ATTR_SHIFT],
    "COMPARE_OP": lambda code, slots, arg: facts.COMPARE_OPERATORS[arg >> facts.COMPARE_SHIFT],
    "BINARY_OP": lambda code, slots, arg: facts.BINARY_OPERATORS[arg],
    "CALL_INTRINSIC_1": lambda code, slots, arg: facts.INTRINSICS_1[arg],
    "CALL_INTRINSIC_2": lambda code, slots, arg: facts.INTRINSICS_2[arg],
    "LOAD_FAST_LOAD_FAST": lambda code, slots, arg: (slots[arg >> 4].name, slots[arg & 15].name),
    "STORE_FAST_LOAD_FAST": lambda code, slots, arg: (slots[arg >> 4].name, slots[arg & 15].name),
    "STORE_FAST_STORE_FAST": lambda code, slots, arg: (slots[arg >> 4].name, slots[arg & 15].name),
}


def _read_const(code: CodeType, slots: tuple[Slot, ...], arg: int) -> object:
    return code.co_consts[arg]


def _read_name(code: CodeType, slots: tuple[Slot, ...], arg: int) -> object:
    return code.co_names[arg]


def _read_slot(code: CodeType, slots: tuple[Slot, ...], arg: int) -> object:
    return slots[arg].name


def _read_arg(code: CodeType, slots: tuple[Slot, ...], arg: int) -> object:
    return arg


class _Op(NamedTuple):
    name: str
    caches: int
    read: Reader | None
    sign: int  # of the jump: 0 for none


def _op_table() -> tuple[_Op, ...]:
    by_list: list[tuple[list[int], Reader]] = [
        (dis.hasconst, _read_const),
        (dis.hasname, _read_name),
        (dis.haslocal, _read_slot),
        (dis.hasfree, _read_slot),
    ]
    readers: dict[int, Reader] = {op: read for ops, read in by_list for op in ops}
    readers |= {facts.OPMAP[name]: read for name, read in _READ_BY_NAME.items() if name in facts.OPMAP}
    table = []
    for op in range(256):
        name = dis.opname[op].removeprefix("INSTRUMENTED_")
        plain = facts.OPMAP.get(name, op)
        sign = 0 if plain not in dis.hasjrel else -1 if "BACKWARD" in name else 1
        read = readers.get(plain, _read_arg) if plain in facts.WITH_ARGUMENT else None
        table.append(_Op(name, facts.CACHES[plain], read, sign))
    return tuple(table)


_OPS: Final = _op_table()
_EXTENDED_ARG: Final = facts.OPMAP["EXTENDED_ARG"]


def _units(raw: bytes) -> Iterator[tuple[int, int, int, int, _Op]]:
    """(start, offset, end, argument, opcode row) of each instruction: from its first EXTENDED_ARG, its opcode, to behind its caches."""
    offset = start = extended = 0
    size = len(raw)
    while offset < size:
        number = raw[offset]
        arg = raw[offset + 1] | extended
        if number == _EXTENDED_ARG:
            extended = arg << 8
            offset += 2
            continue
        row = _OPS[number]
        end = offset + 2 + 2 * row.caches
        yield start, offset, end, arg, row
        offset = start = end
        extended = 0


def _decode(code: CodeType) -> Program:
    slots = slots_of(code)
    units = list(_units(code.co_code))
    index_of = {start: i for i, (start, _, _, _, _) in enumerate(units)}
    index_of[len(code.co_code)] = len(units)
    positions = list(code.co_positions())
    instrs = []
    for i, (_, offset, end, arg, row) in enumerate(units):
        name, _, read, sign = row
        target = index_of[end + 2 * sign * arg] if sign else None
        argval = target if sign else read(code, slots, arg) if read else None
        line, end_line, col, end_col = positions[offset >> 1]
        push_null, method, to_bool = _FLAGS[name](arg) if name in _FLAGS else _NO_FLAGS
        flags = push_null, method, sign < 0, to_bool
        instrs.append(Instr(name, arg, argval, target, i, line, end_line, col, end_col, offset, *flags))
    ranges = tuple(_ranges(code.co_exceptiontable, index_of))
    normal, normal_index = _normalise(instrs)
    return Program(
        code=code,
        instrs=tuple(instrs),
        normal=tuple(normal),
        ranges=ranges,
        normal_ranges=tuple(
            r._replace(start=normal_index[r.start], end=normal_index[r.end], target=normal_index[r.target]) for r in ranges
        ),
        normal_index=tuple(normal_index),
        slots=slots,
        nlocalsplus=len(slots),
        entry=next((i + 1 for i, instr in enumerate(instrs) if instr.op == "RESUME"), 0),
        is_generator=bool(code.co_flags & GENERATOR_FLAGS),
    )


# Of each opcode that has any: push_null, method, to_bool.
_NO_FLAGS: Final = (False, False, False)
_FLAGS: Final[dict[str, Callable[[int], tuple[bool, bool, bool]]]] = {
    "LOAD_GLOBAL": lambda arg: (bool(arg & 1), False, False),
    "LOAD_ATTR": lambda arg: (False, bool(arg & facts.LOAD_ATTR_SHIFT), False),
    "LOAD_METHOD": lambda arg: (False, True, False),
    "LOAD_SUPER_ATTR": lambda arg: (False, bool(arg & 1), False),
    "COMPARE_OP": lambda arg: (False, False, bool(arg & facts.COMPARE_TO_BOOL)),
}


def _ranges(table: bytes, index_of: dict[int, int]) -> Iterator[Range]:
    """Entries of the exception table: four numbers in groups of six bits, most significant first (Objects/exception_handling_notes.txt)."""
    data = iter(table)

    def number() -> int:
        byte = next(data)
        value = byte & 63
        while byte & 64:
            byte = next(data)
            value = value << 6 | byte & 63
        return value

    while True:
        try:
            start = 2 * number()
        except StopIteration:
            return
        end = start + 2 * number()
        target = 2 * number()
        depth = number()
        yield Range(index_of[start], index_of[end], index_of[target], depth >> 1, bool(depth & 1))


def _covering(ranges: tuple[Range, ...], index: int) -> Range | None:
    return next((r for r in ranges if r.start <= index < r.end), None)


# -- normalising -----------------------------------------------------------------------------------------------------------------

RENAMED: Final[dict[str, str]] = {
    **{
        f"POP_JUMP_{way}_IF_{what}": f"POP_JUMP_IF_{what}"
        for way in ("FORWARD", "BACKWARD")
        for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")
    },
    "JUMP_FORWARD": "JUMP",
    "JUMP_BACKWARD": "JUMP",
    "JUMP_BACKWARD_NO_INTERRUPT": "JUMP",
    "LOAD_FAST_CHECK": "LOAD_FAST",
    "LOAD_CLOSURE": "LOAD_FAST",
    "LOAD_METHOD": "LOAD_ATTR",
}

SPLIT: Final[dict[str, tuple[str, str]]] = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}

INTRINSICS: Final[dict[str, str]] = {
    f"INTRINSIC_{name}": name for name in ("UNARY_POSITIVE", "LIST_TO_TUPLE", "IMPORT_STAR", "PREP_RERAISE_STAR", "ASYNC_GEN_WRAP")
}


def halves(instr: Instr) -> tuple[Instr, Instr]:
    """A super-instruction as the two instructions it stands for, in order of execution."""
    first, second = SPLIT[instr.op]
    names = instr.argval
    assert isinstance(names, tuple)
    return instr._replace(op=first, arg=instr.arg >> 4, argval=names[0]), instr._replace(op=second, arg=instr.arg & 15, argval=names[1])


def truth_test(instr: Instr) -> Instr:
    """The second half of a COMPARE_OP that also tests its result."""
    return instr._replace(op="TO_BOOL", arg=0, argval=None, to_bool=False)


def _split_return(instr: Instr) -> tuple[Instr, Instr]:
    return instr._replace(op="LOAD_CONST"), instr._replace(op="RETURN_VALUE", arg=0, argval=None)


def _normalise(instrs: list[Instr]) -> tuple[list[Instr], list[int]]:
    normal: list[Instr] = []
    index: list[int] = []
    names: object = ()
    first: int | None = None  # of the group that ends in the next CALL
    for i, instr in enumerate(instrs):
        index.append(len(normal))
        op = instr.op
        if op in RENAMED:
            normal.append(instr._replace(op=RENAMED[op]))
        elif op in SPLIT:
            normal.extend(halves(instr))
        elif op == "RETURN_CONST":
            normal.extend(_split_return(instr))
        elif instr.to_bool:
            normal += instr._replace(to_bool=False), truth_test(instr)
        elif op == "KW_NAMES":
            names, first = instr.argval, i
        elif op == "PRECALL":
            first = i if first is None else first
        elif op == "CALL":
            normal.append(instr._replace(argval=names, orig=i if first is None else first))
            names, first = (), None
        elif op in ("CALL_INTRINSIC_1", "CALL_INTRINSIC_2") and instr.argval in INTRINSICS:
            normal.append(instr._replace(op=INTRINSICS[str(instr.argval)]))
        else:
            normal.append(instr)
    index.append(len(normal))
    for i, instr in enumerate(normal):
        if instr.target is not None:
            target = index[landing(instr)]
            if target != instr.target:
                normal[i] = instr._replace(target=target, argval=target)
    return normal, index


def landing(instr: Instr) -> int:
    """Where the jump of an original instruction really lands: an exhausted FOR_ITER skips the instructions that clean up after it."""
    assert instr.target is not None
    return instr.target + (len(facts.FOR_ITER_LANDING) if instr.op == "FOR_ITER" else 0)
