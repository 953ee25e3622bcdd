"""Events are made, compared and refused as frozen dataclasses are, though their classes get `__init__` only when they need it."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from dynamo.trace.events import Event, GraphNode, RunEnded, StageTimed

TIMED = StageTimed("0", "capture", 1.0, seconds=2.0)


def test_values_and_defaults() -> None:
    assert dataclasses.asdict(TIMED) == {"t": -1.0, "compile_id": "0", "stage": "capture", "start": 1.0, "seconds": 2.0}
    assert TIMED == StageTimed("0", "capture", 1.0, 2.0) != StageTimed("0", "capture", 1.0, 2.0, t=3.0)
    assert dataclasses.replace(TIMED, t=3.0) == StageTimed("0", "capture", 1.0, 2.0, t=3.0)
    assert pickle.loads(pickle.dumps(TIMED)) == copy.copy(TIMED) == TIMED
    assert GraphNode("n", "output", "output", "", "", "", 0).stack == ()


@pytest.mark.parametrize(
    "values, named, message",
    [
        (("0", "capture", 1.0), {}, "missing 1 required positional argument: 'seconds'"),
        (("0", "capture", 1.0, 2.0, 3.0), {}, "takes 5 positional arguments but 6 were given"),
        (("0", "capture", 1.0, 2.0), {"stage": "aot"}, "got multiple values for argument 'stage'"),
        (("0", "capture", 1.0, 2.0), {"what": "aot"}, "got an unexpected keyword argument 'what'"),
    ],
)
def test_values_that_do_not_fit(values: tuple[object, ...], named: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        StageTimed(*values, **named)  # type: ignore[arg-type]  # what is tested


def test_a_class_above_that_was_made_first_leaves_those_below_alone() -> None:
    class Own(Event):
        pass

    assert Event(t=1.0).t == Own(t=1.0).t == 1.0
    assert RunEnded(1, "x").error == "x"


def test_events_stay_as_they_are() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        TIMED.stage = "aot"  # type: ignore[misc]  # what is tested
    with pytest.raises(dataclasses.FrozenInstanceError):
        del TIMED.stage
