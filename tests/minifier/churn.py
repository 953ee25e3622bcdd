"""Programs of `repro_corpus/churn` in this process: what the profiler needs of a run, without a new interpreter for each."""

from __future__ import annotations

import contextlib
import io
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import dynamo
from dynamo.trace import session
from dynamo.trace.model import Run
from minifier.recompiles.profile import Ran


def ran(script: Path, files: Mapping[str, bytes] = {}) -> Ran:
    """Run a script, or the text that stands for it."""
    dynamo.reset()
    text = files.get(str(script), script.read_bytes())
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(script)}
    output, code = io.StringIO(), 0
    options = dynamo.config.patch(recompile_limit=64, guard_times=True)
    with session() as store, contextlib.redirect_stdout(output), options, mock.patch.object(torch, "compile", dynamo.compile):
        try:
            exec(compile(text, str(script), "exec"), names)
        except Exception:  # noqa: BLE001  # whatever a script raises ends it
            traceback.print_exc()
            code = 1
    return Ran(Run(store.events), code, output.getvalue().encode())
