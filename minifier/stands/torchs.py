"""A script under torch's own compiler."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from dynamo.peer import patient, watching


def record(recorder: Callable[[], Any], after: str, wanted: str) -> None:
    """Have the graphs of a script recorded; nothing of torch is loaded before the script loads it."""
    patient.stand_between_when_torch_loads(lambda: recorder().taken, after, wanted)


def enter(backend: str) -> None:
    """Make it use a backend; '' keeps the script's own."""
    if backend:
        watching.observe(backend)


def switch_off() -> None:
    """Run the script without it."""
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
