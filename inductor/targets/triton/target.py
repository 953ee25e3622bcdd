"""Compiles for GPUs: groups of nests become Triton kernels, one file each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from dynamo.decisions import decide
from dynamo.trace import emit
from dynamo.trace.events import Note
from inductor.ir.attention import Attention
from inductor.ir.nest import Batch, Extern, Program
from inductor.lowering.attention import UNFUSED
from inductor.schedule.group import Group
from inductor.schedule.limits import Limits
from inductor.schedule.plan import Plan
from inductor.targets.protocol import Text
from inductor.targets.triton.attention import AttentionKernel, attention_kernels
from inductor.targets.triton.attention_file import attention_file
from inductor.targets.triton.bundle import joined, parted
from inductor.targets.triton.file import kernel_file
from inductor.targets.triton.kernel import TritonKernel, batch_kernel, kernel_of
from inductor.targets.triton.machine import HELD_BELOW, HELD_READS, NARROW, SHARING, Device
from inductor.targets.triton.space import Unprintable
from inductor.targets.triton.tune import tune

REFUSED = "DI020"

LIMITS = Limits(
    members=48,
    few_iterations=132,  # processors: see `limits_of`
    small_work=16384,
    piece=0,  # what fills a buffer ends before the kernel that scatters to it begins
    few_results=256,
    long_reduction=4096,
    programs=512,  # four for each of 132 processors
    columns=64,
    row=SHARING,
    below=HELD_BELOW,
    narrow=NARROW,
    kept_buffers=HELD_READS,
    again=16,  # less than the time to start a kernel
    alone=16384,
    staying=132,
    staying_columns=8192,
    spread=8192,
    moments=792,  # six for each processor: their loads under way are 36 KiB, more only makes more parts
    large=0,  # torch's allocator takes a microsecond and gives memory back at once
    large_program=0,
    align=512,
)


def limits_of(device: Device) -> Limits:
    """The limits that follow from the number of processors."""
    most = device.processors
    return replace(LIMITS, few_iterations=most, staying=most, moments=6 * most, programs=1 << (4 * most).bit_length() - 1)


def this_device() -> Device:
    """The GPU that is there; the usual one where there is none."""
    if not torch.cuda.is_available():
        return Device()
    return Device(processors=torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count)


def file_of(kernel: TritonKernel, program: Program) -> str:
    """The text of a kernel's file."""
    return attention_file(kernel, program) if isinstance(kernel, AttentionKernel) else kernel_file(kernel, program)


class TritonTarget:
    """`name` is torch's name of the device; tests run processors' tensors through Triton's interpreter."""

    def __init__(self, name: str = "cuda") -> None:
        self.name = name
        self.device = this_device() if name == "cuda" else Device()
        self.limits = limits_of(self.device)

    def kernel(self, name: str, group: Group, program: Program, needed: frozenset[str]) -> TritonKernel:
        return kernel_of(name, group, program, needed, self.device)

    def batch(self, name: str, batch: Batch, program: Program) -> TritonKernel:
        return batch_kernel(name, batch, program, self.device)

    def extern(self, name: str, step: Extern, program: Program) -> list[AttentionKernel]:
        if not isinstance(step, Attention) or not decide("fuse", f"{name}: flex_attention", "no scores are kept"):
            return []
        try:
            return attention_kernels(name, step, program)
        except Unprintable as why:
            emit(Note(UNFUSED, f"{name}: flex_attention has all scores in memory: {why}", "info"))
            return []

    def source(self, plan: Plan) -> str:
        """The files of all kernels. What has no Triton form is noted, with its reason."""
        kernels = [k for k in plan.kernels if isinstance(k, TritonKernel)]
        if plan.tunes and self.name == "cuda" and torch.cuda.is_available():
            with torch.cuda.device(plan.program.device):
                tune(kernels, plan.program)
        files = [file_of(k, plan.program) for k in kernels]
        for kernel in kernels:
            if kernel.refusal:
                emit(Note(REFUSED, f"{kernel.name} runs as ATen calls: {kernel.refusal}", "info"))
        return joined(files)

    def texts(self, plan: Plan, source: str, graph_id: str) -> Iterator[Text]:
        """Every kernel's file."""
        for kernel, text in zip(plan.kernels, parted(source), strict=True):
            yield Text("kernels", f"{kernel.name}.py", "python", text)
