"""Programs after public reports about writes to inputs and views: what is read before a write is the old value, after it the new one."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from repro_corpus.program import program


def table(rows: int = 6, columns: int = 6) -> torch.Tensor:
    return torch.arange(float(rows * columns)).view(rows, columns)


@program("pytorch#198280", "a batch of matrices transposed in place through arithmetic read elements it had overwritten")
def batch_transposed_in_place(compile):
    @compile
    def f(x):
        x.copy_(x.mT * 1.0)
        return x

    return f(torch.arange(75.0).view(3, 5, 5))


@program("pytorch#198270", "an indexed write, then the tensor plus itself upside down")
def indexed_write_then_flip(compile):
    @compile
    def f(x, rows):
        x.index_put_((rows,), x * 2)
        x.add_(x.flip(0))
        return x

    return f(table(), torch.tensor([3, 1, 0, 5, 4, 2]))


@program("pytorch#197829", "shifting rows by one became a copy over overlapping memory")
def rows_shifted(compile):
    @compile
    def f(x, y):
        x[1:] = x[:-1].clone()
        y[:, :-2] = y[:, 2:].clone()

    x, y = table(), table()
    f(x, y)
    return x, y


@program("pytorch#198131", "a whole-slice copy of an input was taken after that input's own update")
def copied_before_update(compile):
    @compile
    def f(target, source):
        target[:, 0:] = source[0:]
        source.mul_(3)
        return source.sum()

    target, source = torch.zeros(6, 6), table()
    return f(target, source), target, source


@program("pytorch#198101", "what is computed from a dtype view of an input was computed after the input changed")
def dtype_view_before_write(compile):
    @compile
    def f(x):
        halves = x.view(torch.int32) * 3
        halves.add_(1)
        x[1:4] = -5
        return halves.view(torch.int64)

    x = torch.arange(-8, 8)
    return f(x), x


@program("pytorch#163929", "the index of the least of a transposed, mutated matrix counted in the wrong order")
def position_in_transposed(compile):
    @compile
    def f(x):
        x.cos_()
        t = x.t()
        return t.argmin(), t.argmax(), t.argmin(0), t.flatten().argmax()

    return f(table(5, 7) / 3)


@program("pytorch#183082", "the same of a clone")
def position_in_transposed_clone(compile):
    @compile
    def f(x):
        y = x.clone()
        y.sin_()
        return y.t().argmax(), y.t().max(1)[1]

    return f(table(4, 6))


@program("pytorch#94693", "a graph that ends in a copy to its input, whose slices it shifts")
def trailing_copy(compile):
    @compile
    def f(x):
        y = x.clone()
        y[2:11] = x[1:10] + 1
        x.copy_(y)
        return y * 2

    x = torch.arange(16.0)
    return f(x), x


@program("pytorch#95262", "copy_ between dtypes, then the target with dims moved")
def copy_between_dtypes(compile):
    @compile
    def f(x, y):
        y.copy_(x)
        return torch.movedim(y, 0, 1)

    y = torch.zeros(2, 3)
    return f(torch.ones(2, 3, dtype=torch.float16) / 3, y), y


@program("pytorch#139789", "arguments that overlap only in the second call")
def overlap_in_second_call(compile):
    @compile
    def f(x, y):
        x.mul_(2)
        return x + y

    apart = f(torch.ones(4), torch.ones(4))
    base = torch.arange(8.0)
    return apart, f(base[:4], base[2:6]), base


@program("pytorch#195422", "dropout that does nothing gives back its input, which is then written to")
def write_through_inactive_dropout(compile):
    @compile
    def f(x):
        y = F.dropout(x, 0.5, training=False)
        y += 1
        return y, x * 2

    x = table(2, 2)
    return f(x), x


@program("pytorch#174074", "adding rows to themselves under one index given twice")
def repeated_index(compile):
    @compile
    def f(x):
        x[[1, 1]] += x[[1, 1]]
        return x

    return f(table(3, 2))


@program("pytorch#113010", "out= is a transposed view")
def out_is_transposed_view(compile):
    @compile
    def f(x, y):
        return torch.neg(x, out=y.t())

    y = torch.zeros(4, 3)
    return f(table(3, 4), y), y


@program("pytorch#174963", "as_strided of a rolled image reads memory in the layout eager gives it")
def as_strided_of_rolled(compile):
    @compile
    def f(x):
        return torch.as_strided(torch.roll(x, 1, 2), (4, 6), (5, 1), 3)

    return f(torch.arange(120.0).view(2, 3, 4, 5).to(memory_format=torch.channels_last))
