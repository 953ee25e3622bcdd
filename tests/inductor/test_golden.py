"""What each stage prints, as text files. After a wanted change: `make accept PYTEST_ARGS=tests/inductor/test_golden.py`."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from inductor.targets.cpu import machine
from inductor.targets.cpu.c.unit import PRELUDE
from tests.inductor.helpers import texts

GOLDEN = Path(__file__).parent / "golden"

PROGRAMS = {
    "softmax": (lambda x: torch.softmax(x.sin() + x.cos(), -1), [(64, 256)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (256,), w, b), [(64, 256), (256,), (256,)]),
    "column_sum": (lambda x: (x * x).sum(0), [(256, 128)]),
    "embedding": (lambda w, i: F.embedding(i, w) * 2, [(16, 32), "index"]),
    "two_outputs": (lambda x: (x.exp() + 1, x.exp().sum(1)), [(32, 64)]),
    "linear_gelu": (lambda x, w, b: F.gelu(F.linear(x, w, b)), [(8, 16), (32, 16), (32,)]),
    "row_sum": (lambda x: x.sum(1), [(256, 2048)]),
    "scatter_rows": (lambda x, i: (x * 2).scatter_add(1, i.expand(64, 3), x), [(64, 16), "index"]),
    "gather_rows": (lambda x: x.gather(1, x.argsort(1)), [(256, 1024)]),
    "softmax_long": (lambda x: torch.softmax(x, -1), [(32, 20_000)]),
    "cat": (lambda x, y: torch.cat([x * 2, y.relu()], 1), [(8, 16), (8, 16)]),
}


def inputs_of(shapes):
    torch.manual_seed(0)
    return [torch.tensor([3, 1, 2]) if s == "index" else torch.randn(s) for s in shapes]


def rendered(name):
    fn, shapes = PROGRAMS[name]
    with machine.use(machine.REFERENCE):
        stages = texts(fn, inputs_of(shapes))
    code = stages["kernels"].replace(PRELUDE, "")
    return f"==== lowered\n{stages['lower']}\n==== scheduled\n{stages['schedule']}\n==== C, without the prelude\n{code}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_text(name):
    path, found = GOLDEN / f"{name}.txt", rendered(name)
    if os.environ.get("ACCEPT_GOLDEN"):
        path.write_text(found)
    expected = path.read_text() if path.exists() else ""
    diff = "\n".join(difflib.unified_diff(expected.splitlines(), found.splitlines(), str(path.name), "now", lineterm="", n=3))
    assert not diff, f"{diff}\n\nwanted? make accept PYTEST_ARGS=tests/inductor/test_golden.py"


def test_text_is_the_same_every_time():
    assert rendered("layer_norm") == rendered("layer_norm")
