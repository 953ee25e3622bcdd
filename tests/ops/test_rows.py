"""Rows of operator facts against torch's schemas and tags: every word is an operator, and says what torch doesn't."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from dynamo.ops import rows
from dynamo.ops.facts import acts, can_run_again, facts_of, may_raise, overload, overloads

ROWS = {name: row for name, row in vars(rows).items() if name.isupper() and isinstance(row, frozenset) and name != "NAMESPACES"}
# In some supported versions of torch only.
OPTIONAL: frozenset[str] = frozenset()

aten = torch.ops.aten


def operators() -> Iterator[Any]:
    """Every operator of ATen."""
    for name in dir(aten):
        packet = getattr(aten, name)
        if isinstance(packet, torch._ops.OpOverloadPacket):
            yield from (getattr(packet, o) for o in packet.overloads())


def named(word: str) -> list[Any]:
    if "." not in word:
        return overloads(word) + overloads(f"{word}_")
    return [op for op in [overload(word)] if op is not None]


@pytest.mark.parametrize("row", [*ROWS, "TRAINING"])
def test_every_word_is_an_operator(row: str) -> None:
    words = getattr(rows, row)
    assert {w for w in words if not named(w)} - OPTIONAL == set()
    assert all(overload(t.otherwise) is not None for t in rows.TRAINING.values() if t.otherwise)


def test_writes_are_those_of_the_schema() -> None:
    for op in operators():
        text = str(op._schema).partition("(")[2].rpartition(" -> ")[0]
        names = re.findall(r"\([a-z]+!(?: -> [a-z|]+)?\)(?:\[\d*\])?\??\)?(?:\[\d*\])?\?? (\w+)", text)
        found = [w if isinstance(w, str) else op._schema.arguments[w].name for w in facts_of(op).writes]
        assert found == names, op


def test_views_are_those_of_the_schema() -> None:
    for op in operators():
        returns = str(op._schema).rpartition(" -> ")[2]
        assert facts_of(op).views == (bool(re.search(r"\([a-z|*]+( -> [a-z|*]+)?\)", returns)) and "!" not in str(op._schema)), op


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("TOTAL", lambda f, op: f.pointwise or f.views or op._schema.name.endswith(("_copy", "_backward"))),
        ("CHEAP", lambda f, op: f.pointwise or f.views),
        ("SHARES", lambda f, op: f.views or bool(f.writes)),
        ("CHECKS", lambda f, op: f.has_results),
    ],
)
def test_a_row_says_what_torch_does_not(row: str, said: Any) -> None:
    assert {w for w in ROWS[row] if (ops := named(w)) and all(said(facts_of(op), op) for op in ops)} == set()


def test_rows_of_values_agree_with_each_other() -> None:
    assert rows.UNIFORM <= rows.CONSTANT
    assert not any(w.partition(".")[0] in rows.UNSET for w in rows.CONSTANT)
    assert {n for n in dir(aten) if n.startswith(("empty", "new_empty"))} <= rows.UNSET


def test_what_is_drawn_or_written_is_neither_cheap_nor_idle() -> None:
    for op in operators():
        facts = facts_of(op)
        assert not (facts.random and facts.cheap), op
        assert facts.acts or not (facts.random or facts.writes), op


def test_questions() -> None:
    assert acts(aten.add_.Tensor)
    assert acts(aten.dropout.default)
    assert not acts(aten.add.Tensor)
    assert may_raise(aten.index.Tensor)
    assert not may_raise(aten.add.Tensor)
    assert may_raise(aten.remainder.Tensor, torch.int64)
    assert not may_raise(aten.remainder.Tensor, torch.float32)
    assert not may_raise(aten.div.Tensor, torch.int64)
    assert may_raise(aten.div.Tensor_mode, torch.int64)
    assert can_run_again(aten._assert_async.default)
    assert facts_of(aten.native_batch_norm.default).training == rows.Training(5, (3, 4), "writes")


def test_an_operator_of_somebody_else_is_not_known() -> None:
    with torch.library._scoped_library("dynamo_ops_test", "DEF") as library:
        library.define("add(Tensor x) -> Tensor")
        library.define("empty(Tensor x) -> Tensor")
        op, other = torch.ops.dynamo_ops_test.add.default, torch.ops.dynamo_ops_test.empty.default
        assert acts(op)
        assert may_raise(op)
        assert not facts_of(other).unset
