"""The global state of a program that decides what its operations compute: read, put back, and written as lines of a script."""

from __future__ import annotations

from minifier.state.flags import FLAGS, Flag
from minifier.state.state import State, applied, captured, versions

__all__ = ["FLAGS", "Flag", "State", "applied", "captured", "versions"]
