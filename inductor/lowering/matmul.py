"""Matrix products: which library computes them.

ATen's float32 `mm` and `addmm` are MKL's sgemm, and MKL runs its AVX2 code on processors that Intel did not make. oneDNN, which
ATen carries for its own mkldnn operators, uses AVX-512 on all of them. One thread of a Zen 4, [256, 768] x [768, 3072]: 13.8 ms with
MKL and 11.5 ms with oneDNN, which needs no packed weights for that; the gain is 7 to 20 % over the shapes of bert and gpt2,
forward and both gradients. Its call costs 13 us more, so small products stay where they are.
"""

from __future__ import annotations

import functools
from pathlib import Path

import torch

from dynamo.decisions import decide
from inductor.ir.dims import hint
from inductor.lowering.context import Context, Decline
from inductor.lowering.registry import lowers
from inductor.lowering.tensor import Tensor
from inductor.lowering.view import permute

MIN_WORK = 10_000_000  # multiplications from which a tenth of MKL's time is more than oneDNN's call costs
MIN_ROWS = 4  # with fewer the weights are read once either way, and the memory decides


@functools.cache
def prefers_onednn() -> bool:
    """This processor has AVX-512 and MKL will not use it."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    try:
        facts = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "vendor_id" in facts and "GenuineIntel" not in facts


def product(ctx: Context, x: Tensor, w: Tensor, bias: Tensor | None) -> Tensor:
    """`x @ w + bias` of float32 matrices by oneDNN, which takes `w` transposed."""
    (rows, inner), columns = x.shape, w.shape[1]
    work = hint(rows) * hint(inner) * hint(columns)
    if not prefers_onednn() or any(t.dtype != torch.float32 for t in (x, w)) or hint(rows) < MIN_ROWS or work < MIN_WORK:
        raise Decline
    if not decide("lower", f"onednn {ctx.origins[0]} {rows}x{inner}x{columns}"):
        raise Decline
    target = torch.ops.mkldnn._linear_pointwise.default
    out: Tensor = ctx.extern(target, (x, permute(w, (1, 0)), bias, "none", [], ""), {}, ctx.meta)
    return out


@lowers("mm", "extern")
def _mm(ctx: Context, x: Tensor, w: Tensor) -> Tensor:
    return product(ctx, x, w, None)


@lowers("addmm", "extern")
def _addmm(ctx: Context, bias: Tensor, x: Tensor, w: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    if beta != 1 or alpha != 1 or bias.shape != (w.shape[1],) or bias.dtype != torch.float32:
        raise Decline
    return product(ctx, x, w, bias)
