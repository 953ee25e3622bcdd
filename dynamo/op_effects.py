"""What running an ATen operator does besides giving results: one table of facts, asked wherever an operator might be left out,
merged with another, or run again.

An operator *acts* when the program can tell that it ran: it draws random numbers, writes to an argument, gives no result at all, or
belongs to somebody else's library, whose code nobody here knows. It *may raise* when some values of its arguments are refused at run
time: an index out of range, a singular matrix. Wrong shapes and dtypes are no part of this: those are refused while tracing.

The table names the operators that take every value (`TOTAL`). One that is missing there only costs: it stays in the graph though nothing
reads its result, as it does in eager.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.fx import Graph, Node

OpOverload = torch._ops.OpOverload


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Take any value, besides the operators with the tag `pointwise`, views, and the backward of an operator that ran.
TOTAL = words(
    """_adaptive_avg_pool2d _adaptive_avg_pool3d _add_relu _aminmax _batch_norm_no_update _batch_norm_with_update_functional
    _cdist_forward _chunk_cat _convolution _conv_depthwise2d _euclidean_dist _fft_c2c _fft_c2r _fft_r2c _fused_rms_norm _is_all_true
    _is_any_true _lazy_clone _log_softmax _logcumsumexp _masked_scale _masked_softmax _native_batch_norm_legit
    _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _pdist_forward _pin_memory _prelu_kernel _reshape_copy
    _safe_softmax _scaled_dot_product_attention_math _scaled_dot_product_efficient_attention
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu _slow_conv2d_forward _softmax _stack
    _thnn_fused_gru_cell _thnn_fused_lstm_cell _to_copy _to_dense _trilinear _unsafe_masked_index
    _unsafe_masked_index_put_accumulate _unsafe_view _upsample_bicubic2d_aa _upsample_bilinear2d_aa
    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d adaptive_max_pool2d adaptive_max_pool3d addbmm
    addmm addmv addr affine_grid_generator all amax amin aminmax any arange argmax argmin as_strided_scatter avg_pool2d avg_pool3d
    baddbmm bartlett_window binary_cross_entropy_with_logits blackman_window block_diag bmm bucketize cat channel_shuffle clone col2im
    complex constant_pad_nd conv_tbc convolution copy count_nonzero cummax cummin cumprod cumsum diag_embed diagonal_scatter dist dot
    empty empty_like empty_permuted empty_strided eye fft_fftfreq fft_rfftfreq fill flip full full_like glu grid_sampler_2d
    grid_sampler_3d hamming_window hann_window hardswish huber_loss im2col isin kaiser_window kthvalue lift lift_fresh_copy
    linalg_cross linalg_vector_norm linear linspace log_sigmoid_forward logcumsumexp logspace logsumexp masked_fill max
    max_pool2d_with_indices max_pool3d_with_indices mean median min mm mode mse_loss mv nanmedian nansum native_batch_norm
    native_dropout native_group_norm native_layer_norm native_norm new_empty new_empty_strided new_full new_ones new_zeros norm ones
    ones_like pixel_shuffle pixel_unshuffle polar prod range reflection_pad1d reflection_pad2d reflection_pad3d renorm repeat
    replication_pad1d replication_pad2d replication_pad3d roll rot90 rsub scalar_tensor searchsorted select_scatter slice_scatter
    smooth_l1_loss soft_margin_loss sort split_copy stack std std_mean sum topk trace tril tril_indices triu triu_indices
    unfold_copy unsafe_split unsafe_split_with_sizes upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d
    upsample_nearest2d upsample_nearest3d upsample_trilinear3d var var_mean vdot zero zeros zeros_like
    sym_size sym_stride sym_numel sym_storage_offset"""
)

# Refuse a divisor of zero when the result is of an integer type.
DIVISIONS = words("floor_divide remainder fmod div _foreach_div")

# Made of pointwise operators, or by torch for its own compilers: nothing of them is seen from outside.
_KNOWN = words("aten prims prim inductor_prims dynamo_debug quantized onednn mkldnn mkl _c10d_functional")

# Without results, and yet nothing but a check: running them twice is running them once.
_CHECKS = words(
    "_assert_async _assert_scalar _assert_tensor_metadata _linalg_check_errors sym_constrain_range sym_constrain_range_for_size"
)


def _name(op: OpOverload) -> tuple[str, str]:
    namespace, _, name = op._schema.name.partition("::")
    return namespace, name


@cache
def _acts(op: OpOverload) -> bool:
    schema = op._schema
    return _name(op)[0] not in _KNOWN or schema.is_mutable or not schema.returns or torch.Tag.nondeterministic_seeded in op.tags


@cache
def _raises(op: OpOverload) -> bool:
    namespace, name = _name(op)
    if namespace != "aten":
        return namespace not in _KNOWN
    if torch.Tag.pointwise in op.tags or name in TOTAL or name.endswith(("_backward", "_backward_data", "_copy")):
        return name == "binary_cross_entropy"
    if name.startswith(("_foreach_", "_fused_")):
        return False
    return op._schema.is_mutable or not any(r.alias_info is not None for r in op._schema.returns)


@cache
def _divides(op: OpOverload) -> bool:
    name = _name(op)[1].rstrip("_")
    return name in DIVISIONS and (not name.endswith("div") or any(a.name == "rounding_mode" for a in op._schema.arguments))


def acts(op: Any) -> bool:
    """Can the program tell that the operator ran, other than by its results?"""
    op = _operator_of(op)
    return _acts(op) if isinstance(op, OpOverload) else getattr(op, "__name__", "") != "getitem"


def may_raise(op: Any, dtype: torch.dtype | None = None) -> bool:
    """Are some values of the arguments refused when it runs? `dtype` is that of the result, where it is known."""
    op = _operator_of(op)
    if not isinstance(op, OpOverload):
        return getattr(op, "__name__", "") != "getitem"
    if _divides(op):
        return dtype is None or not (dtype.is_floating_point or dtype.is_complex)
    return _raises(op)


def _operator_of(op: Any) -> Any:
    """Of a functional wrapper around an operator that writes, that operator."""
    return op if isinstance(op, OpOverload) else getattr(op, "op", op)


def dtype_of(value: Any) -> torch.dtype | None:
    """Of a tensor, or of the first one in a result of several."""
    if isinstance(value, (list, tuple)):
        return next((d for d in map(dtype_of, value) if d is not None), None)
    return value.dtype if isinstance(value, torch.Tensor) else None


def must_run(node: Node) -> bool:
    """Is the node more than its value, so that it stays though nothing reads that?"""
    return node.op == "call_function" and (acts(node.target) or may_raise(node.target, dtype_of(node.meta.get("val"))))


def acting(graph: Graph, *phases: str) -> list[Node]:
    """The nodes of these directions (none: of both) that are more than their values: effects and checks."""
    return [n for n in graph.nodes if n.meta.get("phase") in (phases or ("forward", "backward")) and must_run(n)]


def can_run_again(op: Any) -> bool:
    """May a whole program be started again after this ran, as if it had not? Random numbers can be drawn again, and writes are undone or
    were never seen; what an operator without results does is its own."""
    op = _operator_of(op)
    return not isinstance(op, OpOverload) or bool(op._schema.returns) or op._schema.is_mutable or _name(op)[1] in _CHECKS
