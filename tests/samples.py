"""Samples of torch's operator database, without what torch's own test classes need of them.

`OpInfo.sample_inputs` and `error_inputs` look for a `unittest.TestCase` in every frame of the stack, which takes longer than all else
about a sample.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_utils import SEED

from repro_corpus.observe import seed


def draw(op: Any, dtype: torch.dtype, count: int, *, device: str = "cpu", requires_grad: bool = False) -> list[Any]:
    """The first `count` samples that `op.sample_inputs` gives, each drawn from the same seed as there."""
    drawn: list[Any] = []
    samples = iter(op.sample_inputs_func(op, device, dtype, requires_grad))
    while len(drawn) < count:
        seed(SEED)
        random.seed(SEED)
        np.random.seed(SEED)
        sample = next(samples, None)
        if sample is None:
            break
        drawn.append(sample)
    return drawn


def draw_errors(op: Any, *, device: str = "cpu") -> list[Any]:
    """What `op.error_inputs` gives."""
    seed(SEED)
    return list(op.error_inputs_func(op, device))
