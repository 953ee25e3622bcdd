"""Operators that are more than their results: they run once, in the order of the program, though nothing reads what they give."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from repro_corpus.program import Compile, program
from tests.equal.errors import outcome

LOG: list[str] = []
_library = torch.library.Library("equal_effects", "DEF")
_library.define("note(Tensor x, str text) -> ()")
_library.define("count(Tensor x) -> Tensor")
_library.define("bump(Tensor(a!) x) -> ()")
_library.define("refuse_negative(Tensor x) -> Tensor")


def _note(x: torch.Tensor, text: str) -> None:
    LOG.append(text)


def _count(x: torch.Tensor) -> torch.Tensor:
    LOG.append("count")
    return x + 1


def _bump(x: torch.Tensor) -> None:
    x.add_(1)


def _refuse_negative(x: torch.Tensor) -> torch.Tensor:
    if (x < 0).any():
        raise ValueError("negative")
    return x.clone()


for _name, _fn in (("note", _note), ("count", _count), ("bump", _bump), ("refuse_negative", _refuse_negative)):
    _library.impl(_name, _fn, "CPU")
_library.impl("note", lambda x, text: None, "Meta")
_library.impl("count", torch.empty_like, "Meta")
_library.impl("bump", lambda x: None, "Meta")
_library.impl("refuse_negative", torch.empty_like, "Meta")
ops = torch.ops.equal_effects


@program("", "torch._assert_async whose condition is false raises")
def assert_async(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        torch._assert_async((x > 0).all())
        return x * 2

    return outcome(f, torch.ones(3)), outcome(f, -torch.ones(3))


@program("", "torch._assert_async with a message, before and after other work")
def assert_async_with_message(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.sum()
        torch._assert_async(y > 0, "the sum is not positive")
        return y.exp()

    def message(x: torch.Tensor) -> Any:
        try:
            return f(x)
        except RuntimeError as e:
            return str(e).splitlines()[0]

    return message(torch.ones(3)), message(-torch.ones(3))


@program("", "an operator without results runs, each time it is called")
def operator_without_results(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        ops.note(x, "first")
        y = x * 2
        ops.note(y, "second")
        ops.note(y, "second")
        return y + 1

    LOG.clear()
    return f(torch.ones(2)), f(torch.ones(2)), list(LOG)


@program("", "an operator of somebody's runs though its result is not read, and twice if called twice")
def operator_with_unread_result(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        ops.count(x)
        a, b = ops.count(x), ops.count(x)
        return a + b

    LOG.clear()
    return f(torch.ones(2)), list(LOG)


@program("", "effects in training: in the forward, in program order, once")
def effects_in_training(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        ops.note(x.detach(), "in")
        y = (x * x).sum()
        ops.note(y.detach(), "out")
        return y

    LOG.clear()
    x = torch.arange(3.0, requires_grad=True)
    f(x).backward()
    return x, list(LOG)


@program("", "an operator that writes its argument, whose other results nobody reads")
def operator_that_writes(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        t = x * 2
        ops.bump(t)
        ops.bump(x)
        return t

    x = torch.ones(2)
    return f(x), x


@program("", "an operator of somebody's that raises by value, its result unread")
def operator_that_refuses(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        ops.refuse_negative(x)
        return x + 1

    return outcome(f, torch.ones(2)), outcome(f, -torch.ones(2))


@program("", "what it raises is caught inside the compiled function")
def operator_that_refuses_caught(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        try:
            return ops.refuse_negative(x) * 2
        except ValueError:
            return x * 0

    return f(torch.ones(2)), f(-torch.ones(2))


@program("", "draws whose result is unread move the generator")
def unread_draw(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> torch.Tensor:
        torch.rand(4)
        F.dropout(x, 0.5)
        return x + torch.rand(2)

    return f(torch.ones(2)), torch.rand(2)


@program("", "a check in a branch of the graph that nothing reads, in a training step")
def dead_check_in_training(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        x.detach().index_select(0, i)
        torch.linalg.cholesky(torch.eye(2) * x.detach()[0])
        return (x * x).sum()

    def step(value: float, i: int) -> Any:
        x = torch.full((3,), value, requires_grad=True)
        f(x, torch.tensor([i])).backward()
        return x

    return outcome(step, 1.0, 0), outcome(step, 1.0, 7), outcome(step, -1.0, 0)


@program("", "of a gather only a part is read, and an index of the rest is out of range")
def part_of_gather(compile: Compile) -> Any:
    fs = [
        lambda x, i: x.gather(0, i)[:1],
        lambda x, i: x[i][0] * 2,
        lambda x, i: F.pad(x.index_select(0, i), (0, -1)),
        lambda x, i: torch.where(torch.tensor([True, False, False]), x[i], x),
        lambda x, i: x[i].sum() * 0,
        lambda x, i: x[i].reshape(3, 1).expand(3, 2)[:, :1].clone(),
        lambda x, i: F.embedding(i, x.view(3, 1))[:2],
    ]
    return [[outcome(compile(f), torch.arange(3.0), torch.tensor(i)) for i in ([0, 1, 2], [0, 1, 5])] for f in fs]


@program("", "a failing operator between writes to two inputs")
def writes_around_a_failure(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, y: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        z = x.gather(0, i)
        y.copy_(z)
        x.add_(10)
        return z

    x, y = torch.arange(3.0), torch.zeros(1)
    return outcome(f, x, y, torch.tensor([1])), x.clone(), y.clone(), outcome(f, x, y, torch.tensor([3])), x, y


@program("", "a buffer written in place by index, out of range")
def cache_written_out_of_range(compile: Compile) -> Any:
    class Cache(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("k", torch.zeros(4, 2))

        def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            self.k.index_copy_(0, at, x)
            return self.k.sum(0)

    m = Cache()
    f = compile(m)
    return outcome(f, torch.ones(1, 2), torch.tensor([1])), outcome(f, torch.ones(1, 2), torch.tensor([4])), m.k
