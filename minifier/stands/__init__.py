"""Whose compiler a script runs under: ours (`ours`) or torch's (`torchs`). Each is loaded only where it is asked for, by `of`."""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = {"dynamo": "minifier.stands.ours", "torch": "minifier.stands.torchs"}


def of(engine: str) -> Any:
    """The module of an engine. It has `record`, `enter`, `warm` and `switch_off`. Raises KeyError for an unknown engine."""
    return importlib.import_module(_MODULES[engine])
