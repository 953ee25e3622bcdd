"""Shapes of kernels by measuring, for `mode="max-autotune"`.

A kernel is printed in the shapes around the one that the rules choose. All are compiled beside each other, and then each runs alone on the
device, on buffers of the real sizes. The fastest is taken; which that is, is kept on disk for the kernel and the kind of device.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, replace

import torch

from dynamo.trace import emit
from dynamo.trace.events import Note
from inductor.ir.nest import Program
from inductor.runtime import cache, pool
from inductor.targets.triton import build, launcher, timing
from inductor.targets.triton.file import kernel_file
from inductor.targets.triton.kernel import TritonKernel
from inductor.targets.triton.library import Kernel, file_key, triton_version
from inductor.targets.triton.machine import Shape
from inductor.targets.triton.worker import first_line

TUNED = "DI026"
NO_ROOM = "the device has no memory for their buffers"
LEAST_GAIN = 0.97  # of the time that the rule's shape takes: less is noise
WARPS = 1, 2, 4, 8, 16, 32
SMALLEST, LARGEST = 128, 16384  # elements of a tile


def alternatives(shape: Shape) -> list[Shape]:
    """Shapes around one, itself first."""
    found = {shape: None}
    for rows, columns, warps, stages in around(shape):
        new = replace(shape, rows=rows, columns=columns, warps=warps, stages=stages)
        if warps in WARPS and SMALLEST <= rows * max(columns, 1) <= LARGEST and rows * max(columns, 1) >= 32 * warps:
            found[new] = None
    return list(found)


def around(shape: Shape) -> Iterator[tuple[int, int, int, int]]:
    rows, columns, warps, stages = shape.rows, shape.columns, shape.warps, shape.stages
    for factor in (2, 4):
        yield rows, columns, warps * factor, stages
        yield rows, columns, warps // factor, stages
    for side in (rows * 2, max(rows // 2, 1)):
        if shape.kind in ("flat", "row", "column", "walk", "transpose"):
            yield side, columns, warps, stages
    for side in (columns * 2, columns // 2):
        if shape.is_looped and side:
            yield rows, side, warps, stages
            yield rows, side, warps * 2 if side > columns else max(warps // 2, 1), stages
    if stages:
        yield rows, columns, warps, stages + 1
        yield rows, columns, warps, max(stages - 1, 1)


def tune(kernels: Sequence[TritonKernel], program: Program, measure: Callable[[Kernel], float] = timing.microseconds) -> None:
    """Give every kernel the fastest of its shapes. What cannot be compiled or has no room is left out, and all while a stream captures."""
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return
    capability = launcher.capability(torch.cuda.current_device())
    device = torch.cuda.get_device_name()
    waiting: list[tuple[TritonKernel, str, list[tuple[Shape, Kernel]]]] = []
    for kernel in kernels:
        if kernel.shape is None or kernel.is_batch:
            continue
        key = cache.key_of("tuned", file_key(kernel_file(kernel, program)), device, triton_version())
        known = kept(key)
        if known is not None:
            kernel.shape = known
            continue
        forms = [(shape, Kernel(text)) for shape in alternatives(kernel.shape) if (text := printed(kernel, program, shape))]
        waiting.append((kernel, key, forms))
    jobs = [pool.start(lambda k=k: build.compile_one(k, capability)) for _, _, forms in waiting for _, k in forms]  # type: ignore[misc]  # mypy has no type for a default that binds a loop variable
    for job in jobs:
        pool.help_with(job)
    for kernel, key, forms in waiting:
        failed: Counter[str] = Counter()
        times = [(took, shape) for shape, form in forms if (took := measured(form, measure, failed))]
        kernel.shape = chosen(times, kernel.shape)
        if not failed[NO_ROOM]:  # there may be room another time
            keep(key, kernel.shape)
        told = [f"{took:.1f} us with {words(shape)}" for took, shape in sorted(times, key=first)[:3]] or ["the rules' shape"]
        told += [f"{count} of {len(forms)} shapes left out: {why}" for why, count in failed.items()]
        emit(Note(TUNED, f"{kernel.name}: {'; '.join(told)}", "info"))


def measured(form: Kernel, measure: Callable[[Kernel], float], failed: Counter[str]) -> float:
    """Microseconds; 0.0 where it does not run, and why is counted."""
    if not form.images:
        failed[next(iter(form.refused.values()), "not compiled")] += 1
        return 0.0
    try:
        return measure(form)
    except torch.OutOfMemoryError:
        failed[NO_ROOM] += 1
    except Exception as error:  # noqa: BLE001  # a shape that the device refuses is one that is not taken, whatever it raises
        failed[first_line(error)] += 1
    return 0.0


def words(shape: Shape) -> str:
    return f"{shape.rows} x {shape.columns}, {shape.warps} warps, {shape.stages} stages"


def first(pair: tuple[float, Shape]) -> float:
    return pair[0]


def chosen(times: Sequence[tuple[float, Shape]], rule: Shape | None) -> Shape | None:
    """The fastest shape, or the rule's where that is about as fast."""
    own = next((took for took, shape in times if shape == rule), float("inf"))
    best = min(times, key=first, default=(float("inf"), rule))
    return best[1] if best[0] < LEAST_GAIN * own else rule


def printed(kernel: TritonKernel, program: Program, shape: Shape) -> str:
    """The file of the kernel in another shape; '' where it has none."""
    other = replace(kernel, shape=shape)
    text = kernel_file(other, program)
    return "" if other.refusal else text


def kept(key: str) -> Shape | None:
    if cache.refusal():
        return None
    try:
        parts = cache.find_parts(cache.image_path(key))
        return Shape(*json.loads(parts[0])) if parts else None
    except (cache.Damaged, ValueError, TypeError):
        return None


def keep(key: str, shape: Shape | None) -> None:
    if shape is not None and not cache.refusal():
        cache.put_parts(cache.image_path(key), [json.dumps(astuple(shape)).encode()])
