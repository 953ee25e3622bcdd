"""The shape-rule table: op overload -> function of (device, meta arguments) giving meta outputs.

A rule answers in a few microseconds what torch's Python meta kernels answer in 20 to 500. It may return NotImplemented for
arguments it does not cover; torch's kernel is asked then, and also raises the errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynamo.fake import nn_rules, pointwise_rules, shape_rules

Rule = Callable[..., Any]
RULES: dict[Any, Rule] = {
    **pointwise_rules.ROWS,
    **shape_rules.ROWS,
    **shape_rules.foreach_rows(pointwise_rules.ROWS),
    **nn_rules.ROWS,
}
