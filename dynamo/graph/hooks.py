"""Hooks around one graph.

A compiled graph is one node of autograd. A pass from one result meets the node, and autograd calls the hooks of its other results too, with
None, and those of leaves that the result was not computed from. In eager each result has a node of its own, from which such a pass
doesn't get there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import torch


class _Hooks(OrderedDict[int, Any]):
    def __setitem__(self, key: int, hook: Any) -> None:
        super().__setitem__(key, hook if _counts(hook) else _WithGradient(hook))


def own_hooks(tensor: torch.Tensor) -> dict[int, Any]:
    """The hooks of a result, made as `register_hook` makes them: whoever registers one later adds to them."""
    if tensor._backward_hooks is None:
        node = tensor.grad_fn  # of a view that was written to, this is made where it is asked for, and that drops what hooks there are
        assert node is not None, "a result of a graph with gradients has a node"
        tensor._backward_hooks = _Hooks()
        node._register_hook_dict(tensor)
    hooks: dict[int, Any] = tensor._backward_hooks
    return hooks


def skip_missing(leaf: torch.Tensor) -> None:
    """No hook of a leaf is called for a gradient that doesn't arrive."""
    hooks: dict[int, Any] | None = leaf._backward_hooks
    if hooks is not None and not isinstance(hooks, _Hooks):
        for key, hook in hooks.items():
            if not (_counts(hook) or isinstance(hook, _WithGradient)):
                hooks[key] = _WithGradient(hook)


def _counts(hook: Any) -> bool:
    """Hooks of several tensors at once wait for as many calls as autograd makes."""
    return getattr(hook, "__module__", "") == torch.autograd.graph.__name__


class _WithGradient:
    def __init__(self, hook: Callable[[torch.Tensor], Any]) -> None:
        update_wrapper(self, hook, updated=())
        self.hook = hook

    def __call__(self, grad: Any) -> Any:
        return None if grad is None else self.hook(grad)
