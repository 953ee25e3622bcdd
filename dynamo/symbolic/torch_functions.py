"""Fills the handler tables with everything about torch."""

from __future__ import annotations

from dynamo.symbolic import torch_autograd, torch_folds, torch_modes, torch_modules, torch_profiling, torch_regions, torch_tensors

__all__ = ["torch_autograd", "torch_folds", "torch_modes", "torch_modules", "torch_profiling", "torch_regions", "torch_tensors"]
