"""Errors that eager raises: programs of ours after public reports of checks that compiled code lost."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from repro_corpus.program import Compile, program


def outcome(fn: Any, *args: Any) -> Any:
    """What a call gives or raises."""
    try:
        return fn(*args)
    except Exception as e:  # noqa: BLE001  # the kind of exception is what is compared
        return type(e).__qualname__


@program("pytorch#183769", "select out of range of a dim of one element gives values")
def select_beyond_one(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        columns = x.unsqueeze(2)
        return columns.select(2, 0) + columns.select(2, 1)

    return outcome(f, torch.arange(6.0).view(2, 3))


@program("pytorch#185885", "index_add takes a negative index")
def index_add_negative(compile: Compile) -> Any:
    @compile
    def f(at: torch.Tensor) -> torch.Tensor:
        return torch.zeros(5).index_add(0, at, torch.ones(2)).clamp(max=1)

    return outcome(f, torch.tensor([1, 4])), outcome(f, torch.tensor([1, -2]))


@program("pytorch#111952", "an index that is computed inside is out of range")
def computed_index(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        at = torch.tensor([0, 3])
        return x[at + 2]

    return outcome(f, torch.ones(9)), outcome(f, torch.ones(4))


@program("pytorch#121251", "index_select reads memory behind the tensor")
def index_select_behind(compile: Compile) -> Any:
    class M(nn.Module):
        def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            return x.index_select(1, at).relu()

    f = compile(M())
    return outcome(f, torch.ones(2, 3), torch.tensor([2])), outcome(f, torch.ones(2, 3), torch.tensor([3]))


@program("pytorch#126691", "an index out of range ends the process")
def reversed_range(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return x[torch.arange(2, -x.shape[0] - 3, -1)]

    return outcome(f, torch.ones(300, 4))


@program("pytorch#183608", "embedding counts negative indices from the end")
def embedding_negative(compile: Compile) -> Any:
    @compile
    def f(i: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.embedding(i, w).sum(-1)

    w = torch.arange(8.0).view(4, 2)
    return outcome(f, torch.tensor([1, 3]), w), outcome(f, torch.tensor([1, -1]), w)


@program("pytorch#95143", "index_add out of range crashes")
def index_add_beyond(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        x.index_add_(0, at, torch.ones(1, 2), alpha=2)
        return x * 2

    x = torch.zeros(3, 2)
    return outcome(f, x, torch.tensor([2])), x.clone(), outcome(f, x, torch.tensor([3]))


@program("pytorch#151309", "the inverse of a singular matrix is NaN")
def inverse(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x + x).relu()

    return outcome(f, torch.diag(torch.tensor([2.0, 4.0]))), outcome(f, torch.ones(2, 2))


@program("pytorch#182965", "cholesky of an indefinite matrix gives a factor")
def cholesky(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.cholesky(x @ torch.eye(2))

    return outcome(f, torch.eye(2) * 4), outcome(f, torch.tensor([[0.0, 1.0], [1.0, 0.0]]))


@program("pytorch#147280", "tensorinv of zeros is infinite")
def tensor_inverse(compile: Compile) -> Any:
    @compile
    def f(n: int) -> torch.Tensor:
        return torch.linalg.tensorinv(torch.fft.fftfreq(n).reshape(n, 1), ind=1)

    return outcome(f, 1)


@program("pytorch#175608", "an error of linalg.inv is not caught by the function's own except")
def inverse_in_try(compile: Compile) -> Any:
    class M(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                with torch.no_grad():
                    y = torch.linalg.inv(x)
            except RuntimeError:
                y = x.new_zeros(())
            return y + 1

    f = compile(M())
    return f(torch.eye(2)), f(torch.ones(2, 2)), f(torch.ones(2, 3))


@program("pytorch#148475", "an error of expand_as while tracing is not caught by the function's own except")
def expand_in_try(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        try:
            y = x.expand_as(torch.ones(3))
        except RuntimeError:
            y = x.cos()
        return y * 2

    return f(torch.ones(1)), f(torch.ones(2, 3))


@program("pytorch#198192", "IndexError of an operator passes by except clauses and contextlib.suppress")
def index_error_in_try(compile: Compile) -> Any:
    @compile
    def by_base(x: torch.Tensor) -> Any:
        try:
            return x.select(0, 4)
        except LookupError as e:
            return type(e).__name__

    @compile
    def suppressed(x: torch.Tensor, i: torch.Tensor) -> Any:
        with contextlib.suppress(IndexError):
            return x[i]
        return "suppressed"

    return by_base(torch.ones(3)), suppressed(torch.ones(3), torch.tensor([1])), suppressed(torch.ones(3), torch.tensor([4]))


@program("torchdynamo#318", "division by a zero that is known only at run time, in a try")
def division_in_try(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        try:
            return 12 // x
        except RuntimeError:
            return x + 2

    return f(torch.tensor(5)), f(torch.tensor(0))


@program("pytorch#93720", "an exception handler of the function raises again")
def handler_raises(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        try:
            return x.gather(0, i)
        except RuntimeError as e:
            raise KeyError("no such row") from e

    return outcome(f, torch.ones(2), torch.tensor([0])), outcome(f, torch.ones(2), torch.tensor([2]))


@program("pytorch#143649", "integer division by zero ends the process")
def integer_divisions(compile: Compile) -> Any:
    fs = [
        lambda a, b: torch.floor_divide(a * 2, b),
        lambda a, b: torch.remainder(a * 2, b),
        lambda a, b: torch.fmod(a * 2, b),
        lambda a, b: torch.div(a * 2, b, rounding_mode="floor"),
    ]
    a = torch.tensor([7, -8, 9], dtype=torch.int32)
    good, bad = torch.tensor([2, 3, -4], dtype=torch.int32), torch.tensor([2, 0, 4], dtype=torch.int32)
    return [outcome(compile(f), a, b) for f in fs for b in (good, bad)]


@program("pytorch#183610", "remainder by zero of 64-bit integers, among other work")
def remainder_by_zero(compile: Compile) -> Any:
    @compile
    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a % b).float().exp() + a

    return outcome(f, torch.tensor([5, 6]), torch.tensor([3, 4])), outcome(f, torch.tensor([5, 6]), torch.tensor([3, 0]))


@program("pytorch#147206", "remainder of a number by a tensor of booleans that has False")
def remainder_of_number(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.remainder(3, (x > 0).long())

    return outcome(f, torch.ones(3)), outcome(f, torch.tensor([1.0, -1.0]))


@program("pytorch#143717", "div_ of an integer tensor cannot hold the quotient")
def division_in_place(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.div_(y)

    x = torch.tensor([3])
    return outcome(f, x, torch.tensor([2])), x


@program("pytorch#184406", "the smallest integer divided by -1 ends the process")
def smallest_by_minus_one(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.floor_divide(x, y) + 0

    return f(torch.tensor([7, -9], dtype=torch.int32), torch.tensor([-1, -1], dtype=torch.int32))


@program("pytorch#155247", "nll_loss of one sample without a batch dim")
def nll_of_one(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return F.nll_loss(x.log_softmax(0), t)

    x = torch.tensor([0.1, 0.7, -0.3], requires_grad=True)
    f(x, torch.tensor(1)).backward()
    return x, outcome(f, x.detach(), torch.tensor(3))


@program("pytorch#182399", "cross_entropy with probabilities as target and class weights")
def probabilities_and_weights(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, t: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, t, weight=w, reduction="none")

    x, t = torch.arange(12.0).view(4, 3) / 7, torch.full((4, 3), 1 / 3)
    return f(x, t, torch.tensor([1.0, 2.0, 3.0])), outcome(f, x, t, torch.ones(2))


@program("pytorch#165409", "abs_ through an unfolded view, whose elements overlap, is refused by the compiler only")
def abs_of_unfolded(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x + x).unfold(0, 3, 2).abs_()

    return f(torch.linspace(-2, 2, 7))


@program("pytorch#183888", "the same of two dims, and the tensor below")
def abs_of_unfolded_rows(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 1
        return y.unfold(1, 4, 2).abs_(), y

    return f(torch.linspace(-3, 3, 12).view(2, 6))


@program("pytorch#113793", "a view that was changed in place is written on")
def view_changed(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        v = x.view(-1)
        v.mul_(2)
        v[1:3].add_(1)
        return x.sum(0)

    x = torch.ones(2, 2)
    return f(x), x


@program("pytorch#190421", "infinities as integers, and back")
def infinity_as_integer(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.log().int().float() + 1

    return f(torch.zeros(5)), f(torch.tensor([1.0, 7.5]))


@program("pytorch#190283", "matrix_rank of what is no number")
def rank_of_nan(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.svdvals(torch.special.psi(x))

    return outcome(f, torch.ones(2, 2)), outcome(f, torch.full((2, 2), float("nan")))


@program("pytorch#197554", "values outside of what an operator takes: probabilities, classes, quantiles")
def validation(compile: Compile) -> Any:
    fs = [
        lambda x: torch.bernoulli(x),
        lambda x: torch.multinomial(x, 1),
        lambda x: F.one_hot(x.long(), 2),
        lambda x: F.binary_cross_entropy(x, x),
        lambda x: torch.quantile(x, x[1]),
        lambda x: F.cross_entropy(x[None], x[1:].long()),
    ]
    return [outcome(compile(f), torch.tensor(v)) for f in fs for v in ([-1.0, 5.0],)]
