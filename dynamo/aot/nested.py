"""Results that are views of other results: a gradient for one goes on to the one that it was made of, at which somebody may look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dynamo.aot.facts import Output
from dynamo.aot.track import Track
from dynamo.fake import FakeTensor


def nested(values: Sequence[Any], outputs: Sequence[Output], track_of: Callable[[FakeTensor], Track]) -> list[Output]:
    """The outputs, each with the nearest other one that it is a view of. Of written memory autograd makes all views anew, of their base."""
    views = {id(track_of(v)): p for p, (v, o) in enumerate(zip(values, outputs, strict=True)) if _is_tracked(v, o)}
    found = list(outputs)
    for p, (value, output) in enumerate(zip(values, outputs, strict=True)):
        if not _is_tracked(value, output):
            continue
        at, own = track_of(value), 0
        while at.parent is not None and at.step is not None and not at.step.is_apart:
            at, own = at.parent, own + 1
            of = views.get(id(at))
            if of is not None and outputs[of].index == output.index and outputs[of].steps == output.steps[:-own]:
                found[p] = replace(output, of=of, own=own)
                break
    return found


def _is_tracked(value: Any, output: Output) -> bool:
    """A view that is made with its history."""
    is_view = type(value) is FakeTensor and bool(output.steps) and output.tracked and not (output.stale or output.is_closed)
    return is_view and not output.in_function and value.requires_grad and not value.track.root.writes
