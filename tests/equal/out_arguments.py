"""`out=` that isn't simply the result's memory: lists, other types, other layouts, views that torch makes of it."""

from __future__ import annotations

import torch

from repro_corpus.program import program


def outcomes(*calls):
    """What each gives, or the type of its error."""
    found = []
    for call in calls:
        try:
            found.append(call())
        except (RuntimeError, IndexError, TypeError) as e:
            found.append(type(e).__name__)
    return found


@program("", "operators that write a list of tensors and return nothing")
def lists(compile):
    @compile
    def f(x, a, b):
        torch.unbind_copy(x, 0, out=[a, b])
        fresh = [torch.empty(0), torch.empty(0)]
        torch.unbind_copy(x, 1, out=fresh)
        parts = [torch.empty(2, 1), torch.empty(2, 1)]
        torch.split_with_sizes_copy(x, [1, 1], 1, out=parts)
        return fresh, parts, a + b

    a, b = torch.zeros(2), torch.zeros(2)
    return f(torch.arange(4.0).view(2, 2), a, b), a, b


@program("", "an operator that writes to a view of its `out` which it hides from autograd, and such views in the program")
def hidden_views(compile):
    @compile
    def f(x, y):
        product = torch.kron(x, y, out=torch.zeros(4, 4).t())
        left, right = torch.unsafe_split(x, 1)
        left.add_(1)
        part = torch.unsafe_split_with_sizes(x, [1, 1])[0]
        x.mul_(2)
        return product, left, right, part, torch.linalg.matrix_rank(y, out=torch.zeros((), dtype=torch.long))

    x = torch.ones(2, 2)
    return f(x, torch.eye(2)), x


@program("", "an `out` in another order, or with gaps, keeps its strides; one that is resized gets those of a new result")
def layouts(compile):
    def laid_out(t, how):
        if how == "turned":
            return torch.zeros(t.shape[::-1], dtype=t.dtype).permute(*range(t.dim())[::-1])
        return torch.zeros(t.shape[0] * 2, *t.shape[1:], dtype=t.dtype)[::2] if how == "gaps" else torch.empty(0, dtype=t.dtype)

    @compile
    def f(x, how):
        index = torch.zeros(x.shape, dtype=torch.long)
        values, places = laid_out(x, how), laid_out(index, how)
        torch.sort(x, out=(values, places))
        square = x[0] @ x[0].mT + torch.eye(3)
        return (
            values,
            places,
            torch.msort(x, out=laid_out(x, how)),
            torch.linalg.solve(square, x[0], out=laid_out(x[0], how)),
            torch.linalg.solve(square, x[0, :, 0], out=laid_out(x[0, :, 0], how)),
            torch.topk(x, 2, 0, out=(laid_out(x[:2], how), laid_out(index[:2], how))),
        )

    x = torch.randn(2, 3, 4)
    return [f(t, how) for t in (x, x.mT.contiguous().mT) for how in ("turned", "gaps", "resized")]


@program("", "an `out` of another type is refused where the kernel wants the result's own, and cast into elsewhere")
def types(compile):
    @compile
    def f(x, dtype):
        def out():
            return torch.zeros(x.shape, dtype=dtype)

        return outcomes(
            lambda: torch.round(x, out=out()),
            lambda: torch.neg(x, out=out()),
            lambda: torch.msort(x, out=out()),
            lambda: torch.tril(x, out=out()),
            lambda: torch.where(x > 0, x, x, out=out()),
            lambda: torch.clamp(x, 0, 1, out=out()),
            lambda: torch.abs(x, out=out()),
            lambda: torch.angle(x, out=out()),
            lambda: torch.isin(x, x[0], out=out()),
            lambda: torch.lerp(x, x, 0.5, out=out()),
            lambda: torch.lerp(x, x, x, out=out()),
            lambda: torch.cummax(x, 0, out=(out(), torch.zeros(x.shape, dtype=torch.long))),
            lambda: torch.index_select(x, 0, torch.tensor([0, 1]), out=out()),
        )

    x = torch.tensor([[1.5, -2.0], [0.25, 3.0]])
    return [f(x, d) for d in (torch.float32, torch.float64, torch.float16, torch.int32, torch.complex64, torch.bool)]


@program("", "values that can't be broadcast to what indices choose are refused, whether the result is read or not")
def values_for_indices(compile):
    @compile
    def f(x, rows, values):
        def write(index):
            y = x.clone()
            y[index] = values
            return y

        return outcomes(
            lambda: x.index_put((rows,), values),
            lambda: x.index_put((rows, rows), values),
            lambda: write(rows),
            lambda: write((slice(None), rows)),
            lambda: write(x > 1),
            lambda: len(write((rows, slice(None))).shape),
            lambda: x.index_put((rows,), values, accumulate=True),
        )

    x, shapes = torch.arange(4.0).view(2, 2), ((7,), (2,), (2, 2), (1, 1, 2), (0,), ())
    return [
        f(x, rows, torch.ones(s)) for rows in (torch.tensor([0, 1]), torch.tensor([], dtype=torch.long), torch.tensor(1)) for s in shapes
    ]


@program("", "strides of Fourier transforms of several dims, real and complex, in each order of the input")
def transforms(compile):
    @compile
    def f(x, dims):
        whole = torch.fft.rfftn(x, dim=dims)
        return (
            whole,
            torch.fft.irfftn(whole, dim=dims),
            torch.fft.fftn(x, dim=dims),
            torch.fft.hfftn(x, dim=dims),
            torch.fft.ihfft(x, dim=dims[0]),
        )

    x = torch.randn(3, 4, 5)
    return [
        f(x.permute(order), dims) for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)) for dims in ((0, 1), (2, 0), (1,), (0, 1, 2), (1, 0, 2))
    ]
