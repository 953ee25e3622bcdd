"""Programs of kinds that kernels meet seldom, through Triton's interpreter; `tests/gpu/test_classes.py` has them on a device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tests.gpu.rare  # noqa: F401  # more rows
from dynamo.trace import session
from dynamo.trace.events import Note
from tests.benchmarks.gpu import Row
from tests.benchmarks.gpu_shapes import plan_of
from tests.gpu.classes import CLASSES, check
from tests.inductor.triton.seam import compiled_for, function_text, interpreted, refusals, registers_and_spills

EMPTY = {"a loop without iterations"}
# Triton's interpreter takes 4 s and more for the gradients of these.
LONG_BACKWARD = {
    "extremes with NaN and equals",
    "rows of doubles, longer than a program holds",
    "rows of halves, longer than a program holds",
    "prime sizes",
    "scans among pointwise code",
    "samples of a grid",
    "positions of extremes with ties",
    "softmax of middle dims",
}


def form(name: str, gradients: bool) -> Any:
    long = name.startswith("steps of ") or (gradients and name in LONG_BACKWARD)
    what = f"{name}-{'gradients' if gradients else 'values'}"
    return pytest.param(name, gradients, id=what, marks=[pytest.mark.slow] if long else [])


@pytest.mark.parametrize("name, gradients", [form(name, gradients) for name in CLASSES for gradients in (False, True)])
def test_a_class(name: str, gradients: bool) -> None:
    with interpreted(), session() as store:
        check(name, "cpu", gradients=gradients)
    assert set(refusals(store)) <= EMPTY
    assert [n.message for n in store.of(Note) if n.id == "DI001"] == []


def on_device(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, device="cuda", dtype=dtype)


# More elements than 32 bits count: such kernels are compiled, and run nowhere.
LARGE: dict[str, tuple[Callable[..., Any], Callable[[], list[torch.Tensor]]]] = {
    "an odd number": (lambda x: x * 2 + 1, lambda: [on_device(50001, 50001)]),
    "an odd number that 32 bits nearly count to": (lambda x: x * 2 + 1, lambda: [on_device((1 << 31) - 5)]),
    "a bias": (lambda x, b: x + b, lambda: [on_device(50001, 50001), on_device(50001)]),
    "dropout": (lambda x: F.dropout(x, 0.1), lambda: [on_device(50001, 50001)]),
    "joined": (lambda x, y: torch.cat([x, y]), lambda: [on_device(50001, 50001), on_device(3, 50001)]),
    "rows": (lambda x: x.softmax(1), lambda: [on_device(2200000, 1001)]),
    "long rows": (lambda x: x.softmax(1), lambda: [on_device(50001, 50001)]),
    "columns": (lambda x: x.sum(0), lambda: [on_device(2200000, 1001)]),
    "scans": (lambda x: x.cumsum(1), lambda: [on_device(2200000, 1001)]),
    "positions": (lambda x: x.argmax(1), lambda: [on_device(50001, 50001)]),
    "rows of a table": (lambda w, i: F.embedding(i, w), lambda: [on_device(5000000, 512), on_device(9000, dtype=torch.int64)]),
    "additions at indices": (
        lambda x, i, y: x.index_add(0, i, y),
        lambda: [
            on_device(5000000, 512, dtype=torch.float32),
            on_device(9000, dtype=torch.int64),
            on_device(9000, 512, dtype=torch.float32),
        ],
    ),
    "few elements far apart": (lambda x: x.as_strided((70000, 3), (40000, 1)) + 1, lambda: [on_device(50001, 60001)]),
}


@pytest.mark.parametrize("name", LARGE)
def test_positions_of_64_bits(name: str, tmp_path: Path) -> None:
    fn, make = LARGE[name]
    plan, files = plan_of(Row(name, fn, make, 0))
    wide = [
        text
        for text, kernel in zip(files, plan.kernels, strict=True)
        if max(plan.program.buffers[b].size for b in kernel.reads) >= (1 << 31) - 5
    ]
    assert wide
    for text in wide:
        assert "tl.int64" in text.partition("KERNEL = ")[0]
        assert "x = tl.program_id(0) " not in text and "if tl.program_id(0) *" not in text
        kernel = compiled_for(text, 90, tmp_path)
        assert registers_and_spills(kernel)[1] == 0


def test_few_long_rows_are_parts_of_4096() -> None:
    plan, files = plan_of(Row("softmax", lambda x: x.softmax(1), lambda: [on_device(8, 131072)], 0))
    assert [k.how() for k in plan.kernels] == [["row, 1 x 4096, 4 warps"], ["row, 1 x 4096, 8 warps"]]
    for text in files:
        assert "\nGRID = (256,)\n" in text and "ex2(" in text and "libdevice.exp(" not in function_text(text)


@pytest.mark.parametrize(("shape", "programs"), [((64, 256, 56, 56), 784), ((64, 64, 112, 112), 784), ((64, 512, 14, 14), 1024)])
def test_moments_of_channels_last_are_six_programs_for_each_processor(shape: tuple[int, ...], programs: int) -> None:
    """Where columns are long: 784 is as near to 792 as the parts of these are equal."""
    last = lambda: [on_device(*shape).to(memory_format=torch.channels_last)]  # noqa: E731
    plan, files = plan_of(Row("moments", lambda x: torch.var_mean(x, (0, 2, 3), correction=0), last, 0))
    assert plan.kernels[0].how() == ["column, 32 x 32, 4 stages looped, 2 warps"]
    assert f"\nGRID = ({programs},)\n" in files[0]
