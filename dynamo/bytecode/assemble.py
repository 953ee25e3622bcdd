"""Instructions and exception ranges -> code object: the inverse of `decode`.

In: a list of `Instr` whose `target` is an index into that list, and `Range`s over the same indices. `arg` of jumps, `offset`, `orig` and
`backward` are ignored; the pseudo-opcode JUMP, and on 3.11 POP_JUMP_IF_x, become the opcode with the right direction.
Out: the template with new code, line table, exception table and stack size. Positions are those of the instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from types import CodeType
from typing import Any, Final

from dynamo.bytecode import facts
from dynamo.bytecode.analyse import depths, stack_effect
from dynamo.bytecode.decode import Instr, Range


def assemble(instrs: Sequence[Instr], ranges: Sequence[Range], template: CodeType, **replacements: Any) -> CodeType:
    """A code object that runs `instrs` under `ranges`; everything else comes from `template` or from `replacements` (as `code.replace`)."""
    placed = [_directed(i, instr) for i, instr in enumerate(instrs)]
    sizes, args = _layout(placed)
    offsets = _offsets(sizes)
    return template.replace(
        co_code=_code(placed, sizes, args),
        co_linetable=_line_table(placed, sizes, replacements.get("co_firstlineno", template.co_firstlineno)),
        co_exceptiontable=_exception_table(ranges, offsets),
        co_stacksize=_stack_size(placed, ranges),
        **replacements,
    )


def shown_as(code: CodeType, other: CodeType, name: str) -> CodeType:
    """`code` as tracebacks should show it where it only forwards to `other`: under a name, and wholly on the first line of that."""
    units = len(code.co_code) // 2
    table = b"".join(_entry(13, min(units - start, 8), 0) for start in range(0, units, 8))
    last = name.rpartition(".")[2]
    return code.replace(
        co_name=last, co_qualname=name, co_filename=other.co_filename, co_firstlineno=other.co_firstlineno, co_linetable=table
    )


def expand(
    instrs: Sequence[Instr], ranges: Sequence[Range], change: Callable[[int, Instr], Sequence[Instr] | None]
) -> tuple[list[Instr], list[Range], list[int]]:
    """Replace instructions by any number of others (None: keep). Targets and ranges follow; the last result maps old indices to new ones,
    where a jump to a replaced instruction arrives at the first of its replacements."""
    parts = [change(i, instr) for i, instr in enumerate(instrs)]
    new: list[Instr] = []
    index = []
    for instr, part in zip(instrs, parts, strict=True):
        index.append(len(new))
        new.extend((instr,) if part is None else part)
    index.append(len(new))
    new = [instr if instr.target is None else instr.moved(instr.arg, index[instr.target]) for instr in new]
    moved = [r._replace(start=index[r.start], end=index[r.end], target=index[r.target]) for r in ranges]
    return new, [r for r in moved if r.start < r.end], index


# -- jumps and sizes -------------------------------------------------------------------------------------------------------------

_CONDITIONS: Final = {
    name: (f"POP_JUMP_FORWARD_IF_{what}", f"POP_JUMP_BACKWARD_IF_{what}")
    for what in ("TRUE", "FALSE", "NONE", "NOT_NONE")
    for name in (f"POP_JUMP_IF_{what}", f"POP_JUMP_FORWARD_IF_{what}", f"POP_JUMP_BACKWARD_IF_{what}")
    if facts.DIRECTIONAL_CONDITIONS
}

# (forward, backward) opcode for each jump that has a choice.
_DIRECTIONS: Final[dict[str, tuple[str, str]]] = {
    "JUMP": ("JUMP_FORWARD", "JUMP_BACKWARD"),
    "JUMP_FORWARD": ("JUMP_FORWARD", "JUMP_BACKWARD"),
    "JUMP_BACKWARD": ("JUMP_FORWARD", "JUMP_BACKWARD"),
    "JUMP_BACKWARD_NO_INTERRUPT": ("JUMP_FORWARD", "JUMP_BACKWARD_NO_INTERRUPT"),
    **_CONDITIONS,
}


def _directed(index: int, instr: Instr) -> Instr:
    if instr.target is None:
        return instr
    backward = instr.target <= index
    if instr.op in _DIRECTIONS:
        op = _DIRECTIONS[instr.op][backward]
        return instr if op == instr.op else instr._replace(op=op)
    if backward:
        raise ValueError(f"{instr.op} can't jump backward: from {index} to {instr.target}")
    return instr


def _words(arg: int) -> int:
    """Code units of an instruction and its EXTENDED_ARGs."""
    return max(1, (arg.bit_length() + 7) >> 3)


def _offsets(sizes: list[int]) -> list[int]:
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + size)
    return offsets


def _layout(instrs: list[Instr]) -> tuple[list[int], list[int]]:
    """Units per instruction (with EXTENDED_ARGs and caches) and final arguments. Sizes only grow, so this ends."""
    caches = [facts.CACHES[facts.OPMAP[instr.op]] for instr in instrs]
    args = [instr.arg if instr.target is None else 0 for instr in instrs]
    jumps = [(i, instr.target) for i, instr in enumerate(instrs) if instr.target is not None]
    words = [_words(arg) for arg in args]
    while True:
        sizes = [word + cache for word, cache in zip(words, caches, strict=True)]
        offsets = _offsets(sizes)
        grown = False
        for i, target in jumps:
            args[i] = abs(offsets[target] - offsets[i + 1])
            if _words(args[i]) > words[i]:
                words[i] = _words(args[i])
                grown = True
        if not grown:
            return sizes, args


def _code(instrs: list[Instr], sizes: list[int], args: list[int]) -> bytes:
    out = bytearray()
    extended = facts.OPMAP["EXTENDED_ARG"]
    for instr, size, arg in zip(instrs, sizes, args, strict=True):
        op = facts.OPMAP[instr.op]
        caches = facts.CACHES[op]
        for shift in range(8 * (size - caches - 1), 0, -8):
            out += bytes((extended, arg >> shift & 255))
        out += bytes((op, arg & 255)) + bytes(2 * caches)
    return bytes(out)


# -- tables ----------------------------------------------------------------------------------------------------------------------


def _line_table(instrs: list[Instr], sizes: list[int], line: int) -> bytes:
    """Objects/locations.md: one entry for up to eight units of one instruction, line numbers as differences."""
    out = bytearray()
    for instr, size in zip(instrs, sizes, strict=True):
        while size > 0:
            out += _location(min(size, 8), instr, line)
            line = line if instr.line is None else instr.line
            size -= 8
    return bytes(out)


def _location(units: int, instr: Instr, previous: int) -> bytes:
    line, end_line, col, end_col = instr.line, instr.end_line, instr.col, instr.end_col
    if line is None:
        return _entry(15, units)
    delta = line - previous
    if col is None and end_col is None and end_line in (None, line):
        return _entry(13, units, *_signed(delta))
    start = -1 if col is None else col
    end = -1 if end_col is None else end_col
    if end_line == line and start >= 0 and end >= 0:
        if delta == 0 and start < 80 and 0 <= end - start < 16:
            return _entry(start >> 3, units, (start & 7) << 4 | end - start)
        if 0 <= delta < 3 and start < 128 and end < 128:
            return _entry(10 + delta, units, start, end)
    lines = 0 if end_line is None else end_line - line
    return _entry(14, units, *_signed(delta), *_varint(lines), *_varint(start + 1), *_varint(end + 1))


def _entry(kind: int, units: int, *payload: int) -> bytes:
    return bytes((0x80 | kind << 3 | units - 1, *payload))


def _varint(value: int) -> Iterator[int]:
    """Groups of six bits, least significant first."""
    while value >= 64:
        yield 64 | value & 63
        value >>= 6
    yield value


def _signed(value: int) -> Iterator[int]:
    return _varint(-value << 1 | 1 if value < 0 else value << 1)


def _exception_table(ranges: Sequence[Range], offsets: list[int]) -> bytes:
    """Sorted by start; the first byte of an entry carries bit 7, so that CPython can search it."""
    out = bytearray()
    for r in _merged(sorted(ranges)):
        start = offsets[r.start]
        entry = bytearray()
        for value in (start, offsets[r.end] - start, offsets[r.target], r.depth << 1 | r.lasti):
            entry += _big_endian(value)
        entry[0] |= 128
        out += entry
    return bytes(out)


def _big_endian(value: int) -> bytes:
    groups = list(_varint(value))[::-1]
    return bytes([group | 64 for group in groups[:-1]] + [groups[-1] & 63])


def _merged(ranges: list[Range]) -> Iterator[Range]:
    """Neighbours that go to the same handler as one entry."""
    ends = [0, *(r.end for r in ranges)]
    run = 0
    keys = []
    for i, r in enumerate(ranges):
        run += i > 0 and (r.start != ends[i] or r[2:] != ranges[i - 1][2:])
        keys.append(run)
    for _, group in groupby(zip(keys, ranges, strict=True), key=lambda pair: pair[0]):
        members = [r for _, r in group]
        yield members[0]._replace(end=members[-1].end)


def _stack_size(instrs: list[Instr], ranges: Sequence[Range]) -> int:
    found = depths(instrs, ranges)
    peaks = [1]
    for instr, depth in zip(instrs, found, strict=True):
        if depth is not None:
            peaks.append(depth)
            peaks.append(depth + stack_effect(instr, False))
    handlers = [r.depth + r.lasti + 1 for r in ranges]
    return max(peaks + handlers)
