"""Python functions that are traced in place of torch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributions import constraints, transforms
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from dynamo.torch_facts import TRANSFORMS_KEEP_WEAK_INVERSES


def use_grad(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What `torch.optim` wraps around `step`, without the graph breaks that are there for torch's own compiler."""
    before = torch.is_grad_enabled()
    try:
        torch.set_grad_enabled(args[0].defaults["differentiable"])
        return func(*args, **kwargs)
    finally:
        torch.set_grad_enabled(before)


def nesterov(sgd: Callable[..., Any], params: Any, grads: Any, *rest: Any, **options: Any) -> Any:
    """torch's list implementation, which captured optimizers take on every device, adds the momentum to the gradients themselves.

    On the CPU eager takes the other one, which leaves them alone.
    """
    is_listed = all(type(p) in (torch.Tensor, torch.nn.Parameter) for p in params)
    if is_listed and any(p.device.type == "cpu" for p in params):
        grads = [g.clone() for g in grads]
    return sgd(params, grads, *rest, **{**options, "foreach": is_listed})


def combine_first(combine_fn: Callable[..., Any], xs: Any, dim: int) -> Any:
    """`combine_fn` of the first slices of an `associative_scan`."""
    first = tree_map(lambda x: torch.select(x, dim, 0), xs)
    return combine_fn(first, first)


def generic_scan(combine_fn: Callable[..., Any], xs: Any, dim: int, reverse: bool) -> Any:
    """torch's own `associative_scan`, with `combine_fn` where torch has a `vmap` of it."""
    from torch._higher_order_ops.associative_scan import generic_associative_scan  # noqa: PLC0415  # so it needs no guard

    leaves, spec = tree_flatten(xs)
    dim = dim % leaves[0].ndim
    leaves = [torch.movedim(x, dim, 0) for x in leaves]
    if reverse:
        leaves = [torch.flip(x, [0]) for x in leaves]

    def combine(*parts: Any) -> Any:
        half = len(parts) // 2
        return combine_fn(tree_unflatten(list(parts[:half]), spec), tree_unflatten(list(parts[half:]), spec))

    results = generic_associative_scan(combine, leaves, 0)
    if reverse:
        results = [torch.flip(x, [0]) for x in results]
    return tree_unflatten([torch.movedim(x, 0, dim) for x in results], spec)


# ---- constraints of distributions, which give up at the first question that is answered with no --------------------------


def symmetric(self: Any, value: torch.Tensor) -> torch.Tensor:
    if value.shape[-2] != value.shape[-1]:
        return torch.full(value.shape[:-2], False, dtype=torch.bool, device=value.device)
    return torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


def positive_semidefinite(self: Any, value: torch.Tensor) -> torch.Tensor:
    is_symmetric = symmetric(self, value)
    if value.shape[-2] != value.shape[-1]:
        return is_symmetric
    return torch.where(is_symmetric.all(), torch.linalg.eigvalsh(value).ge(0).all(-1), is_symmetric)


def positive_definite(self: Any, value: torch.Tensor) -> torch.Tensor:
    is_symmetric = symmetric(self, value)
    if value.shape[-2] != value.shape[-1]:
        return is_symmetric
    return torch.where(is_symmetric.all(), torch.linalg.cholesky_ex(value).info.eq(0), is_symmetric)


# ---- inverses of their transforms, which torch 2.11 keeps by weak references: those are made by C and may end at any time ----


def inverse(self: Any) -> Any:
    kept = None if self._inv is None else self._inv()
    return transforms._InverseTransform(self) if kept is None else kept


DISTRIBUTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    type(constraints.symmetric).check: symmetric,
    type(constraints.positive_semidefinite).check: positive_semidefinite,
    type(constraints.positive_definite).check: positive_definite,
    **({vars(transforms.Transform)["inv"].fget: inverse} if TRANSFORMS_KEEP_WEAK_INVERSES else {}),
}
