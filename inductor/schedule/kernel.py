"""What the shared stages know of a kernel, whatever device it is for. A target's own kernels say how their loops run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from inductor.ir.affine import Axis
from inductor.ir.dims import Dim
from inductor.ir.nest import Origin
from inductor.schedule.stages import Stage


@dataclass
class Kernel:
    """Iterations of the loops `outer` run in any order, or at once; each runs the stages in order, the points of a stage in any order."""

    name: str
    outer: tuple[Axis, ...]
    stages: Sequence[Stage]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    work: Dim  # additions it does, about
    origins: tuple[Origin, ...]
    over: dict[str, str] = field(default_factory=dict, kw_only=True)  # result -> the value whose memory it takes over
    is_batch: bool = field(default=False, kw_only=True)  # the stages are those of the first row of a batch

    @property
    def keeps_order(self) -> bool:
        """Every value is read where the stages say, so a result may take the memory of one that dies there."""
        return not self.is_batch

    def how(self) -> list[str]:
        """Words for the record on how the target runs it."""
        return []

    def private(self) -> list[tuple[str, str]]:
        """Buffers of the program that no other kernel sees, each with the kind of its home there: register, tile."""
        return []
