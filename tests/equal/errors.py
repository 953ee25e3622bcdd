"""What eager refuses is refused, with the same exception, where the program can catch it, and with the same state left behind."""

from __future__ import annotations

import itertools
import signal
from typing import Any

import torch
import torch.nn.functional as F

from repro_corpus.program import Compile, program


def outcome(fn: Any, *args: Any) -> Any:
    """What a call gives or raises."""
    try:
        return fn(*args)
    except Exception as e:  # noqa: BLE001  # the kind of exception is what is compared
        return type(e).__qualname__


@program("", "in place, a result that the written tensor can't hold is refused, and nothing is written")
def in_place_of_another_type(compile: Compile) -> Any:
    calls = (
        compile(lambda x, y: x.mul_(y)),
        compile(lambda x, y: x.mul_(2.5)),
        compile(lambda x, y: x.div_(y)),
        compile(lambda x, y: x.sub_(2j)),
        compile(lambda x, y: x.pow_(0.5)),
        compile(lambda x, y: x.addcmul_(y, y)),
        compile(lambda x, y: x.addcdiv_(y, y)),
        compile(lambda x, y: x.logit_()),
        compile(lambda x, y: x.mul_(x)),
    )
    found = []
    for made in (torch.ones, torch.zeros):
        for call in calls:
            x, y = torch.arange(3), made(3)
            found += [outcome(call, x, y), outcome(call, y, x), x, y]
    return found


# ---- linear algebra -----------------------------------------------------------------------------------------


@program("", "inv of a singular matrix raises LinAlgError")
def inverse_of_singular(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x * 1.0)

    return outcome(f, torch.eye(3)), outcome(f, torch.zeros(3, 3))


