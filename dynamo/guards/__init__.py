"""What must hold for a compiled entry to be reused: records in, C guard tree out; and words for what failed."""

from __future__ import annotations

from dynamo.guards.build import BuiltGuards, build
from dynamo.guards.words import failure, guard_text

__all__ = ["BuiltGuards", "build", "failure", "guard_text"]
