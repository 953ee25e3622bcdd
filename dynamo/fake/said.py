"""What eager's kernels warn about and torch's kernels for tensors without data do not: one small real call gives the very warning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

from dynamo.surroundings.kernel_warnings import Kept

aten = torch.ops.aten
Tensor = torch.Tensor
Row = Callable[..., None]


def _zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype, device="cpu")


def _cast(source: Tensor, dtype: torch.dtype) -> None:
    if source.dtype.is_complex and not dtype.is_complex and dtype is not torch.bool and source.numel():
        _zeros(1, dtype=torch.complex64).to(torch.float32)


def _to_copy(x: Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> None:
    if dtype is not None:
        _cast(x, dtype)


def _copy(x: Tensor, source: Any, *_: Any) -> None:
    if isinstance(source, Tensor):  # not a number
        _cast(source, x.dtype)


def _where(condition: Tensor, *_: Any) -> None:
    if condition.dtype is torch.uint8:
        torch.where(_zeros(1, dtype=torch.uint8), _zeros(1), _zeros(1))


def _spread(name: str) -> Row:
    def row(x: Tensor, dim: Sequence[int] | None = None, *, correction: Any = None, keepdim: bool = False) -> None:
        sizes = x.shape if not dim or not x.dim() else [x.shape[d] for d in dim]
        if prod(sizes) <= (1 if correction is None else correction) or not x.numel():
            getattr(torch, name)(_zeros(1, dtype=x.dtype))

    return row


def _searched(sorted_: Tensor, x: Any, *_: Any, **__: Any) -> None:
    gaps = [isinstance(t, Tensor) and not t.is_contiguous() for t in (sorted_, x)]
    if any(gaps):
        torch.searchsorted(*(_zeros(2, 2).t() if gap else _zeros(2, 2) for gap in gaps))


def _cholesky(x: Tensor, upper: bool = False) -> None:
    torch.cholesky(_zeros(1, 1) + 1)


def _put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> None:
    if torch.is_deterministic_algorithms_warn_only_enabled():
        _zeros(1).put_(_zeros(1, dtype=torch.int64), _zeros(1), accumulate)


ROWS: dict[Any, Row] = {
    aten._to_copy.default: _to_copy,
    aten.copy_.default: _copy,
    aten.where.self: _where,
    **{getattr(aten, name).correction: _spread(name) for name in ("std", "var", "std_mean", "var_mean")},
    aten.searchsorted.Tensor: _searched,
    aten.bucketize.Tensor: lambda x, sorted_, **_: _searched(sorted_, x),
    aten.put.default: _put,
    aten.put_.default: _put,
}
if hasattr(aten, "cholesky"):  # not in torch 2.15
    ROWS[aten.cholesky.default] = _cholesky


def saying(op: Any, check: Row | None) -> Row | None:
    """A check of `op` that also says, to whoever listens, what its kernel says."""
    row = ROWS.get(op)
    if row is None:
        return check

    def both(*args: Any, **kwargs: Any) -> None:
        if check is not None:
            check(*args, **kwargs)
        if Kept.listening:
            with torch.utils._python_dispatch._disable_current_modes():
                row(*args, **kwargs)

    return both