@program("", "solve with a singular matrix raises LinAlgError")
def solve_singular(compile: Compile) -> Any:
    @compile
    def f(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve(a, b) + 1

    return outcome(f, torch.eye(3), torch.ones(3)), outcome(f, torch.ones(3, 3), torch.ones(3))


@program("", "cholesky of a matrix that is not positive definite raises LinAlgError, which the program catches")
def cholesky_with_jitter(compile: Compile) -> Any:
    @compile
    def f(k: torch.Tensor) -> torch.Tensor:
        try:
            return torch.linalg.cholesky(k)
        except torch.linalg.LinAlgError:
            return torch.linalg.cholesky(k + 2 * torch.eye(2)) + 1

    return f(torch.eye(2)), f(torch.tensor([[1.0, 2.0], [2.0, 1.0]]))


@program("", "lu_factor of a singular matrix raises")
def lu_factor_singular(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> Any:
        return torch.linalg.lu_factor(x)

    return outcome(f, torch.eye(3)), outcome(f, torch.zeros(3, 3))


@program("", "a decomposition whose result nothing reads raises as well")
def dead_inverse(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        torch.linalg.inv(x)
        return x + 1

    return outcome(f, torch.eye(3)), outcome(f, torch.zeros(3, 3))


@program("", "eigh and svd of a matrix with NaN raise")
def eigenvalues_of_nan(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvalsh(x * 2)

    @compile
    def g(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.svdvals(x * 2)

    bad = torch.full((3, 3), float("nan"))
    return f(torch.eye(3)), outcome(f, bad), g(torch.eye(3)), outcome(g, bad)


# ---- indices ------------------------------------------------------------------------------------------------


@program("", "one_hot refuses classes out of range")
def one_hot_out_of_range(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return F.one_hot(x, 3).float()

    return outcome(f, torch.tensor([0, 2])), outcome(f, torch.tensor([0, 3])), outcome(f, torch.tensor([-1, 2]))


@program("", "what was written before one_hot refuses a class is written once")
def one_hot_after_writes(compile: Compile) -> Any:
    @compile
    def caught(x: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        try:
            x = x + F.one_hot(classes, 3)
        except RuntimeError:
            x.add_(1)
        return x.sin()

    @compile
    def known(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        try:
            return x + F.one_hot(torch.tensor([5, 0, 1]), 3)
        except RuntimeError:
            return x.sin()

    x, y = torch.ones(3, 3), torch.ones(3, 3)
    return [caught(x, torch.tensor([i, 0, 1])) for i in (2, 3, 2)], known(y), known(y), x, y, x._version, y._version


@program("", "the random state after autograd has refused a write to a view of a leaf is that of before the write")
def random_state_after_a_refused_write(compile: Compile) -> Any:
    def seeds(x: torch.Tensor) -> torch.Tensor:
        y = x * 1.0
        x.mul_(2)
        torch.manual_seed(3)
        return y

    def draws(x: torch.Tensor) -> torch.Tensor:
        y = x + torch.rand(3)
        x.mul_(2)
        return y + torch.rand(3)

    x = torch.ones(3, 3, requires_grad=True).t()
    torch.manual_seed(7)
    return [(outcome(compile(f), x), outcome(compile(f), x), torch.rand(2)) for f in (seeds, draws)]


@program("", "gather refuses indices out of range with RuntimeError")
def gather_out_of_range(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x.gather(0, i) * 2

    return [outcome(f, torch.ones(3), torch.tensor([i])) for i in (0, 3, -1)]


@program("", "scatter and index_add refuse indices out of range with the types of eager")
def scatters_out_of_range(compile: Compile) -> Any:
    fs = [
        lambda x, i: x.scatter(0, i, x[:2]),
        lambda x, i: x.scatter_add(0, i, x[:2]),
        lambda x, i: x.index_add(0, i, x[:2]),
        lambda x, i: x.index_copy(0, i, x[:2]),
        lambda x, i: x.index_fill(0, i, 2.0),
        lambda x, i: x.index_put((i,), x[:2]),
        lambda x, i: x.index_select(0, i),
        lambda x, i: x.take(i),
        lambda x, i: x[i],
        lambda x, i: F.embedding(i, x.view(-1, 1)),
        lambda x, i: x.scatter_reduce(0, i, x[:2], "amax"),
        lambda x, i: x.put(i, x[:2]),
        lambda x, i: torch.take_along_dim(x, i, 0),
    ]
    return [[outcome(compile(f), torch.arange(4.0), torch.tensor(i)) for i in ([0, 1], [0, 4], [-1, 0], [-9, 0])] for f in fs]


@program("", "an index out of range is refused though nothing reads the row")
def dead_index(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        x[i]
        return x + 1

    return outcome(f, torch.ones(3), torch.tensor([1])), outcome(f, torch.ones(3), torch.tensor([5]))


@program("", "an index out of range into a dim of one element of an intermediate")
def index_into_one(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return (x * 2)[i]

    @compile
    def g(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return (x.sum(0, keepdim=True) + 1).index_select(0, i)

    @compile
    def h(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return (x + 1).gather(0, i.view(1, 1))

    x = torch.arange(3.0).view(1, 3)
    return [outcome(k, x, torch.tensor(i)) for k in (f, g, h) for i in ([0], [1], [-1], [5])]


@program("", "embedding with an index out of range, in a model with dropout whose random state is afterwards as in eager")
def embedding_out_of_range(compile: Compile) -> Any:
    w = torch.arange(12.0).view(4, 3)

    @compile
    def f(i: torch.Tensor) -> torch.Tensor:
        h = F.dropout(torch.ones(4), 0.5)
        return F.embedding(i, w).sum() + h

    torch.manual_seed(1)
    a = outcome(f, torch.tensor([9]))
    b = torch.rand(3)
    c = outcome(f, torch.tensor([1]))
    return a, b, c


# ---- caught by the program ----------------------------------------------------------------------------------


@program("", "an except of the compiled function catches what an operator raises at run time")
def caught_inside(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        try:
            y = x * 2
            return y[i]
        except IndexError:
            return y - 1

    return f(torch.ones(3), torch.tensor([1])), f(torch.ones(3), torch.tensor([7]))


@program("", "the message that the program prints is the one of eager")
def message_of_error(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor | str:
        try:
            return x.gather(0, i)
        except RuntimeError as e:
            return str(e)

    return f(torch.ones(3), torch.tensor([1])), f(torch.ones(3), torch.tensor([7]))


@program("", "finally and with blocks run, and what Python wrote before the error stays")
def state_before_error(compile: Compile) -> Any:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.ends = 0
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            try:
                with torch.no_grad():
                    self.seen += 1
                    y = x.index_select(0, i)
                    self.seen += 10
            finally:
                self.ends += 1
            return y

    m = Model()
    f = compile(m)
    a = outcome(f, torch.ones(3), torch.tensor([1]))
    b = outcome(f, torch.ones(3), torch.tensor([4]))
    return a, b, m.calls, m.ends, m.seen, torch.is_grad_enabled()


@program("", "writes to an input before the failing operator stay, those behind it do not happen")
def input_written_before_error(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        y = x[i]
        x.mul_(5)
        return y

    x = torch.ones(3)
    return outcome(f, x, torch.tensor([1])), x.clone(), outcome(f, x, torch.tensor([4])), x


@program("", "of two failing operators the first in the order of the program raises")
def first_error_wins(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        a = x.gather(0, i)
        b = x[j]
        return b + a

    good, bad = torch.tensor([1]), torch.tensor([7])
    return [outcome(f, torch.ones(3), i, j) for i in (good, bad) for j in (good, bad)]


@program("", "an error inside a called function unwinds to the caller's except")
def caught_by_caller(compile: Compile) -> Any:
    def inner(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.index_select(x * 3, 0, i)

    log: list[str] = []

    @compile
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        log.append("start")
        try:
            y = inner(x, i)
        except (IndexError, RuntimeError):
            log.append("caught")
            y = x
        log.append("end")
        return y + 1

    return f(torch.ones(2), torch.tensor([0])), f(torch.ones(2), torch.tensor([3])), log


@program("", "an error behind a graph break is caught by an except around both")
def caught_behind_break(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        try:
            y = x + 1
            print("here")
            return y[i]
        except IndexError:
            return y * 10

    return f(torch.ones(2), torch.tensor([0])), f(torch.ones(2), torch.tensor([3]))


@program("", "gradients flow through what the except block computes")
def gradient_through_except(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        try:
            return x.gather(0, i).sum()
        except RuntimeError:
            return (x * x).sum()

    x = torch.arange(3.0, requires_grad=True)
    f(x, torch.tensor([1])).backward()
    f(x, torch.tensor([8])).backward()
    return x


# ---- arguments that an operator refuses -----------------------------------------------------------------------


@program("", "where refuses a condition that is not boolean")
def where_float_condition(compile: Compile) -> Any:
    @compile
    def f(c: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.where(c * 2, x, x + 1)

    return outcome(f, torch.ones(3), torch.ones(3)), outcome(f, torch.ones(3, dtype=torch.int64), torch.ones(3))


@program("", "dims out of range are refused")
def dims_out_of_range(compile: Compile) -> Any:
    fs = [
        lambda x: torch.softmax(x * 2, 10),
        lambda x: torch.log_softmax(x * 2, 10),
        lambda x: (x * 2).sum(5),
        lambda x: (x * 2).mean(-4),
        lambda x: (x * 2).amax((0, 0)),
        lambda x: (x * 2).sum((0, 0)),
        lambda x: (x * 2).var((0, 0)),
        lambda x: (x * 2).any((1, 1)),
        lambda x: (x * 2).cumsum(3),
        lambda x: (x * 2).roll(1, 4),
        lambda x: (x * 2).roll((1, 2), 0),
        lambda x: (x * 2).flip(0, 0),
        lambda x: (x * 2).sort(7),
        lambda x: (x * 2).topk(9),
        lambda x: (x * 2).unsqueeze(5),
        lambda x: (x * 2).squeeze(5),
        lambda x: (x * 2).permute(0, 0),
        lambda x: (x * 2).transpose(0, 6),
        lambda x: (x * 2).narrow(0, 1, 9),
        lambda x: (x * 2).select(0, 9),
        lambda x: (x * 2).unfold(0, 9, 1),
        lambda x: (x * 2).diagonal(0, 1, 1),
        lambda x: (x * 2).logsumexp((0, 0)),
        lambda x: (x * 2).norm(2, (0, 0)),
        lambda x: (x * 2).argmax(9),
        lambda x: (x * 2).median(9),
        lambda x: (x * 2).kthvalue(9),
        lambda x: (x * 2).cummax(9),
        lambda x: (x * 2).prod(9),
        lambda x: torch.stack([x, x], 9),
        lambda x: torch.cat([x * 2, x], 9),
        lambda x: (x * 2).repeat(1),
        lambda x: (x * 2).expand(5, 5),
        lambda x: (x * 2).view(7),
        lambda x: (x * 2).tril(0)[9],
        lambda x: (x * 2)[0].tril(),
        lambda x: F.glu(x[:, :1] * 2),
        lambda x: F.layer_norm(x * 2, (7,)),
        lambda x: F.group_norm(x * 2, 5),
        lambda x: F.pixel_shuffle(x.view(1, 3, 2, 1) * 2, 2),
        lambda x: F.gelu(x * 2, approximate="no"),
        lambda x: F.softshrink(x * 2, -1.0),
        lambda x: F.huber_loss(x * 2, x, delta=-1.0),
        lambda x: F.smooth_l1_loss(x * 2, x, beta=-1.0),
        lambda x: F.dropout(x * 2, 1.5),
        lambda x: torch.clamp(x * 2),
        lambda x: torch.full((2,), 300, dtype=torch.int8) + x.sum().to(torch.int8),
        lambda x: (x.to(torch.int8) * 2).fill_(300),
        lambda x: (x.long() * 2).fill_(float("inf")),
        lambda x: (x * 2).masked_fill(x > 0, torch.ones(2)),
        lambda x: x.to(torch.int64) ** -1,
        lambda x: torch.arange(0, 5, -1) + x.sum(),
        lambda x: torch.linspace(0, 1, -3) + x.sum(),
        lambda x: torch.eye(-1) + x.sum(),
        lambda x: (x > 0) - (x < 0),
        lambda x: -(x > 0),
        lambda x: x.bool() @ x.bool().T,
        lambda x: (x * 2).renorm(2, 0, -1.0),
        lambda x: torch.bucketize(x, x * 2),
    ]
    x = torch.arange(6.0).view(3, 2)
    return [outcome(compile(f), x) for f in fs]


@program("", "in-place writes through memory that overlaps itself are refused")
def write_through_expanded(compile: Compile) -> Any:
    fs = [
        lambda x: x.expand(3, 4).add_(1),
        lambda x: x.expand(3, 4).mul_(x),
        lambda x: x.expand(3, 4).copy_(torch.ones(3, 4)),
        lambda x: x.expand(3, 4).zero_(),
        lambda x: x.expand(3, 4).fill_(2),
        lambda x: (x * 2).expand(3, 4).add_(1),
        lambda x: (x * 2).expand(3, 4).sigmoid_(),
        lambda x: (x * 2).as_strided((2, 2), (1, 1)).add_(1),
        lambda x: x.as_strided((2, 2), (1, 1)).relu_(),
        lambda x: x.expand(3, 4).scatter_(0, torch.zeros(1, 4, dtype=torch.int64), 1.0),
        lambda x: x.expand(3, 4).clamp_(min=1),
        lambda x: x.expand(3, 4).addcmul_(x, x),
        lambda x: x[1:].add_(x[:-1]),
        lambda x: x.add_(x.flip(0)),
        lambda x: torch.add(x[1:], 1, out=x[:-1]),
        lambda x: torch.cat([x, x], out=x.expand(2, 4).reshape(-1)),
    ]
    out = []
    for f in fs:
        x = torch.arange(4.0)
        out += [outcome(compile(f), x), x]
    return out


@program("", "a cast to an integer type keeps what it does to values out of range")
def casts_out_of_range(compile: Compile) -> Any:
    @compile
    def f(v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return v.int().float(), v.long().double(), v.double().int().double(), v.to(torch.int16).float(), v.to(torch.uint8).float()

    return f(torch.tensor([1e10, -1e10, 3.7, -2.5])), f(torch.full((40,), 1e10))


@program("", "integer division by zero raises")
def integer_division_by_zero(compile: Compile) -> Any:
    fs = [
        lambda a, b: a // b,
        lambda a, b: a % b,
        lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        lambda a, b: torch.fmod(a, b),
        lambda a, b: a // 0,
        lambda a, b: a % 0,
        lambda a, b: 7 // b,
        lambda a, b: 7 % b,
        lambda a, b: (a // b, a + 1)[1],
    ]
    a = torch.tensor([4, 6, 9])
    return [outcome(compile(f), a, torch.tensor(b)) for f in fs for b in ([1, 2, 3], [1, 0, 3])]


# ---- losses -------------------------------------------------------------------------------------------------


@program("", "losses check reduction, shapes, dtypes, weights and class indices")
def loss_arguments(compile: Compile) -> Any:
    fs = [
        lambda x, t: F.cross_entropy(x * 2, t, reduction="average"),
        lambda x, t: F.cross_entropy(x * 2, t + 5),
        lambda x, t: F.cross_entropy(x * 2, t - 1),
        lambda x, t: F.cross_entropy(x * 2, t[:2]),
        lambda x, t: F.cross_entropy(x * 2, t, weight=torch.ones(7)),
        lambda x, t: F.cross_entropy(x * 2, t.float()),
        lambda x, t: F.cross_entropy(x * 2, t, ignore_index=0),
        lambda x, t: F.cross_entropy(x * 2, t, label_smoothing=2.0),
        lambda x, t: F.cross_entropy(x * 2, t + 5, label_smoothing=0.1),
        lambda x, t: F.cross_entropy(x * 2, t + 5, reduction="none"),
        lambda x, t: F.cross_entropy(x * 2, t.int()),
        lambda x, t: F.nll_loss(x * 2, t.float()),
        lambda x, t: F.nll_loss(x * 2, t + 9),
        lambda x, t: F.nll_loss(x * 2, t, weight=torch.ones(2, 2)),
        lambda x, t: F.mse_loss(x * 2, x[:2]),
        lambda x, t: F.mse_loss(x * 2, x, reduction="foo"),
        lambda x, t: F.l1_loss(x * 2, x, reduction="foo"),
        lambda x, t: F.binary_cross_entropy(x * 2, x),
        lambda x, t: F.binary_cross_entropy(x.sigmoid(), x[:2]),
        lambda x, t: F.binary_cross_entropy(x.sigmoid(), x * 5),
        lambda x, t: F.binary_cross_entropy_with_logits(x, x[:2]),
        lambda x, t: F.kl_div(x * 2, x, reduction="foo"),
        lambda x, t: F.multi_margin_loss(x * 2, t + 9),
        lambda x, t: F.multi_margin_loss(x * 2, t, p=3),
        lambda x, t: F.multi_margin_loss(x * 2, t, weight=torch.ones(9)),
        lambda x, t: F.multilabel_margin_loss(x * 2, t),
        lambda x, t: F.multilabel_margin_loss(x * 2, torch.full((3, 4), 9)),
        lambda x, t: F.soft_margin_loss(x * 2, x[:2]),
        lambda x, t: F.hinge_embedding_loss(x * 2, x, reduction="foo"),
        lambda x, t: F.cosine_embedding_loss(x, x, t[:2]),
        lambda x, t: F.triplet_margin_loss(x, x, x[0, 0]),
        lambda x, t: F.gaussian_nll_loss(x, x, -x.abs()),
        lambda x, t: F.poisson_nll_loss(x, x, reduction="foo"),
        lambda x, t: F.smooth_l1_loss(x * 2, x, reduction="foo"),
        lambda x, t: F.ctc_loss(x.log_softmax(-1)[:, None], t[None], torch.tensor([3]), torch.tensor([9])),
    ]
    x = torch.arange(12.0).view(3, 4) - 3
    return [outcome(compile(f), x, torch.tensor([0, 1, 2])) for f in fs]


@program("", "operators that check the values of their arguments")
def values_out_of_domain(compile: Compile) -> Any:
    fs = [
        lambda x: torch.bernoulli(x * 2),
        lambda x: torch.multinomial(x - 9, 2),
        lambda x: torch.normal(x, x - 9),
        lambda x: torch.poisson(x - 9),
        lambda x: torch.repeat_interleave(x, (x - 9).long(), output_size=3),
        lambda x: torch.histc(x / 0),
        lambda x: torch.quantile(x, x * 9),
        lambda x: torch.masked_select(x, x > 0),
        lambda x: x.masked_scatter(x > -99, torch.ones(2)),
        lambda x: F.embedding_bag(x.long() + 90, torch.ones(3, 2), torch.tensor([0])),
        lambda x: F.max_unpool1d(x[None], x[None].long() + 99, 2),
        lambda x: torch.lu_unpack(torch.eye(3), (x * 9).int() + 50),
        lambda x: torch.bincount((x - 9).long()),
        lambda x: torch.unravel_index(x.long() + 99, (2, 2)),
        lambda x: torch.empty(3).bernoulli_(2.0) + x,
        lambda x: torch.empty(3).normal_(0, -1.0) + x,
        lambda x: torch.empty(3).uniform_(2, 1) + x,
        lambda x: torch.empty(3).exponential_(-1) + x,
        lambda x: torch.randint(5, 5, (3,)) + x,
        lambda x: torch.randperm(-1) + x,
        lambda x: (torch.bernoulli(x * 2), x)[1],
    ]
    return [outcome(compile(f), torch.arange(1.0, 4.0)) for f in fs]


@program("", "kernels that lack a dtype refuse it, also where compiled code could compute with it")
def lacking_dtypes(compile: Compile) -> Any:
    image = torch.arange(16).view(1, 1, 4, 4)
    rows = [
        *((op, torch.tensor([True, False])) for op in (torch.abs, torch.floor, F.relu, F.elu, F.tanhshrink)),
        *((op, torch.tensor([True, False])) for op in (lambda x: x @ x, lambda x: 1 - x)),
        *((op, torch.tensor([1, 2, 3])) for op in (torch.frac, F.hardswish, F.hardsigmoid, F.celu, lambda x: torch.lerp(x, x, 0.5))),
        *((op, torch.tensor([[1, 2, 3]])) for op in (lambda x: F.mse_loss(x, x), lambda x: F.huber_loss(x, x))),
        (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), image),
        (lambda x: F.max_pool2d(x, 2), image.bool()),
        (lambda x: F.unfold(x, 2), image),
        (torch.abs, torch.tensor([1, -2])),
        (lambda x: F.max_pool2d(x, 2), image.to(torch.uint8)),
    ]
    out: list[Any] = []
    for op, x in rows:
        try:
            out.append(compile(lambda x, op=op: op(x))(x))
        except (RuntimeError, NotImplementedError) as e:
            out.append((type(e).__name__, str(e)[:40]))
    return out


@program("", "what lacks a dtype works with one that operands are brought to")
def common_dtypes(compile: Compile) -> Any:
    given = [torch.tensor([True, False]), torch.tensor([3, 2]), torch.tensor([0.5, 1.5])]
    ops = [
        lambda x, y: torch.addcmul(x, y, y),
        lambda x, y: torch.addcmul(y, x, x, value=0.5),
        lambda x, y: torch.addcdiv(x, y, y),
        lambda x, y: F.mse_loss(x, y),
        lambda x, y: torch.ops.aten.smooth_l1_loss(y, x),
        lambda x, y: torch.clamp(x, 1),
        lambda x, y: torch.clamp(x, 0.5),
        lambda x, y: torch.clamp(x, y),
    ]
    out: list[Any] = []
    for op in ops:
        for x, y in itertools.product(given, given):
            try:
                out.append(compile(lambda x, y, op=op: op(x, y))(x, y))
            except RuntimeError as e:
                out.append((type(e).__name__, str(e)[:40]))
    return out


@program("", "what a handler of a signal raises while a graph runs comes out, though nothing raises it a second time")
def raised_by_a_handler(compile: Compile) -> Any:
    rung: list[int] = []

    @torch.library.custom_op("errors::ringing", mutates_args=())
    def ringing(x: torch.Tensor) -> torch.Tensor:
        if not rung:
            signal.raise_signal(signal.SIGUSR1)
        return x.clone()

    ringing.register_fake(torch.empty_like)

    def handler(number: int, frame: object) -> None:
        rung.append(number)
        raise ValueError("rung")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        f = compile(lambda x: ringing(x) + 1)
        return [outcome(f, torch.ones(2)), outcome(f, torch.ones(2)), len(rung)]
    finally:
        signal.signal(signal.SIGUSR1, before)
