"""The boundary to a kind of device: what every target has to say about the loop IR, and that nothing above it knows one."""

from __future__ import annotations

from inductor.ir.ops import OPS, REDUCTIONS
from inductor.ir.types import TYPES
from inductor.targets.cpu.c.ops import C_OPS, C_TYPES
from inductor.targets.cpu.c.reductions import accumulator


def test_c_has_a_row_for_every_operation_type_and_reduction() -> None:
    assert C_OPS.keys() == OPS.keys()
    assert C_TYPES.keys() == TYPES.keys()
    assert all(len(accumulator(kind, "f32").results) == outputs for kind, outputs in REDUCTIONS.items())
