"""Expressions over operands of every kind are those of eager."""

from __future__ import annotations

import pytest

from tests.symbolic.operands import differences, drawn, outcome

PARTS = 4
COUNT = 600


@pytest.mark.parametrize("part", range(PARTS))
def test_expressions(part: int) -> None:
    found = list(differences(drawn(COUNT)[part::PARTS]))

    assert not found, "\n".join(found)


def test_a_difference_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.symbolic.operands.outcome", lambda setup, e, compiled: (outcome(setup, e, False), compiled))

    assert [line.splitlines()[0] for line in differences([("a = 3", "-a")])] == ["a = 3; -a"]
