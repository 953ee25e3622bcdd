"""Tests of one device beside each other (`pytest -n`): those that fill its memory run alone."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

FILLING = ("no_memory_to_load_a_kernel",)  # cases of `failures`


@pytest.fixture(autouse=True)
def room(request: pytest.FixtureRequest) -> Iterator[None]:
    """Many at once, or one that holds the door until it has run: nobody enters after it, and it waits for those inside."""
    how = fcntl.LOCK_EX if any(name in request.node.name for name in FILLING) else fcntl.LOCK_SH
    place = Path(tempfile.gettempdir(), f"dynamo-debug-gpu-{os.getuid()}")
    place.mkdir(exist_ok=True)
    with open(place / "door", "a") as door, open(place / "inside", "a") as inside:
        fcntl.flock(door, how)
        fcntl.flock(inside, how)
        if how == fcntl.LOCK_SH:
            fcntl.flock(door, fcntl.LOCK_UN)
        yield
