"""Runs one model eagerly and compiled, and compares outputs, gradients and buffers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

import dynamo
from dynamo.trace import session
from dynamo.trace.events import CompileEnded, GraphCaptured
from tests.models.zoo import Model

Compile = Callable[[torch.nn.Module], Callable[..., Any]]


def capture_forward(model: Model) -> int:
    """Compare the forward pass in evaluation mode; return the number of graphs."""
    torch.manual_seed(0)
    module = model.make().eval()
    args, kwargs = model.inputs()
    with torch.no_grad():
        expected = list(tensors(module(*copy.deepcopy(args), **copy.deepcopy(kwargs))))

    with session() as store, torch.no_grad():
        actual = list(tensors(_compiled(module)(*args, **kwargs)))

    torch.testing.assert_close(actual, expected)
    assert [e.outcome for e in store.of(CompileEnded)] == ["ok"]
    return len(store.of(GraphCaptured))


def capture_training(model: Model) -> int:
    """Compare outputs, gradients and buffers of a step in training mode; return the number of graphs."""
    torch.manual_seed(0)
    eager = model.make().train()
    args, kwargs = model.inputs()
    module = copy.deepcopy(eager)
    expected = _step(eager, eager, copy.deepcopy(args), copy.deepcopy(kwargs))

    with session() as store:
        actual = _step(module, _compiled(module), args, kwargs)

    for what in expected:
        torch.testing.assert_close(actual[what], expected[what], msg=lambda text, what=what: f"{what}: {text}")
    return len(store.of(GraphCaptured))


def tensors(value: object) -> Iterator[torch.Tensor]:
    """The tensors of a result in order, inside containers, model outputs and key-value caches."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors(item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from tensors(item)
    elif hasattr(value, "layers"):
        for layer in value.layers:
            yield from (layer.keys, layer.values)
    elif hasattr(value, "self_attention_cache"):
        yield from tensors(value.self_attention_cache)
        yield from tensors(value.cross_attention_cache)


def _compiled(module: torch.nn.Module) -> Callable[..., Any]:
    dynamo.reset()
    return dynamo.compile(module, backend="eager", fullgraph=True)


def _step(module: torch.nn.Module, call: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, list[Any]]:
    torch.manual_seed(1)
    outputs = list(tensors(call(*args, **kwargs)))
    loss = sum(out.float().square().mean() for out in outputs if out.grad_fn is not None)
    assert isinstance(loss, torch.Tensor)
    loss.backward()
    return {
        "outputs": [out.detach() for out in outputs],
        "gradients": [p.grad for p in module.parameters() if p.grad is not None],
        "buffers": list(module.buffers()),
    }
