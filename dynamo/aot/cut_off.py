"""Results that are views of one detached tensor: to autograd that is their base, and what is written to one is in the others' history."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dynamo.aot.facts import CutOff, Output, Step
from dynamo.aot.track import Track
from dynamo.fake import FakeTensor


@dataclass(slots=True)
class _Detached:
    """A tensor that autograd knows as a view of nothing. `views`: per result that is one of it, the steps to it and its places."""

    track: Track
    views: dict[int, tuple[tuple[Step, ...], list[int]]] = field(default_factory=dict)


def cut_off(
    values: Sequence[Any], outputs: Sequence[Output], track_of: Callable[[FakeTensor], Track], given: Container[int]
) -> list[CutOff]:
    """The detached tensors that more than one of the results are, or are views of. `given`: ids of the tracks of arguments.

    A history of its own that a result has is not looked at: a graph gives such a one from where that begins.
    """
    groups: dict[int, _Detached] = {}
    for position, (value, output) in enumerate(zip(values, outputs, strict=True)):
        if type(value) is not FakeTensor or value.requires_grad or value.is_inference() or output.is_closed:
            continue
        found = _above(track_of(value), given)
        if found is None:
            continue
        track, steps = found
        before = len(output.steps) - len(steps)
        if before > 0 and output.steps[before:] == steps:
            views = groups.setdefault(id(track), _Detached(track)).views
            views.setdefault(id(value), (steps, []))[1].append(position)
    return [_described(group, outputs) for group in groups.values() if len(group.views) > 1]


def _above(track: Track, given: Container[int]) -> tuple[Track, tuple[Step, ...]] | None:
    """The nearest tensor on the way up that autograd knows as a view of nothing, and the steps from there."""
    steps: list[Step] = []
    at = track
    while at.parent is not None and at.step is not None and id(at) not in given:
        if at.step.is_apart:
            return at, tuple(steps[::-1])
        steps.append(at.step)
        at = at.parent
    return None


def _described(detached: _Detached, outputs: Sequence[Output]) -> CutOff:
    steps, (position, *_) = next(iter(detached.views.values()))
    whole = outputs[position]
    first = whole.steps[: len(whole.steps) - len(steps)]
    base = replace(whole, steps=first, tracked=False, mode=detached.track.mode, stale=False)  # it is no view: it notes no writes
    return CutOff(base, tuple((tuple(at), replace(outputs[at[0]], steps=steps)) for steps, at in detached.views.values()))
