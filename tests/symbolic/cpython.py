"""CPython's own tests, each compiled: `python -m tests.symbolic.cpython test_list test_typing`.

They need a Python that has its package `test`. A module runs in a process of its own, once in eager and once with each test called by a
compiled function beside an operator, where graphs may break. Tests that end otherwise are printed, and internal errors of the compiler.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import torch

import dynamo
from dynamo import internal_errors

LIMIT = 1800  # seconds of a module


class Outcomes(unittest.TestResult):
    """How each test ended, and the last lines of what was raised."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: dict[str, tuple[str, str]] = {}

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        told = {id(t): ("failed", text) for t, text in [*self.failures, *self.errors]}
        self.ends[test.id()] = told.get(id(test), ("ended", ""))


def _compiled(case: unittest.TestCase, method: Any) -> None:
    def outer(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        method()
        return y * 2

    dynamo.reset()
    assert torch.equal(dynamo.compile(outer, backend="eager")(torch.ones(2)), torch.full((2,), 4.0))


def ends_of(module: str, compiled: bool) -> dict[str, Any]:
    """Run the tests of a module in this process."""
    if compiled:
        unittest.TestCase._callTestMethod = _compiled  # type: ignore[attr-defined]  # what `run` calls a test by
    suite = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(f"test.{module}"))
    suite.run(result := Outcomes())
    return {"ends": result.ends, "internal": [" ".join(kind) for kind in internal_errors.internal_errors()]}


def _in_a_process(module: str, compiled: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "ends.json")
        command = [sys.executable, "-m", __spec__.name, "--into", str(out), *(["--compiled"] if compiled else []), module]
        subprocess.run(command, timeout=LIMIT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=False)
        found: dict[str, Any] = (
            json.loads(out.read_text()) if out.exists() else {"ends": {}, "internal": ["the process ended before its tests"]}
        )
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("modules", nargs="+")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--compiled", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.into:
        asked.into.write_text(json.dumps(ends_of(asked.modules[0], asked.compiled)))
        return 0
    differ = 0
    for module in asked.modules:
        eager, ours = (_in_a_process(module, compiled) for compiled in (False, True))
        others = {t: end for t, end in ours["ends"].items() if end[0] != eager["ends"].get(t, end)[0]}
        print(f"{module}: {len(eager['ends'])} tests, {len(others)} end otherwise, {len(ours['internal'])} internal errors", flush=True)
        for line in [*(f"    {test}: {end[1][-400:]}" for test, end in others.items()), *(f"    {text}" for text in ours["internal"])]:
            print(line, flush=True)
        differ += len(others) + len(ours["internal"])
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
