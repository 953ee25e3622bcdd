"""Run a function in eager and through AOT on equal inputs, and compare everything a caller can see."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule
from torch.utils._pytree import tree_flatten

from dynamo.aot import aot_eager

Tensor = torch.Tensor


def graph_of(fn: Callable[..., Any], count: int) -> GraphModule:
    """A graph of one node that calls `fn` with `count` arguments; parameters and buffers of a module are get_attr nodes."""
    graph = Graph()
    arguments = tuple(graph.placeholder(f"arg{i}") for i in range(count))
    if isinstance(fn, torch.nn.Module):
        names = [n for n, _ in (*fn.named_parameters(), *fn.named_buffers())]
        node = graph.call_function(_with_state(fn, names), ([graph.get_attr(n) for n in names], *arguments))
    else:
        node = graph.call_function(fn, arguments)
        node.meta["source"] = (fn.__code__.co_filename, fn.__code__.co_firstlineno, ())
    graph.output(node)
    return GraphModule(fn if isinstance(fn, torch.nn.Module) else torch.nn.Module(), graph)


def _with_state(module: torch.nn.Module, names: list[str]) -> Callable[..., Any]:
    def run_module(values: list[Tensor], *args: Any) -> Any:
        return torch.func.functional_call(module, dict(zip(names, values, strict=True)), args)

    return run_module


def grad_mode(on: bool) -> None:
    torch._C._set_grad_enabled(on)


def autocast_enabled(on: bool) -> None:
    torch.set_autocast_enabled("cpu", on)


def moved(args: Sequence[Any], device: str) -> list[Any]:
    """The inputs on another device, sharing memory as before."""
    return list(args) if device == "cpu" else copy_inputs(args, device)


def copy_inputs(args: Sequence[Any], device: str | None = None) -> list[Any]:
    memo: dict[int, Any] = {}
    storages: dict[int, Any] = {}
    return [_copy_one(a, memo, storages, device) for a in args]


def _copy_one(value: Any, memo: dict[int, Any], storages: dict[int, Any], device: str | None) -> Any:
    if not isinstance(value, Tensor):
        return value
    if id(value) in memo:
        return memo[id(value)]
    key = value.untyped_storage()._cdata
    if key not in storages:
        storage = value.untyped_storage()
        storages[key] = storage.clone() if device is None else storage.cuda()
    new = torch.empty(0, dtype=value.dtype, device=storages[key].device)
    new.set_(storages[key], value.storage_offset(), value.shape, value.stride())  # type: ignore[call-overload]
    leaf = new.requires_grad_(value.requires_grad)
    if value.requires_grad and not value.is_leaf:
        new = leaf.clone() if value.is_contiguous() else leaf * 1
        new.retain_grad()
    memo[id(value)] = new
    return new


def observe(outputs: Any, inputs: Sequence[Any]) -> list[Any]:
    """Facts of results that don't depend on values."""
    flat = tree_flatten(outputs)[0]
    tensors = [t for t in inputs if isinstance(t, Tensor)]
    seen = []
    for i, out in enumerate(flat):
        if not isinstance(out, Tensor):
            seen.append(out)
            continue
        storage = out.untyped_storage()._cdata
        seen.append(
            {
                "stride": out.stride() if out.numel() else (),
                "requires_grad": out.requires_grad,
                "is_leaf": out.is_leaf,
                "is": [j for j, t in enumerate(tensors) if t is out],
                "same_as_output": [j for j, o in enumerate(flat[:i]) if o is out],
                "shares_input": [j for j, t in enumerate(tensors) if t.untyped_storage()._cdata == storage and out.numel()],
                "shares_output": [
                    j for j, o in enumerate(flat[:i]) if isinstance(o, Tensor) and o.untyped_storage()._cdata == storage and out.numel()
                ],
                "view_of_input": out._is_view() and any(out._base is t or out._base is t._base for t in tensors if t is not out),
            }
        )
    return seen


def backward(outputs: Any) -> None:
    ends = [o for o in tree_flatten(outputs)[0] if isinstance(o, Tensor) and o.requires_grad]
    if ends:
        generator = torch.Generator("cpu").manual_seed(3)
        torch.autograd.backward(ends, [_weights(e, generator) for e in ends])


def _weights(end: Tensor, generator: torch.Generator) -> Tensor:
    real = torch.rand(end.shape, generator=generator, dtype=torch.float64, device="cpu")
    return real.to(end.device, end.dtype)


def versions(inputs: Sequence[Any]) -> list[bool]:
    return [t._version > 0 for t in inputs if isinstance(t, Tensor)]


def check(
    fn: Callable[..., Any],
    *args: Any,
    compiled: Callable[..., Any] | None = None,
    calls: int = 2,
    **options: Any,
) -> Callable[..., Any]:
    """Asserts that AOT and eager agree. Returns the compiled callable."""
    modules = isinstance(fn, torch.nn.Module)
    eager_fn = copy.deepcopy(fn) if modules else fn
    if compiled is None:
        compiled = aot_eager(graph_of(fn, len(args)), copy_inputs(args), **options)
    for _ in range(calls):
        one_call(eager_fn, compiled, args)
    if isinstance(fn, torch.nn.Module) and isinstance(eager_fn, torch.nn.Module):
        for (name, p), (_, q) in zip(fn.named_parameters(), eager_fn.named_parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, msg=lambda m, n=name: f"{n}: {m}")
        for (name, b), (_, c) in zip(fn.named_buffers(), eager_fn.named_buffers(), strict=True):
            torch.testing.assert_close(b, c, msg=lambda m, n=name: f"{n}: {m}")
    return compiled


def one_call(eager_fn: Callable[..., Any], compiled: Callable[..., Any], args: Sequence[Any]) -> None:
    ours, theirs = copy_inputs(args), copy_inputs(args)
    before = [t.is_leaf for t in theirs if isinstance(t, Tensor)]
    torch.manual_seed(0)
    expected = eager_fn(*theirs)
    torch.manual_seed(0)
    actual = compiled(*ours)
    torch.testing.assert_close(actual, expected, equal_nan=True)
    assert observe(actual, ours) == observe(expected, theirs)
    assert versions(ours) == versions(theirs)
    backward(expected)
    backward(actual)
    for was_leaf, a, b in zip(before, tensors(ours), tensors(theirs), strict=True):
        torch.testing.assert_close(a, b, equal_nan=True)
        assert (a.shape, a.stride()) == (b.shape, b.stride())
        if was_leaf and b.is_leaf:
            torch.testing.assert_close(a.grad, b.grad, equal_nan=True)


def tensors(values: Sequence[Any]) -> list[Tensor]:
    return [v for v in values if isinstance(v, Tensor)]
