"""More programs of kinds that kernels meet seldom: rows of the table in `classes`."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from tests.gpu.classes import HALF, INF, NAN, rand, row, whole_numbers

row(
    "many reductions of one tensor",
    lambda x: (
        x.sum(1),
        x.mean(0),
        x.var(1),
        x.std(0, unbiased=False),
        x.amax(1) - x.amin(1),
        x.prod(1),
        x.logsumexp(0),
        torch.var_mean(x, 1),
        torch.std_mean(x, 0),
        (x > 0).sum(),
        x.argmax(1),
        x.norm(),
        x.square().sum(1) / x.abs().sum(1),
    ),
    lambda d: [rand(d, 37, 101)],
    close=1e-4,
)
row(
    "reductions of reductions",
    lambda x: (
        ((x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)).amax(0).sum(),
        (x.softmax(0).sum(1) * x.amax(1)).logsumexp(0),
        x.cumsum(0).mean(1).cumsum(0),
    ),
    lambda d: [rand(d, 31, 67)],
    close=1e-4,
)
row(
    "variances with corrections",
    lambda x: (
        x.var(0, correction=0),
        x.var((0, 2), correction=3),
        x.std(1, correction=0, keepdim=True),
        torch.var_mean(x, (1, 2), correction=2),
        x[:1].var(0),
        x.var(),
    ),
    lambda d: [rand(d, 5, 13, 17) + 100],
    close=1e-3,
)


def tied(device: str) -> list[torch.Tensor]:
    x = whole_numbers(device, -2, 3, 9, 4099).to(torch.float32)
    x[3, 7] = x[3, 4000] = x[5, 4098] = NAN
    x[6, 5] = -INF
    x[7] = 0.0
    x[7, ::2] = -0.0
    return [x]


row(
    "positions of extremes with ties",
    lambda x: (
        x.argmax(1),
        x.argmin(1),
        x.argmax(0),
        x.argmin(0),
        x.max(1)[1],
        x.min(0)[1],
        x.argmax(1, keepdim=True) + x.argmin(1, keepdim=True),
        x.to(torch.int8).argmax(1),
        (x > 0).to(torch.uint8).argmin(1),
        x.double().argmin(1),
    ),
    tied,
)
row(
    "arithmetic of whole numbers and booleans",
    lambda a, b, u, m: (
        a // b,
        a % b,
        torch.fmod(a, b),
        a.remainder(-7),
        a.pow(2),
        a**3,
        torch.gcd(a, b),
        torch.lcm(a % 50, b),
        u + u,
        u * 3 - 7,
        u // 3,
        u % 5,
        u.sum(),
        u.prod(),
        m & ~m.flip(0),
        m | (u > 9),
        m.logical_xor(u > 3),
        m.sum(),
        m.to(torch.int64).cumsum(0),
        a.clamp(-5, 9),
        torch.maximum(a, b),
        a.sign() * a.abs(),
        m * a,
        m.float().mean(),
        a.bitwise_and(u),
        a / b,
        torch.div(a, b, rounding_mode="floor"),
        torch.where(m, a, u),
    ),
    lambda d: [
        whole_numbers(d, -1000, 1000, 97),
        whole_numbers(d, 1, 30, 97),
        whole_numbers(d, 0, 256, 97, dtype=torch.uint8),
        whole_numbers(d, 0, 2, 97, dtype=torch.bool),
    ],
)
row(
    "complex arithmetic",
    lambda x, y: (
        lambda z: (z.real, z.imag, z.abs(), z.angle(), z.conj() * z, z.exp(), z.sum(0), z.mean(), z / (z + 2), z * 2j, z @ z.t())
    )(torch.complex(x, y)),
    lambda d: [rand(d, 11, 11), rand(d, 11, 11)],
    close=1e-3,
)
row(
    "sorts among pointwise code",
    lambda x: (
        (x * 2).sort(0)[0].cumsum(0),
        x.exp().topk(3, 0)[0] + x.topk(3, 0)[1],
        x.gather(1, (x + 1).argsort(1, descending=True)) * 2,
        x.median(1)[0] + x.median(),
        x.mode(1)[0] - 1,
        x.detach().round().unique(sorted=True) * 2,
        x.sort(dim=1, stable=True)[0].diff(dim=1),
    ),
    lambda d: [torch.randperm(23 * 31).view(23, 31).to(d, torch.float32) / 100],
    whole=False,
    close=1e-4,
)
row(
    "index_put with and without adding",
    lambda x, i, j, y, z: (
        x.index_put((i, j), y, accumulate=True),
        x.index_put((i,), z, accumulate=True),
        x.index_put((i[:1], j[:1]), y[:1]),
        x.index_put((x > 1,), torch.zeros((), device=x.device)),
        x.index_copy(0, i[:3] * 0 + torch.arange(3, device=x.device), z[:3]),
        x.masked_scatter(x > 0, z),
        x.put(i, y, accumulate=True),
    ),
    lambda d: [rand(d, 9, 7), whole_numbers(d, -9, 9, 41), whole_numbers(d, 0, 7, 41), rand(d, 41), rand(d, 41, 7)],
    close=1e-4,
)
row(
    "scatter_reduce over columns, of other types",
    lambda x, i, y, n, m: (
        [x.scatter_reduce(1, i, y, kind, include_self=own) for kind in ("sum", "amax", "amin", "prod", "mean") for own in (True, False)]
        + [n.scatter_reduce(1, i, m, kind, include_self=own) for kind in ("sum", "amax", "amin", "prod", "mean") for own in (True, False)]
        + [x.scatter(1, i[:, :1], 3.0), x.scatter(1, i[:, :1], y[:, :1]), x.detach().scatter(1, i[:, :1], y.detach(), reduce="multiply")]
    ),
    lambda d: [rand(d, 4, 7), whole_numbers(d, 0, 5, 4, 30), rand(d, 4, 30), whole_numbers(d, -9, 9, 4, 7), whole_numbers(d, -3, 4, 4, 30)],
    close=1e-3,
)
row(
    "bags with weights and padding",
    lambda w, i, o, s: (
        F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s),
        F.embedding_bag(i, w, o, mode="max"),
        F.embedding_bag(i, w, o, mode="mean", padding_idx=2),
        F.embedding(i, w, padding_idx=3),
        F.embedding_bag(i.view(-1, 4), w, mode="mean"),
    ),
    lambda d: [rand(d, 13, 5), whole_numbers(d, 0, 13, 20), torch.tensor([0, 0, 3, 9, 20]).to(d), rand(d, 20)],
    close=1e-4,
)
row(
    "one element",
    lambda x, n, b: (
        x + 1,
        x.sum(),
        x.softmax(0),
        x.argmax(0),
        x.cumsum(0),
        x.sort()[0],
        x.var(unbiased=False),
        x.view(1, 1, 1).expand(2, 3, 4).sum((0, 2)),
        n * 3,
        ~b,
        b.any(),
        x.repeat(5),
        F.pad(x.view(1, 1), (1, 1)),
    ),
    lambda d: [rand(d, 1), whole_numbers(d, 3, 4, 1), whole_numbers(d, 0, 2, 1, dtype=torch.bool)],
)
row(
    "dims of zero among others",
    lambda x, y: (
        x.sum(1),
        x.sum((0, 2)),
        x.cumsum(1),
        x.transpose(0, 1) * 2,
        torch.cat([x, y], 1),
        x.prod(1),
        x.any(1),
        x.all(),
        F.pad(x, (1, 1, 2, 0)),
        x.view(3, 0),
        y.flip(1)[:, :0] + x,
        torch.einsum("abc,dbc->ad", x, x),
    ),
    lambda d: [rand(d, 3, 0, 4), rand(d, 3, 2, 4)],
)
row(
    "scalars of the processor of all types",
    lambda x, f, i, b, h: (
        x + f,
        x * i,
        torch.where(x > 0, f.float(), x),
        h + f,
        h * i,
        x.masked_fill(x > 1, f),
        torch.add(x, f, alpha=3),
        x.pow(i),
        f - x,
        torch.addcmul(x, x, x, value=0.5) / f,
        x.lerp(x * 2, 0.25),
        x.logical_and(b),
        torch.full_like(x, 2) * i,
    ),
    lambda d: [rand(d, 5, 77).abs(), torch.tensor(1.5, dtype=torch.float64), torch.tensor(3), torch.tensor(False), rand(d, 33, dtype=HALF)],
    close=1e-4,
)
row(
    "rows longer than a program holds",
    lambda x: (
        x.softmax(1),
        F.layer_norm(x, (x.shape[1],)),
        x.argmax(1),
        x.std(1),
        (x - x.mean(1, keepdim=True)).abs().amax(1),
        x.logsumexp(1),
    ),
    lambda d: [rand(d, 2, 40009)],
    close=1e-4,
)
row(
    "rows of doubles, longer than a program holds",
    lambda x: (
        x.softmax(1),
        F.layer_norm(x, (x.shape[1],)),
        x.log_softmax(1),
        x.var(1),
        x.logsumexp(1),
        (x * 2).sigmoid().tanh().mean(1),
        F.gelu(x, approximate="tanh").sum(1),
        F.softplus(x).exp2().amax(1),
    ),
    lambda d: [rand(d, 2, 40009, dtype=torch.float64)],
)
row(
    "rows of halves, longer than a program holds",
    lambda x: (x.softmax(1), F.layer_norm(x, (x.shape[1],)), x.float().softmax(1).to(HALF) * 2, x.sum(1)),
    lambda d: [rand(d, 3, 17389, dtype=HALF)],
    close=2e-2,
)
row(
    "prime sizes",
    lambda x, w: (
        F.layer_norm(x, (53,), w, w),
        F.rms_norm(x, (53,), w),
        x.softmax(1),
        x.transpose(1, 2).contiguous().sum(2),
        F.group_norm(x.transpose(1, 2), 1),
        (x * w).sum((0, 1)),
        x.permute(2, 0, 1).reshape(53, -1).amax(1),
    ),
    lambda d: [rand(d, 3, 47, 53), rand(d, 53)],
    close=1e-4,
)


def strided(device: str) -> list[torch.Tensor]:
    return [rand(device, 12, 20).t()[::2], rand(device, 24, 40)[::2, 1::4].t(), rand(device, 1, 12).expand(10, 12)]


row(
    "inputs that are strided and expanded",
    lambda x, y, e: (
        x + y,
        x * e,
        (y - e).sum(0),
        e.sum(0),
        (x * e).contiguous().view(-1),
        torch.cat([x, y, e], 1),
        x.softmax(1) + e,
        e.cumsum(0),
    ),
    strided,
)


def into_parts(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    out = x.new_zeros(8, 11)
    out.t()[:5, :3].copy_(x + y)
    part = out[2:6, 1:9:2]
    part.add_(3).mul_(part.clone())
    out[:, 4].copy_(out[:, 3] * 2)
    out.view(2, 4, 11)[1].zero_()
    out.diagonal().add_(1)
    return out, part, out.sum(0)


row("parts of a tensor that are written", into_parts, lambda d: [rand(d, 5, 3), rand(d, 5, 3)])


def windows(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    w = x.unfold(0, 7, 3)
    s = x.as_strided((11, 6), (4, 1), 2)
    return w.mean(1), s.softmax(1), (w[:5] * s[:5, :1]).sum(0), s.t().argmax(0), w.std(1)


row("windows that overlap", windows, lambda d: [rand(d, 64)])


def rounded(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = x * y + x
    b = (a - x).div(y.abs() + 1)
    c = b.exp().log1p().tanh() * a
    return (
        a,
        b,
        c,
        (c + x) * y,
        c.sum(1),
        F.gelu(c) * F.silu(a),
        (a * 1.1 + b * 0.9).sqrt().nan_to_num(),
        a.addcmul(b, c, value=0.3),
        x.lerp(y, 0.3),
        F.softplus(c) - b,
    )


row("bfloat16 rounded between operators", rounded, lambda d: [rand(d, 31, 57, dtype=HALF), rand(d, 31, 57, dtype=HALF)])
row("float16 rounded between operators", rounded, lambda d: [rand(d, 31, 57, dtype=torch.float16), rand(d, 31, 57, dtype=torch.float16)])
row(
    "promotions",
    lambda h, f, x, i, u, d: (
        h + f,
        h * x,
        f * i,
        u + i,
        u * h,
        u - 1.5,
        i * 2.5,
        i + True,
        x + d,
        x.sum() * d,
        torch.where(i > 0, h, x),
        torch.cat([h, x, d.to(h.dtype)]),
        torch.stack([u.to(torch.int16), i.to(torch.int16)]).sum(0),
        i / u,
        i.float() // 2,
        u.pow(2),
        i.sqrt(),
        (h > i),
        torch.maximum(x, h.float()),
        u.mean(dtype=torch.float64),
        i.sum(dtype=torch.float32),
        h.sum(dtype=torch.float32),
        h.cumsum(0, dtype=torch.float64),
        i.exp(),
        torch.atan2(i, x),
    ),
    lambda d: [
        rand(d, 50, dtype=HALF),
        rand(d, 50, dtype=torch.float16),
        rand(d, 50),
        whole_numbers(d, 1, 50, 50),
        whole_numbers(d, 1, 250, 50, dtype=torch.uint8),
        rand(d, 50, dtype=torch.float64),
    ],
    close=1e-3,
)
row(
    "float8 in and out",
    lambda a, b, x: (
        a.view(torch.float8_e4m3fn).to(HALF) + b.view(torch.float8_e5m2).to(HALF),
        (a.view(torch.float8_e4m3fn).float() * x).to(torch.float8_e4m3fn),
        b.view(torch.float8_e5m2).to(torch.float16).sum(0),
        (x / x.abs().amax() * 448).to(torch.float8_e4m3fn).float(),
        a.view(torch.float8_e4m3fn).float().softmax(1).to(torch.float8_e5m2),
    ),
    lambda d: [
        rand(d, 9, 33).to(torch.float8_e4m3fn).view(torch.uint8),
        rand(d, 9, 33).to(torch.float8_e5m2).view(torch.uint8),
        rand(d, 9, 33) * 100,
    ],
)


def masks_of_dropout(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = F.dropout(x, 0.3)
    b = F.dropout2d(y, 0.5)
    return (
        a,
        a.sum(1),
        b,
        F.alpha_dropout(x, 0.2),
        F.dropout(x.softmax(1), 0.1) @ x.t(),
        F.feature_alpha_dropout(y, 0.4),
        torch.native_dropout(x, 0.5, True),
    )


row("masks of dropout", masks_of_dropout, lambda d: [rand(d, 13, 29), rand(d, 2, 6, 5, 7)], close=1e-4)
row(
    "draws of all kinds",
    lambda x, p: (
        torch.bernoulli(p),
        torch.bernoulli(x.detach().sigmoid()) * x,
        torch.empty_like(x).normal_(2, 3) + x,
        torch.randint(0, 100, (7, 9), device=x.device),
        torch.empty_like(x).uniform_(-1, 4),
        torch.empty_like(x).exponential_(2.0),
        torch.randperm(20, device=x.device),
        torch.rand(3, 5, device=x.device, dtype=torch.float64),
        torch.randn(33, device=x.device, dtype=HALF),
        torch.empty_like(x).bernoulli_(0.3),
        torch.normal(x.detach(), 2.0),
        torch.rand_like(x) + torch.rand_like(x),
        F.gumbel_softmax(x, dim=1),
    ),
    lambda d: [rand(d, 7, 9), torch.rand(5, 11).to(d)],
    close=1e-4,
)
row(
    "interpolations in one and three dims",
    lambda x, y: (
        F.interpolate(x, 17, mode="linear"),
        F.interpolate(x, scale_factor=2.5, mode="nearest"),
        F.interpolate(y, (5, 3, 7), mode="trilinear", align_corners=True),
        F.interpolate(y, scale_factor=(2, 1, 0.5), mode="nearest"),
        F.interpolate(y, (2, 2, 2), mode="area"),
        F.interpolate(y, (3, 5, 4), mode="nearest-exact"),
    ),
    lambda d: [rand(d, 2, 3, 11), rand(d, 1, 2, 4, 5, 6)],
    close=1e-4,
)
row(
    "grids of affine maps, and in bicubic",
    lambda x, t, g: (
        F.grid_sample(x, F.affine_grid(t, [2, 3, 5, 6], align_corners=False), align_corners=False),
        F.grid_sample(x, g, "bicubic", "border", align_corners=True),
    ),
    lambda d: [rand(d, 2, 3, 6, 7), rand(d, 2, 2, 3), rand(d, 2, 4, 5, 2)],
    close=1e-3,
)
row(
    "pools in one and three dims",
    lambda x, y: (
        F.max_pool1d(x, 3, 2),
        F.avg_pool1d(x, 4, 3, 1),
        F.adaptive_avg_pool1d(x, 5),
        F.adaptive_max_pool1d(x, 4, return_indices=True),
        F.max_pool3d(y, 2, 1, 1, return_indices=True),
        F.avg_pool3d(y, 3, 2, 1, ceil_mode=True, count_include_pad=False),
        F.adaptive_avg_pool3d(y, (2, 3, 1)),
        F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2),
        F.lp_pool1d(x.abs() + 0.1, 3, 2),
        F.fractional_max_pool2d(y[0], 2, output_size=(2, 3), _random_samples=torch.full((2, 4, 2), 0.4, device=x.device)),
    ),
    lambda d: [rand(d, 2, 3, 17), rand(d, 2, 2, 4, 5, 7)],
    close=1e-4,
)
row(
    "convolutions of other kinds",
    lambda x, y, z, a, b, c, t: (
        F.conv1d(x, a, stride=2, padding=1).relu(),
        F.conv1d(x, a[:, :2], groups=2, dilation=2) * 2,
        F.conv_transpose1d(x, a.transpose(0, 1).contiguous(), stride=2) + 1,
        F.conv3d(y, c, padding=1).sigmoid(),
        F.conv_transpose2d(z, t, stride=2, padding=1, output_padding=1).tanh(),
        F.conv2d(z, b, padding="same").sum((2, 3)),
        F.conv2d(z, b[:4, :1], groups=4) - 1,
    ),
    lambda d: [
        rand(d, 2, 4, 15),
        rand(d, 1, 2, 5, 5, 5),
        rand(d, 2, 4, 7, 8),
        rand(d, 6, 4, 3),
        rand(d, 5, 4, 3, 3),
        rand(d, 3, 2, 3, 3, 3),
        rand(d, 4, 3, 3, 3),
    ],
    close=1e-3,
)
row(
    "scans among pointwise code",
    lambda x: (
        (x * 2).cumsum(0) - x,
        (x / 3).cumprod(1) + 1,
        x.cummax(0),
        x.cummin(1)[0] * 2,
        x.logcumsumexp(0).exp(),
        x.flip(1).cumsum(1).flip(1),
        x.sign().to(HALF).cumsum(1),  # exact: eager rounds every step of a scan of halves on a GPU
        x.to(HALF).float().cumprod(0),
        torch.cumulative_trapezoid(x, dim=1),
        x.t().cumsum(1),
        x.cumsum(1)[:, -1] - x.sum(1),
    ),
    lambda d: [rand(d, 19, 83)],
    close=1e-3,
)
row(
    "padding of all modes",
    lambda x, y: (
        [F.pad(x, (2, 3, 1, 0), mode) for mode in ("reflect", "replicate", "circular")]
        + [F.pad(y, (1, 2), mode) for mode in ("reflect", "replicate", "circular")]
        + [F.pad(x, (-1, 2, 3, -2), value=1.5), F.pad(x.exp(), (1, 1), "constant", -INF).amax(-1), F.pad(x, (0, 0, 1, 1, 2, 0)) * 2]
    ),
    lambda d: [rand(d, 2, 3, 5, 7), rand(d, 3, 2, 9)],
    close=1e-4,
)
row(
    "norms of odd sizes",
    lambda x, w, b, v: (
        F.group_norm(x, 3, w, b),
        F.group_norm(x, 9, w, b).relu(),
        F.instance_norm(x, weight=w, bias=b),
        F.layer_norm(x, (5, 7)),
        F.layer_norm(x[..., 0, 0], (9,), w, b),
        F.batch_norm(x, None, None, w, b, True),
        F.local_response_norm(x, 3),
        F.rms_norm(x, (7,), v),
        F.batch_norm(x, w.detach() * 0, w.detach() * 0 + 1, w, b, False),
        F.layer_norm(x.to(HALF), (7,)),
    ),
    lambda d: [rand(d, 2, 9, 5, 7), rand(d, 9), rand(d, 9), rand(d, 7)],
    close=1e-3,
)
row(
    "softmax of middle dims",
    lambda x: (
        x.softmax(1),
        x.log_softmax(2),
        x.softmax(0),
        F.softmin(x, 1),
        x.transpose(1, 3).softmax(2),
        x.logsumexp((1, 2)),
        x.to(HALF).softmax(1),
        x.flatten(1, 2).softmax(1).sum(0),
        x.softmax(1, dtype=torch.float64),
    ),
    lambda d: [rand(d, 3, 11, 13, 5)],
    close=1e-3,
)


def attentions(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, ...]:
    kept = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    scores = (q @ k.transpose(-2, -1)) / q.shape[-1] ** 0.5
    return (
        F.scaled_dot_product_attention(q, k, v),
        F.scaled_dot_product_attention(q, k, v, kept),
        F.scaled_dot_product_attention(q, k, v, bias),
        F.scaled_dot_product_attention(q, k, v, is_causal=True) * 2,
        F.scaled_dot_product_attention(q, k, v, scale=0.3),
        scores.masked_fill(~kept, -INF).softmax(-1) @ v,
        F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True),
        (scores + bias).softmax(-1).to(v.dtype) @ v,
        F.scaled_dot_product_attention(q.transpose(1, 2), k[:, :, :7].transpose(1, 2), v[:, :, :7].transpose(1, 2)).relu(),
    )


row("forms of attention", attentions, lambda d: [rand(d, 2, 4, 7, 8), rand(d, 2, 4, 9, 8), rand(d, 2, 4, 9, 8), rand(d, 7, 9)], close=1e-3)
row(
    "norms of every order",
    lambda x: (
        [torch.linalg.vector_norm(x, p, 1) for p in (0, 0.5, 1, 2, 3.5, INF, -INF, -1)]
        + [
            x.norm(p="fro"),
            torch.linalg.matrix_norm(x, 1),
            torch.linalg.matrix_norm(x, INF),
            torch.dist(x, x.flip(0), 3),
            F.normalize(x, p=3, dim=1),
            x.renorm(1, 1, 2.0),
            F.pairwise_distance(x, x.roll(1, 0)),
            F.cosine_similarity(x, x.roll(2, 0)),
        ]
    ),
    lambda d: [rand(d, 9, 50)],
    close=1e-3,
)


def foreach(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, h: torch.Tensor) -> tuple[object, ...]:
    many = [a, b, c, h, a[:3], b.t()]
    torch._foreach_mul_([m for m in (a.clone(), b.clone())], 2)
    total = torch._foreach_norm(many)
    scaled = torch._foreach_mul(many, 0.5)
    torch._foreach_add_(scaled, 1)
    torch._foreach_mul_(scaled, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    return (
        scaled,
        total,
        torch._foreach_maximum(many, 0.1),
        torch._foreach_addcmul(many, many, many, 0.3),
        torch._foreach_lerp(many, scaled, 0.2),
        torch._foreach_sqrt(torch._foreach_abs(many)),
        torch.nn.utils.get_total_norm(many),
        torch._foreach_pow(many, 2),
        torch._foreach_div(many, torch.tensor(3.0, device=a.device)),
    )


row("lists of tensors", foreach, lambda d: [rand(d, 41), rand(d, 7, 5), rand(d), rand(d, 13, dtype=HALF)], close=1e-3)


def steps(kind: str, **how: float | bool) -> Callable[..., tuple[torch.Tensor, ...]]:
    def step(p: torch.Tensor, q: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        parameters = [torch.nn.Parameter(p.detach().clone()), torch.nn.Parameter(q.detach().clone())]
        optimizer = getattr(torch.optim, kind)(parameters, **how)
        for _ in range(3):
            loss = ((x.detach() @ parameters[0]).tanh() + parameters[1]).square().sum()
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.grad = gradient
            optimizer.step()
            optimizer.zero_grad()
        return parameters[0].detach(), parameters[1].detach()

    return step


for kind, how in (
    ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True}),
    ("AdamW", {"lr": 0.01, "amsgrad": True}),
    ("RMSprop", {"lr": 0.01, "centered": True, "momentum": 0.5}),
    ("Rprop", {"lr": 0.01}),
):
    row(f"steps of {kind}", steps(kind, **how), lambda d: [rand(d, 6, 5), rand(d, 5), rand(d, 4, 6)], whole=False, close=1e-4)
