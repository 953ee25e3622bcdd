"""What the ahead-of-time tracer refuses."""

from __future__ import annotations


class AotError(RuntimeError):
    """The graph can't be made functional; the message says which op and why."""


DOUBLE_BACKWARD = "a compiled graph can't be differentiated twice: {} [AOT003]"
CHANGED = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: {} is at version {}; "
    "expected version {} instead."
)
# What it says of one that was saved: that it was written to, or what it is a view of.
WRITTEN_SINCE = ("modified by an inplace operation", "has been modified inplace", "has been detached in-place")
REENTRANT = (
    "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` parameter to .backward(). "
    "To resolve this error, you can either set use_reentrant=False, or call .backward() without passing the `inputs` argument."
)
UNSEEN_GRADIENT = (
    "a hook, retain_grad or autograd.grad looks at the gradient of a result from which a compiled graph computed another result, and the "
    "graph can't be run again in eager for that: {} [AOT002]"
)
