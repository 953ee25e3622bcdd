"""Functions of ours that captured graphs call: effects and regions that torch has no plain function for.

Each is an ordinary callable, so a graph that has one still runs, prints and pickles like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.utils.checkpoint
from torch.utils._pytree import tree_flatten, tree_unflatten

from dynamo import marks
from dynamo.fake import FakeTensor, standins
from dynamo.surroundings.modes import enter_inference_mode, exit_inference_mode


def set_data(t: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """`t.data = new`."""
    t.data = new
    return t


def applying(cls: Any) -> Callable[..., Any]:
    """A function for `cls.apply` that graphs can print by name; `function` is the class."""

    def apply(*args: Any, **kwargs: Any) -> Any:
        return cls.apply(*args, **kwargs)

    apply.__name__ = apply.__qualname__ = cls.__name__
    apply.function = cls  # type: ignore[attr-defined]  # functions take attributes
    return apply


def calling(obj: Any, name: str) -> Callable[..., Any]:
    """A function for a callable object that graphs couldn't print; `function` is the object."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return obj(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.function = obj  # type: ignore[attr-defined]  # functions take attributes
    return call


# torch wraps `checkpoint` so that calling it loads torch's own compiler; the function itself is below that.
_checkpoint: Callable[..., Any] = getattr(torch.utils.checkpoint.checkpoint, "__wrapped__", torch.utils.checkpoint.checkpoint)


# Where a checkpoint can't be captured, the recomputation runs in eager, so the forward pass must too.
marks.mark_disabled(_checkpoint)


def checkpoint(body: Callable[..., Any], options: dict[str, Any], given: int, *tensors: Any) -> Any:
    """Run `body(*tensors)` so that its inner values are computed again in the backward pass.

    `options` go to `torch.utils.checkpoint.checkpoint`. The first `given` tensors are the arguments of the user's call; the rest
    were read by the function from outside and stay outside: re-entrant checkpoints track arguments only, and what is an
    argument may not be changed in place.
    """
    outside = tensors[given:]

    def run(*args: Any) -> Any:
        return body(*args, *outside)

    with standins.without_compiler():
        return _checkpoint(run, *tensors[:given], **options)


def checkpoint_again(body: Callable[..., Any], options: dict[str, Any], given: int, *tensors: Any) -> Any:
    """As `checkpoint`, for passes that ask for some gradients alone, which torch refuses behind re-entrant ones."""
    if not options.get("use_reentrant"):
        return checkpoint(body, options, given, *tensors)
    is_tracked = any(isinstance(t, torch.Tensor) and t.requires_grad for t in tensors[:given])
    outside = [t.detach() if isinstance(t, torch.Tensor) else t for t in tensors[given:]]
    with nullcontext() if is_tracked else torch.no_grad():
        return _as_one_node(checkpoint(body, {**options, "use_reentrant": False}, given, *tensors[:given], *outside))


def _as_one_node(results: Any) -> Any:
    """Results that get zeros where only others of them have a gradient."""
    if isinstance(results, torch.Tensor):
        return results
    leaves, spec = tree_flatten(results)
    tracked = [i for i, t in enumerate(leaves) if isinstance(t, torch.Tensor) and t.requires_grad]
    for i, t in zip(tracked, _Together.apply(*[leaves[i] for i in tracked]) if tracked else (), strict=True):
        leaves[i] = t
    return tree_unflatten(leaves, spec)


class _Together(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *tensors: torch.Tensor) -> Any:
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads


class _Branch(torch.autograd.Function):
    """One branch of `cond`. The backward computes its values again, as torch's own does; gradients of what it doesn't read are zeros."""

    @staticmethod
    def forward(ctx: Any, body: Callable[..., Any], *operands: torch.Tensor) -> Any:
        ctx.body = body
        ctx.save_for_backward(*operands)
        return body(*operands)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        needed = ctx.needs_input_grad[1:]
        with torch.enable_grad():
            given = [t.detach().requires_grad_(needs) for t, needs in zip(ctx.saved_tensors, needed, strict=True)]
            ends = [(r, g) for r, g in zip(ctx.body(*given), grads, strict=True) if r.requires_grad]
        wanted = [t for t, needs in zip(given, needed, strict=True) if needs]
        results, tangents = [r for r, _ in ends], [g for _, g in ends]
        with torch.no_grad():  # gradients of torch's own have no history either
            behind = torch.autograd.grad(results, wanted, tangents, allow_unused=True) if ends else [None] * len(wanted)
            found = iter([torch.zeros_like(t) if g is None else g for t, g in zip(wanted, behind, strict=True)])
        return None, *[next(found) if needs else None for needs in needed]


def cond(predicate: torch.Tensor, when_true: Callable[..., Any], when_false: Callable[..., Any], *operands: torch.Tensor) -> Any:
    """`torch.cond` of two graphs with the same inputs and results: the tuple of tensors that the chosen one gives.

    If an operand needs a gradient, all results have a history. On fakes the first is chosen; the results of both look the same.
    """
    chosen = when_true if isinstance(predicate, FakeTensor) or predicate else when_false
    if torch.is_grad_enabled() and any(t.requires_grad for t in operands):
        return _Branch.apply(chosen, *operands)
    return chosen(*operands)


def _spare_the_compiler() -> None:
    """The recomputation asks torch's own compiler not to trace it, which would load that compiler in the backward pass."""
    module: Any = torch.utils.checkpoint
    run = getattr(module, "_run_fn_with_dynamo_disabled", None)
    if run is not None:
        standins.undecorate(run)
    hook = getattr(module, "_recomputation_hook", None)
    if hook is not None:

        def init(self: Any, *args: Any) -> None:
            with standins.without_compiler():
                hook.__init__(self, *args)

        module._recomputation_hook = type(hook.__name__, (hook,), {"__init__": init})


_spare_the_compiler()
for _fn in (enter_inference_mode, exit_inference_mode, set_data, checkpoint):
    torch.fx.node.has_side_effect(_fn)
