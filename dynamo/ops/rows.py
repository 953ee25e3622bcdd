"""What torch's schemas and tags don't say of an operator, or say wrongly: one row per fact, with the operators it holds for.

A word is an operator of ATen: `name` means all its overloads, `name.overload` only that one. Nothing is looked up in torch here, so a word
that this version of torch lacks is one that never matches; `tests/ops` tells such words from misspelt ones.
"""

from __future__ import annotations

from typing import NamedTuple


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Namespaces of operators that are made of known ones, or by torch for its own compilers: nothing of them is seen from outside.
NAMESPACES = words("aten prims prim inductor_prims dynamo_debug quantized onednn mkldnn mkl _c10d_functional")

# ---- random numbers ----

# Tagged as random, and refuse every argument for which they would draw.
DRAWS_NOTHING = words("_scaled_dot_product_flash_attention_for_cpu")

# ---- values that are refused ----

# Take any value, besides the operators with the tag `pointwise`, views, and the backward of an operator that ran. One that is missing
# here only costs: it stays in the graph though nothing reads its result, as it does in eager.
TOTAL = words(
    """_adaptive_avg_pool2d _adaptive_avg_pool3d _add_relu _aminmax _batch_norm_no_update _batch_norm_with_update_functional
    _cdist_forward _chunk_cat _convolution _conv_depthwise2d _euclidean_dist _fft_c2c _fft_c2r _fft_r2c _fused_rms_norm _is_all_true
    _is_any_true _lazy_clone _log_softmax _logcumsumexp _masked_scale _masked_softmax _native_batch_norm_legit
    _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _pdist_forward _pin_memory _prelu_kernel
    _safe_softmax _scaled_dot_product_attention_math _scaled_dot_product_cudnn_attention _scaled_dot_product_efficient_attention
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu _slow_conv2d_forward _softmax _stack
    _thnn_fused_gru_cell _thnn_fused_lstm_cell _to_dense _trilinear _unsafe_masked_index
    _unsafe_masked_index_put_accumulate _unsafe_view _upsample_bicubic2d_aa _upsample_bilinear2d_aa
    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d adaptive_max_pool2d adaptive_max_pool3d addbmm
    addmm addmv addr affine_grid_generator all amax amin aminmax any arange argmax argmin as_strided_scatter avg_pool2d avg_pool3d
    baddbmm bartlett_window binary_cross_entropy_with_logits blackman_window block_diag bmm bucketize cat channel_shuffle clone col2im
    complex constant_pad_nd conv_tbc convolution copy count_nonzero cudnn_convolution_add_relu cudnn_convolution_relu
    cummax cummin cumprod cumsum diag_embed diagonal_scatter dist dot
    empty empty_like empty_permuted empty_strided eye fft_fftfreq fft_rfftfreq fill flip full full_like glu grid_sampler_2d
    grid_sampler_3d hamming_window hann_window hardswish huber_loss im2col isin kaiser_window kthvalue lift
    linalg_cross linalg_vector_norm linear linspace log_sigmoid_forward logcumsumexp logspace logsumexp masked_fill max
    max_pool2d_with_indices max_pool3d_with_indices mean median min mm mode mse_loss mv nanmedian nansum native_batch_norm
    native_dropout native_group_norm native_layer_norm native_norm new_empty new_empty_strided new_full new_ones new_zeros norm ones
    ones_like pixel_shuffle pixel_unshuffle polar prod range reflection_pad1d reflection_pad2d reflection_pad3d renorm repeat
    replication_pad1d replication_pad2d replication_pad3d roll rot90 rsub scalar_tensor searchsorted select_scatter slice_scatter
    smooth_l1_loss soft_margin_loss sort stack std std_mean sum topk trace tril tril_indices triu triu_indices
    unsafe_split unsafe_split_with_sizes upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d
    upsample_nearest2d upsample_nearest3d upsample_trilinear3d var var_mean vdot zero zeros zeros_like
    sym_size sym_stride sym_numel sym_storage_offset"""
)

# Tagged `pointwise`, and yet its kernel refuses what isn't between 0 and 1 ("all elements of input should be between 0 and 1").
REFUSES = words("binary_cross_entropy")

# Refuse a divisor of zero when the result is of an integer type ("ZeroDivisionError"); `div` where it rounds.
DIVIDES = words("floor_divide remainder fmod")
DIVIDES_ROUNDED = words("div _foreach_div")

# Refuse tensors of several types, which torch's kernels for tensors without data take.
ONE_DTYPE = words("mm addmm addbmm convolution _cdist_forward")

# Without results, and yet nothing but a check: running them twice is running them once.
CHECKS = words("_assert_async _assert_scalar _assert_tensor_metadata _linalg_check_errors sym_constrain_range sym_constrain_range_for_size")

# ---- memory ----

# Give back what they are given, below autograd.
SAME = words("detach.default alias.default lift_fresh.default")

