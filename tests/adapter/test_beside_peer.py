"""A script that uses torch's own compiler too gets the same graphs from this one."""

from __future__ import annotations

import subprocess
import sys

STEPS = """
import torch, dynamo
{before}
for name in ("Adam", "AdamW", "SGD", "RMSprop", "Adagrad"):
    parameters = [torch.nn.Parameter(torch.ones(4)) for _ in range(2)]
    for p in parameters:
        p.grad = torch.ones(4)
    optimizer = getattr(torch.optim, name)(parameters, lr=0.1)
    optimizer.step()
    seen = dynamo.explain(optimizer.step)()
    print(name, seen.graph_count, seen.graph_break_count, seen.op_count)
"""
PEER = "torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))"


def printed_by(script: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def test_optimizers_are_captured_alike():
    alone, beside = (printed_by(STEPS.format(before=before)) for before in ("", PEER))
    assert beside == alone
    assert [line.split()[1:3] for line in alone.splitlines()] == [["1", "0"]] * 5


def test_a_users_own_mark_still_breaks():
    script = """
import torch, dynamo
@torch._dynamo.disable
def inner(x): return x + 1
def f(x): return inner(x * 2) * 3
seen = dynamo.explain(f)(torch.ones(2))
print(seen.graph_count, seen.graph_break_count)
"""
    assert printed_by(script).split() == ["2", "1"]


def test_modules_made_inside_are_captured():
    script = """
import torch, dynamo
from torch._dynamo.mutation_guard import install_generation_tagging_init
install_generation_tagging_init()
class Made(torch.nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
    def forward(self, x): return x * self.k
def f(x): return Made(3)(torch.nn.ReLU()(x)) + 1
seen = dynamo.explain(f)(torch.ones(2))
print(seen.graph_break_count, seen.op_count, dynamo.compile(f, backend="eager", fullgraph=True)(torch.ones(2)).tolist())
"""
    assert printed_by(script) == "0 3 [4.0, 4.0]\n"
