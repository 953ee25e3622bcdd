"""What differs between the CPython versions we run on: one named flag per behaviour, with its evidence.

Everything else in `dynamo.bytecode` and `dynamo.compile.resume` asks a flag, never `sys.version_info`. The evidence is the
output of `dis` for the program in the comment, or the line of `Python/ceval.c` / `bytecodes.c` that decides.
"""

from __future__ import annotations

import dis
import opcode
import sys
from typing import Final

PY: Final = sys.version_info[:2]

# The set of opcodes decides wherever it can, so that a backport or a new version is read right without an edit here.
OPMAP: Final[dict[str, int]] = {name: op for name, op in dis.opmap.items() if op < 256}

# `d = OrderedDict(a=1); i = iter(d); d.clear(); next(i)`: "OrderedDict changed size during iteration", at each call, on 3.11 and 3.12;
# 3.13 counts it as a change (`od_state`), so "OrderedDict mutated during iteration" once.
CLEARED_IS_MUTATED: Final = PY >= (3, 13)

# `f(x)`: 3.11 emits PRECALL 1, CALL 1; from 3.12 on CALL 1 alone. Neither PRECALL nor CALL can be entered without the other.
HAS_PRECALL: Final = "PRECALL" in OPMAP

# `f()` as expression with a local f: 3.11 and 3.12 emit PUSH_NULL, LOAD_FAST f; 3.13 LOAD_FAST f, PUSH_NULL.
# A method load leaves [NULL, attr] on 3.11 and 3.12 and [attr, NULL] on 3.13 when there is no method to unpack.
NULL_AFTER_CALLABLE: Final = PY >= (3, 13)

# `for x in y: pass`: 3.11 jumps behind the loop. FOR_ITER of 3.12 pops the iterator and does `JUMPBY(oparg + 1)` over the
# END_FOR that must stand at its target; 3.13 does `JUMPBY(oparg + 2)` over END_FOR, POP_TOP. 3.14 skips END_FOR
# and leaves the iterator to POP_ITER.
FOR_ITER_LANDING: Final[tuple[str, ...]] = () if "END_FOR" not in OPMAP else ("END_FOR", "POP_TOP") if PY == (3, 13) else ("END_FOR",)
FOR_ITER_POPS_AT_END: Final = PY < (3, 14)

# `[i for i in x]`: 3.11 makes and calls a function; PEP 709 (3.12) inlines it between LOAD_FAST_AND_CLEAR and STORE_FAST, so the
# stack can hold a NULL that is a saved unbound variable, and MAKE_CELL can stand in the middle of the code.
COMPREHENSIONS_INLINED: Final = "LOAD_FAST_AND_CLEAR" in OPMAP

# `x` where x may be unbound: from 3.12 on LOAD_FAST takes NULL without a test and the compiler emits LOAD_FAST_CHECK where it
# can't prove the variable bound; LOAD_FAST of 3.11 always tests.
CHECKED_LOAD: Final = "LOAD_FAST_CHECK" if "LOAD_FAST_CHECK" in OPMAP else "LOAD_FAST"

# `x + y` with locals: 3.13 emits LOAD_FAST_LOAD_FAST with one slot in each half of the eight-bit oparg, so slots above 15 can't be paired.
SUPER_LIMIT: Final = 16

# `LOAD_GLOBAL (NULL + print)`: the name is oparg >> 1 and the low bit pushes a NULL, on every version from 3.11 on.
LOAD_GLOBAL_SHIFT: Final = 1

# `a.b` / `a.b()`: 3.11 has LOAD_ATTR namei and LOAD_METHOD namei; from 3.12 on LOAD_ATTR (namei << 1 | method).
HAS_LOAD_METHOD: Final = PY < (3, 12)
LOAD_ATTR_SHIFT: Final = 0 if HAS_LOAD_METHOD else 1