# Results that share memory with the first argument though the schema has no alias: the `unsafe` ones promise autograd that nobody looks at
# the other; `lift` and `_pin_memory` return a tensor that needs nothing as it is.
SHARES = words("_unsafe_view unsafe_split unsafe_split_with_sizes lift _pin_memory")

# Fill an `out` of as many elements in the shape that it has.
KEEPS_SHAPE_OF_OUT = words("arange linspace logspace range")

# Count a storage offset from the start of the storage: an argument that is part of something larger would be misread.
ABSOLUTE = words("as_strided_scatter.default as_strided_copy.default")

# Write into a copy of their first operand, which may be the target itself; of the others they read other elements than the one they write.
UPDATES = words(
    """index_add index_copy index_put _index_put_impl scatter scatter_add scatter_reduce index_reduce masked_scatter put
    addmm addmv addr baddbmm addbmm"""
)

# Read other elements than the one they write: no memory in common with what they read, not even all of it.
ALONE = words(
    """gather take cat stack index_select linalg_cross cross
    mm bmm mv dot sum mean prod amax amin max min any all argmax argmin"""
)

# Index tensors may stay on the CPU, copies cross devices, set_ takes what it is given.
MIXES_DEVICES = words(
    """index.Tensor index_put.default index_put_.default _index_put_impl_.default _unsafe_index.Tensor _unsafe_index_put.default
    copy_.default copy.default _foreach_copy_.default _to_copy.default
    set_.source_Tensor set_.source_Storage set_.source_Storage_storage_offset"""
)

# ---- values ----

# Decided by the arguments alone, and the same on every device; of one number everywhere.
CONSTANT = words(
    """full.default zeros.default ones.default arange.default arange.start arange.start_step scalar_tensor.default
    eye.default eye.m linspace.default"""
)
UNIFORM = words("full.default zeros.default ones.default scalar_tensor.default")

# What memory held before.
UNSET = words("empty empty_like empty_permuted empty_quantized empty_strided new_empty new_empty_strided")

# Made from nothing, or a copy of what is there: computing it again costs as little as a pointwise operator or a view.
CHEAP = words(
    """full.default zeros.default ones.default empty.memory_format empty_strided.default arange.default arange.start
    arange.start_step scalar_tensor.default full_like.default zeros_like.default ones_like.default new_zeros.default new_ones.default
    new_full.default _to_copy.default constant_pad_nd.default tril.default triu.default repeat.default flip.default
    copy.default _efficientzerotensor.default"""
)

# Zeros come out if zeros go in as their first argument, whatever the others are.
KEEPS_ZEROS = words(
    """neg.default clone.default _to_copy.default alias.default sum.default sum.dim_IntList slice_backward.default select_backward.default
    constant_pad_nd.default repeat.default threshold_backward.default native_dropout_backward.default tril.default triu.default
    flip.default roll.default index_select.default gather.default index.Tensor embedding_dense_backward.default cumsum.default
    max_pool2d_with_indices_backward.default"""
)
# The same if all tensors they take are zeros.
ADDS = words("add.Tensor sub.Tensor cat.default stack.default slice_scatter.default")
# The same if their first argument is a tensor of zeros and the other a finite number.
SCALES = words("mul.Tensor div.Tensor mul.Scalar div.Scalar")

# torch's decomposition computes in float32 (or rounds every step) where the kernel rounds otherwise: 16-bit tensors keep the kernel.
ROUNDS_ITS_OWN_WAY = words("grid_sampler_2d upsample_linear1d upsample_trilinear3d upsample_bicubic2d mvlgamma")

# The kernel keeps what the backward needs only where the grad mode is on, and it is off inside `autograd.Function.forward`.
ASKS_GRAD_MODE = words("mkldnn_rnn_layer.default")


class Training(NamedTuple):
    """An operator that goes another way in training. `flag`: position of `training`, -1 where it always trains; `statistics`: positions of
    what it updates then. `how`: it *writes* them though its schema calls them constant, *declares* the write also for when it doesn't
    train, or *passes* them on to results that are new."""

    flag: int
    statistics: tuple[int, ...]
    how: str
    otherwise: str = ""  # the operator that is the same where it doesn't train


# aten/src/ATen/native/native_functions.yaml; `tests/ops/test_eager.py` sees the writes that schemas lack.
TRAINING: dict[str, Training] = {
    "native_batch_norm.default": Training(5, (3, 4), "writes"),
    "cudnn_batch_norm.default": Training(5, (3, 4), "writes"),
    "miopen_batch_norm.default": Training(5, (3, 4), "writes"),
    "_native_batch_norm_legit.default": Training(5, (3, 4), "declares", "native_batch_norm.default"),
    "_native_batch_norm_legit_functional.default": Training(5, (3, 4), "passes"),
    "_batch_norm_with_update_functional.default": Training(-1, (3, 4), "passes"),
}
