"""Failures of the compiler that a script catches: they are what is looked for, and the script that is handed over shows them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from minifier.engine import Candidate, Kind, Verdict
from minifier.isolation import LocalTransport
from minifier.ladder import recorded_run
from minifier.scripts import ScriptSetting, spec_for
from minifier.scripts.repro import write_script
from tests.cli.command import environment

FAULT = {"DYNAMO_FAULT": "capture-internal:op=sin"}
HEAD = """
import sys
import torch

@torch.compile
def f(x):
    return torch.sin(x)

"""
# What a script makes of the failure -> the types of the exceptions that are found.
SCRIPTS = {
    "goes on": ("try:\n    f(torch.ones(3))\nexcept AssertionError as e:\n    print(e)\nprint('done')\n", ("AssertionError",)),
    "ends with a code": ("try:\n    f(torch.ones(3))\nexcept Exception:\n    sys.exit(3)\n", ("AssertionError",)),
    "ends well": ("try:\n    f(torch.ones(3))\nexcept Exception:\n    sys.exit(0)\n", ("AssertionError",)),
    "in a thread": ("import threading\nt = threading.Thread(target=f, args=[torch.ones(3)])\nt.start()\nt.join()\n", ("AssertionError",)),
    "raises another": (
        "try:\n    f(torch.ones(3))\nexcept Exception:\n    raise ValueError('no step') from None\n",
        ("ValueError",),
    ),
}


@pytest.fixture
def transport(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[LocalTransport, ScriptSetting]]:
    for name, value in FAULT.items():
        monkeypatch.setenv(name, value)
    setting = ScriptSetting("script.py", str(tmp_path))
    made = LocalTransport(spec_for(setting), tmp_path / "asked", 1)
    yield made, setting
    made.close()


def test_what_a_script_catches_is_found_and_shown(transport: tuple[LocalTransport, ScriptSetting], tmp_path: Path) -> None:
    asked, setting = transport
    for name, (rest, names) in SCRIPTS.items():
        outcome = asked.submit(Candidate(name, (HEAD + rest).encode())).result()
        assert outcome.verdict is Verdict.INTERESTING, name
        assert outcome.signature is not None
        assert (outcome.signature.kind, outcome.signature.exceptions) == (Kind.EXCEPTION, names), name
        repro = write_script(HEAD + rest, setting, outcome.signature, tmp_path / name)
        shown = subprocess.run([sys.executable, str(repro)], env={**environment(), **FAULT}, capture_output=True, text=True)
        assert shown.returncode == 1, (name, shown.stderr)
        works = subprocess.run([sys.executable, str(repro)], env={**environment(), "DYNAMO_FAULT": ""}, capture_output=True, text=True)
        assert works.returncode == 0, (name, works.stderr)


def test_what_works_is_not_found(transport: tuple[LocalTransport, ScriptSetting]) -> None:
    healthy = HEAD.replace("sin", "cos") + SCRIPTS["goes on"][0]

    assert transport[0].submit(Candidate("healthy", healthy.encode())).result().verdict is Verdict.BORING


# Torch's compiler, which fails as it captures.
BROKEN = """
import sys
import torch
import torch._dynamo.symbolic_convert as convert

def lost(self):
    raise KeyError("lost")

convert.InstructionTranslatorBase.step = lost

@torch.compile(backend="eager")
def f(x):
    return torch.sin(x)

"""
HEALTHY = BROKEN.replace("Base.step = lost", "Base.lost = lost")
INTERNAL = ("torch._dynamo.exc.InternalTorchDynamoError",)
OF_TORCH = {name: (rest, INTERNAL if "AssertionError" in names else names) for name, (rest, names) in SCRIPTS.items()}
OF_TORCH["goes on"] = (SCRIPTS["goes on"][0].replace("AssertionError", "RuntimeError"), INTERNAL)
# What a script may catch that is no failure of the compiler's.
ASKED_FOR = """
import torch

@torch.compile(backend="eager", fullgraph=True)
def f(x):
    torch._dynamo.graph_break()
    return x

try:
    f(torch.ones(3))
except RuntimeError:
    print("as asked for")
"""


@pytest.fixture
def transport_of_torch(tmp_path: Path) -> Iterator[tuple[LocalTransport, ScriptSetting]]:
    setting = ScriptSetting("script.py", str(tmp_path), engine="torch")
    made = LocalTransport(spec_for(setting), tmp_path / "asked", 1)
    yield made, setting
    made.close()


def test_what_a_script_catches_of_torchs_compiler_is_found_and_shown(
    transport_of_torch: tuple[LocalTransport, ScriptSetting], tmp_path: Path
) -> None:
    asked, setting = transport_of_torch
    for name, (rest, names) in OF_TORCH.items():
        outcome = asked.submit(Candidate(name, (BROKEN + rest).encode())).result()
        assert outcome.verdict is Verdict.INTERESTING, name
        assert outcome.signature is not None
        assert (outcome.signature.kind, outcome.signature.exceptions[:1]) == (Kind.EXCEPTION, names), name
        for number, (head, code) in enumerate(((BROKEN, 1), (HEALTHY, 0))):
            repro = write_script(head + rest, setting, outcome.signature, tmp_path / f"{name} {number}")
            shown = subprocess.run([sys.executable, str(repro)], env=environment(), capture_output=True, text=True)
            assert shown.returncode == code, (name, shown.stderr)


@pytest.mark.parametrize("text", [HEALTHY + OF_TORCH["goes on"][0], ASKED_FOR])
def test_what_torchs_compiler_is_asked_for_is_no_failure(transport_of_torch: tuple[LocalTransport, ScriptSetting], text: str) -> None:
    assert transport_of_torch[0].submit(Candidate("healthy", text.encode())).result().verdict is Verdict.BORING


def test_a_run_says_what_was_caught_of_torchs_compiler(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(BROKEN + OF_TORCH["goes on"][0])
    ended, graphs = recorded_run(tmp_path / "graphs", str(tmp_path / "script.py"), (), "torch", "dynamo", "", 100)

    assert (ended.code, graphs) == (0, [])
    assert [told.partition(":")[0] for told in ended.internal] == ["InternalTorchDynamoError"]
