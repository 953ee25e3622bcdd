"""Importing a package loads no more than that package needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

PEER = ("torch._dynamo", "torch._inductor", "torch._functorch.aot_autograd")
HEAVY = ("sympy", "textual", "triton", "typer", "hypothesis")

CASES = [
    ("import torch, dynamo", (*PEER, *HEAVY)),
    ("import torch, dynamo.trace", (*PEER, *HEAVY)),
    ("import torch, inductor", (*PEER, *HEAVY)),
    ("import torch, minifier", (*PEER, *HEAVY)),
    ("import torch, dynamo; f = dynamo.compile(lambda x: x.sin() + 1, backend='eager'); f(torch.ones(3))", (*PEER, *HEAVY)),
]


@pytest.mark.parametrize("program, unwanted", CASES, ids=[program[:40] for program, _ in CASES])
def test_import_loads_nothing_heavy(program: str, unwanted: tuple[str, ...]) -> None:
    report = f"{program}\nimport sys\nprint([name for name in {unwanted!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, timeout=120)

    assert (done.stdout.strip(), done.stderr) == ("[]", "")
