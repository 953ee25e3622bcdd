"""What rounding an ATen operator does, as rows: none, one, that of a function of a library, or that of a sum of many terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dynamo.ops.rows import words

DROPOUT = "native_dropout"
COMPUTES = ("_scaled_dot_product", "_fused_sdp", "rrelu", "miopen", "_cudnn")  # operators that may draw, and give no draws but results
HALF_TO_FLOAT = words("_softmax _log_softmax")
BITS = words("view")  # with a dtype

ROUNDING = 1.0  # of one operation, correctly rounded or nearly
SUM = 1.5  # of each addend; grows with the root of how many there are
FUNCTION = 4.0  # of exp, sin and the like: what vector libraries promise, in units in the last place

# Operators whose results are exact, or are some of the numbers they were given.
EXACT = words(
    "clone copy _to_copy detach alias lift lift_fresh contiguous cat stack index index_select gather take where masked_fill masked_select"
    " slice_scatter select_scatter diagonal_scatter as_strided_scatter constant_pad_nd reflection_pad1d reflection_pad2d replication_pad1d"
    " replication_pad2d flip roll repeat expand_copy embedding relu abs neg sign maximum minimum fmax fmin max min amax amin clamp"
    " clamp_min clamp_max hardtanh threshold ceil floor round trunc sort topk kthvalue median mode tril triu fill zero full full_like"
    " zeros zeros_like ones ones_like new_zeros new_full new_ones empty empty_like empty_strided new_empty arange scalar_tensor eye"
    " max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d threshold_backward slice_backward select_backward"
    " index_put _unsafe_index_put masked_scatter scatter set resize pixel_shuffle pixel_unshuffle upsample_nearest1d upsample_nearest2d"
    " _unsafe_view _reshape_copy view_copy permute_copy t_copy transpose_copy heaviside copysign frexp ldexp unfold im2col channel_shuffle"
    " cummax cummin argmax argmin bucketize searchsorted nonzero diag_embed diagonal_copy real imag complex view_as_real view_as_complex"
    " _conj _neg_view conj_physical logical_not hardshrink lerp_ set_"
) | words("isnan isinf isfinite eq ne lt le gt ge")
# Functions of one element.
FUNCTIONS = words(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc erfinv sigmoid silu"
    " gelu mish softplus elu celu selu pow log_sigmoid_forward lgamma digamma logaddexp logaddexp2 xlogy xlog1py logit rsqrt hardswish"
    " tanh_backward sigmoid_backward silu_backward gelu_backward mish_backward softplus_backward elu_backward log_sigmoid_backward"
    " special_i0 special_i1 special_ndtri special_log_ndtr special_erfcx i0 polygamma sinc hypot logcumsumexp addcdiv addcmul lerp"
    " reciprocal remainder fmod native_dropout_backward prelu _prelu_kernel binary_cross_entropy binary_cross_entropy_backward angle"
    " upsample_bilinear2d upsample_linear1d upsample_bicubic2d upsample_trilinear3d grid_sampler_2d"
)
# Operators of one or two roundings per element.
SINGLE = words("add sub rsub mul div sqrt floor_divide true_divide square leaky_relu leaky_relu_backward hardsigmoid hardtanh_backward")


# Element-wise operators that torch does not tag as such.
ELEMENT_WISE = words(
    "elu_backward hardswish_backward leaky_relu_backward softplus_backward hardtanh_backward hardsigmoid_backward mish_backward"
)

# Of the exact ones, those that sum where a flag or a word says so.
SUMS_IF_TOLD = words("index_put _unsafe_index_put _index_put_impl put scatter")
SUMMING = ("add", "multiply")
RATIONAL = words("add sub rsub mul")  # give what the dtype can hold exactly, if it can


def roundings(base: str, args: Sequence[Any]) -> float:
    """How far a result may be off by one operation, in units in the last place; of one term for SUM. 0: it is exact."""
    if base in SUMS_IF_TOLD and (any(a is True for a in args[3:]) or any(isinstance(a, str) and a in SUMMING for a in args)):
        return SUM
    if base in EXACT:
        return 0.0
    if base in SINGLE:
        return ROUNDING
    return FUNCTION if base in FUNCTIONS else SUM


def terms(base: str, args: Sequence[Any], result: Any) -> float:
    """How many terms each element of a result is the sum of, about."""
    if base in SINGLE or base in FUNCTIONS:
        return 1.0
    out = result[0] if isinstance(result, (tuple, list)) and result else result
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    if not tensors or not isinstance(out, torch.Tensor) or not out.numel():
        return 1.0
    most = max(t.numel() for t in tensors)
    if len(tensors) > 1 and tensors[-1].dim() >= 2 and base not in ("native_layer_norm", "native_batch_norm"):
        return float(max(most // out.numel(), *(_inner(t) for t in tensors[-2:]), 1))
    if out.numel() >= most:
        return float(max((t.shape[-1] for t in tensors if t.dim()), default=1))
    return float(max(most // out.numel(), 1))


def _inner(tensor: torch.Tensor) -> int:
    """The length of the sums that a matrix or a convolution kernel takes part in."""
    return max(tensor.shape[0], tensor.numel() // max(tensor.shape[0], 1)) if tensor.dim() >= 3 else max(tensor.shape, default=1)
