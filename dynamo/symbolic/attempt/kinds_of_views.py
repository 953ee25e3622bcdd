"""What autograd makes of a tensor being a view: no fact of inputs that their guards compare otherwise, as few programs can see it."""

from __future__ import annotations

import torch

from dynamo.fake.convert import modes_off

_WRITABLE = torch._C._autograd.CreationMeta.DEFAULT
NO_VIEW, UNWRITABLE, HOOKS, CUT_OFF = "no view", ", unwritable", ", with hooks", ", with a history of its own"


def kind_of_view(t: torch.Tensor) -> str:
    """Whether a tensor is a view, and of what: a view of it that is made under `no_grad` needs a gradient if its base does.

    Unwritable is one of several views and what was made under `no_grad`: after a write no pass can go through it. Hooks of a view
    are left behind by a write, and so is its history where its base has none: that of a view of a leaf which is a view itself.
    """
    base = t._base if t._is_view() else None
    if base is None:
        return NO_VIEW
    kind = "view of what needs a gradient" if base.requires_grad else "view of what needs none"
    kind += UNWRITABLE if is_unwritable(t) else ""
    kind += CUT_OFF if t.requires_grad and not base.requires_grad and not _is_leaf(t) else ""
    return kind + (HOOKS if t._backward_hooks else "")


def is_unwritable(view: torch.Tensor) -> bool:
    return torch._C._autograd._get_creation_meta(view) != _WRITABLE


def leads_nowhere(t: torch.Tensor) -> bool:
    """Whether gradients for a tensor that needs one get lost. A view from under `no_grad` takes the flag from its base and is a leaf in
    which nothing accumulates, unless it was given the flag itself: what operators make of it keeps nothing for a backward pass."""
    if not (t._is_view() and t.requires_grad and _is_leaf(t) and t._base is not None and t._base.requires_grad):
        return False
    with torch._C.DisableTorchFunction(), modes_off(), torch.inference_mode(False), torch.enable_grad():
        node = torch._C.TensorBase.view_as(t, t).grad_fn
    return node is not None and node.next_functions[0][0] is None


def _is_leaf(t: torch.Tensor) -> bool:
    """A view from under `no_grad` whose base was written since has a history that can't be read."""
    try:
        return t.is_leaf
    except RuntimeError:
        return False
