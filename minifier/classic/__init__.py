"""The doors of the environment: `REPRO_AFTER`, `REPRO_LEVEL` and `REPRO_DIR` on a plain `python script.py`, with the classic files."""

from __future__ import annotations

from minifier.classic.door import AccuracyError, between

__all__ = ["AccuracyError", "between"]
