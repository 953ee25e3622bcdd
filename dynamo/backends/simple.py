"""Backends without a compiler behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def eager(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Run the captured graph as it is. The way to tell capture problems from backend problems."""
    return gm.forward
