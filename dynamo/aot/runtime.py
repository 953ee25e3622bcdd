"""What runs when a compiled graph is called: gather inputs, call the forward, hook the backward into autograd, restore aliasing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_unflatten

from dynamo.aot.errors import DOUBLE_BACKWARD
from dynamo.aot.joint import Joint, Output, flat_base
from dynamo.aot.partition import Parts
from dynamo.fake import FakeTensor

Tensor = torch.Tensor
Compiled = Callable[[list[Any]], Sequence[Any]]

_Key = torch._C.DispatchKey
_BELOW = torch._C.DispatchKeySet(_Key.ADInplaceOrView)
for _key in ("AutogradFunctionality", "AutogradOther", "AutocastCPU", "AutocastCUDA"):
    _BELOW = _BELOW | torch._C.DispatchKeySet(getattr(_Key, _key))


def below_autograd() -> Any:
    """Context: ops run without autograd, autocast and view tracking; the graph has all of that inside already."""
    return torch._C._ExcludeDispatchKeyGuard(_BELOW)


class _Refuse(torch.autograd.Function):
    """Passes gradients through, and refuses to be differentiated."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: Any) -> Any:
        return tuple(t.view_as(t) for t in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(DOUBLE_BACKWARD)


def pair(joint: Joint, parts: Parts, forward: Compiled, backward: Compiled) -> Callable[..., Any]:
    """One autograd.Function for the forward and backward graph. Takes the primals, returns the results."""
    results = len(joint.results)
    constant = [not d for d in joint.differentiable]
    saved_primals = parts.saved_primals
    has_constants = any(constant)
    wanted = joint.wanted
    primals = len(joint.primals)
    laid = [_layout(n.meta["val"]) for n in joint.tangents]
    differentiable = [i for i, d in enumerate(joint.differentiable) if d]
    broken = joint.backward_error

    def differentiate(ctx: Any, grads: Sequence[Any]) -> list[Any]:
        inputs = list(ctx.saved_tensors)
        for i, (strides, shape) in zip(differentiable, laid, strict=True):
            inputs.append(_as_traced(grads[i], strides, shape))
        with torch.no_grad(), below_autograd():
            computed = backward(inputs)
        out: list[Any] = [None] * primals
        for i, grad in zip(wanted, computed, strict=True):
            out[i] = grad
        return out

    class CompiledGraph(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *flat: Any) -> Any:
            with below_autograd():
                outs = forward(list(flat))
            ctx.save_for_backward(*[flat[i] for i in saved_primals], *outs[results:])
            given = tuple(outs[:results])
            if has_constants:
                ctx.mark_non_differentiable(*[o for o, c in zip(given, constant, strict=True) if c])
            return given

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            if broken:
                raise RuntimeError(broken)
            if not torch.is_grad_enabled():
                return tuple(differentiate(ctx, grads))
            out = differentiate(ctx, grads)
            found = [i for i, g in enumerate(out) if g is not None]
            history = [t for t in (*ctx.saved_tensors, *grads) if isinstance(t, Tensor)]
            for i, g in zip(found, _Refuse.apply(len(found), *[out[i] for i in found], *history), strict=True):
                out[i] = g
            return tuple(out)

    apply: Callable[..., Any] = CompiledGraph.apply
    return lambda flat: apply(*flat)


def sharing(args: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    """Which arguments are the same tensor, and which show the same memory: per tensor the first such position."""
    first: dict[int, int] = {}
    found: list[tuple[int, int]] = []
    for i, arg in enumerate(args):
        if isinstance(arg, Tensor):
            storage = arg.untyped_storage()._cdata
            found.append((first.setdefault(storage, i), first.setdefault(-id(arg), i)))
    return tuple(found)


def single(forward: Compiled) -> Callable[..., Any]:
    """The graph alone: nothing needs a gradient."""

    def call(flat: list[Any]) -> Any:
        with below_autograd():
            return forward(flat)

    return call


def _layout(val: FakeTensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return val.stride(), tuple(val.shape)


def _as_traced(grad: Tensor, strides: tuple[int, ...], shape: tuple[int, ...]) -> Tensor:
    """Gradients arrive with any strides; the backward was traced for those of the output."""
    if grad.stride() == strides:
        return grad
    with torch.no_grad():
        fitted = torch.empty_strided(shape, strides, dtype=grad.dtype, device=grad.device)
        return fitted.copy_(grad)


def _gather(joint: Joint) -> Callable[[tuple[Any, ...]], list[Any]]:
    """From the caller's arguments to the primals of the graph."""
    plan: list[tuple[str, Any]] = []
    for primal in joint.primals:
        if primal.members:
            plan.append(("base", primal.members[0]))
        elif primal.argument is not None:
            plan.append(("argument", primal.argument))
        else:
            plan.append(("held", primal.real))
    if all(kind == "argument" for kind, _ in plan) and [i for _, i in plan] == list(range(len(plan))):
        count = len(plan)
        return lambda args: list(args) if len(args) == count else list(args[:count])
    held = [value for kind, value in plan if kind == "held"]
    positions = [value for kind, value in plan if kind == "argument"]
    if [kind for kind, _ in plan] == ["held"] * len(held) + ["argument"] * len(positions):
        return lambda args: [*held, *[args[i] for i in positions]]

    def general(args: tuple[Any, ...]) -> list[Any]:
        return [
            value if kind == "held" else args[value] if kind == "argument" else flat_base(args[value]) for kind, value in plan
        ]

    return general


def _source(joint: Joint, index: int) -> tuple[str, Any]:
    primal = joint.sources[index]
    return ("argument", primal.argument) if primal.argument is not None else ("held", primal.real)


def _builder(joint: Joint, output: Output) -> Callable[[tuple[Any, ...], Sequence[Any]], Any]:
    """How one result for the caller is made from the arguments and the results of the graph."""
    index, steps, tracked = output.index, output.steps, output.tracked
    if output.kind == "constant":
        value = output.value
        return lambda args, results: value
    if output.kind == "graph":
        if not steps:
            return lambda args, results: results[index]
        return lambda args, results: _view(results[index], steps, tracked)
    kind, at = _source(joint, index)
    if not steps:
        return (lambda args, results: args[at]) if kind == "argument" else (lambda args, results: at)
    if kind == "argument":
        return lambda args, results: _view(args[at], steps, tracked)
    return lambda args, results: _view(at, steps, tracked)


def _view(base: Tensor, steps: tuple[Any, ...], tracked: bool) -> Tensor:
    with torch.set_grad_enabled(tracked):
        for step in steps:
            base = step(base)
    return base


def _after(joint: Joint) -> Callable[[tuple[Any, ...], list[Any], Sequence[Any]], None] | None:
    """Effects on the caller's tensors that the graph could not have by itself."""
    written = joint.written
    first_returned = len(joint.results) - len(joint.returned)
    returned = list(enumerate(joint.returned, first_returned))
    relaid = joint.relaid
    modes = joint.modes_after
    members = [m for i in written for m in joint.primals[i].members]
    if not (written or returned or relaid or modes):
        return None

    def apply(args: tuple[Any, ...], flat: list[Any], results: Sequence[Any]) -> None:
        if written:
            torch.autograd.graph.increment_version([flat[i] for i in written] + [args[m] for m in members])
        for result, i in returned:
            with torch.enable_grad():
                flat[i].copy_(results[result])
        for index, shape, strides, offset in relaid:
            kind, at = _source(joint, index)
            (args[at] if kind == "argument" else at).as_strided_(shape, strides, offset)
        for write, value in modes:
            write(value)

    return apply


def wrap(joint: Joint, run: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    """The callable with the calling convention of the captured graph."""
    gather = _gather(joint)
    after = _after(joint)
    outputs = joint.outputs
    spec = joint.spec
    plain = type(tree_unflatten([0] * len(outputs), spec)) is tuple and spec.num_leaves == spec.num_children
    direct = plain and all(o.kind == "graph" and not o.steps and o.index == i for i, o in enumerate(outputs))
    if direct and after is None:
        if len(joint.results) == len(outputs):
            return lambda *args: tuple(run(gather(args)))
        count = len(outputs)
        return lambda *args: tuple(run(gather(args))[:count])
    builders = [_builder(joint, o) for o in outputs]

    def call(*args: Any) -> Any:
        flat = gather(args)
        results = run(flat)
        if after is not None:
            after(args, flat, results)
        made = [b(args, results) for b in builders]
        return tuple(made) if plain else tree_unflatten(made, spec)

    return call
