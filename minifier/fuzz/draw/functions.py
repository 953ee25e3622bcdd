"""Texts of definitions that more than one kind of drawn programs has."""

from __future__ import annotations

from typing import Final

# Gets zeros for gradients that are missing.
BOTH: Final = """
class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(y)
        return x * 2, y * y

    @staticmethod
    def backward(ctx, grad, other):
        (y,) = ctx.saved_tensors
        return grad * 2, other * 2 * y
"""
