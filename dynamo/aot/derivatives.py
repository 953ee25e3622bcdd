"""Gradients of a trace by the autograd engine, and what passes from single results raise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dynamo.aot.errors import WRITTEN_SINCE
from dynamo.fake import FakeMode
from dynamo.surroundings.modes import without_autocast

Tensor = torch.Tensor


def differentiate(
    ends: Sequence[Tensor], leaves: Sequence[Tensor], tangents: Sequence[Tensor], lost: Mapping[int, str]
) -> tuple[tuple[Tensor | None, ...], tuple[tuple[int, str, str], ...]]:
    """The gradients, and what passes from single ends raise (end, kind, message), in the order in which one from all of them would.

    Eager only notices an error when the pass is made, so the forward must still run, and ends without one are differentiated.
    `lost`: what passes from some ends raise that this trace doesn't meet.
    """
    errors = [(i, "RuntimeError", message) for i, message in lost.items()]
    while works := sorted(set(range(len(ends))).difference(i for i, *_ in errors)):
        some, seeds = [ends[i] for i in works], [tangents[i] for i in works]
        try:
            return _gradients(some, leaves, seeds), tuple(errors)
        except RuntimeError as error:
            found = _errors(some, leaves, seeds, _found_when_called(error))
            errors += [(works[k], kind, message) for k, kind, message in found]
    return (None,) * len(leaves), tuple(errors)


def _gradients(ends: Sequence[Tensor], leaves: Sequence[Tensor], tangents: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """The graph is kept: after an error of one end others are differentiated."""
    with _one_thread(), torch.inference_mode(False), torch.enable_grad(), without_autocast():
        return torch.autograd.grad(ends, leaves, tangents, retain_graph=True, allow_unused=True, materialize_grads=False)


def _errors(
    ends: Sequence[Tensor], leaves: Sequence[Tensor], tangents: Sequence[Tensor], everything: tuple[str, str]
) -> tuple[tuple[int, str, str], ...]:
    """What passes from single ends raise, in the order in which one from all of them would. `everything`: what that raises."""
    failing = {i: error for i in range(len(ends)) if (error := _error([ends[i]], leaves, [tangents[i]]))[0]}
    if not failing:
        return tuple((i, *everything) for i in range(len(ends)))
    found: list[tuple[int, str, str]] = []
    while failing:
        first = _error([ends[i] for i in failing], leaves, [tangents[i] for i in failing])
        found += [(i, *failing.pop(i)) for i in [i for i in failing if failing[i] == first] or [*failing]]
    return tuple(found)


def _error(ends: Sequence[Tensor], leaves: Sequence[Tensor], tangents: Sequence[Tensor]) -> tuple[str, str]:
    """What a backward pass from these ends raises. Nothing of it is recorded, also not what meta kernels call."""
    try:
        with _disable_current_modes(), FakeMode():
            _gradients(ends, leaves, tangents)
    except RuntimeError as error:
        return _found_when_called(error)
    return "", ""


def _found_when_called(error: RuntimeError) -> tuple[str, str]:
    if not any(words in str(error) for words in _FOUND_WHEN_CALLED):
        raise error
    return type(error).__name__, str(error)


# What autograd says about a backward that only its caller would meet.
_FOUND_WHEN_CALLED = (
    *WRITTEN_SINCE,
    "is not implemented",
    "is not supported",
    "is not currently supported",
    "not differentiable",
    "no autograd formula was registered",
    "must have a storage_offset divisible by 2",  # `view_as_real` in a part of a gradient that begins at an odd place
)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Gradients of GPU fakes are computed in this thread too, where the tracer is active."""
    with torch.autograd.set_multithreading_enabled(False):
        yield
