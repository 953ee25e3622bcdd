"""Importing a package loads no more than that package needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PEER = ("torch._dynamo", "torch._inductor", "torch._functorch.aot_autograd")
HEAVY = ("sympy", "textual", "triton", "typer", "hypothesis", "msgspec")

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


NAMES = """
import importlib
for module in {modules!r}:
    importlib.import_module(module)
import types
import dynamo
from dynamo import compile
modules = {{name for name in dynamo.__all__ if isinstance(getattr(dynamo, name), types.ModuleType)}}
print(modules == {{"config", "export", "utils"}}, callable(dynamo.export), compile is dynamo.compile, type(compile).__name__)
"""


@pytest.mark.parametrize("modules", [(), ("dynamo.compile.context",), ("dynamo.compile", "dynamo.export.store", "dynamo.public.explain")])
def test_names_of_dynamo_are_the_same_whatever_is_loaded_first(modules: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-c", NAMES.format(modules=modules)], capture_output=True, text=True, timeout=120)

    assert (done.stdout.strip(), done.stderr) == ("True True True function", "")


def test_explain_of_a_small_run_loads_no_parser_and_no_metadata(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch\nprint(torch.compile(lambda x: x + 1, backend='eager')(torch.ones(1)))\n")
    unwanted = ("msgspec", "importlib.metadata", "email.message", "textual", "torch")
    program = f"""
import atexit, sys
atexit.register(lambda: print([name for name in {unwanted!r} if name in sys.modules]))
from tui.main import main
main(["explain", {str(script)!r}])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)

    assert "compiled whole: 1 function" in done.stdout
    assert done.stdout.endswith("[]\n")
