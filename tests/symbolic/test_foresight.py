"""Calls that are sure to break end the first attempt; what only tracing can tell takes a second. Both stop at the same place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynamo
from dynamo.compile import capture
from dynamo.symbolic.interp import frame_opcodes


@dynamo.disable
def disabled(x: torch.Tensor) -> torch.Tensor:
    return x * 3


def allowed(x: torch.Tensor) -> torch.Tensor:
    return x * 5


def backward(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2).sum()
    y.backward()
    return x.grad + y


def backward_with_keywords(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2).sum()
    y.backward(retain_graph=False)
    return y + 1


def item(x: torch.Tensor) -> torch.Tensor:
    return x * (x.sum().item() + 1)


def unbound_item(x: torch.Tensor) -> torch.Tensor:
    return x * torch.Tensor.item(x.sum())


def printing(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    print("sum", end="\n")
    return y * 2


def calls_disabled(x: torch.Tensor) -> torch.Tensor:
    return disabled(x + 1) + 2


def in_a_callee(x: torch.Tensor) -> torch.Tensor:
    return printing(x) + 2


def branch(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return y + 1 if y.sum() > 0 else y - 1


def known_item(x: torch.Tensor) -> torch.Tensor:
    return x * torch.tensor(3).item()


class Loss:
    def backward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def own_method(x: torch.Tensor) -> torch.Tensor:
    return Loss().backward(x) + 1


def attempts_and_breaks(fn: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str], Any, str]:
    """Names of the frames attempted, the breaks, the result, and the graphs."""
    attempted: list[str] = []
    graphs: list[str] = []
    attempt = capture.attempt

    def counted(tx: Any, fn: Any, inputs: Any) -> Any:
        attempted.append(fn.__qualname__.rpartition(".")[2])
        return attempt(tx, fn, inputs)

    def keep(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        graphs.append(str(gm.graph))
        return gm.forward

    with monkeypatch.context() as patch:
        patch.setattr(capture, "attempt", counted)
        dynamo.reset()
        x = torch.arange(3.0, requires_grad=True)
        explained = dynamo.explain(fn)(x)
        attempted.clear()
        dynamo.reset()
        result = dynamo.compile(fn, backend=keep)(torch.arange(3.0, requires_grad=True))
    breaks = [f"{b.id}:{b.line}" for b in explained.break_reasons]
    return attempted, breaks, result, "\n".join(graphs)


CERTAIN = [backward, backward_with_keywords, item, unbound_item, printing, calls_disabled]
UNCERTAIN = [in_a_callee, branch]
NO_BREAK = [known_item, own_method]


@pytest.mark.parametrize("fn", CERTAIN, ids=lambda fn: fn.__name__)
def test_a_certain_break_takes_one_attempt(fn: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    attempted, breaks, result, graphs = attempts_and_breaks(fn, monkeypatch)
    assert attempted.count(fn.__name__) == 1
    assert breaks
    monkeypatch.setattr(frame_opcodes, "certain_break", lambda *_: None)
    again, other_breaks, other_result, other_graphs = attempts_and_breaks(fn, monkeypatch)
    assert again.count(fn.__name__) == 2
    assert (breaks, graphs) == (other_breaks, other_graphs)
    assert torch.equal(result, other_result)


@pytest.mark.parametrize("fn", UNCERTAIN, ids=lambda fn: fn.__name__)
def test_what_only_tracing_can_tell_takes_two(fn: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    attempted, breaks, _, _ = attempts_and_breaks(fn, monkeypatch)
    assert attempted.count(fn.__name__) == 2 and breaks


@pytest.mark.parametrize("fn", NO_BREAK, ids=lambda fn: fn.__name__)
def test_no_break_is_foreseen_where_there_is_none(fn: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    attempted, breaks, _, _ = attempts_and_breaks(fn, monkeypatch)
    assert attempted == [fn.__name__] and not breaks


def test_a_patched_method_is_not_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "backward", allowed)
    attempted, breaks, result, _ = attempts_and_breaks(lambda x: x.backward() + 1, monkeypatch)
    assert attempted == ["<lambda>"] and not breaks
    assert torch.equal(result, torch.arange(3.0) * 5 + 1)


def test_fullgraph_names_the_break() -> None:
    with pytest.raises(dynamo.GraphBreakError, match="backward"):
        dynamo.compile(backward, backend="eager", fullgraph=True)(torch.arange(3.0, requires_grad=True))
