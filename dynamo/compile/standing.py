"""Where a function that continues another one stands in the program: its first line, and what the user wrote for the stack it gets."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Sequence
from types import CodeType
from typing import NamedTuple

from dynamo.bytecode.analyse import stack_depths
from dynamo.bytecode.decode import Instr, decode
from dynamo.bytecode.origins import origin


class Standing(NamedTuple):
    """line: of the first instruction, 0 for code that continues nothing. stack: the user's expression for each stack item, '' unknown."""

    line: int = 0
    stack: tuple[str, ...] = ()


def standing(code: CodeType) -> Standing:
    """Of a continuation, where in its original it begins."""
    known = origin(code)
    if known is None:
        return Standing()
    program = decode(known.code)
    depths = stack_depths(program)
    items = [position for position, is_null in enumerate(known.stack_shape) if not is_null]
    texts = (_written(known.code.co_filename, _maker(program.instrs, depths, known.index, position)) for position in items)
    return Standing(_first_line(program.instrs, known.index), tuple(texts))


def _first_line(instrs: Sequence[Instr], index: int) -> int:
    """Where the program goes on: dropping a result that nobody wants still belongs to the line before."""
    while instrs[index].op == "POP_TOP" and index + 1 < len(instrs):
        index += 1
    return instrs[index].line or 0


# Instructions that leave no new item on top of the stack.
_LEAVE_NOTHING = ("STORE", "DELETE", "POP", "JUMP", "NOP", "RESUME", "KW_NAMES", "PRECALL", "SWAP", "EXTENDED_ARG", "SETUP")


def _maker(instrs: Sequence[Instr], depths: Sequence[int | None], index: int, position: int) -> Instr | None:
    """The last instruction in front of `index` whose result is the item there: behind it the stack ends with that item."""
    for at in range(index - 1, -1, -1):
        if depths[at] is None:
            return None
        if depths[at + 1] == position + 1 and not instrs[at].op.startswith(_LEAVE_NOTHING):
            return instrs[at]
    return None


def _written(file: str, instr: Instr | None) -> str:
    """Its expression in one line of the source, or ''."""
    if instr is None or instr.line is None or instr.line != instr.end_line or instr.col is None or instr.end_col is None:
        return ""
    line = linecache.getline(file, instr.line).encode("utf-8", "replace")
    text = line[instr.col : instr.end_col].decode("utf-8", "ignore").strip()
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:  # generated code that borrows a file's name has columns of its own
        return ""
    return text
