"""Whose compiler a script runs under: ours (`ours`) or torch's (`torchs`). Each is loaded only where it is asked for, by `of`."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from dynamo.peer.after_import import AfterImport

OFF = {"DYNAMO_DISABLE": "1", "TORCHDYNAMO_DISABLE": "1"}  # variables under which no compiler does anything
_MODULES = {"dynamo": "minifier.stands.ours", "torch": "minifier.stands.torchs"}


def enter_when_torch_loads(engine: str, backend: str) -> None:
    """Put the compiler of an engine in its place for a program that is about to load torch."""
    if "torch" in sys.modules:
        of(engine).enter(backend)
    else:
        sys.meta_path.insert(0, AfterImport("torch", lambda: of(engine).enter(backend)))


def of(engine: str) -> Any:
    """The module of an engine. It has `record`, `enter`, `watch`, `warm` and `switch_off`. Raises KeyError for an unknown engine."""
    return importlib.import_module(_MODULES[engine])
