"""Faults that can be planted in this compiler, for trying out the tools that find faults. Off unless `DYNAMO_FAULT` asks;
then `planting` loads rows, conditions and acts."""

from __future__ import annotations

import importlib
import os

from dynamo.faults.points import VARIABLE, is_planted, through

__all__ = ["is_planted", "through"]

if os.environ.get(VARIABLE):
    importlib.import_module("dynamo.faults.planting")
