"""Loads every family file, so that the table of rows is complete."""

from __future__ import annotations

import importlib

FAMILIES = (
    "pointwise",
    "pointwise_backward",
    "factory",
    "random",
    "reduction",
    "view",
    "concat",
    "indexing",
    "norm",
    "loss",
    "scan",
    "pooling",
    "convolution",
    "upsample",
    "matmul",
    "misc",
)


def load() -> None:
    for family in FAMILIES:
        importlib.import_module(f"inductor.lowering.{family}")
