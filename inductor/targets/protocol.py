"""What a kind of device has to offer. Everything above (passes, lowering, schedule, verifier, interpreter) knows a target only as this.

Two halves, because a graph that the cache knows is run without being compiled: `Target` makes kernels and their source, `Runtime` (in
`inductor/runtime/devices.py`) makes a source runnable. A target is a folder beside this file and a row of `ROWS` there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from inductor.ir.nest import Batch, Extern, Program
from inductor.schedule.group import Group
from inductor.schedule.kernel import Kernel
from inductor.schedule.limits import Limits
from inductor.schedule.plan import Plan


@dataclass(frozen=True)
class Text:
    """What a stage puts into the record for people: the name's last part, and the language it is shown in."""

    stage: str
    suffix: str
    language: str
    code: str


class Target(Protocol):
    """Compiles for one kind of device. `name` is torch's name of the device."""

    name: str
    limits: Limits

    def kernel(self, name: str, group: Group, program: Program, needed: frozenset[str]) -> Kernel:
        """The kernel of a group. `needed` are the buffers it writes that something else reads."""

    def batch(self, name: str, batch: Batch, program: Program) -> Kernel:
        """The kernel of equal nests over many buffers."""

    def extern(self, name: str, step: Extern, program: Program) -> Sequence[Kernel]:
        """Kernels in place of a call; none, and the call stays. What they write are temporaries from then on."""

    def source(self, plan: Plan) -> str:
        """The text that `Runtime.start` takes: all kernels of a graph, in order."""

    def texts(self, plan: Plan, source: str, graph_id: str) -> Iterator[Text]:
        """What to show of it."""
