"""Faults that can be planted in this compiler, for trying out the tools that find faults. Off unless `DYNAMO_FAULT` asks."""

from __future__ import annotations

from dynamo.faults.planting import UnknownFault, is_planted, planted, planted_faults, through

__all__ = ["UnknownFault", "is_planted", "planted", "planted_faults", "through"]
