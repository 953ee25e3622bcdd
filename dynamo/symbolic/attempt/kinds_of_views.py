"""What autograd makes of a tensor being a view: no fact of inputs that their guards compare otherwise, as few programs can see it."""

from __future__ import annotations

import torch

_WRITABLE = torch._C._autograd.CreationMeta.DEFAULT
NO_VIEW, UNWRITABLE, HOOKS = "no view", ", unwritable", ", with hooks"


def kind_of_view(t: torch.Tensor) -> str:
    """Whether a tensor is a view, and of what: a view of it that is made under `no_grad` needs a gradient if its base does.

    Unwritable is one of several views and what was made under `no_grad`: after a write no pass can go through it. Hooks of a view
    are left behind by a write.
    """
    base = t._base if t._is_view() else None
    if base is None:
        return NO_VIEW
    kind = "view of what needs a gradient" if base.requires_grad else "view of what needs none"
    kind += UNWRITABLE if torch._C._autograd._get_creation_meta(t) != _WRITABLE else ""
    return kind + (HOOKS if t._backward_hooks else "")
