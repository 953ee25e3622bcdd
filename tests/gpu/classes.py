"""Programs of kinds that kernels meet seldom, for any device: each is compiled and called, and all that a caller sees is eager's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

import dynamo
from dynamo import config

Make = Callable[[str], list[Any]]


@dataclass(frozen=True)
class Class:
    """`make` gives what the function is called with, on a device. `whole`: it is one graph. `close`: how near floats are to eager's."""

    fn: Callable[..., Any]
    make: Make
    whole: bool = True
    close: float = 1e-5


CLASSES: dict[str, Class] = {}
HALF = torch.bfloat16
NAN, INF = math.nan, math.inf


def rand(device: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64).to(device, dtype)


def whole_numbers(device: str, least: int, most: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(least, most, shape).to(device, dtype)


def row(name: str, fn: Callable[..., Any], make: Make, *, whole: bool = True, close: float = 1e-5) -> None:
    CLASSES[name] = Class(fn, make, whole, close)


row(
    "reductions over odd strides",
    lambda x: (x[:, ::3].sum(1), x[::7].amax(0), x[1::2, ::5].mean(), x.t()[::3].argmin(1), x.as_strided((5, 40), (13, 7)).std(1)),
    lambda d: [rand(d, 61, 131)],
)
row(
    "a reduction of an expanded tensor",
    lambda x: (x.expand(50, 33, 7).sum((0, 2)), x.expand(50, 33, 7).mean(0)),
    lambda d: [rand(d, 33, 1)],
)


def convolved(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = F.conv2d(x.to(memory_format=torch.channels_last), w.to(memory_format=torch.channels_last), b, padding=1)
    return F.silu(y), F.hardswish(y).mean((2, 3)), F.gelu(y + b.view(1, -1, 1, 1))


row(
    "a channels-last convolution, bias and activations",
    convolved,
    lambda d: [rand(d, 2, 8, 9, 9), rand(d, 16, 8, 3, 3) / 8, rand(d, 16)],
    close=1e-4,
)
row(
    "scatters with repeated indices",
    lambda x, i, y: (x.scatter_add(0, i, y), x.index_add(0, i[:, 0], y, alpha=0.5), x.index_put((i[:, 0],), y, accumulate=True)),
    lambda d: [rand(d, 6, 9), whole_numbers(d, 0, 6, 40, 9), rand(d, 40, 9)],
    close=1e-4,
)
row(
    "scatter_reduce",
    lambda x, i, y: [
        x.scatter_reduce(0, i, y, kind, include_self=own) for kind in ("sum", "amax", "amin", "prod", "mean") for own in (True, False)
    ],
    lambda d: [rand(d, 7), whole_numbers(d, 0, 5, 30), rand(d, 30)],
    close=1e-4,
)
row(
    "sorts of long rows",
    lambda x: (
        x.sort(1),
        x.sort(dim=1, descending=True, stable=True)[1],
        x.topk(9, 1),
        x.topk(5, 1, largest=False),
        x.kthvalue(100, 1)[0],
        x.msort(),
    ),
    lambda d: [torch.randperm(3 * 5003).view(3, 5003).to(d, torch.float32)],
)
row(
    "scans of long rows",
    lambda x: (x.cumsum(1), (1 + x.detach() / 1e4).cumprod(1), x.cummax(1), x.cummin(1)[1], x.logcumsumexp(1), x.cumsum(1).flip(1)),
    lambda d: [rand(d, 3, 4099, dtype=torch.float64)],
)
row(  # torch up to 2.11 records a step of this gradient for each element of a row
    "running products",
    lambda x: ((x + 0.5).cumprod(1), (x - 0.5).cumprod(0)),
    lambda d: [rand(d, 70, 90, dtype=torch.float64)],
)
row(
    "scans of whole numbers",
    lambda x: (x.cumsum(1), x.cumprod(0), (x > 3).cumsum(1), x.to(torch.int16).cumsum(0)),
    lambda d: [whole_numbers(d, -9, 9, 5, 700)],
)
row(
    "booleans reduced",
    lambda x: (x.any(), x.all(1), x.sum(0), x.to(torch.uint8).sum(1), x.count_nonzero(0), x.amax(1), x.cumsum(1).amax(), x.prod(0)),
    lambda d: [whole_numbers(d, 0, 2, 45, 71, dtype=torch.bool)],
)


def with_nans(device: str) -> list[Any]:
    x = rand(device, 6, 5000)
    x[0, 4097] = NAN
    x[1, 3] = x[1, 4000] = NAN
    x[2] = -INF
    x[3] = INF
    x[4, 10] = x[4, 20] = 99
    return [x]


row(
    "extremes with NaN and equals",
    lambda x: (
        x.argmax(1),
        x.argmin(1),
        x.max(1),
        x.min(1),
        x.amax(0),
        x.argmax(),
        x.nan_to_num(0).max(0),
        torch.aminmax(x.detach(), dim=1),  # torch 2.11 has no gradient of it
        x.isnan().any(0),
        x.nansum(1),
    ),
    with_nans,
    close=1e-4,
)
row(
    "extremes of short rows with NaN",
    lambda x: (x.argmax(1), x.argmin(0), x.max(0), x.median(1)[0]),
    lambda d: [with_nans(d)[0][:, :7].contiguous()],
)
row(
    "complex numbers",
    lambda x, y: (torch.view_as_real(torch.complex(x, y) * torch.complex(y, x)), torch.complex(x, y).abs() + 1, torch.fft.rfft(x).real * 2),
    lambda d: [rand(d, 8, 16), rand(d, 8, 16)],
    close=1e-4,
)
row(
    "float8",
    lambda x: (
        [x.to(kind).to(to) * 2 for kind in (torch.float8_e4m3fn, torch.float8_e5m2) for to in (torch.float32, HALF)]
        + [(x / 3).to(torch.float8_e5m2)]
    ),
    lambda d: [
        torch.cat(
            [
                rand(d, 300) * 50,
                torch.tensor([0.0, -0.0, 448, 449, 464, 465, 57344, 61440, 1e9, 2**-9, 2**-10, 2**-17, NAN, INF, -INF]).to(d),
            ]
        )
    ],
)


def dropped(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(F.dropout(x.relu(), 0.5) * 2, 0.25) + F.dropout1d(x, 0.5)


row("dropout", dropped, lambda d: [rand(d, 40, 33)])
row(
    "random tensors",
    lambda x: (torch.rand_like(x) + 1, torch.randn_like(x), torch.bernoulli(torch.full_like(x, 0.25)), torch.randint_like(x, 9)),
    lambda d: [rand(d, 17, 19)],
)
row(
    "scalars of the processor among tensors",
    lambda x, n, b: (
        x * n + n,
        torch.where(b, x, n),
        x.add(n, alpha=2),
        x > n,
        x.clamp(min=n.to(x.device)),
        torch.maximum(x, n.to(x.device)),
    ),
    lambda d: [rand(d, 30, 7), torch.tensor(0.5, dtype=torch.float64), torch.tensor(True)],
)


def written_through_views(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    row_of, turned = x[1], x.t()
    x[0].add_(y)
    turned[:, 2].mul_(2)
    x.view(-1)[::3].fill_(7)
    return row_of * 2, turned, x.diagonal().clone()


row("views of an input that is written", written_through_views, lambda d: [rand(d, 6, 9), rand(d, 9)])


def overlapping_writes(x: torch.Tensor) -> torch.Tensor:
    x[1:].copy_(x[:-1].clone() + 1)
    x[:, 1:] += x[:, :-1].clone()
    x.narrow(0, 2, 2).transpose(0, 1).cumsum_(1)
    return x.sum(0)


row("writes into parts that overlap", overlapping_writes, lambda d: [rand(d, 6, 9)])
row(
    "tensors without elements",
    lambda x, y: (
        x + 1,
        x.sum(0),
        x.sum(1),
        torch.cat([x, y]),
        x.amax(0) if x.shape[0] else x.exp(),
        y[:0].prod(),
        x.mean(),
        x.any(),
        torch.softmax(x, 1),
        x @ y.t(),
    ),
    lambda d: [rand(d, 0, 5), rand(d, 3, 5)],
)
row(
    "tensors without dims",
    lambda x, y, n: (
        x + y,
        x.sum(),
        x.softmax(0),
        x.argmax(),
        x.cumsum(0),
        x.expand(3) * y,
        torch.stack([x, y]).std(),
        n // 2,
        x.view(1, 1).t(),
        x.unsqueeze(0).sort()[0],
    ),
    lambda d: [rand(d), rand(d), whole_numbers(d, -9, 9)],
)
row(
    "searches",
    lambda x, edges: (
        torch.bucketize(x, edges),
        torch.bucketize(x, edges, right=True, out_int32=True),
        torch.searchsorted(edges, x.contiguous()),
        torch.searchsorted(edges.expand(4, -1).contiguous(), x, side="right"),
    ),
    lambda d: [
        torch.cat([rand(d, 4, 50), torch.tensor([NAN, INF, -INF, 0.5]).to(d).expand(4, 4)], 1),
        torch.tensor([-1.0, 0.0, 0.5, 0.5, 2.0]).to(d),
    ],
)
row(
    "bags of embeddings",
    lambda w, i, o: (F.embedding_bag(i, w, o), F.embedding_bag(i, w, o, mode="sum") * 2, F.embedding_bag(i.view(-1, 3), w, mode="max")),
    lambda d: [rand(d, 11, 8), whole_numbers(d, 0, 11, 12), torch.tensor([0, 3, 3, 7]).to(d)],
)
row(
    "samples of a grid",
    lambda x, g: [
        F.grid_sample(x, g, mode, pad, align_corners=align)
        for mode in ("bilinear", "nearest")
        for pad in ("zeros", "border", "reflection")
        for align in (True, False)
    ],
    lambda d: [rand(d, 2, 3, 6, 7), rand(d, 2, 5, 4, 2)],
    close=1e-4,
)
row(
    "interpolations",
    lambda x: (
        F.interpolate(x, scale_factor=2, mode="nearest"),
        F.interpolate(x, (5, 11), mode="bilinear"),
        F.interpolate(x, (9, 9), mode="bicubic", align_corners=True),
        F.interpolate(x, (3, 4), mode="area"),
        F.interpolate(x, scale_factor=0.7, mode="nearest-exact"),
        F.interpolate(x, (4, 5), mode="bilinear", antialias=True),
    ),
    lambda d: [rand(d, 2, 3, 7, 8)],
    close=1e-4,
)
row(
    "windows taken apart and put together",
    lambda x: (
        F.unfold(x, 3, padding=1, stride=2),
        F.fold(F.unfold(x, 3, padding=1), (8, 9), 3, padding=1),
        x.unfold(2, 3, 2).amax(-1),
        F.pixel_shuffle(x, 2),
    ),
    lambda d: [rand(d, 2, 4, 8, 9)],
    close=1e-4,
)
row(
    "rolls and flips",
    lambda x: (x.roll((3, -2), (0, 1)), x.flip(0, 2), x.roll(5).flip(1).cumsum(1), x.rot90(1, (1, 2)), x.roll(1, 2) - x, x.flip(1).sum(2)),
    lambda d: [rand(d, 6, 7, 5)],
)


def masked_softmax(x: torch.Tensor, kept: torch.Tensor) -> tuple[torch.Tensor, ...]:
    scores = x.masked_fill(~kept, -INF)
    return scores.softmax(-1), scores.softmax(-1).nan_to_num(), scores.log_softmax(-1), scores.logsumexp(-1), scores.amax(-1)


def masks(device: str, columns: int) -> list[Any]:
    kept = whole_numbers(device, 0, 2, 5, columns, dtype=torch.bool)
    kept[1], kept[2] = False, True
    return [rand(device, 5, columns), kept]


row("softmax of rows that are masked whole", masked_softmax, lambda d: masks(d, 77))
row("softmax of long rows that are masked whole", masked_softmax, lambda d: masks(d, 5001), close=1e-4)
row("softmax of halves that are masked whole", lambda x, kept: masked_softmax(x.to(HALF), kept)[:2], lambda d: masks(d, 130), close=1e-2)
row(
    "bits",
    lambda x, y: (
        x << 3,
        x >> 2,
        x & y,
        x ^ y,
        ~x,
        x.bitwise_right_shift(y.abs() % 8),
        (x * 2654435761) & 0xFFFFFFFF,
        x // 7,
        x % -7,
        x.float().view(torch.int32),
    ),
    lambda d: [whole_numbers(d, -(2**40), 2**40, 60), whole_numbers(d, -99, 99, 60)],
)
row(
    "small whole numbers that wrap",
    lambda x, y: (x + x, x * x, -x, x.abs(), x.sum(), y + 200, y - 1, y.float() - 300, (x.float() * 3).to(torch.int8), y // 3),
    lambda d: [whole_numbers(d, -128, 128, 70, dtype=torch.int8), whole_numbers(d, 0, 256, 70, dtype=torch.uint8)],
)
row(
    "types that mix",
    lambda x, i, h, b: (
        x + i,
        i / 3,
        h * i,
        b + b,
        b * x,
        h + x,
        i.float() ** 0.5,
        torch.cat([x, h.float()]),
        i.div(4, rounding_mode="trunc"),
        b.to(HALF) - h,
    ),
    lambda d: [rand(d, 40), whole_numbers(d, 0, 50, 40), rand(d, 40, dtype=torch.float16), whole_numbers(d, 0, 2, 40, dtype=torch.bool)],
    close=1e-3,
)
row(
    "norms",
    lambda x: (
        x.norm(dim=1),
        x.norm(1, 0),
        x.norm(INF),
        torch.linalg.vector_norm(x, 3, 1),
        F.normalize(x, dim=0),
        x.renorm(2, 0, 0.5),
        torch.cdist(x, x[:4]),
    ),
    lambda d: [rand(d, 9, 50)],
    close=1e-4,
)
row(
    "losses",
    lambda x, t, i: (
        F.kl_div(x.log_softmax(1), t.softmax(1), reduction="batchmean"),
        F.smooth_l1_loss(x, t, beta=0.3),
        F.huber_loss(x, t),
        F.binary_cross_entropy_with_logits(x, t.sigmoid(), pos_weight=t[0].detach().exp()),
        F.cross_entropy(x, i, label_smoothing=0.1, ignore_index=3),
        F.cross_entropy(x, t.softmax(1)),
        F.multi_margin_loss(x, i),
        F.cosine_embedding_loss(x, t, i.clamp(max=1) * 2 - 1),
    ),
    lambda d: [rand(d, 12, 9), rand(d, 12, 9), whole_numbers(d, 0, 9, 12)],
    close=1e-4,
)
row(
    "pools with indices and gaps",
    lambda x: (
        F.max_pool2d(x, 3, 2, 1, dilation=2, return_indices=True),
        F.adaptive_avg_pool2d(x, (3, 5)),
        F.adaptive_max_pool2d(x, 4),
        F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        F.lp_pool2d(x.abs(), 2, 3),
    ),
    lambda d: [rand(d, 2, 3, 11, 13)],
    close=1e-4,
)
row(
    "indices of several tensors, and masks",
    lambda x, i, j: (
        x[i, j],
        x[:, j, None],
        x[i[:, None], j],
        x.take_along_dim(i.view(-1, 1).expand(-1, 5), 1),
        x.index_fill(0, i, 3),
        x.masked_fill(x > 0, NAN),
        x.where(x < 0, 9),
    ),
    lambda d: [rand(d, 12, 9), whole_numbers(d, -9, 9, 12), whole_numbers(d, 0, 9, 12)],
)


def leaves_of(args: Sequence[Any]) -> list[torch.Tensor]:
    return [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]


def flat(value: Any) -> list[Any]:
    return [t for v in value for t in flat(v)] if isinstance(value, (tuple, list)) else [value]


def called(fn: Callable[..., Any], given: Sequence[Any], device: str, *, gradients: bool) -> list[Any]:
    """All that a caller sees: results, their gradients, inputs afterwards, and the next number drawn."""
    args = [a.clone() if isinstance(a, torch.Tensor) else a for a in given]
    for a in args if gradients else []:
        if isinstance(a, torch.Tensor) and a.is_floating_point() and a.device.type == torch.device(device).type:
            a.requires_grad_()
    torch.manual_seed(3)
    passed = [a * 1 if isinstance(a, torch.Tensor) and a.requires_grad else a for a in args]  # what needs gradients may be written
    results = flat(fn(*passed))
    grads: list[Any] = []
    ends = [r for r in results if r.requires_grad]
    if ends:
        weights = [torch.linspace(0.5, 1.5, e.numel(), device=e.device).view(e.shape).to(e.dtype) for e in ends]
        grads = list(
            torch.autograd.grad(
                ends, leaves_of(args), [torch.empty_like(e).copy_(w) for e, w in zip(ends, weights, strict=True)], allow_unused=True
            )
        )
    return [*results, *grads, *passed, torch.rand(1, device=device)]


def check(name: str, device: str, *, gradients: bool) -> None:
    """Compiled equals eager, twice: the second call finds what the first has made."""
    case = CLASSES[name]
    torch.manual_seed(0)
    given = case.make(device)
    expected = called(case.fn, given, device, gradients=gradients)
    dynamo.reset()
    with config.patch(suppress_errors=False):
        run = dynamo.compile(case.fn, backend="inductor", fullgraph=case.whole)
        for _ in range(2):
            found = called(run, given, device, gradients=gradients)
            for at, (f, e) in enumerate(zip(found, expected, strict=True)):
                try:
                    compare(f, e, case.close, f"{name}, {at}")
                except AssertionError:
                    exact = called(case.fn, [in_float64(a) for a in given], device, gradients=gradients) if is_half(e) else []
                    if not exact or not as_near(f, e, exact[at]):
                        raise


def is_half(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)


def in_float64(value: Any) -> Any:
    return value.double() if is_half(value) else value


def as_near(found: torch.Tensor, expected: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether halves are as near to the numbers of float64 as eager's are: sums of rounded terms may differ by several units."""
    if found.dtype != expected.dtype or found.stride() != expected.stride() or not (found.isfinite() == expected.isfinite()).all():
        return False
    off = [(t.detach().double() - exact.detach()).nan_to_num(0, 0, 0).abs().amax() for t in (found, expected) if t.numel()]
    return not off or bool(off[0] <= off[1])


def compare(found: Any, expected: Any, close: float, what: str) -> None:
    if not isinstance(expected, torch.Tensor):
        assert found == expected, what
        return
    is_float = expected.is_floating_point() or expected.is_complex()
    if expected.dtype.itemsize == 1 and is_float:
        found, expected, is_float = found.view(torch.uint8), expected.view(torch.uint8), False
    wide = (
        {"rtol": max(close, 1e-2 if expected.dtype.itemsize == 2 else 0), "atol": max(close, 1e-2 if expected.dtype.itemsize == 2 else 0)}
        if is_float
        else {}
    )
    torch.testing.assert_close(
        found.detach(), expected.detach(), equal_nan=True, check_stride=expected.numel() > 0, msg=lambda text: f"{what}: {text}", **wide
    )
