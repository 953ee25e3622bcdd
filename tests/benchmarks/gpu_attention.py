"""flex_attention on a GPU beside torch's own compiler and unmasked attention: `python -m tests.benchmarks.gpu_attention --help`.

Milliseconds between CUDA events around one call, the median of five, and TFLOP/s of the blocks that the mask leaves (backward counts 2.5
times as much). The peer is `torch.compile(flex_attention)`; `sdpa` has a row where it means the same. Where there is no GPU small sizes run
on the processor, which tests nothing but this file.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import dynamo

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HALF = torch.bfloat16
CALLS = 5


def causal(b: Any, h: Any, q: Any, kv: Any) -> Any:
    return q >= kv


def forms(heads: int, length: int) -> dict[str, dict[str, Any]]:
    """Options of flex_attention by the name of their row."""
    slopes = torch.exp2(-torch.arange(1, heads + 1, device=DEVICE) / 2)
    ids = torch.arange(length, device=DEVICE) // (length // 8)
    bias = torch.randn(heads, 2 * length, device=DEVICE)

    def mask(fn: Callable[..., Any]) -> Any:
        return create_block_mask(fn, None, None, length, length, device=DEVICE)

    return {
        "causal": {"block_mask": mask(causal)},
        "plain": {},
        "alibi causal": {"block_mask": mask(causal), "score_mod": lambda s, b, h, q, kv: s + slopes[h] * (kv - q)},
        "softcap": {"score_mod": lambda s, b, h, q, kv: 20 * torch.tanh(s / 20)},
        "documents": {"block_mask": mask(lambda b, h, q, kv: (ids[q] == ids[kv]) & (q >= kv))},
        "window": {"block_mask": mask(lambda b, h, q, kv: (q >= kv) & (q - kv < length // 8))},
        "relative bias": {"score_mod": lambda s, b, h, q, kv: s + bias[h, q - kv + length]},
    }


def milliseconds(run: Callable[[Any], Any], before: Callable[[], Any] = lambda: None) -> float:
    """Of `run`, which gets what `before` gives; that is not timed."""
    run(before())
    times = []
    for _ in range(CALLS):
        given = before()
        if DEVICE == "cpu":
            began = time.perf_counter()
            run(given)
            times.append((time.perf_counter() - began) * 1e3)
            continue
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()
        start.record()
        run(given)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[CALLS // 2]


def row(name: str, system: str, run: Callable[[], torch.Tensor], tensors: Sequence[torch.Tensor], flops: float) -> None:
    out_grad = torch.randn_like(tensors[0])

    def forward(_: Any) -> None:
        with torch.no_grad():
            run()

    there = milliseconds(forward)
    if not tensors[0].requires_grad:  # the processor has no backward pass
        print(f"{name} | {system} | forward {there:.3f} ms", flush=True)
        return
    back = milliseconds(lambda out: torch.autograd.grad(out, tensors, out_grad), before=run)
    speed, speed_back = flops / there / 1e9, 2.5 * flops / back / 1e9
    print(f"{name} | {system} | forward {there:.3f} ms ({speed:.0f} TFLOP/s) | backward {back:.3f} ms ({speed_back:.0f})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="gpu_attention", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", default="ours,sdpa,peer", help="of ours, sdpa, peer")
    parser.add_argument("--rows", default="", help="only rows whose name has this")
    parser.add_argument("--widths", default="64,128", help="of heads")
    options = parser.parse_args()
    batches, heads, length = (4, 16, 4096) if DEVICE == "cuda" else (1, 2, 128)
    print(
        f"{torch.cuda.get_device_name() if DEVICE == 'cuda' else 'no GPU'} | torch {torch.__version__} | {batches}x{heads}x{length}",
        flush=True,
    )
    for name, how in forms(heads, length).items():
        if options.rows not in name:
            continue
        mask = how.get("block_mask")
        for width in map(int, options.widths.split(",")):
            q, k, v = (
                torch.randn(batches, heads, length, width, device=DEVICE, dtype=HALF, requires_grad=DEVICE == "cuda") for _ in range(3)
            )
            flops = 4 * batches * heads * length * length * width * (1.0 if mask is None else 1 - mask.sparsity() / 100)
            dynamo.reset()
            ours = dynamo.compile(lambda *t, how=how: flex_attention(*t, **how))
            systems: dict[str, Callable[[], torch.Tensor]] = {
                "ours": lambda ours=ours, t=(q, k, v): ours(*t),
                "sdpa": lambda t=(q, k, v), is_causal=name == "causal": F.scaled_dot_product_attention(*t, is_causal=is_causal),
            }
            if "peer" in options.systems:
                torch.compiler.reset()
                peer = torch.compile(flex_attention)
                systems["peer"] = lambda peer=peer, t=(q, k, v), how=how: peer(*t, **how)
            for system, run in systems.items():
                if system in options.systems.split(",") and (system != "sdpa" or name in ("causal", "plain")):
                    row(f"{name} D={width}", system, run, (q, k, v), flops)


if __name__ == "__main__":
    main()