# `super().f()`: 3.12 emits LOAD_SUPER_ATTR (namei << 2 | two_arguments << 1 | method). Class and object are on the stack either way, but
# without the bit the unspecialised form calls `super()` all the same, as 3.11 and a bare `super()` do everywhere: that call finds
# `__class__` and the first argument by looking into the calling frame.
LOAD_SUPER_ATTR_SHIFT: Final = 2
SUPER_TWO_ARGUMENTS: Final = 2

# `a < b`: COMPARE_OP 0 on 3.11, 2 (`cmp << 4 | mask`) on 3.12, 2 or 18 (`cmp << 5 | to_bool << 4 | mask`) on 3.13.
COMPARE_SHIFT: Final = 0 if PY < (3, 12) else 4 if PY < (3, 13) else 5
COMPARE_TO_BOOL: Final = 16 if PY >= (3, 13) else 0

# `if`: jumps with a direction in their name (POP_JUMP_FORWARD_IF_FALSE, POP_JUMP_BACKWARD_IF_FALSE) exist on 3.11 only.
DIRECTIONAL_CONDITIONS: Final = "POP_JUMP_FORWARD_IF_FALSE" in OPMAP

# `try: f()` where f is a Python function that raises: 3.13 comes back to the caller with `next_instr = frame->instr_ptr`, which is the
# CALL, and looks for the handler of `INSTR_OFFSET() - 1`, the unit before it. Compiled code never notices: no try body starts with CALL.
UNWINDS_FROM_PREVIOUS_UNIT: Final = PY >= (3, 13)

# `locals() is locals()` in a function: True up to 3.12, where the frame keeps one dict and refills it; False with PEP 667 (3.13).
LOCALS_IS_ONE_DICT: Final = PY < (3, 13)

# A generator: RETURN_GENERATOR, POP_TOP. What POP_TOP pops is pushed by the first send; `dis.stack_effect` counts it from 3.13 on.
RETURN_GENERATOR_EFFECT: Final = 1

# `dis.stack_effect(PRECALL, 2) == -2` and `CALL` -1 on 3.11, but at run time PRECALL leaves the stack alone and CALL pops all.
PRECALL_EFFECT: Final = 0


def cache_entries() -> tuple[int, ...]:
    """Number of inline cache units behind each opcode; the table is a list by number before 3.13 and a dict by name after."""
    table = opcode._inline_cache_entries  # type: ignore[attr-defined]  # not in typeshed
    if isinstance(table, dict):
        counts = {OPMAP[name]: count for name, count in table.items() if name in OPMAP}
        return tuple(counts.get(op, 0) for op in range(256))
    return tuple(table) + (0,) * (256 - len(table))


def opcodes_with_argument() -> frozenset[int]:
    """`dis.hasarg` came with 3.12; before, every opcode from HAVE_ARGUMENT up takes one."""
    with_argument = getattr(dis, "hasarg", None)
    return frozenset(op for op in range(256) if (op in with_argument if with_argument is not None else op >= dis.HAVE_ARGUMENT))


CACHES: Final = cache_entries()
WITH_ARGUMENT: Final = opcodes_with_argument()
COMPARE_OPERATORS: Final[tuple[str, ...]] = tuple(opcode.cmp_op)
BINARY_OPERATORS: Final[tuple[str, ...]] = tuple(symbol for _, symbol in opcode._nb_ops)  # type: ignore[attr-defined]  # not in typeshed
INTRINSICS_1: Final[tuple[str, ...]] = tuple(getattr(opcode, "_intrinsic_1_descs", ()))
INTRINSICS_2: Final[tuple[str, ...]] = tuple(getattr(opcode, "_intrinsic_2_descs", ()))


def report() -> dict[str, object]:
    """Every flag with its value on this interpreter, for bug reports."""
    return {name: value for name, value in globals().items() if name.isupper() and name not in {"OPMAP", "CACHES", "WITH_ARGUMENT"}}
