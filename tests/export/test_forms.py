"""Each form of `forms.FORMS` as a captured graph and as an ATen graph: both equal eager, on the example and on other arguments."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import dynamo
from dynamo.graph import helpers
from repro_corpus.observe import Observation, collect, differences
from tests.export.forms import FORMS, Form

pytestmark = pytest.mark.timeout(120)


def observed(f: Any, arguments: Any) -> Observation:
    """What a call gives, what it leaves in its arguments and its state, and the random state."""
    args, kwargs = arguments
    torch.manual_seed(0)
    seen = Observation()
    result = f(*args, **kwargs)
    state = dict(f.state_dict()) if isinstance(f, torch.nn.Module) else {}
    collect(seen, (result, args, kwargs, state, torch.get_rng_state()))
    return seen


def pair(form: Form) -> tuple[Any, Any]:
    torch.manual_seed(0)
    f = form.make()
    return (f, copy.deepcopy(f)) if isinstance(f, torch.nn.Module) else (f, f)


@pytest.mark.parametrize("aten_graph", [False, True], ids=["captured", "aten"])
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.name)
def test_form(form: Form, aten_graph: bool) -> None:
    f, reference = pair(form)
    calls = form.calls()
    args, kwargs = copy.deepcopy(calls[0])
    gm, guards = dynamo.export(f, *args, aten_graph=aten_graph, **kwargs)
    assert guards
    for call in calls:
        mine = copy.deepcopy(call)
        expected, found = observed(reference, call), observed(gm, mine)
        assert differences(expected, found, None) == []
    if aten_graph:
        targets = [n.target for n in gm.graph.nodes if n.op.startswith("call_")]
        assert all(isinstance(t, (torch._ops.OpOverload, type(len))) or t is helpers.cond for t in targets)


@pytest.mark.parametrize("form", FORMS[:4], ids=lambda f: f.name)
def test_export_of_a_function_first_and_arguments_later(form: Form) -> None:
    f, reference = pair(form)
    ((args, kwargs), *_) = form.calls()
    gm, _ = dynamo.export(f)(*args, **kwargs)
    torch.testing.assert_close(gm(*args, **kwargs), reference(*args, **kwargs))


def test_the_table_of_the_documentation_has_these_forms() -> None:
    text = (Path(__file__).parents[2] / "docs" / "export.md").read_text()
    rows = re.findall(r"^\| (.+) \| (yes|no) \|$", text, re.MULTILINE)
    assert rows == [(f.name, "yes" if f.savable else "no") for f in FORMS]
