"""Warnings of operators in processes of their own: which calls give them, from where, by Python's own filters and by others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import torch

import dynamo
from dynamo.surroundings.kernel_warnings import Kept

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


@pytest.mark.parametrize("action", ["default", *(pytest.param(action, marks=pytest.mark.slow) for action in ("always", "error"))])
def test_as_in_eager_also_from_the_cache(script, action):
    expected = seen(script, "none", action)
    functions = {name for (name, _), *_ in expected}
    assert len(functions) == 6
    for backend in ("eager", "aot_eager", "inductor"):
        for process in ("first", "second"):
            assert seen(script, backend, action) == expected, (backend, process)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_what_warns_and_writes_is_in_one_graph(backend):
    def f(x):
        return torch.sum(x, 0, out=torch.zeros(x.shape)) * 2, x[:2].copy_(3) + 1

    def alerts(x, i):
        return torch.zeros(4).put_(i, x) + x.sum()

    x = torch.arange(6.0).reshape(3, 2)
    fast, faster = dynamo.compile(f, backend=backend, fullgraph=True), dynamo.compile(alerts, backend=backend, fullgraph=True)
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert all(map(torch.equal, fast(x.clone()), f(x.clone())))
            torch.use_deterministic_algorithms(True, warn_only=True)
            try:
                args = torch.ones(2), torch.tensor([1, 3])
                assert torch.equal(faster(*args), alerts(*args))
            finally:
                torch.use_deterministic_algorithms(False)


def test_filters_of_other_threads_stay_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one thread listens to what an operator says, another one's filters decide what is shown of its own."""
    shown: list[str] = []
    stop = threading.Event()

    def listen() -> None:
        while not stop.is_set():
            with Kept():
                warnings.warn("the operator's", stacklevel=1)

    before = sys.getswitchinterval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", "shown")
        monkeypatch.setattr(warnings, "showwarning", lambda message, *args: shown.append(str(message)))
        thread = threading.Thread(target=listen)
        thread.start()
        sys.setswitchinterval(1e-6)
        try:
            for _ in range(3000):
                warnings.warn("ignored", stacklevel=1)
                warnings.warn("shown", stacklevel=1)
        finally:
            sys.setswitchinterval(before)
            stop.set()
            thread.join()
    assert shown == ["shown"] * 3000
