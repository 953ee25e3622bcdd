"""Foreach operators and optimizers: one batch kernel whose code does not grow with the lists."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, optim

import dynamo
from dynamo.trace import session
from dynamo.trace.events import CodeGenerated
from inductor.ir.interp import run
from inductor.ir.text import print_program
from tests.inductor.reading_ir import parse_program

SHAPES = [(8, 16), (7,), (), (1,), (3, 5, 2), (0, 4), (300, 40), (2, 3)]

OPTIMIZERS: list[tuple[type[optim.Optimizer], dict[str, Any]]] = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (optim.Adam, {"lr": 0.01}),
    (optim.Adam, {"lr": torch.tensor(0.01)}),
    (optim.Adam, {"amsgrad": True, "weight_decay": 0.1, "maximize": True}),
    (optim.AdamW, {"lr": 0.01}),
    (optim.NAdam, {}),
    (optim.RMSprop, {"momentum": 0.5, "centered": True}),
    (optim.Adagrad, {}),
    (optim.Adadelta, {}),
    (optim.Adamax, {}),
]


def parameters(shapes: list[tuple[int, ...]] = SHAPES) -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    made = [torch.nn.Parameter(torch.randn(s)) for s in shapes]
    made[-1] = torch.nn.Parameter(torch.randn(shapes[-1][::-1]).t())
    for p in made:
        p.grad = torch.randn_like(p)
    return made


@pytest.mark.parametrize(("kind", "arguments"), OPTIMIZERS, ids=lambda x: getattr(x, "__name__", None) or "-".join(x))
def test_optimizers(kind: type[optim.Optimizer], arguments: dict[str, Any]) -> None:
    expected, actual = parameters(), parameters()
    eager = kind(expected, **copy.deepcopy(arguments))
    compiled = kind(actual, **copy.deepcopy(arguments))
    dynamo.reset()
    step = dynamo.compile(lambda: compiled.step(), backend="inductor", fullgraph=True)
    for _ in range(4):
        eager.step()
        step()
    torch.testing.assert_close(actual, expected)
    for mine, theirs in zip(actual, expected, strict=True):
        assert compiled.state[mine].keys() == eager.state[theirs].keys()
        torch.testing.assert_close(list(compiled.state[mine].values()), list(eager.state[theirs].values()))


def sources(fn: Callable[..., Any], *args: Any) -> dict[str, str]:
    """The generated texts of one compile, by kind (`lowered`, `c`)."""
    dynamo.reset()
    with session() as store:
        dynamo.compile(fn, backend="inductor", fullgraph=True)(*args)
    return {event.name.rpartition(".")[2]: event.code for event in store.of(CodeGenerated)}


def test_code_does_not_grow_with_the_number_of_parameters() -> None:
    def lines(count: int) -> int:
        made = parameters([(4, 4)] * count)
        adam = optim.Adam(made)
        adam.step()
        return sources(lambda: adam.step())["c"].count("\n")

    assert lines(3) == lines(30)


def test_text_and_interpreter() -> None:
    xs, ys = [torch.randn(s) for s in SHAPES[:5]], [torch.randn(s) for s in SHAPES[:5]]

    def f(xs: list[Tensor], ys: list[Tensor]) -> list[Tensor]:
        out: list[Tensor] = list(torch._foreach_addcmul(torch._foreach_mul(xs, 2.0), xs, ys, 0.5))
        return out

    text = sources(f, xs, ys)["lowered"]
    assert text.count("batch") > 0
    program = parse_program(text)
    assert print_program(program) == text
    inputs = {tuple(b.shape): None for b in program.buffers.values() if b.kind == "input"}
    assert len(inputs) == 5
    outputs, _ = run(program, [t for pair in ((*xs, *ys),) for t in pair])
    torch.testing.assert_close(outputs, f(xs, ys))


def swap(a: Tensor, b: Tensor) -> None:
    torch._foreach_add_([a, b], torch._foreach_mul([b, a], 2.0))


def broadcast(a: Tensor, b: Tensor) -> list[Tensor]:
    return list(torch._foreach_add([a, b], [a[:1], b[:1]]))


def scalars(a: Tensor, b: Tensor) -> list[Tensor]:
    return list(torch._foreach_mul(torch._foreach_add([a, b, a], [1.0, 2.0, 1.0]), a.sum()))


def views(a: Tensor, b: Tensor) -> list[Tensor]:
    return list(torch._foreach_sub([a.t(), b[:, 1:3], a.flip(0)], [b.t(), a[:, :2], b.expand(4, 4)]))


def partly_used(a: Tensor, b: Tensor) -> Tensor:
    first = torch._foreach_exp([a, b])
    second = torch._foreach_neg(first)
    return first[0].sum(0) + second[1]


def norms(a: Tensor, b: Tensor) -> list[Tensor]:
    total = torch.linalg.vector_norm(torch.stack(torch._foreach_norm([a, b])))
    return list(torch._foreach_mul([a, b], (1.0 / (total + 1e-6)).clamp(max=1.0)))


def lists_of_two_lengths(a: Tensor, b: Tensor) -> list[Tensor]:
    return [*torch._foreach_exp([a, b]), *torch._foreach_exp([b]), *torch._foreach_maximum([a, b, a], [b, a, a])]


def overwritten(a: Tensor, b: Tensor) -> list[Tensor]:
    out = list(torch._foreach_add([a, b], 1.0))
    a.zero_()
    torch._foreach_copy_([b], [out[0]])
    return out


@pytest.mark.parametrize("f", [swap, broadcast, scalars, views, partly_used, norms, lists_of_two_lengths, overwritten])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_lists_that_do_not_simply_fit(f: Callable[..., Any], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(4, 4, dtype=dtype), torch.randn(4, 4, dtype=dtype)
    expected, actual = (a.clone(), b.clone()), (a.clone(), b.clone())
    wanted = f(*expected)
    dynamo.reset()
    found = dynamo.compile(f, backend="inductor")(*actual)
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype is torch.bfloat16 else {}
    torch.testing.assert_close(found, wanted, **tolerance)
    torch.testing.assert_close(actual, expected, **tolerance)
