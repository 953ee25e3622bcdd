"""Strides of results, and tensors whose memory does not hold their values as such: conjugate and negative views."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

import torch
import torch.nn.functional as F

from repro_corpus.program import program


def images(channels_last: bool = True) -> torch.Tensor:
    x = torch.arange(120.0).view(2, 3, 4, 5).sin()
    return x.to(memory_format=torch.channels_last) if channels_last else x


def signal() -> torch.Tensor:
    return torch.complex(torch.arange(48.0).sin(), torch.arange(48.0).cos()).view(2, 3, 8)


def filters() -> torch.Tensor:
    return torch.complex(torch.arange(36.0).cos(), (torch.arange(36.0) * 2).sin()).view(4, 3, 3)


@program("", "roll keeps channels last along dims and not when flat")
def rolled(compile):
    @compile
    def f(x):
        return torch.roll(x, 1, 2), torch.roll(x, (1, -1), (2, 3)), torch.roll(x, 3), x.roll(2, 1) * 2, torch.fft.fftshift(x)

    return f(images()), f(images(False)), f(images().mT)


@program("", "reflection and replication pads keep channels last, circular ones do not")
def padded(compile):
    @compile
    def f(x):
        return [F.pad(x, (1, 2, 0, 1), mode=mode) for mode in ("reflect", "replicate", "circular", "constant")]

    return f(images()), f(images(False)), f(images()[:, :1])


@program("", "pads of volumes and of images without a batch")
def padded_volumes(compile):
    @compile
    def f(x, y):
        pads = (1, 1, 1, 1, 1, 1)
        return [F.pad(x, pads, mode=m) for m in ("reflect", "replicate")], [F.pad(y, pads[:4], mode=m) for m in ("reflect", "replicate")]

    volumes = torch.arange(720.0).view(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d)
    return f(volumes, images()[0])


@program("", "gradients of padded images have the layout of the image")
def pad_gradients(compile):
    @compile
    def f(x):
        return sum(F.pad(x, (1, 1, 1, 1), mode=m).square().sum() for m in ("reflect", "replicate"))

    x = images().requires_grad_()
    f(x).backward()
    return x, x.grad.stride()


@program("", "stacked images: the split dim of a joined one, or one more dim at the end")
def stacked(compile):
    @compile
    def f(x, y):
        return [torch.stack([x, y], d) for d in range(-1, 5)], torch.hstack([x, y]), torch.vstack([x, y]), torch.cat([x, y], 1)

    return f(images(), images() + 1), f(images(), images(False))


@program("", "addr without its first term has that term's strides")
def addr(compile):
    @compile
    def f(x, v, w):
        return torch.addr(x, v, w, beta=0), torch.addr(x, v, w, beta=0, alpha=2), torch.addr(x, v, w), torch.addr(x[:1], v, w, beta=0)

    v, w = torch.arange(4.0), torch.arange(3.0)
    return f(torch.ones(3, 4).t(), v, w), f(torch.full((4, 3), float("nan")), v, w)


@program("", "operators that return rows in order whatever they are given")
def made_contiguous(compile):
    @compile
    def f(x):
        return F.logsigmoid(x), torch.isin(x, torch.tensor([0.0, 1.0])), x.tril(), x.cumsum(1), x.flip(1)

    return f(images()), f(images().mT), f(images().permute(3, 1, 0, 2))


@program("", "unreduced losses of images")
def image_losses(compile):
    @compile
    def f(x, target):
        return F.cross_entropy(x, target, reduction="none"), F.nll_loss(x, target, reduction="none"), F.mse_loss(x, x * 2, reduction="none")

    x = images().mT
    return f(x, (x[:, 0] > 0).long())


@program("", "convolutions of conjugate views")
def conjugate_convolutions(compile):
    @compile
    def f(x, w):
        return (
            F.conv1d(x.conj(), w),
            F.conv1d(x, w.conj(), padding=1),
            F.conv1d(x.conj().resolve_conj(), w.conj(), stride=2),
            F.conv_transpose1d(x.conj(), w.transpose(0, 1).conj()),
        )

    return f(signal(), filters())


@program("", "gradients of convolutions of conjugate views")
def conjugate_convolution_gradients(compile):
    @compile
    def f(x, w):
        return F.conv1d(x.conj(), w).abs().sum() + F.conv1d(x, w.conj()).real.sum()

    x, w = signal().requires_grad_(), filters().requires_grad_()
    loss = f(x, w)
    loss.backward()
    return loss, x, w


@program("", "conjugate inputs of convolutions")
def conjugate_inputs(compile):
    @compile
    def f(x, w):
        return F.conv1d(x, w), x.abs(), x + w.sum(), x.real.exp(), x.imag * 2, x.contiguous(), x.clone().is_conj()

    return f(signal().conj(), filters().conj())


@program("", "negative views in arithmetic, as inputs and as results")
def negative_views(compile):
    @compile
    def f(z, n):
        part = z.conj().imag
        return part + 1, part.clone(), part * n, n[:, 1:].exp(), n.t() @ n, (z * 2).conj().imag, n.flip(0).sum(), torch.cat([n, part])

    z = torch.complex(torch.arange(6.0), torch.arange(6.0) + 1).view(2, 3)
    return f(z, z.conj().imag)


@program("", "writes to and from conjugate and negative views")
def written_conjugates(compile):
    @compile
    def f(a, b, c, n, m):
        a.copy_(a.conj())
        b.conj().mul_(1j)
        c.imag.add_(1)
        n.copy_(m)
        m.mul_(2)
        return c.conj().imag

    given = [signal() for _ in range(3)] + [torch.zeros(2, 3, 8), signal().conj().imag]
    return f(*given), given


@program("", "copies of conjugate views, rearranged and joined")
def conjugate_copies(compile):
    @compile
    def f(z):
        c = z.conj()
        return c, c.clone(), c.mT.contiguous(), z.mH, c.flip(0), torch.cat([c, z]), c.reshape(-1), torch.view_as_real(c.resolve_conj())

    return f(signal())


@program("", "a channels last network ends channels last")
def network(compile):
    layers = torch.nn.Sequential(torch.nn.ReflectionPad2d(1), torch.nn.Conv2d(3, 4, 3), torch.nn.ReplicationPad2d(1), torch.nn.LogSigmoid())
    layers = layers.to(memory_format=torch.channels_last)
    run = compile(layers)
    y = run(images())
    y.square().mean().backward()
    return y, y.stride(), [p.grad for p in layers.parameters()]


@program("", "sparse tensors made inside, and what is read of them")
def sparse_inside(compile):
    @compile
    def parts(x):
        s = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), x[0, :2], (2, 2), check_invariants=True)
        return s.coalesce().values() * 2, s.is_sparse, s.shape

    @compile
    def through(x):
        return x.to_sparse().to_dense() + 1, (x.to_sparse() * 2).coalesce().indices()

    x = torch.arange(6.0).view(2, 3)
    with torch.sparse.check_sparse_tensor_invariants(False):  # torch warns once a process where it is left open
        return [(parts(x), through(x)) for _ in range(2)]


@program("", "angles, magnitudes and parts of complex numbers laid out in another order than rows")
def parts_of_complex_numbers(compile):
    @compile
    def f(x):
        z = torch.complex(x, x * 2)
        return z.angle(), z.conj().angle(), z.abs(), z.sgn(), (z * 2).imag, z * x, torch.polar(x, x).real, z.isfinite(), x.angle()

    x = torch.arange(1, 25.0).view(2, 3, 4)
    return [f(t) for t in (x, x.permute(2, 0, 1), x[..., ::2], x[None].to(memory_format=torch.channels_last), x[:1].expand(2, 3, 4))]


@program("", "gradients of activations, where the gradient and the input lie in different orders")
def activation_gradients(compile):
    @compile
    def f(x, grad):
        results = []
        for activation in (F.relu, F.leaky_relu, F.hardtanh, F.silu, lambda t: F.threshold(t, 0.5, 1.0)):
            for of, given in ((x, grad), (grad, x)):
                (y,) = torch.func.vjp(lambda t: activation(t).sin(), of)[1](given)
                results += [y, y.contiguous()]
        return results

    @compile
    def g(x, w):
        return (F.relu(x).sin() * w).sum(), (F.leaky_relu(x).sin() * w).sum()

    x, grad = torch.arange(9.0).view(3, 3).sin(), torch.arange(9.0).view(3, 3).cos()
    leaf = x.t().requires_grad_()
    gradients = [torch.autograd.grad(loss, leaf)[0] for loss in g(leaf, grad)]
    return f(x.t(), grad), gradients, [t.is_contiguous() for t in gradients]


@program("", "a view of what became equal to another result, or to an argument, keeps the strides of its own memory")
def views_of_copies(compile):
    def rows(b):
        v = b[:, :6].clone()
        other = v + 1
        v.copy_(other)
        return other, v[::2], other + 1

    def windows(b):
        v = b[:, :6].clone()
        other = v + 1
        v.copy_(v.clone())
        v.copy_(other)
        return other, v.unfold(0, 1, 2).expand([3, -1, 1])

    def converted(b):
        other = b.to(torch.int32) + 1
        v = b + 2
        v.copy_(other)
        return other, v[:, 2:].t(), v.to(b.dtype)[1:]

    def argument(b):
        v = torch.zeros(5, 7, dtype=b.dtype)
        v.copy_(b)
        w = b.clone()
        w.copy_(v)
        return v[::2], w.t()[1:5]

    b = torch.arange(35).view(5, 7)
    return [(fn.__name__, compile(fn)(t)) for fn in (rows, windows, converted, argument) for t in (b, b.float(), b.t().contiguous().t())]


@program("", "stack of what lies otherwise than in rows, with `out=` that is empty, has the right shape or another")
def stacked_into(compile):
    found = []
    given = [
        torch.ones(2, 4, 2, 3).to(memory_format=torch.channels_last),
        torch.ones(4, 5, dtype=torch.int16).t(),
        torch.ones(3, 4, 5).permute(2, 0, 1),
        torch.ones(3, 4, 5, dtype=torch.int16).permute(0, 2, 1),
    ]
    for a in given:
        for dtype in (torch.int8, torch.int16, torch.float64):
            for dim in (0, 1, -1):

                def into(a, dim=dim, dtype=dtype):
                    return torch.stack([a, a], dim, out=torch.empty(0, dtype=dtype))

                def over(a, dim=dim, dtype=dtype):
                    like = torch.stack([a, a], dim)
                    return torch.stack([a, a], dim, out=torch.zeros(like.shape[::-1], dtype=dtype).permute(*range(like.dim())[::-1]))

                def other(a, dim=dim):
                    return torch.stack([a, a], dim), torch.stack([a, a], dim, out=torch.zeros(3, dtype=a.dtype))

                for f in (into, over, other):
                    try:
                        found.append(compile(f)(a))
                    except (RuntimeError, TypeError) as error:
                        found.append(str(error)[:40])
    return found


_OVER: dict[str, Callable[[torch.Tensor, tuple[int, ...], bool], object]] = {
    "all": lambda x, dims, keeps: x.all(dims, keeps),
    "any": lambda x, dims, keeps: x.any(dims, keeps),
    "sum": lambda x, dims, keeps: x.sum(dims, keeps),
    "nansum": lambda x, dims, keeps: x.nansum(dims, keeps),
    "std": lambda x, dims, keeps: x.std(dims, keepdim=keeps),
    "norm": lambda x, dims, keeps: x.norm(1, dims, keeps),
    "complex norm": lambda x, dims, keeps: torch.linalg.vector_norm(x.to(torch.complex64), 2, dims, keeps),
    "flip": lambda x, dims, keeps: x.flip(dims),
}


@program("", "operators over no dimension and over dimensions of one element, of tensors with and without elements")
def no_dimensions(compile):
    full = torch.tensor([[1.0, 0, 3], [2, 0, 1]])
    given = (full.t(), full[None], torch.zeros(1, 7, 0), torch.zeros(0, 1, 2).permute(2, 1, 0))
    found = []
    for number, (name, fn, dims) in enumerate((name, fn, dims) for name, fn in _OVER.items() for dims in ((), (0,), (-2,))):
        fn.__code__ = fn.__code__.replace(co_name=f"over_{number}")
        compiled = compile(FunctionType(fn.__code__, globals()))
        found += [(name, dims, compiled(x, dims, keeps)) for x in given for keeps in (False, True)]
    return found


_TURNED: dict[str, Callable[[torch.Tensor], object]] = {
    "narrow": lambda y: y.transpose_(0, -1).narrow(1, 1, 1),
    "turned again": lambda y: y.transpose_(0, 1)[:, 1:].transpose(0, 2),
    "select": lambda y: y.unsqueeze_(1).select(2, 1),
    "steps": lambda y: y.swapaxes_(1, 2)[:, ::2],
    "whole": lambda y: y.transpose_(0, -1),
}


@program("", "a part of what was transposed in place, which alone is returned")
def parts_of_transposed(compile):
    found = []
    for number, (name, part) in enumerate(_TURNED.items()):

        def f(x, part=part):
            return part(x * 2)

        f.__code__ = f.__code__.replace(co_name=f"part_{number}")
        compiled = compile(f)
        for leaf in (torch.arange(24.0).view(2, 3, 4), torch.arange(24.0).view(2, 3, 4).requires_grad_()):
            result = compiled(leaf)
            found.append((name, result))
            if leaf.requires_grad:
                found.append(torch.autograd.grad(result.square().sum(), leaf))
                found.append(result.mul_(2) + 1)
    return found


@program("", "tensors without elements get the strides of their new shape: a gradient that a view of complex numbers refuses otherwise")
def reshaped_without_elements(compile):
    @compile(fullgraph=True)
    def f(x):
        z = torch.complex(x, x)
        flat = torch.view_as_real(z.conj() @ z.mT).reshape([0])
        return flat.sigmoid(), torch.view_as_complex(flat.sin().view(0, 3, 2)), torch.view_as_complex((flat * 2).reshape(2, 0, 2))

    x = torch.ones(0, 5, dtype=torch.float64, requires_grad=True)
    results = f(x)
    return results, torch.autograd.grad(results, x, [torch.ones_like(r) for r in results])
