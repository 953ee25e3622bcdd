"""Small tensor programs that take the operators of all tables in turn: what one operator does wrong shows within one round."""

from __future__ import annotations

import warnings

from hypothesis import strategies as st

from minifier.fuzz.draw import tensor_ops as ops
from minifier.fuzz.draw.tensor_programs import FLOATS, INTEGERS, Program, ProgramWriter

_TABLES: tuple[tuple[ops.Kind, tuple[str, ...]], ...] = (
    (ops.unary, ops.UNARY),
    (ops.binary, ops.BINARY),
    (ops.scalar, ops.WITH_SCALAR),
    (ops.reduction, ops.REDUCTIONS),
    (ops.ternary, ops.TERNARY),
    (ops.whole, ops.WHOLE),
    (ops.one_dim, ops.ONE_DIM),
    (ops.same_shape, ops.SAME_SHAPE),
    (ops.matmul, ops.MATMULS),
    (ops.in_place, ops.IN_PLACE),
    (ops.indexed, ops.ROWS_OF),
    (ops.divide, ops.DIVISIONS),
    (ops.pad, ops.PADS),
    (ops.assign, ops.ASSIGN),
    (ops.into, ops.INTO),
    (ops.rearranged, ops.REARRANGED),
    (ops.through_complex, ops.COMPLEX),
    (ops.factory, ops.FACTORIES),
    (ops.transformed, ops.TRANSFORMS),
)
# The first of each table, then the second: those that stand first are the ones that programs have most.
ROWS = tuple((kind, rows[at]) for at in range(max(len(rows) for _, rows in _TABLES)) for kind, rows in _TABLES if at < len(rows))
_AROUND = (ops.unary, ops.scalar, ops.binary)
_WRITES = (ops.in_place, ops.assign, ops.into, ops.rearranged)  # refused for leaves that need gradients
TRIES = 32  # at operands that the operator takes


@st.composite
def operator_programs(draw: st.DrawFn, turn: int) -> Program:
    """A program with the operator whose turn it is, between up to two others."""
    kind, row = ROWS[turn % len(ROWS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        w = ProgramWriter(draw)
        base, main = w.shape() or (3,), w.one_of(FLOATS)
        for dtypes in ((main,), (main, *FLOATS, *INTEGERS)):
            w.add_input(base, dtypes)
        grads = w.marked() if kind not in _WRITES and w.chance(75) else ()
        for _ in range(w.number(0, 1)):
            w.add(w.one_of(_AROUND))
        for _ in range(TRIES):
            if w.add(kind, row):
                break
        for _ in range(w.number(0, 2)):
            w.add(w.one_of(_AROUND))
        return Program(tuple(w.inputs), tuple(w.body), w.outputs(), grads)
