"""What a host program is made from: the plan of a graph without its loop nests. Plain values, so that it can be kept on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from inductor.ir.dims import Dim
from inductor.ir.nest import Buffer, Extern, View

if TYPE_CHECKING:
    from inductor.schedule.plan import Plan


@dataclass(frozen=True, slots=True)
class KernelCall:
    """The next kernel of the library: buffers it touches, and how much it does."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    work: Dim


@dataclass(frozen=True, slots=True)
class Capture:
    """Of a program that should be captured as a CUDA graph. `place`: the user line that notes name; `refusal`, `what`: why it can't be."""

    place: str
    refusal: str = ""
    what: str = ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Steps in order over named buffers. Slot 0 of the pointer table is the flag for indices out of range.

    `over`: results that take over the memory of a value, which the kernel that makes them is the last to read.
    `device`: the target whose kernels the library has.
    `sizes`: (input, dim) of each size that kernels are told; at each call they are read into the first input, which no caller gives.
    `capture`: set where the program should be captured as a CUDA graph.
    `owns_inputs`: the program empties the list of inputs it is called with, and frees each after its last use.
    """

    buffers: Mapping[str, Buffer]
    inputs: tuple[str, ...]
    constants: Mapping[str, torch.Tensor]
    outputs: tuple[Any, ...]
    steps: tuple[KernelCall | Extern, ...]
    slots: Mapping[str, int]
    arena: Mapping[str, Dim]
    arena_bytes: Dim
    over: Mapping[str, str]
    owns_inputs: bool = False
    device: str = "cpu"
    sizes: tuple[tuple[str, int], ...] = ()
    capture: Capture | None = None

    @property
    def kernels(self) -> int:
        return sum(isinstance(s, KernelCall) for s in self.steps)

    def output_buffers(self) -> frozenset[str]:
        return frozenset(o.buffer for o in self.outputs if isinstance(o, View))


def recipe_of(plan: Plan, *, owns_inputs: bool = False, device: str = "cpu", capture: Capture | None = None) -> Recipe:
    """The recipe of a scheduled program. Buffers that no step touches any more are left out."""
    program = plan.program
    kept = {*plan.slots, *program.inputs, *program.constants}
    return Recipe(
        {name: buffer for name, buffer in program.buffers.items() if name in kept},
        tuple(program.inputs),
        program.constants,
        tuple(program.outputs),
        tuple(s if isinstance(s, Extern) else KernelCall(s.reads, s.writes, s.work) for s in plan.steps),
        plan.slots,
        plan.arena,
        plan.arena_bytes,
        {new: old for kernel in plan.kernels for new, old in kernel.over.items()},
        owns_inputs,
        device,
        program.sizes,
        capture,
    )
