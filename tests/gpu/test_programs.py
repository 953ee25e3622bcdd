"""Programs on the device equal eager there, forward and gradients."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import dynamo
from tests.gpu.cases import CASES, check

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", CASES)
def test_program(name: str) -> None:
    assert [note for note in check(name) if "loop without iterations" not in note] == []


def test_two_streams() -> None:
    run = dynamo.compile(lambda x: torch.softmax(x, -1) * 2, backend="inductor")
    given = [torch.randn(512, 1024, device="cuda") for _ in range(2)]
    expected = [torch.softmax(x, -1) * 2 for x in given]
    streams = [torch.cuda.Stream() for _ in given]
    torch.cuda.synchronize()
    found = []
    for x, stream in zip(given, streams, strict=True):
        with torch.cuda.stream(stream):
            found.append(run(x))
    torch.cuda.synchronize()
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e)


def test_memory_is_returned() -> None:
    run = dynamo.compile(lambda x: (x.exp() @ x).relu() + 1, backend="inductor")
    x = torch.randn(512, 512, device="cuda")
    run(x)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(5):
        run(x)
    assert torch.cuda.memory_allocated() == before


def test_an_index_out_of_range_is_known_at_the_next_call() -> None:
    """Or at this one, where the device is fast; never by running the program in eager, whose kernels make the device unusable."""
    run = dynamo.compile(lambda w, i: torch.nn.functional.embedding(i, w) + 1, backend="inductor")
    w, good = torch.randn(4, 3, device="cuda"), torch.tensor([1, 2], device="cuda")

    def twice() -> None:
        run(w, torch.tensor([1, 4], device="cuda"))
        torch.cuda.synchronize()
        run(w, good)

    with pytest.raises(IndexError, match="out of range"):
        twice()
    torch.testing.assert_close(run(w, good), w[1:3] + 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("shape", [(16384, 4096), (1000, 1000), (1001, 3), (102,), (8, 64, 56, 56)])
def test_dropout_draws_what_eager_draws(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(torch.nn.functional.dropout(x, 0.1) * 2, 0.5)

    run = dynamo.compile(fn, backend="inductor", fullgraph=True)
    x = torch.rand(shape, device="cuda", dtype=dtype)
    layout = torch.channels_last if len(shape) == 4 else torch.contiguous_format
    x = x.contiguous(memory_format=layout).requires_grad_()
    found = []
    for f in (run, fn, run, fn):
        torch.manual_seed(7)
        torch.rand(9, device="cuda")
        out = f(x)
        (grad,) = torch.autograd.grad(out, x, torch.ones_like(out))
        found.append((out, grad, torch.rand(1, device="cuda")))
    for ours, eager in (found[:2], found[2:]):
        for a, b in zip(ours, eager, strict=True):
            assert torch.equal(a, b)


FIRST_ATTENTION = """
import torch
import torch.nn.functional as F
import dynamo
from dynamo.trace import session
from dynamo.trace.events import GraphLowered

q = torch.randn(2, 4, 64, 64, dtype=torch.bfloat16, device="cuda", requires_grad=True)
with session() as store:
    dynamo.compile(lambda q: F.scaled_dot_product_attention(q, q, q), backend="inductor")(q)
names = ["math", "flash", "efficient", "cudnn"]
chosen = names[torch._fused_sdp_choice(q, q, q)]
assert any(chosen in op for event in store.of(GraphLowered) for op in event.how), (chosen, store.of(GraphLowered))
"""


def test_the_first_attention_of_a_process_is_what_eager_chooses() -> None:
    subprocess.run([sys.executable, "-c", FIRST_ATTENTION], check=True)
