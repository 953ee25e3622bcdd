"""Transposed patches: what a crossing kernel reads or writes along its other loop goes through a small tile in L1.

A crossing kernel has accesses that are contiguous along its block and others that are contiguous along `crossing`. The
crossing loop is walked in steps; before each, the elements that the second kind reads are copied, transposed, to a tile in
which they are contiguous along the block; after it, the tiles of what they write are copied out the same way. Every cache
line of both kinds is then used whole, and the loop in between is vectorised.
"""

from __future__ import annotations

from collections.abc import Sequence

from inductor.ir.affine import Axis, Index
from inductor.ir.types import TYPES
from inductor.targets.cpu.c.exprs import c_type, index_text, size_text
from inductor.targets.cpu.kernel import LoopKernel

STEP = 32  # crossing iterations per patch: two cache lines of floats


class Patches:
    """The patches of one stage: given out on demand while its body is printed, then copied around it."""

    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel = kernel
        self.loads: dict[tuple[str, Index], tuple[str, str]] = {}
        self.stores: dict[tuple[str, Index], tuple[str, str]] = {}

    def fits(self, buffer: str, index: Index) -> bool:
        """Neighbours lie along the crossing loop, and the block strides over them."""
        block, crossing = self.kernel.block, self.kernel.crossing
        if block is None or crossing is None or buffer in self.kernel.updates or not index.is_affine:
            return False
        return index.coef(crossing) == 1 and index.coef(block) > 1

    def load(self, buffer: str, index: Index, type_name: str) -> str | None:
        """C text of an element of the patch that holds this access, if it goes through one."""
        if not self.fits(buffer, index):
            return None
        name, _ = self.loads.setdefault((buffer, index), (f"in{len(self.loads)}_{buffer}", type_name))
        return self.element(name)

    def store(self, buffer: str, index: Index, type_name: str) -> str | None:
        if not self.fits(buffer, index):
            return None
        name, _ = self.stores.setdefault((buffer, index), (f"out{len(self.stores)}_{buffer}", type_name))
        return self.element(name)

    def element(self, name: str) -> str:
        block, crossing = self.kernel.block, self.kernel.crossing
        assert block is not None and crossing is not None
        return f"{name}[({crossing.name} - first) * {self.kernel.block_size}L + ({block.name} - lo)]"

    def wrap(self, loop: Sequence[str]) -> list[str]:
        """The loop over `first <= crossing < last` inside the loop over steps, between the copies."""
        crossing, size = self.kernel.crossing, self.kernel.block_size
        assert crossing is not None
        tiles = [*self.loads.values(), *self.stores.values()]
        body = [f"const long last = first + {STEP} < {size_text(crossing.extent)} ? first + {STEP} : {size_text(crossing.extent)};"]
        body += [f"{c_type(kind)} {name}[{STEP * size}] __attribute__((aligned(64)));" for name, kind in tiles]
        for (buffer, index), (name, kind) in self.loads.items():
            memory, step = self.corner(buffer, index)
            body.append(f"transpose_{TYPES[kind].size}({name}, {size}L, {memory}, {step}L, hi - lo, last - first);")
        body += loop
        for (buffer, index), (name, kind) in self.stores.items():
            memory, step = self.corner(buffer, index)
            body.append(f"transpose_{TYPES[kind].size}({memory}, {step}L, {name}, {size}L, last - first, hi - lo);")
        inside = [line if line.startswith("#") else f"    {line}" for line in body]
        return [f"for (long first = 0; first < {size_text(crossing.extent)}; first += {STEP}) {{", *inside, "}"]

    def corner(self, buffer: str, index: Index) -> tuple[str, int]:
        """Address of the first element of a patch in memory, and the block's stride there."""
        block, crossing = self.kernel.block, self.kernel.crossing
        assert block is not None

        def name(axis: Axis) -> str:
            return "first" if axis is crossing else "lo" if axis is block else axis.name

        return f"p_{buffer} + {index_text(self.kernel.beyond_skip(buffer, index), name)}", index.coef(block)
