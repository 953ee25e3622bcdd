"""Whether two runs of a graph gave the same, and if not, in what way they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from minifier.compare.evidence import Evidence, Run
from minifier.compare.verdict import Kind, judge


@dataclass(frozen=True)
class Difference:
    """`kind` is the class of a wrong result: count, type, shape, dtype, nan, value. `text` says where and by how much."""

    kind: str
    text: str


def difference(found: Sequence[Any], expected: Sequence[Any], run: Run) -> Difference | None:
    """What compiled code gave otherwise than eager, or None where rounding explains all of it. `run` runs eager again."""
    if len(found) != len(expected):
        return Difference("count", f"{len(found)} results instead of {len(expected)}")
    for at, (f, e) in enumerate(zip(found, expected, strict=True)):
        one = _form(f, e)
        if one is not None:
            return Difference(one.kind, f"result {at}: {one.text}")
    verdict = judge([Evidence(run, expected).sample(found)]) if found else None
    if verdict is None or not verdict.is_finding:
        return None
    return Difference("nan" if verdict.kind is Kind.CLASS else "value", verdict.text)


def _form(found: Any, expected: Any) -> Difference | None:
    """What two results differ in before their numbers are looked at."""
    if not isinstance(expected, torch.Tensor):
        return None
    if not isinstance(found, torch.Tensor):
        return Difference("type", f"{type(found).__name__} instead of a tensor")
    if found.shape != expected.shape:
        return Difference("shape", f"{list(found.shape)} instead of {list(expected.shape)}")
    return Difference("dtype", f"{found.dtype} instead of {expected.dtype}") if found.dtype != expected.dtype else None
