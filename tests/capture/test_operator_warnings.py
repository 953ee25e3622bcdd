"""Warnings of operators in processes of their own: which calls give them, from where, by Python's own filters and by others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, sys, warnings
import torch
import torch.nn.functional as F
import dynamo

backend, action = sys.argv[1:]
compile = (lambda f: f) if backend == "none" else (lambda f: dynamo.compile(f, backend=backend))


def resized(x, o):
    return torch.add(x, x, out=o) + 1


def cast(x, o):
    return x.to(torch.complex64).float() + o.sum()


def choice(x, o):
    return torch.where(x.to(torch.uint8), x, o.sum())


def reversed_dims(x, o):
    return x.expand(2, 2, 3).T + o.sum()


def spread(x, o):
    return x[:1].std() + o.sum()


def loss(x, o):
    return F.mse_loss(x, o[:1, None]) + F.softmax(o).sum()


if action != "default":
    warnings.simplefilter(action)
seen = []
warnings.showwarning = lambda message, category, file, line, *rest: seen.append([call, category.__name__, str(message)[:50], file, line])
for f in (resized, cast, choice, reversed_dims, spread, loss):
    g = compile(f)
    given = [(torch.ones(3), torch.ones(2)) for _ in range(3)]
    for i, args in enumerate(given):
        call = [f.__name__, i]
        try:
            g(*args)
        except UserWarning as e:
            seen.append([call, "raised", str(e)[:50]])
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("warnings") / "script.py"
    path.write_text(SCRIPT)
    return path


def seen(script: Path, backend: str, action: str) -> list[list[object]]:
    """What a process of its own is warned of; those of one backend share a cache."""
    env = os.environ | {"PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1", "DYNAMO_CACHE_DIR": str(script.parent / backend / action)}
    env.pop("DYNAMO_FUEL", None)
    done = subprocess.run([sys.executable, script, backend, action], env=env, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: list[list[object]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("action", ["default", "always", "error"])
def test_as_in_eager_also_from_the_cache(script, action):
    expected = seen(script, "none", action)
    functions = {name for (name, _), *_ in expected}
    assert len(functions) == 6
    for backend in ("eager", "aot_eager", "inductor"):
        for process in ("first", "second"):
            assert seen(script, backend, action) == expected, (backend, process)
