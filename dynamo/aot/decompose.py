"""Which ATen ops the tracer splits into smaller ones, as one table of names over torch's own decompositions.

Nothing is split by default: `aot_eager` runs ATen as it is. A backend asks for `select(native=...)`: every op of the table except
those it implements itself. Each use is a counted decision (`dynamo.decisions`).
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import torch

from dynamo.ops.facts import facts_of, overloads

Decompositions = dict[Any, Callable[..., Any]]


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# ops whose decomposition is exact up to rounding and made of pointwise ops, reductions and views
NAMES: tuple[str, ...] = words(
    """addcdiv addcmul addmv addr aminmax baddbmm binary_cross_entropy binary_cross_entropy_backward
    binary_cross_entropy_with_logits celu col2im count_nonzero cudnn_batch_norm cudnn_batch_norm_backward deg2rad diag_embed
    diagonal_backward dist elu elu_backward embedding_dense_backward frac gelu gelu_backward glu glu_backward
    hardshrink hardsigmoid hardsigmoid_backward hardswish hardswish_backward hardtanh hardtanh_backward heaviside
    huber_loss huber_loss_backward im2col index_add index_copy index_fill isneginf isposinf l1_loss leaky_relu leaky_relu_backward
    lerp linspace log_sigmoid_backward log_sigmoid_forward logaddexp logaddexp2 logit logit_backward logsumexp
    masked_fill mish mish_backward mse_loss mse_loss_backward multi_margin_loss mv nan_to_num native_batch_norm_backward
    native_dropout_backward native_group_norm_backward native_layer_norm_backward new_empty new_full new_ones new_zeros
    nll_loss2d_backward nll_loss2d_forward nll_loss_backward nll_loss_forward norm pixel_shuffle pixel_unshuffle
    rad2deg reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d roll rot90 rrelu_with_noise rsub
    select_backward sgn sigmoid_backward silu silu_backward sinc slice_backward smooth_l1_loss smooth_l1_loss_backward
    soft_margin_loss soft_margin_loss_backward softplus softplus_backward softshrink special_entr special_log_ndtr
    special_xlog1py square stack std std_mean tanh_backward threshold threshold_backward trace tril triu
    unfold_backward upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d
    upsample_trilinear3d upsample_bicubic2d vdot xlogy zero _softmax_backward_data _log_softmax_backward_data
    _prelu_kernel _prelu_kernel_backward _unsafe_masked_index _unsafe_masked_index_put_accumulate
    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d block_diag dot grid_sampler_2d isin
    linalg_cross logspace max_unpool2d max_unpool3d mvlgamma renorm tril_indices
    triu_indices _chunk_cat as_strided_copy _unsafe_index _unsafe_index_put"""
)


def except_halves(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """The decomposition, declined where the first argument is a 16-bit tensor."""

    def decompose(first: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return NotImplemented if first.dtype.is_floating_point and first.dtype.itemsize == 2 else decomposition(first, *args, **kwargs)

    return decompose


def with_positive_base(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """That of `logspace`, declined where it refuses the base."""

    def decompose(start: Any, end: Any, steps: int, base: float = 10.0, **options: Any) -> Any:
        return decomposition(start, end, steps, base, **options) if base >= 0 else NotImplemented

    return decompose


def with_missing_points(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """That of `grid_sampler_2d`. Eager clips a coordinate that is NaN to 0, or takes NaN between four where it pads with 0."""

    def decompose(x: torch.Tensor, grid: torch.Tensor, mode: int = 0, padding: int = 0, align_corners: bool = False) -> Any:
        if padding and mode < 2:
            grid = torch.where(grid.isnan(), -1.0, grid)
        found = decomposition(x, grid, mode, padding, align_corners)
        if found is NotImplemented or mode or padding or not grid.is_floating_point():
            return found
        return torch.where(grid.isnan().any(-1).unsqueeze(1), torch.nan, found)

    return decompose


_AMENDED: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "logspace": with_positive_base,
    "grid_sampler_2d": with_missing_points,
}


def select(names: Container[str] | None = None, native: Container[Any] = ()) -> Decompositions:
    """Overload -> decomposition for the names of the table (or only those in `names`), minus the overloads in `native`."""
    table = torch._decomp.decomposition_table
    chosen: Decompositions = {}
    for name in NAMES:
        if names is not None and name not in names:
            continue
        for op in overloads(name):
            if op in table and op not in native and not facts_of(op).writes:
                chosen[op] = table[op] if facts_of(op).exact else except_halves(table[op])
                if name in _AMENDED:
                    chosen[op] = _AMENDED[name](chosen[op])
    return chosen
