"""Programs after public reports about digits, dtypes, strides and complex numbers."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from repro_corpus.program import program


def spread(*shape: int) -> torch.Tensor:
    return torch.linspace(-2, 3, torch.Size(shape).numel()).sin().view(shape)


@program("pytorch#100775", "softmax of a large multiple: the product was rounded for the maximum and not for the difference")
def softmax_of_large_multiple(compile):
    @compile
    def f(x):
        y = x.mul(3e14)
        return y.softmax(-1), (y - y.amax(-1, keepdim=True)).exp()

    return f(spread(6, 10))


@program("pytorch#122260", "a sum of two quotients was fused into one rounding, and normalised by the other")
def sum_of_quotients(compile):
    @compile
    def f(x, y):
        z = x / 1e-6 + y / 1e-6
        return (z - z.amax(-1, keepdim=True)).exp()

    x = spread(4, 8) * 100
    return f(x, x.flip(0))


@program("pytorch#101039", "softmax of quotients by a small number sums to one")
def softmax_sums_to_one(compile):
    @compile
    def f(query, key):
        return torch.softmax((query @ key.mT).div(1e-6), -1).sum(-1)

    return f(spread(1, 10, 40), spread(1, 2, 40).cos())


@program("pytorch#141436", "running sums of float32 differ from eager's, which are kept in float64")
def running_sum(compile):
    @compile
    def f(x):
        return x.cumsum(-1), x.cumsum(0), x.half().cumsum(-1)

    return f(spread(4, 1024) + 0.3)


@program("pytorch#172062", "gradients of running products")
def running_product_gradient(compile):
    @compile
    def f(x):
        return x.cumprod(1)[:, -1].sum() + x.cumprod(1).square().mean()

    x = (spread(3, 12) / 4 + 1).requires_grad_()
    f(x).backward()
    return x


@program("pytorch#197089", "variances of numbers whose squares float32 cannot hold")
def variance_of_extremes(compile):
    @compile
    def f(x):
        return x.var(-1), x.std(-1), torch.var_mean(x, -1), torch.std_mean(x)

    return [f(spread(3, 50) * scale) for scale in (1e30, 1e-30, 1.0)], f(spread(3, 50) + 1e5)


@program("pytorch#197089", "gradients of standard deviations of very small numbers")
def deviation_gradient(compile):
    @compile
    def f(x):
        return x.std(-1).sum()

    x = (spread(3, 50) * 1e-18).requires_grad_()
    f(x).backward()
    return x


@program("pytorch#118266", "the position of the greatest where NaN comes first")
def position_of_nan(compile):
    @compile
    def f(x):
        y = torch.log1p(x)
        return y.argmax(), y.argmin(), y.max(0)[1]

    return f(torch.tensor([-2.0, 100.0, 3.0]))


@program("pytorch#191499", "least and greatest of small integers without zero among them")
def extremes_of_small_integers(compile):
    @compile
    def f(x):
        return x.min(), x.max(), x.argmin(), x.argmax(), x.amin(0), x.amax(0)

    x = torch.tensor([5, 1, 100, 3, 7, 8, 9, 13, 100, 120, 127, 2, 6, 4, 11, 12, 90, 80])
    return f(x.to(torch.uint8)), f(x.to(torch.int8)), f((-x).to(torch.int8))


@program("pytorch#97127", "a position as a floating point number")
def position_as_float(compile):
    @compile
    def f(x):
        return x.argmax(0).float().mean(), x.argmin().half()

    return f(spread(3, 4))


@program("pytorch#95197", "many 16-bit values added to few elements", tolerance=(0, 0))
def bfloat16_scatter_add(compile):
    @compile
    def f(target, where, values):
        return target.scatter_add(0, where, values), target.half().scatter_add(0, where, values.half())

    return f(torch.ones(3).bfloat16(), torch.arange(900) % 3, spread(900).abs().bfloat16())


@program("pytorch#95189", "index_add of 16-bit rows, scaled", tolerance=(0, 0))
def bfloat16_index_add(compile):
    @compile
    def f(target, where, rows):
        return torch.index_add(target, 0, where, rows, alpha=2), torch.index_add(target.mT.contiguous(), 1, where, rows.mT.contiguous())

    return f(torch.ones(3, 4).bfloat16(), torch.arange(90) % 3, spread(90, 4).bfloat16())


@program("pytorch#94778", "index_add of a vector to a matrix", raises="RuntimeError: source tensor shape must match self")
def index_add_of_vector(compile):
    @compile
    def f(x, values):
        return torch.index_add(x, 0, torch.arange(5), values)

    return f(spread(5, 5), spread(5))


@program("pytorch#189803", "the reciprocal of a sum that nearly cancels", tolerance=(2e-3, 1e-3))
def reciprocal_near_zero(compile):
    @compile
    def f(x):
        y = F.elu(x, alpha=1.24)
        return torch.reciprocal(y + y.exp())

    return f(spread(24, 37))


@program("pytorch#183771", "nearest neighbours of a permuted volume keep its strides")
def nearest_of_permuted(compile):
    @compile
    def f(x):
        return F.interpolate(x, size=(5, 6, 7), mode="nearest")

    return f(spread(2, 5, 2, 3, 2).permute(0, 4, 1, 2, 3))


@program("pytorch#198364", "operators that take the layout of a transposed first input")
def layout_of_transposed_input(compile):
    @compile
    def f(a, b):
        return (
            torch.copysign(a, b),
            torch.floor_divide(a, b + 3),
            torch.div(a, b + 3, rounding_mode="floor"),
            torch.addr(a, b[:, 0], b[0], beta=0),
            a.put(torch.tensor([0, 7]), torch.tensor([1.0, 2.0])),
        )

    return f(spread(6, 5).mT, spread(5, 6))


@program("pytorch#130394", "a tensor made with the strides of a view of something wider")
def empty_with_gaps(compile):
    @compile
    def f(x):
        out = torch.empty_strided(x.shape, x.stride())
        out[:] = x + x
        return out

    return f(spread(8, 8)[:, :4])


@program("pytorch#171852", "conjugates through complex layers")
def conjugates_through_layers(compile):
    torch.manual_seed(0)
    first, second = torch.nn.Linear(4, 4, dtype=torch.complex64), torch.nn.Conv2d(1, 1, 2, dtype=torch.complex64)

    @compile
    def f(x):
        y = first(torch.complex(x, torch.zeros_like(x)).conj())
        y = torch.complex(y.real.relu(), y.imag).conj().view(-1, 1, 2, 2)
        return second(y).conj()

    out = f(spread(3, 4))
    out.abs().sum().backward()
    return out, [p.grad for p in (*first.parameters(), *second.parameters())]


@program("pytorch#174891", "a complex tensor plus a broadcast one")
def complex_broadcast(compile):
    @compile
    def f(x):
        return x + torch.ones(2, 1, dtype=torch.complex64), x * torch.full((1, 2), 1j), x - x[:1].conj()

    return f(torch.full((2, 2), 1 + 0.5j))


@program("pytorch#97562", "rotary embeddings by complex multiplication")
def rotary_embedding(compile):
    @compile
    def f(x, angles):
        z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * torch.polar(torch.ones_like(angles), angles)).flatten(-2)

    return f(spread(2, 3, 8), spread(3, 4))


@program("pytorch#184100", "the gradient of a product with a complex literal")
def complex_literal_gradient(compile):
    @compile
    def f(z):
        return (z * (2 - 1j)).abs().sum()

    z = torch.complex(spread(4), spread(4).cos()).requires_grad_()
    f(z).backward()
    return z


@program("pytorch#172073", "complex tensors without dims")
def complex_scalars(compile):
    @compile
    def f(z):
        return z + z, z * 2.5, z.conj() - 1j, torch.zeros((), dtype=torch.complex64) + z

    return f(torch.tensor(2.5 + 1j))
