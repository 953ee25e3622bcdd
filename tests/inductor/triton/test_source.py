"""What kernels look like, as text files, and that Triton takes them for GPUs. After a wanted change: `make accept PYTEST_ARGS=...`."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from tests.inductor import test_golden, test_programs
from tests.inductor.triton.seam import compiled_for, function_text, kernels_of, registers_and_spills

GOLDEN = Path(__file__).parent / "golden"


def bf16(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.bfloat16)


def rms_norm(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x + r
    return y, (y.float() * (y.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt()).to(x.dtype) * w


def norm_backward(g: torch.Tensor, x: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.ops.aten.native_layer_norm_backward(g, x, [x.shape[-1]], mean, rstd, w, w, [True, True, True])


def scaled_filters(w: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    return (w * s.view(-1, 1, 1, 1)).contiguous(memory_format=torch.channels_last)


# One of each kind, of the size that the kind is for; shapes are all that is looked at.
PROGRAMS = {
    "flat_gelu": (lambda x: F.gelu(x * 1.5 + 0.1).tanh() * x, [bf16(4096, 4096)]),
    "flat_odd": (lambda x, y: x * y + 1, [torch.empty(300_001), torch.empty(300_001)]),
    "transpose": (lambda x: x.t().contiguous() + 1, [bf16(4096, 4096)]),
    "filters": (scaled_filters, [torch.empty(512, 512, 3, 3), torch.empty(512)]),
    "row_softmax": (lambda x: torch.softmax(x, -1), [bf16(16384, 1024)]),
    "whole_softmax": (lambda x: torch.softmax(x, -1), [bf16(16384, 4096)]),
    "looped_softmax": (lambda x: torch.softmax(x, -1), [bf16(2048, 32768)]),
    "looped_layer_norm": (lambda x, w, b: F.layer_norm(x, (16384,), w, b), [bf16(4096, 16384), bf16(16384), bf16(16384)]),
    "odd_softmax": (lambda x: torch.softmax(x, -1), [bf16(8192, 3001)]),
    "short_odd_softmax": (lambda x: torch.softmax(x, -1), [bf16(8192, 1001)]),
    "odd_logsumexp": (lambda x: torch.logsumexp(x.float(), -1), [bf16(8192, 50257)]),
    "layer_norm_backward": (norm_backward, [bf16(4096, 4096), bf16(4096, 4096), torch.empty(4096, 1), torch.empty(4096, 1), bf16(4096)]),
    "row_sum": (lambda x: x.sum(-1), [bf16(16384, 4096)]),
    "row_argmax": (lambda x: x.argmax(-1), [bf16(16384, 2048)]),
    "long_argmax": (lambda x: x.argmax(-1), [bf16(2048, 32768)]),
    "cross_entropy": (lambda x, t: F.cross_entropy(x.float(), t), [bf16(8192, 50304), torch.empty(8192, dtype=torch.int64)]),
    "rms_norm": (rms_norm, [bf16(16384, 4096), bf16(16384, 4096), bf16(4096)]),
    "column_sum": (lambda x: x.sum(0), [bf16(16384, 4096)]),
    "full_sum": (lambda x: x.sum(), [bf16(4096, 4096)]),
    "scan": (lambda x: x.cumsum(1), [bf16(16384, 4096)]),
    "window": (lambda x: F.avg_pool2d(x, 3), [torch.empty(8, 64, 96, 96)]),
    "embedding": (lambda w, i: F.embedding(i, w) * 2, [bf16(1000, 768), torch.empty(8192, dtype=torch.int64)]),
    "scatter": (lambda x, i, y: x.index_add(0, i, y), [torch.empty(500, 64), torch.empty(9000, dtype=torch.int64), torch.empty(9000, 64)]),
}
LOOPS_AFTER_LOOPS = {  # the names of columns have other blocks in between
    "a position, then all": (lambda x: torch.softmax(x, -1) + x.argmax(-1, keepdim=True), [bf16(64, 9001)]),
    "edges, then all": (lambda x, y: (torch.softmax(x * 2, -1), x + 1, x.argmax(-1)), [bf16(64, 20001), bf16(64, 20001)]),
}
COMPILED = ("flat_gelu", "row_softmax", "column_sum", "scan")  # by default; the others are slow tests
SPILLING = ("scan",)  # only pointwise and row kernels are held to none


def files(name: str) -> list[str]:
    return [text for _, text in kernels_of(*PROGRAMS[name])]


@pytest.mark.parametrize("name", PROGRAMS)
def test_text(name: str) -> None:
    path, found = GOLDEN / f"{name}.py.txt", "\n".join(map(function_text, files(name)))
    if os.environ.get("ACCEPT_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found)
    expected = path.read_text() if path.exists() else ""
    diff = "\n".join(difflib.unified_diff(expected.splitlines(), found.splitlines(), str(path.name), "now", lineterm="", n=3))
    assert not diff, f"{diff}\n\nwanted? make accept PYTEST_ARGS=tests/inductor/triton/test_source.py"


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("name", [n if n in COMPILED else pytest.param(n, marks=pytest.mark.slow) for n in PROGRAMS])
def test_it_compiles_without_spills(name: str, capability: int, tmp_path: Path) -> None:
    for text in files(name):
        kernel = compiled_for(text, capability, tmp_path)
        registers, spills = registers_and_spills(kernel)
        assert registers <= 255
        assert spills == 0 or name in SPILLING


@pytest.mark.parametrize("name", LOOPS_AFTER_LOOPS)
def test_names_keep_their_types_in_loops(name: str, tmp_path: Path) -> None:
    for _, text in kernels_of(*LOOPS_AFTER_LOOPS[name]):
        assert compiled_for(text, 90, tmp_path) is not None


@pytest.mark.parametrize("number", [torch.finfo(torch.float32).min, 1e-40, float("inf")])
def test_a_choice_of_two_numbers_is_a_float32(number: float, tmp_path: Path) -> None:
    def fn(c: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.where(c, 0.0, number) / x

    for _, text in kernels_of(fn, [torch.ones(64, dtype=torch.bool), torch.ones(64)]):
        compiled_for(text, 90, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_graphs_compile(tmp_path: Path) -> None:
    for fn, shapes in test_programs.GRAPHS.values():
        for _, text in kernels_of(fn, [torch.randn(s) for s in shapes]):
            compiled_for(text, 90, tmp_path)
    for fn, shapes in test_golden.PROGRAMS.values():
        for _, text in kernels_of(fn, test_golden.inputs_of(shapes)):
            compiled_for(text, 80, tmp_path)
