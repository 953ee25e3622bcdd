"""What the sanitizer finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from inductor.ir.nest import Origin

LOOPS, PRINTED = "loops", "triton"


@dataclass(frozen=True)
class Fault:
    """One access that memory does not allow.

    `kind`: out of bounds, race, never written, left out, out of place, index. `index`: the element of the buffer, which has `size`. `place`
    says at which iterations or programs; `form`: in the loops of the kernel, or in its printed text.
    """

    kind: str
    form: str
    kernel: str
    buffer: str
    access: str
    index: int
    size: int
    place: str
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f" ({', '.join(self.lines)})" if self.lines else ""
        of = f"element {self.index} of {self.buffer}, which has {self.size}" if self.buffer else f"index {self.index} of {self.size}"
        return f"{self.kind}: kernel {self.kernel}: {self.access}: {of}, at {self.place}{where}"


def lines_of(origins: Iterable[Origin]) -> tuple[str, ...]:
    """User lines, with the operators there."""
    return tuple(dict.fromkeys(f"{o.file}:{o.line} {o.op.partition('.')[0]}" if o.file else o.op for o in origins))
