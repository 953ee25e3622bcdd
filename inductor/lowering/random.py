"""Dropout on GPUs, with the numbers that eager's kernel draws there.

Eager cuts a tensor among so many threads. Each has a sequence of its own, of which it takes a number for every element that it works on.
So an element's number is known from its place in memory, from how many threads the device runs at once, and from the state of torch's
generator, which an operator reads and moves on. Other draws, and those of graphs that are captured, are left to eager's kernels: a
captured graph is replayed without that operator.
"""

from __future__ import annotations

import torch

from dynamo.aot import rng
from dynamo.fake import FakeTensor
from inductor.ir import types
from inductor.ir.affine import Index, const
from inductor.ir.dims import is_dense, is_known, number, numel
from inductor.ir.expr import Expr, call, cast, in_f32, index_value, load
from inductor.ir.expr import const as constant
from inductor.lowering.context import Context, Decline
from inductor.lowering.registry import lowers
from inductor.lowering.tensor import Tensor

VECTOR = 16  # bytes that a thread of eager's kernel moves at once
WORDS = 4  # that the generator makes at once


def place(element: Index, count: int, itemsize: int, threads: int) -> tuple[Index, Index, Index]:
    """Of an element in memory: the position in the sequence of its thread, the thread, and which of the words there is its number."""
    width = VECTOR // itemsize
    while count % width:
        width //= 2
    if width == 1:
        return element // (WORDS * threads), element % threads, (element // threads) % WORDS
    chunk = element // width
    if width < WORDS:
        return chunk // threads, chunk % threads, element % width
    return chunk // threads * (width // WORDS) + (element % width) // WORDS, chunk % threads, element % WORDS


@lowers("native_dropout")
def _native_dropout(ctx: Context, x: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    view = x.view()
    if not ctx.draws or train is False or p == 1 or view is None or not is_known(numel(x.shape)) or not numel(x.shape):
        raise Decline
    if not is_dense(x.shape, view.strides) or any(tuple(m.stride()) != tuple(view.strides) for m in ctx.meta):
        raise Decline
    count, kind, device = number(numel(x.shape)), types.compute(x.type), torch.device(ctx.program.device)
    threads = rng.threads_of(device, count)
    meta = FakeTensor(torch.empty(2, dtype=torch.int64, device="meta"), device)
    state = ctx.extern(rng.PHILOX_STATE, [rng.numbers_of(count, threads), device], {}, meta)
    seed, before = (load(state.buffer, "i64", const(k)) for k in range(2))
    kept = 1.0 - p if kind == "f64" else in_f32(1.0 - p)
    scale = 1.0 / kept if kind == "f64" else in_f32(1.0 / kept)
    start = view.offset

    def keep(where: tuple[Index, ...]) -> Expr:
        counter, thread, lane = place(x.at(where) - start, count, x.dtype.itemsize, threads)
        drawn = call("philox", seed, call("add", before, index_value(counter)), index_value(thread), index_value(lane))
        return call("lt", cast(drawn, kind), constant(kept, kind))

    mask = ctx.make(x.shape, torch.bool, keep, view.strides)

    def body(where: tuple[Index, ...]) -> Expr:
        return call("mul", x.load(where), call("where", mask.load(where), constant(scale, kind), constant(0, kind)))  # as by 1 or 0 first

    return ctx.make(x.shape, x.dtype, body, view.strides), mask
