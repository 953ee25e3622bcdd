"""Arguments at the ends of what operators take: exponents beyond the type's, decimals that no scale holds, bounds the wrong way round."""

from __future__ import annotations

import torch

from repro_corpus.program import program


def _tried(compile, make, calls):
    """Each call compiled alone and made twice: the result, or the type of the exception."""
    out = []
    for call in calls:
        f = compile(call)
        for _ in range(2):
            try:
                out.append(f(make()))
            except Exception as e:  # noqa: BLE001  # compared, whatever it is
                out.append(type(e).__name__)
    return out


@program("", "ldexp with exponents whose power the type does not hold, of zero, denormal and infinite numbers", tolerance=(0, 0))
def powers_of_two(compile):
    values = [0.0, 1.0, 1e-30, -3.0, 1e30, float("inf"), float("nan")]
    calls = [
        lambda x: torch.ldexp(x, torch.tensor(200)),
        lambda x: torch.ldexp(x, torch.tensor(-200)),
        lambda x: torch.ldexp(x, torch.tensor([-149, -300, 300, 127, -1, 5, 0])),
        lambda x: torch.ldexp(x, torch.tensor(2.5)),
        lambda x: torch.ldexp(x.half(), torch.tensor(20)),
        lambda x: torch.ldexp(x.double(), torch.tensor(1100)),
        lambda x: torch.ldexp(torch.arange(7), torch.tensor(3)),
        lambda x: x.ldexp_(torch.tensor(200)),
    ]
    return _tried(compile, lambda: torch.tensor(values), calls)


@program("", "roundings to decimals that no scale holds, logits whose bounds stand the wrong way round")
def bounds(compile):
    calls = [
        lambda x: x.round(decimals=400),
        lambda x: x.round(decimals=-400),
        lambda x: x.round(decimals=35),
        lambda x: x.round(decimals=-2),
        lambda x: torch.logit(x, 0.9),
        lambda x: torch.logit(x, 0.5),
        lambda x: torch.logit(x, 0.1),
        lambda x: x.clone().logit_(0.8),
    ]
    return _tried(compile, lambda: torch.linspace(-0.5, 1.5, 9), calls)


@program("", "series and sizes that are refused or of odd kinds: bools, negative bases and strides, orders below one")
def series(compile):
    calls = [
        lambda x: torch.arange(2, dtype=torch.bool),
        lambda x: torch.arange(0, 3, 2, dtype=torch.bool),
        lambda x: torch.logspace(0, 3, 4, -2),
        lambda x: torch.logspace(0, 3, 4, 0),
        lambda x: torch.logspace(0, 3, 4, -1.5, dtype=torch.float64),
        lambda x: torch.empty_strided((2, 2), (-1, 2)).fill_(1),
        lambda x: torch.empty_strided((2, 2), (0, 1)).fill_(1),
        lambda x: torch.special.multigammaln(x, 0),
        lambda x: torch.special.multigammaln(x, 2),
        lambda x: torch.mvlgamma(x, -1),
    ]
    return _tried(compile, lambda: torch.full((3,), 4.0), calls)


@program("", "integers and bools where kernels lack them, matrices and vectors of two types")
def lacking_kinds(compile):
    F = torch.nn.functional
    calls = [
        lambda x: F.glu(x),
        lambda x: F.gelu(x),
        lambda x: F.softplus(x),
        lambda x: F.logsigmoid(x),
        lambda x: F.soft_margin_loss(x, torch.ones(3, 4)),
        lambda x: F.binary_cross_entropy_with_logits(x, torch.ones(3, 4)),
        lambda x: F.interpolate(x[None], 3),
        lambda x: F.interpolate(x[None, None, None], (2, 3, 4)),
        lambda x: F.pad(x[None], (1, 1, 1, 1), mode="reflect"),
        lambda x: F.pad(x[None], (1, 1, 1, 1), mode="replicate"),
        lambda x: x.cumsum_(0),
        lambda x: x.cumprod_(0),
        lambda x: x.cumsum(0),
        lambda x: torch.mv(torch.ones(2, 4), x[0]),
        lambda x: torch.addmv(torch.ones(2), torch.ones(2, 4), x[0]),
        lambda x: torch.dot(x[0], torch.ones(4, dtype=torch.float64)),
        lambda x: x.diagonal_scatter(torch.ones(3)),
        lambda x: x.slice_scatter(torch.ones(1, 4), 0, 1, 2),
        lambda x: x.select_scatter(torch.ones(3), 1, 1),
    ]
    kinds = (torch.int64, torch.bool, torch.uint8, torch.float32)
    return [_tried(compile, lambda: torch.arange(12).view(3, 4).to(kind), calls) for kind in kinds]


@program("", "the largest of a window that lies in part outside, of every kind of integers")
def largest_of_integers(compile):
    F = torch.nn.functional
    calls = [
        lambda x: F.max_pool2d(x, 2, stride=3, ceil_mode=True),
        lambda x: F.max_pool2d(x, 2, padding=1, return_indices=True),
        lambda x: F.max_pool2d(x, 2, padding=1, dilation=2),
    ]
    kinds = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
    out = [_tried(compile, lambda: torch.arange(32).view(1, 2, 4, 4).to(kind), calls) for kind in kinds]
    return out, _tried(compile, lambda: (torch.arange(32) - 40).view(1, 2, 4, 4), calls)
