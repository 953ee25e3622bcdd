"""The JSON of the commands is what the published schemas say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dynamo.trace import artefacts, codec, report
from dynamo.trace.model import Run
from dynamo.trace.record import LATER_NODES
from tests.schemas import validate
from tests.trace.sample import run_events, write_script
from tests.views import runs
from tui.commands.unread import UNREAD
from tui.commands.views import envelope
from tui.console import as_json
from tui.views import compare
from tui.views.table import VIEWS
from tui.views.verdict import verdict

MAKE: dict[str, Callable[[], Run]] = {
    "large": runs.large,
    "layered": runs.layered,
    "failing": runs.failing,
    "breaking": runs.breaking,
    "empty": Run,
}
PRINTED: dict[str, Callable[[Run], Any]] = {
    **{name: lambda run, view=view: {**envelope(run), **codec.members(view.data(run, ""))} for name, view in VIEWS.items()},
    "compare": lambda run: compare.view(run, runs.breaking()),
    "explain": lambda run: {"verdict": verdict(run), **report.as_json(run)},
    "explain-stage": lambda run: artefacts.stage_json(run, "capture"),
    "explain-decisions": lambda run: [codec.fields(d) for d in artefacts.decisions(run, "", "")],
    "trace": lambda run: {"record": "rec", **report.as_json(run)},
    "tui": lambda run: {"tree": report.tree_json(run), **report.as_json(run)},
}


def check(name: str, value: Any) -> None:
    validate(name, json.loads(as_json(value)))


@pytest.mark.parametrize("run", MAKE)
@pytest.mark.parametrize("name", PRINTED)
def test_json_validates(name: str, run: str) -> None:
    check(name, PRINTED[name](MAKE[run]()))


@pytest.mark.parametrize("name", PRINTED)
def test_json_of_a_run_with_every_kind_of_event_validates(name: str, tmp_path: Path) -> None:
    check(name, PRINTED[name](Run(run_events(write_script(tmp_path)))))


def test_a_field_that_is_missing_or_of_another_type_does_not_validate() -> None:
    value = {**envelope(Run()), **codec.members(VIEWS["breaks"].data(runs.breaking(), ""))}

    with pytest.raises(jsonschema.ValidationError):
        check("breaks", {**value, "count": "many"})
    with pytest.raises(jsonschema.ValidationError):
        check("breaks", {k: v for k, v in value.items() if k != "places"})


def test_every_view_says_what_it_leaves_unread() -> None:
    assert set(UNREAD) == set(VIEWS)
    assert {kind for kinds in UNREAD.values() for kind in kinds} <= {*codec.KINDS, LATER_NODES}
