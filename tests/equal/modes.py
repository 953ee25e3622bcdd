"""Global modes around graphs: grad mode, autocast, inference mode, across breaks and calls."""

from __future__ import annotations

import torch

from repro_corpus.program import program


@program("", "after a no_grad block gradients are on again")
def no_grad_block(compile):
    @compile
    def f(x):
        with torch.no_grad():
            y = x @ x
        return y, x * 3

    return f(torch.ones(2, 2, requires_grad=True))
