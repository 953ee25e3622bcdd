"""Shape rules: op overload -> function of (device, meta arguments) giving meta outputs.

A rule answers in a few microseconds what torch's Python meta kernels answer in 20 to 500. It may return NotImplemented for
arguments it does not cover; torch's kernel is asked then, and also raises the errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynamo.fake import nn_rules, pointwise_rules, shape_rules

Rule = Callable[..., Any]
RULES: dict[Any, Rule] = {**pointwise_rules.ROWS, **shape_rules.ROWS, **nn_rules.ROWS}


def rule_of(op: Any) -> Rule | None:
    """The row of an operator, or what its name says."""
    return RULES.get(op) or shape_rules.foreach_rule(op, pointwise_rules.rule_of) or pointwise_rules.rule_of(op)
