"""Types of `out` that eager's kernels refuse, and torch's kernels for tensors without data accept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from dynamo.fake.number_checks import Check, require
from dynamo.fake.standins import plain_shapes
from dynamo.ops.facts import aten_name, unwritten_form
from dynamo.ops.rows import words

Tensor = torch.Tensor

# `out` must have the type of the result that the operator would give without it.
_SAME = words(
    """_linalg_det _linalg_eigh _linalg_slogdet _linalg_solve_ex _linalg_svd _native_batch_norm_legit addbmm addmm addmv alias_copy
    amax amin aminmax argmax argmin as_strided_copy avg_pool2d avg_pool3d baddbmm binary_cross_entropy bitwise_not bmm bucketize ceil
    celu clamp.out clamp_max.out clamp_min.out complex conj_physical cummax cummin diag_embed diagonal_copy dot elu expand_copy floor
    frac frexp gather gelu hardshrink hardsigmoid hardswish hardtanh hash_tensor heaviside histc histogram index_add index_copy
    index_reduce index_select isin isneginf isposinf kthvalue leaky_relu lerp.Tensor_out linalg_cholesky_ex linalg_cross linalg_eig
    linalg_eigvals linalg_inv_ex linalg_ldl_factor_ex linalg_ldl_solve linalg_lu linalg_lu_factor_ex linalg_lu_solve linalg_matrix_exp
    linalg_polar linalg_qr linalg_solve_triangular linalg_vector_norm log_sigmoid log_sigmoid_forward log_softmax logcumsumexp lu_unpack
    max.dim_max median.dim_values min.dim_min mish mm mode msort mv nan_to_num nanmedian.dim_values narrow_copy native_batch_norm neg
    ormqr permute_copy polar renorm round scatter scatter_add scatter_reduce searchsorted sgn sign signbit slice_scatter
    soft_margin_loss softmax softplus softshrink sort split_with_sizes_copy squeeze_copy t_copy take topk trace transpose_copy
    triangular_solve tril triu trunc unbind_copy unfold_copy unsqueeze_copy vdot view_copy where"""
)
# It may have any type that this one can be cast to.
_CAST = words("abs angle lerp.Scalar_out")


def out_check(op: Any) -> Check | None:
    """Of an operator with `out`, whatever its arguments for it are called."""
    schema = op._schema
    outs = [a.name for a in schema.arguments if a.kwarg_only and a.alias_info is not None and a.alias_info.is_write]
    name = aten_name(op)
    kind = next((kind for kind in (_SAME, _CAST) if name in kind or f"{name}.{schema.overload_name}" in kind), None)
    form = unwritten_form(op) if outs and kind is not None else None
    if form is None:
        return None

    def check(*args: Any, **kwargs: Any) -> None:
        given = [t for n in outs for t in _listed(kwargs.get(n))]
        for have, result in zip(given, _results(form, args, {k: v for k, v in kwargs.items() if k not in outs}), strict=False):
            fits = have.dtype is result.dtype if kind is _SAME else torch.can_cast(result.dtype, have.dtype)
            require(fits, f"Expected out tensor to have dtype {result.dtype}, but got {have.dtype} instead")

    return check


def _results(form: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor]:
    with plain_shapes():
        try:
            return _listed(form(*args, **kwargs))
        except NotImplementedError:  # no kernel for tensors without data: whoever asks for the result next says so
            return []


def _listed(value: Any) -> list[Tensor]:
    return [t for t in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(t, Tensor)]
