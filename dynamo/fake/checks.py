"""What eager's kernels refuse and neither a shape rule nor torch's kernels for tensors without data look at.

A row raises, on meta tensors and plain values, what the operator raises when it runs. The words are torch's where they are simple; the
program never sees them, since the call that is refused while tracing is made by CPython (DD009).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dynamo.fake.layout import broadcast, wrap_dims
from dynamo.fake.number_checks import Check, filled, holds, number_check, places_of, promotion, require
from dynamo.fake.out_checks import out_check
from dynamo.ops.facts import aten_name, overload
from dynamo.ops.rows import words

aten = torch.ops.aten
Tensor = torch.Tensor


def _where(condition: Tensor, *_: Any) -> None:
    boolean = condition.dtype in (torch.bool, torch.uint8)
    require(boolean, f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype}")


def _dim(x: Tensor, dim: int, *_: Any, **__: Any) -> None:
    wrap_dims(dim, x.dim())


def _roll(x: Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> None:
    require(len(shifts) > 0, "`shifts` required")
    if len(dims) or len(shifts) > 1:
        require(len(shifts) == len(dims), f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    for d in dims if x.numel() else ():
        if not x.dim():
            raise IndexError(f"Dimension specified as {d} but tensor has no dimensions")
        wrap_dims(d, x.dim())


def _gelu(x: Tensor, *, approximate: str = "none") -> None:
    require(approximate in ("none", "tanh"), "approximate argument must be either none or tanh.")


def _gelu_backward(grad: Tensor, x: Tensor, *, approximate: str = "none") -> None:
    _gelu(x, approximate=approximate)


def _celu(x: Tensor, alpha: float = 1.0) -> None:
    require(alpha != 0, "ZeroDivisionError: alpha cannot be 0 for CELU")


def _softshrink(x: Tensor, lambd: float = 0.5) -> None:
    require(lambd >= 0, f"lambda must be in range [0, inf] for input dtype {x.dtype}, but found {lambd}")


def _huber(x: Tensor, y: Tensor, reduction: int = 1, delta: float = 1.0) -> None:
    require(delta > 0, "huber_loss does not support non-positive values for delta.")


def _smooth_l1(x: Tensor, y: Tensor, reduction: int = 1, beta: float = 1.0) -> None:
    require(beta >= 0, "smooth_l1_loss does not support negative values for beta.")


def _clamp(x: Tensor, low: Any = None, high: Any = None, **_: Any) -> None:
    require(low is not None or high is not None, "torch.clamp: At least one of 'min' or 'max' must not be None")
    has_kernel = any(not isinstance(t, Tensor) or t.dtype is not torch.bool for t in (x, low, high))
    require(has_kernel, "not implemented for torch.bool")


def _masked_fill(x: Tensor, mask: Tensor, value: Any) -> None:
    if isinstance(value, Tensor):
        n = value.dim()
        require(n == 0, f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {n} dimension(s).")
    else:
        holds(x.dtype, value)
    require(mask.dtype is torch.bool, "masked_fill_ only supports boolean masks")


def _class_target(x: Tensor, target: Tensor, weight: Tensor | None = None, *_: Any, **__: Any) -> None:
    require(target.dtype in (torch.int64, torch.uint8), f"expected target dtype to be Long or Byte, but got {target.dtype}")
    classes = x.shape[-1] if x.dim() == 1 else x.shape[1]
    fits = weight is None or (weight.dim() == 1 and weight.numel() == classes)
    require(fits, f"weight tensor should be defined either for all {classes} classes or no classes")


def _layer_norm(x: Tensor, shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None, *_: Any) -> None:
    require(len(shape) > 0, "Expected normalized_shape to be at least 1-dimensional")
    for name, given in (("weight", weight), ("bias", bias)):
        fits = given is None or tuple(given.shape) == tuple(shape)
        require(fits, f"Expected {name} to be of same shape as normalized_shape")


def _scatter(x: Tensor, dim: int, index: Tensor, source: Any, **_: Any) -> None:
    wrap_dims(dim, x.dim())
    rank = max(index.dim(), 1)
    require(index.numel() == 0 or rank == max(x.dim(), 1), "Index tensor must have the same number of dimensions as self tensor")
    if isinstance(source, Tensor):
        same = index.numel() == 0 or rank == max(source.dim(), 1)
        require(same, "Index tensor must have the same number of dimensions as src tensor")
        require(source.dtype is x.dtype, "scatter(): Expected self.dtype to be equal to src.dtype")
    else:
        holds(x.dtype, source)
    require(index.numel() == 0 or index.dtype in (torch.int64, torch.int32), "scatter(): Expected dtype int32/int64 for index")


def _index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, **_: Any) -> None:
    (d,) = wrap_dims(dim, x.dim())
    require(index.dim() <= 1, "index_add_(): Index is supposed to be a vector")
    require(index.dtype in (torch.int64, torch.int32), "index_add_(): Expected dtype int32/int64 for index")
    require(source.dtype is x.dtype, "index_add_(): self and source expected to have the same dtype")
    same = [*x.shape[:d], *x.shape[d + 1 :]] == [*source.shape[:d], *source.shape[d + 1 :]]
    require(same and max(x.dim(), 1) == max(source.dim(), 1), "source tensor shape must match self tensor shape")
    count = source.shape[d] if source.dim() else 1
    require(index.numel() == count, "index_add_(): Number of indices should be equal to source.size(dim)")


def _index_put(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, *_: Any, **__: Any) -> None:
    """Of masks, only a kernel knows how many elements they choose."""
    places = [i for i, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if not given or len(indices) > x.dim() or any(index.dtype in (torch.bool, torch.uint8) for index in given):
        return
    rest = [n for i, n in enumerate(x.shape) if i not in places]
    before = places[0] if places[-1] - places[0] == len(places) - 1 else 0
    shape = [*rest[:before], *broadcast([index.shape for index in given]), *rest[before:]]
    fits = values.dim() <= len(shape) and all(n in (1, m) for n, m in zip(reversed(values.shape), reversed(shape), strict=False))
    require(fits, f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result of shape {shape}")


def _channel_shuffle(x: Tensor, groups: int) -> None:
    require(x.dim() > 2, f"channel_shuffle expects input with > 2 dims, but got input with sizes {tuple(x.shape)}")
    require(groups > 0, f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    require(x.shape[1] % groups == 0, f"Number of channels must be divisible by groups. Got {x.shape[1]} channels and {groups} groups.")


def _max_pool2d(x: Tensor, *args: Any, dilation: Sequence[int] = (1,), **_: Any) -> None:
    given = args[3] if len(args) > 3 else dilation
    require(min(given) > 0, f"dilation should be greater than zero, but got {given}")


def _logsumexp(x: Tensor, dim: Sequence[int], keepdim: bool = False) -> None:
    require(len(dim) > 0 or keepdim or not x.dim() or not x.numel(), "output with shape [] doesn't match the broadcast shape")


def _mvlgamma(x: Tensor, p: int) -> None:
    require(p >= 1, "p has to be greater than or equal to 1")


def _running_in_place(x: Tensor, *_: Any, **__: Any) -> None:
    asks_kernel = x.dim() > 0 and x.numel() > 0
    require(x.dtype is not torch.bool or not asks_kernel, "not implemented for torch.bool")


def _arange(*_: Any, dtype: torch.dtype | None = None, **__: Any) -> None:
    require(dtype is not torch.bool, "not implemented for torch.bool")


def _linspace(start: Any, end: Any, *_: Any, dtype: torch.dtype | None = None, **__: Any) -> None:
    require(dtype is not torch.bool, "not implemented for torch.bool")
    complex_ends = any(t.is_complex() if isinstance(t, Tensor) else isinstance(t, complex) for t in (start, end))
    require(not complex_ends or dtype is None or dtype.is_complex, f"linspace(): complex ends can't be safely cast to {dtype}")


def _empty_strided(size: Sequence[int], stride: Sequence[int], **_: Any) -> None:
    require(min(stride, default=0) >= 0, f"Storage size calculation overflowed with sizes={size} and strides={stride}")


def _as_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], offset: int | None = None) -> None:
    last = (x.storage_offset() if offset is None else offset) + sum((n - 1) * s for n, s in zip(size, stride, strict=False))
    is_inside = 0 in size or (last + 1) * x.itemsize <= x.untyped_storage().nbytes()
    require(is_inside, f"setStorage: sizes {size}, strides {stride}, storage offset {offset} are out of bounds")


def _index_select(x: Tensor, dim: int, index: Tensor) -> None:
    if index.dim() > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")


def _scattered(view: Any) -> Check:
    """What is put into a view of a tensor's copy has the view's shape."""

    def check(x: Tensor, source: Tensor, *args: Any, **kwargs: Any) -> None:
        shape = tuple(view(x, *args, **kwargs).shape)
        same = tuple(source.shape) == shape
        require(same, f"expected src to have a size equal to the slice of self. src size = {tuple(source.shape)}, slice size = {shape}")

    return check


def _complex(real: Tensor, imaginary: Tensor) -> None:
    require(real.dtype is imaginary.dtype, "Expected object of one scalar type")


def _searchsorted(boundaries: Tensor, values: Tensor, **kwargs: Any) -> None:
    require(not boundaries.is_complex() and not values.is_complex(), "not implemented for complex numbers")


def _fits(op: Any, is_floating: bool = False) -> Check:
    """In place, the result must fit the type of what is written. `is_floating`: of integers too, the result is no integer."""
    promoted = promotion(op)

    def check(*args: Any, **kwargs: Any) -> None:
        x = args[0]
        kind = promoted(x, args, kwargs)
        if is_floating and not (kind.is_floating_point or kind.is_complex):
            kind = torch.get_default_dtype()
        require(torch.can_cast(kind, x.dtype), f"result type {kind} can't be cast to the desired output type {x.dtype}")

    return check


def _rounded_division(op: Any) -> Check:
    promoted = promotion(op)

    def check(x: Tensor, y: Any, *, rounding_mode: str | None, **_: Any) -> None:
        known = rounding_mode in (None, "trunc", "floor")
        require(known, f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")
        dtype = promoted(x, (x, y), {})
        require(rounding_mode is None or not dtype.is_complex, f"not implemented for {dtype}")

    return check


def _convolution(x: Tensor, weight: Tensor, *args: Any, **_: Any) -> None:
    """`args`: bias, stride, padding, dilation, transposed."""
    is_plain = not args[4] and all(n == 1 for n in args[3])
    require(is_plain or x.dtype.itemsize == 8 or _kind(x.dtype) not in "ui", f"not implemented for {x.dtype}")


def _addcdiv(x: Tensor, dividend: Tensor, divisor: Tensor, **_: Any) -> None:
    fits = any(t.is_floating_point() or t.is_complex() for t in (dividend, divisor))
    require(fits, "Integer division with addcdiv is no longer supported")


def _addcdiv_in_place(x: Tensor, dividend: Tensor, divisor: Tensor, **_: Any) -> None:
    _addcdiv(x, dividend, divisor)
    _fits(aten.addcdiv_.default)(x, dividend, divisor)


def _lerp(x: Tensor, end: Tensor, weight: Any) -> None:
    require(end.dtype is x.dtype, f"expected dtype {x.dtype} for `end` but got dtype {end.dtype}")
    fits = not isinstance(weight, Tensor) or weight.dim() == 0 or weight.dtype is x.dtype
    require(fits, f"expected dtype {x.dtype} for `weight` but got another")


def _avg_pool3d(*args: Any, divisor_override: int | None = None, **_: Any) -> None:
    divisor = args[6] if len(args) > 6 else divisor_override
    require(divisor != 0, "divisor must be not zero")


def _not_bool(*args: Any, **_: Any) -> None:
    is_bool = any(type(a) is bool or (isinstance(a, Tensor) and a.dtype is torch.bool) for a in args)
    require(not is_bool, "Subtraction, the `-` operator, with a bool tensor is not supported.")


# Operators whose kernels lack dtypes that compiled code would compute with: b bool, u uint8, i other integers, c complex, f floating.
_LACKING = {
    "c": """
        amax amin aminmax atan2 clamp.Tensor clamp_max.Tensor clamp_min.Tensor copysign cummax cummin digamma erf erfc erfinv floor_divide
        fmax fmin fmod ge gt hardtanh heaviside i0 isneginf isposinf le lgamma logit lt max maximum min minimum mode nansum polygamma
        remainder sign signbit softshrink sort special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1
        special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v special_chebyshev_polynomial_w
        special_entr special_erfcx special_hermite_polynomial_h special_hermite_polynomial_he special_i0e special_i1 special_i1e
        special_laguerre_polynomial_l special_legendre_polynomial_p special_log_ndtr special_modified_bessel_i0 special_modified_bessel_i1
        special_modified_bessel_k0 special_modified_bessel_k1 special_ndtri special_scaled_modified_bessel_k0
        special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u
        special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0 special_xlog1py
        special_zeta xlogy
    """,
    "buic": """
        _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d _batch_norm_with_update
        binary_cross_entropy_with_logits celu elu frac gelu glu grid_sampler_2d grid_sampler_3d hardshrink hardsigmoid hardswish huber_loss
        hypot igamma igammac leaky_relu log_sigmoid_forward _log_softmax max_unpool2d max_unpool3d mish mse_loss native_batch_norm
        _native_batch_norm_legit _native_batch_norm_legit_no_training native_group_norm native_layer_norm nextafter _prelu_kernel
        round.decimals _safe_softmax _scaled_dot_product_flash_attention_for_cpu smooth_l1_loss _softmax _softmax_backward_data softplus
        upsample_linear1d upsample_trilinear3d
    """,
    "b": """
        abs addbmm addcmul addmm addmv baddbmm bmm convolution dot linalg_cross mm mv pow.Scalar pow.Tensor pow.Tensor_Tensor
        reflection_pad1d reflection_pad2d reflection_pad3d replication_pad2d trace _trilinear vdot
    """,
    "bc": """
        argmax argmin avg_pool3d bucketize ceil clamp.default clamp_max.default clamp_min.default floor isin kthvalue
        max_pool2d_with_indices max_pool3d_with_indices median mvlgamma nanmedian relu round.default threshold topk trunc
    """,
    "bui": """
        lerp _log_softmax_backward_data logcumsumexp max_pool2d_with_indices_backward multi_margin_loss multilabel_margin_loss_forward
        nll_loss2d_forward nll_loss_forward norm silu soft_margin_loss std std_mean var var_mean
    """,
    "bic": """
        upsample_bicubic2d upsample_bilinear2d _upsample_bilinear2d_aa upsample_nearest1d _upsample_nearest_exact1d
        _upsample_nearest_exact2d _upsample_nearest_exact3d
    """,
    "cf": "bitwise_and bitwise_not bitwise_or bitwise_xor",
    "bcf": "bitwise_left_shift bitwise_right_shift gcd lcm",
    "ui": "binary_cross_entropy im2col logaddexp logaddexp2",
    "bi": "upsample_nearest3d",
    "buc": "avg_pool2d",
}
# Without elements these ask no kernel.
_UNASKED = words(
    "_softmax _log_softmax _safe_softmax addmv grid_sampler_2d mv mm bmm addmm addbmm baddbmm cummax cummin mode _adaptive_avg_pool2d"
)
_KINDS = {name: kinds for kinds, names in _LACKING.items() for name in names.split()}


def _kind(dtype: torch.dtype) -> str:
    if dtype is torch.bool or dtype is torch.uint8:
        return "b" if dtype is torch.bool else "u"
    if dtype.is_complex:
        return "c"
    return "f" if dtype.is_floating_point else "i"


def _lacks(op: Any, kinds: str) -> Check:
    promoted, asks_always = promotion(op), aten_name(op) not in _UNASKED

    def check(*args: Any, **kwargs: Any) -> None:
        tensors = [a for a in args if isinstance(a, Tensor)]
        if tensors and (asks_always or all(t.numel() for t in tensors)):
            dtype = promoted(tensors[0], args, kwargs)
            require(_kind(dtype) not in kinds, f"not implemented for {dtype}")

    return check


# Operands that must have the type of the first tensor; parameters and statistics of norms may all be float32 beside 16-bit tensors.
_SAME = {
    "_embedding_bag": "per_sample_weights",
    "_embedding_bag_forward_only": "per_sample_weights",
    "addmv": "mat vec",
    "binary_cross_entropy": "target",
    "bmm": "mat2",
    "dot": "tensor",
    "grid_sampler_2d": "grid",
    "grid_sampler_3d": "grid",
    "heaviside": "values",
    "index_copy": "source",
    "index_put": "values",
    "linalg_cross": "other",
    "mv": "vec",
    "nll_loss2d_forward": "weight",
    "nll_loss_forward": "weight",
    "vdot": "other",
}
_NORMS = {
    "_native_batch_norm_legit": "weight bias running_mean running_var",
    "native_batch_norm": "weight bias running_mean running_var",
    "native_group_norm": "weight bias",
    "native_layer_norm": "weight bias",
}


def _same_types(op: Any) -> Check | None:
    same, norm = places_of(op, _SAME), places_of(op, _NORMS)
    if not same and not norm:
        return None

    def check(first: Tensor, *args: Any, **kwargs: Any) -> None:
        given = [args[i - 1] if i <= len(args) else kwargs.get(name) for i, name in same or norm]
        found = {t.dtype for t in given if isinstance(t, Tensor)}
        fits = found <= {first.dtype} or (bool(norm) and first.dtype in (torch.float16, torch.bfloat16) and found == {torch.float32})
        require(fits, f"expected scalar type {first.dtype} but found {found}")

    return check


CHECKS: dict[Any, Check] = {
    aten.where.self: _where,
    aten._softmax.default: _dim,
    aten._log_softmax.default: _dim,
    aten.roll.default: _roll,
    aten.gelu.default: _gelu,
    aten.gelu_.default: _gelu,
    aten.gelu_backward.default: _gelu_backward,
    aten.celu.default: _celu,
    aten.celu_.default: _celu,
    aten.softshrink.default: _softshrink,
    aten.huber_loss.default: _huber,
    aten.smooth_l1_loss.default: _smooth_l1,
    aten.clamp.default: _clamp,
    aten.clamp.Tensor: _clamp,
    aten.clamp_.default: _clamp,
    aten.clamp_.Tensor: _clamp,
    aten.masked_fill.Scalar: _masked_fill,
    aten.masked_fill.Tensor: _masked_fill,
    aten.masked_fill_.Scalar: _masked_fill,
    aten.masked_fill_.Tensor: _masked_fill,
    aten.nll_loss_forward.default: _class_target,
    aten.nll_loss2d_forward.default: _class_target,
    aten.native_layer_norm.default: _layer_norm,
    aten.scatter.src: _scatter,
    aten.scatter.value: _scatter,
    aten.scatter_.src: _scatter,
    aten.scatter_.value: _scatter,
    aten.scatter_add.default: _scatter,
    aten.scatter_add_.default: _scatter,
    aten.index_add.default: _index_add,
    aten.index_add_.default: _index_add,
    **dict.fromkeys((aten.mvlgamma.default, aten.mvlgamma_.default), _mvlgamma),
    **{getattr(aten.linspace, name): _linspace for name in ("default", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")},
    **{op: _rounded_division(op) for op in (aten.div.Tensor_mode, aten.div.Scalar_mode, aten.div_.Tensor_mode, aten.div_.Scalar_mode)},
    aten.convolution.default: _convolution,
    **dict.fromkeys((aten.arange.default, aten.arange.start, aten.arange.start_step), _arange),
    aten.empty_strided.default: _empty_strided,
    aten.as_strided.default: _as_strided,
    **dict.fromkeys((aten.cumsum_.default, aten.cumprod_.default), _running_in_place),
    aten.index_select.default: _index_select,
    **dict.fromkeys((aten.index_put.default, aten.index_put_.default), _index_put),
    aten.logsumexp.default: _logsumexp,
    aten.select_scatter.default: _scattered(aten.select.int),
    aten.slice_scatter.default: _scattered(aten.slice.Tensor),
    aten.diagonal_scatter.default: _scattered(aten.diagonal.default),
    aten.as_strided_scatter.default: _scattered(aten.as_strided.default),
    aten.complex.default: _complex,
    aten.polar.default: _complex,
    aten.searchsorted.Tensor: _searchsorted,
    aten.channel_shuffle.default: _channel_shuffle,
    aten.native_channel_shuffle.default: _channel_shuffle,
    aten.max_pool2d_with_indices.default: _max_pool2d,
    aten.full.default: filled(1),
    aten.full_like.default: filled(1),
    aten.new_full.default: filled(2),
    aten.fill.Scalar: filled(1),
    aten.fill_.Scalar: filled(1),
    aten.scalar_tensor.default: filled(0),
    aten.index_fill.int_Scalar: filled(3, is_index=True),
    aten.index_fill_.int_Scalar: filled(3, is_index=True),
    **{op: _fits(op) for op in (aten.add_.Tensor, aten.add_.Scalar, aten.sub_.Tensor, aten.sub_.Scalar)},
    **{op: _fits(op) for op in (aten.mul_.Tensor, aten.mul_.Scalar, aten.pow_.Scalar, aten.addcmul_.default)},
    **{op: _fits(op, is_floating=True) for op in (aten.div_.Tensor, aten.div_.Scalar, aten.logit_.default, aten.ldexp_.default)},
    aten.addcdiv.default: _addcdiv,
    aten.addcdiv_.default: _addcdiv_in_place,
    aten.lerp.Scalar: _lerp,
    aten.lerp.Tensor: _lerp,
    aten.lerp_.Scalar: _lerp,
    aten.lerp_.Tensor: _lerp,
    aten.avg_pool3d.default: _avg_pool3d,
}


# The operator on tensors that one on lists is made of, by overload. Numbers are bounds for the least and the greatest of lists.
_SINGLE = {
    "List": "Tensor Tensor_Tensor default",
    "Scalar": "Scalar Tensor_Scalar default",
    "ScalarAndTensor": "Scalar",
    "ScalarList": "Scalar Tensor_Scalar default",
    "Tensor": "Tensor default",
}
_BOUNDS = {"maximum": "clamp_min", "maximum_": "clamp_min_", "minimum": "clamp_max", "minimum_": "clamp_max_"}


def check_of(op: Any) -> Check | None:
    """Of an operator on lists: for each of their tensors, that of the operator on tensors."""
    if aten_name(op).startswith("_foreach_"):
        check = _check_of_one(single) if (single := _single(op)) is not None else None
        return check and _each(check, single)
    return _check_of_one(op)


def _single(op: Any) -> Any:
    name = aten_name(op).removeprefix("_foreach_")
    if op._overloadname in ("Scalar", "ScalarList"):
        name = _BOUNDS.get(name, name)
    kinds = _SINGLE.get(op._overloadname, "default").split()
    candidates = (overload(f"{n}.{kind}") for n in (name, name.removesuffix("_")) for kind in kinds)
    return next((o for o in candidates if o is not None), None)


def _each(check: Check, single: Any) -> Check:
    names = [a.name for a in single._schema.arguments if a.kwarg_only]
    positional = len(single._schema.arguments) - len(names)

    def check_each(*args: Any, **kwargs: Any) -> None:
        for i in range(len(next(a for a in args if isinstance(a, (list, tuple))))):  # of a power, the number may come first
            one = [a[i] if isinstance(a, (list, tuple)) and len(a) > i else a for a in args]
            check(*one[:positional], **dict(zip(names, one[positional:], strict=False)), **kwargs)

    return check_each


def _check_of_one(op: Any) -> Check | None:
    name = aten_name(op).removesuffix("_")
    kinds = _KINDS.get(name) or _KINDS.get(f"{name}.{op._overloadname}")
    given = (
        _lacks(op, kinds) if kinds else None,
        _not_bool if name in ("sub", "rsub", "dist") else None,
        _same_types(op),
        CHECKS.get(op),
        number_check(op),
        out_check(op),
    )
    checks = [check for check in given if check is not None]
    if len(checks) < 2:
        return checks[0] if checks else None

    def check_all(*args: Any, **kwargs: Any) -> None:
        for check in checks:
            check(*args, **kwargs)

    return check_all
