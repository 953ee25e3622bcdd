"""Whether two runs of a graph gave the same, and if not, in what way they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

# what a result in a dtype may be off by, relative and absolute, before a float64 run decides
_TOLERANCE = {"float64": 1e-7, "complex128": 1e-7, "float32": 1e-4, "complex64": 1e-4, "float16": 1e-2, "bfloat16": 2e-2}
_WORSE = 3.0  # times the error of eager that a result may have


@dataclass(frozen=True)
class Difference:
    """`kind` is the class of a wrong result: count, type, shape, dtype, nan, value. `text` says where and by how much."""

    kind: str
    text: str


def difference(found: Sequence[Any], expected: Sequence[Any], exact: Sequence[Any] | None = None) -> Difference | None:
    """The first difference between results, or None. `exact` are the same results in float64, where those can be had: what is as near to
    them as `expected` is no difference."""
    if len(found) != len(expected):
        return Difference("count", f"{len(found)} results instead of {len(expected)}")
    for at, (f, e) in enumerate(zip(found, expected, strict=True)):
        one = _one(f, e, None if exact is None else exact[at])
        if one is not None:
            return Difference(one.kind, f"result {at}: {one.text}")
    return None


def _one(found: Any, expected: Any, exact: Any) -> Difference | None:
    if not isinstance(expected, torch.Tensor):
        return None if found == expected else Difference("value", f"{found!r:.80} instead of {expected!r:.80}")
    if not isinstance(found, torch.Tensor):
        return Difference("type", f"{type(found).__name__} instead of a tensor")
    if found.shape != expected.shape:
        return Difference("shape", f"{list(found.shape)} instead of {list(expected.shape)}")
    if found.dtype != expected.dtype:
        return Difference("dtype", f"{found.dtype} instead of {expected.dtype}")
    if not (expected.dtype.is_floating_point or expected.dtype.is_complex):
        wrong = int((found != expected).sum())
        return Difference("value", f"{wrong} of {expected.numel()} elements differ") if wrong else None
    return _floats(found, expected, exact)


def _floats(found: torch.Tensor, expected: torch.Tensor, exact: Any) -> Difference | None:
    if not torch.equal(torch.isfinite(found), torch.isfinite(expected)):
        wrong, right = (int((~torch.isfinite(t)).sum()) for t in (found, expected))
        return Difference("nan", f"{wrong} values are not finite instead of {right}")
    tolerance = _TOLERANCE.get(str(expected.dtype).removeprefix("torch."), 1e-1)
    if torch.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True):
        return None
    error = _error(found, expected)
    if isinstance(exact, torch.Tensor) and exact.shape == expected.shape:
        ours, eager = _error(found, exact), _error(expected, exact)
        if ours <= _WORSE * eager + tolerance / 10:
            return None
        return Difference("value", f"largest error {ours:.3g}, eager's {eager:.3g}")
    return Difference("value", f"largest difference {error:.3g}")


def _error(one: torch.Tensor, two: torch.Tensor) -> float:
    wide = torch.complex128 if one.dtype.is_complex or two.dtype.is_complex else torch.float64
    return float((one.to(wide) - two.to(wide)).abs().nan_to_num().max())
