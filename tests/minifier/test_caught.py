"""Failures of the compiler that a script catches: they are what is looked for, and the script that is handed over shows them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from minifier.engine import Candidate, Kind, Verdict
from minifier.isolation import LocalTransport
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
