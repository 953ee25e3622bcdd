"""Arguments and results that the caller writes to between the forward and the backward: whether that is an error is eager's to say."""

from __future__ import annotations

from collections.abc import Callable

import torch

from repro_corpus.program import program

READ_RESULT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sqrt": torch.sqrt,
    "softmax": lambda t: torch.softmax(t, -1),
    "log_softmax": lambda t: torch.log_softmax(t, -1),
    "of a row": lambda t: t[0].exp(),
    "seen otherwise": lambda t: t.sigmoid().view(-1),
}
READ_ARGUMENT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sin": torch.sin,
    "log": torch.log,
    "square": torch.square,
    "gelu": torch.nn.functional.gelu,
}
READ_NOTHING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "scaled": lambda t: t * 2,
    "negated": torch.neg,
    "summed": lambda t: t.sum(0),
}


def tried(compile, fn, write):
    """The gradient, or the kind of error, where `write` comes between the passes."""
    torch.manual_seed(0)
    x = torch.rand(4, 4, requires_grad=True)
    y = x * 1
    z = compile(fn)(y)
    with torch.no_grad():
        write(y, z)
    try:
        (z * torch.arange(z.numel()).view_as(z)).sum().backward()
    except RuntimeError as error:
        return type(error), str(error)[:60]
    return x.grad


def written(compile, rows, write):
    return {name: tried(compile, fn, write) for name, fn in rows.items()}


@program("", "arguments of operators whose derivative reads their result")
def argument_of_results(compile):
    return written(compile, READ_RESULT, lambda y, z: y.mul_(2))


@program("", "arguments that the derivative reads")
def argument_that_is_read(compile):
    return written(compile, READ_ARGUMENT, lambda y, z: y.mul_(2))


@program("", "results that the derivative reads")
def result_that_is_read(compile):
    return written(compile, READ_RESULT, lambda y, z: z.mul_(2))


@program("", "results of operators whose derivative reads their argument")
def result_of_arguments(compile):
    return written(compile, READ_ARGUMENT, lambda y, z: z.mul_(2))


@program("", "operators whose derivative reads neither")
def nothing_is_read(compile):
    return [written(compile, READ_NOTHING, lambda y, z: (y.mul_(2), z.mul_(2)))]


@program("", "a result that is an argument of the next step too")
def result_of_a_step(compile):
    @compile
    def step(h, w):
        return torch.tanh(h @ w)

    torch.manual_seed(0)
    w = torch.rand(3, 3, requires_grad=True)
    h = first = torch.rand(2, 3)
    for _ in range(3):
        h = step(h, w)
    first.zero_()
    try:
        h.sum().backward()
    except RuntimeError as error:
        return str(error)[:60]
    return w.grad
