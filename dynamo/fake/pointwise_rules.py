"""Rows for ops that run as one TensorIterator: which arguments take part, and which dtype comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynamo.fake.layout import as_float, broadcast, converted, dense, iterate, like, promote
from dynamo.fake.standins import plain_shapes
from dynamo.ops.facts import aten_name, writes_of

aten = torch.ops.aten
Tensor = torch.Tensor
Rule = Callable[..., Any]
DtypeOf = Callable[[torch.dtype], torch.dtype]


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _same(dtype: torch.dtype) -> torch.dtype:
    return dtype


def _bool(dtype: torch.dtype) -> torch.dtype:
    return torch.bool


def _real(dtype: torch.dtype) -> torch.dtype:
    return dtype.to_real() if dtype.is_complex else dtype


def _op(count: int, dtype_of: DtypeOf) -> Rule:
    """The first `count` arguments (tensors or numbers) are operands, the rest are parameters."""
    if count == 1:

        def unary(device: torch.device, x: Tensor, *_: Any, **__: Any) -> Tensor:
            return iterate((x,), False, dtype_of(x.dtype))

        return unary

    def nary(device: torch.device, *args: Any, **_: Any) -> Any:
        operands = args[:count]
        tensors: Sequence[Tensor] = [x for x in operands if isinstance(x, Tensor)]
        if len(operands) < count or not tensors:
            return NotImplemented
        common = promote(operands)
        dtype = dtype_of(common)
        if device.type == "cpu":  # kernels for GPUs convert what they load
            tensors = converted(tensors, common if dtype_of is _bool else dtype)
        return iterate(tensors, len(tensors) < count, dtype)

    return nary


def _in_place(count: int, dtype_of: DtypeOf) -> Rule:
    """The result is the first argument; anything unusual is left to the meta kernel, which raises eager's error."""

    def rule(device: torch.device, x: Tensor, *args: Any, **_: Any) -> Any:
        shape = x.shape
        dtype = x.dtype
        for other in args[: count - 1]:
            if isinstance(other, Tensor) and (other.dtype is not dtype or (other.shape != shape and other.dim())):
                return NotImplemented
            if not isinstance(other, Tensor) and type(other) not in ((int, float, bool) if dtype.is_floating_point else (int,)):
                return NotImplemented
        exact = dtype_of is _same and not dtype.is_complex and dtype is not torch.bool
        return x if dtype.is_floating_point or exact else NotImplemented

    return rule


def _reversed(device: torch.device, x: Tensor, other: Any, *_: Any, **__: Any) -> Any:
    """The kernel's first operand is `other`, and so is what the layout follows first: `rsub`, gradients where an input chooses."""
    return _op(2, _same)(device, other, x)


def _where(device: torch.device, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    dtype = promote((a, b))
    return iterate((condition, *converted((a, b), dtype)), False, dtype)


def _div_mode(device: torch.device, a: Tensor, b: Any, *, rounding_mode: str | None) -> Any:
    return _op(2, as_float if rounding_mode is None else _same)(device, a, b)


def _clamp(device: torch.device, x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    operands = [o for o in (x, low, high) if o is not None]
    tensors = [o for o in operands if isinstance(o, Tensor)]
    # scalar bounds are parameters of a unary kernel, not operands of its iterator
    dtype = promote(operands)
    return iterate(converted(tensors, dtype) if device.type == "cpu" else tensors, False, dtype)


def _pow_tensor(device: torch.device, x: Tensor, exponent: Any) -> Tensor:
    return iterate((x,), False, promote((x, exponent)))


def _pow_scalar(device: torch.device, base: Any, x: Tensor) -> Tensor:
    return dense(x.shape, promote((base, x)))  # written into an empty tensor, so row-major whatever the exponents' strides are


def _ldexp(device: torch.device, x: Tensor, other: Tensor) -> Any:
    """`x * 2.0 ** other`."""
    return _op(2, _same)(device, x, _pow_scalar(device, 2.0, other))


def _angle(device: torch.device, x: Tensor) -> Any:
    """Of complex numbers it is written into an empty tensor."""
    return dense(x.shape, x.dtype.to_real()) if x.dtype.is_complex else iterate((x,), False, as_float(x.dtype))


def _into_like(dtype_of: DtypeOf) -> Rule:
    """Written into `empty_like` of the first operand."""
    return lambda device, x, *_, **__: NotImplemented if x.dtype.is_complex else like(x, dtype_of(x.dtype))


def _iterated_floats(device: torch.device, x: Tensor, *_: Any, **__: Any) -> Any:
    """Where the other arguments are no operands."""
    return iterate((x,), False, x.dtype) if x.dtype.is_floating_point else NotImplemented


def _iterated_as_float(device: torch.device, x: Tensor, *_: Any, **__: Any) -> Any:
    return NotImplemented if x.dtype.is_complex else iterate((x,), False, as_float(x.dtype))


def _elu_backward(device: torch.device, grad: Tensor, *others: Any) -> Any:
    x = others[-1]
    is_plain = isinstance(x, Tensor) and x.dtype is grad.dtype and grad.dtype.is_floating_point
    return iterate((grad, x), False, grad.dtype) if is_plain else NotImplemented


def _lerp_by_number(device: torch.device, x: Tensor, end: Tensor, weight: Any) -> Any:
    return iterate((x, end), False, x.dtype) if x.dtype is end.dtype else NotImplemented


def _isinf(device: torch.device, x: Tensor) -> Any:
    """`x.abs() == inf`, or nothing of integers."""
    if not _is_inexact(x):
        return like(x, torch.bool)
    return iterate((iterate((x,), False, x.dtype),), True, torch.bool)


def _frexp(device: torch.device, x: Tensor) -> Any:
    return (like(x), like(x, torch.int32)) if x.dtype.is_floating_point else NotImplemented


def _polygamma(device: torch.device, n: int, x: Tensor) -> Any:
    return iterate((x,), False, as_float(x.dtype)) if n >= 0 and not x.dtype.is_complex else NotImplemented


def _complex(device: torch.device, real: Tensor, imag: Tensor) -> Any:
    if real.dtype is not imag.dtype or not real.dtype.is_floating_point:
        return NotImplemented
    return iterate((real, imag), False, real.dtype.to_complex())


def _masked_fill(device: torch.device, x: Tensor, mask: Tensor, value: Any) -> Any:
    if mask.dtype is not torch.bool or x.dim() < mask.dim():
        return NotImplemented
    shape = broadcast((x.shape, mask.shape))
    return dense(shape, x.dtype)


def _hardtanh(device: torch.device, x: Tensor, low: Any = -1, high: Any = 1) -> Any:
    """Bounds may lie either way round for ATen; torch 2.11's own rule refuses that of integers."""
    if x.dtype.is_floating_point:
        return like(x)
    if isinstance(low, complex) or isinstance(high, complex):
        return NotImplemented
    with plain_shapes():
        aten.hardtanh.default(x, min(low, high), max(low, high))  # refuses truth values
    return like(x)


def _loss(operands: int, keeps_first: bool = False) -> Rule:
    """mse_loss and its like: pointwise with reduction 0, else one number. `keeps_first`: the result is allocated like the first operand."""

    def rule(device: torch.device, *args: Any, **kwargs: Any) -> Any:
        tensors = args[:operands]
        reduction = args[operands] if len(args) > operands else kwargs.get("reduction", 1)
        common = promote(tensors)
        if keeps_first and all(t.shape == args[0].shape for t in tensors):
            out = like(args[0])
        else:
            dtype = args[0].dtype if keeps_first else common
            out = iterate(converted(tensors, common) if device.type == "cpu" else tensors, False, dtype)
        return out if reduction == 0 else dense((), out.dtype)

    return rule


def _native_dropout_backward(device: torch.device, grad: Tensor, mask: Tensor, scale: float) -> Tensor:
    return iterate((grad, mask), False, promote((grad, mask, scale)))


def _drawn_like(device: torch.device, x: Tensor, *_: Any, **__: Any) -> Any:
    return dense(x.shape, x.dtype) if x.is_contiguous() and x.dtype.is_floating_point else NotImplemented


def _drawn_anew(device: torch.device, x: Tensor, *others: Any, **__: Any) -> Any:
    """Draws, and gradients of draws, without a meta kernel of torch's: contiguous on processors, whatever the arguments are."""
    same = x.dtype.is_floating_point and all(o.shape == x.shape and o.dtype == x.dtype for o in others if isinstance(o, Tensor))
    return torch.empty(x.shape, dtype=x.dtype, device="meta") if same and device.type == "cpu" else NotImplemented


def _native_dropout(device: torch.device, x: Tensor, p: float, train: bool | None) -> Any:
    return like(x), like(x, torch.bool)


_FLOAT_UNARY = """acos acosh asin asinh atan atanh cos cosh digamma erf erfc erfinv exp exp2 expm1 lgamma log log10 log1p
log2 reciprocal rsqrt sigmoid sin sinc sinh sqrt tan tanh i0 special_entr special_erfcx special_i0e special_i1 special_i1e
special_log_ndtr special_ndtri"""
_SAME_UNARY = """neg ceil floor round trunc sign sgn bitwise_not relu gelu silu mish hardswish hardsigmoid
leaky_relu elu softplus softshrink hardshrink celu frac threshold positive"""
_BOOL_UNARY = "logical_not signbit isposinf isneginf isnan"
_SAME_BINARY = """fmod remainder floor_divide maximum minimum fmax fmin bitwise_and bitwise_or bitwise_xor
bitwise_left_shift bitwise_right_shift hypot gcd lcm nextafter heaviside logaddexp logaddexp2 add sub mul rsub igamma igammac"""
_FLOAT_BINARY = "div atan2 copysign xlogy special_xlog1py special_zeta"
_BOOL_BINARY = "eq ne lt le gt ge logical_and logical_or logical_xor"
_BACKWARD = {
    "gelu_backward": 2,
    "silu_backward": 2,
    "mish_backward": 2,
    "sigmoid_backward": 2,
    "tanh_backward": 2,
    "hardswish_backward": 2,
    "hardsigmoid_backward": 2,
    "hardtanh_backward": 2,
    "softplus_backward": 2,
    "softshrink_backward": 2,
    "hardshrink_backward": 2,
    "logit_backward": 2,
    "addcmul": 3,
    "addcdiv": 3,
    "lerp": 3,
}
# How many operands the operators of a name have, and the dtype of what they give. Their overloads are looked at when one is called: to
# look at all of them takes longer than a small graph's capture.
_FAMILIES: dict[str, tuple[int, DtypeOf]] = {
    **dict.fromkeys(_FLOAT_UNARY.split(), (1, as_float)),
    **dict.fromkeys(_SAME_UNARY.split(), (1, _same)),
    **dict.fromkeys(_BOOL_UNARY.split(), (1, _bool)),
    **dict.fromkeys(_SAME_BINARY.split(), (2, _same)),
    **dict.fromkeys(_FLOAT_BINARY.split(), (2, as_float)),
    **dict.fromkeys(_BOOL_BINARY.split(), (2, _bool)),
}
# integer inputs of these need rules of their own, or raise
_FLOATS_ONLY = words("gelu silu mish hardswish hardsigmoid leaky_relu elu softplus softshrink hardshrink celu frac")
_NO_BOOL = words("neg sign ceil floor round trunc relu threshold")
# Binary operators, and whether they compute in a common dtype (`None`: in any but that of truth values).
_COMMON: dict[str, Callable[[torch.dtype], bool] | None] = {
    **dict.fromkeys(words("hypot nextafter logaddexp2 igamma igammac"), lambda dtype: dtype.is_floating_point),
    **dict.fromkeys(words("logaddexp addcdiv lerp"), lambda dtype: dtype.is_floating_point or dtype.is_complex),
    "special_zeta": lambda dtype: not dtype.is_complex,
    **dict.fromkeys(words("sub rsub"), None),
}


def _guarded(name: str, rule: Rule) -> Rule:
    """Leave dtypes the kernel refuses to the meta kernel, so that the error is torch's."""
    if name in _FLOATS_ONLY:

        def floats_only(device: torch.device, x: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(x, Tensor) or not x.dtype.is_floating_point:
                return NotImplemented
            if any(isinstance(a, Tensor) and not a.dtype.is_floating_point for a in args):
                return NotImplemented
            return rule(device, x, *args, **kwargs)

        return floats_only
    if name in _NO_BOOL:

        def no_bool(device: torch.device, x: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(x, Tensor) or x.dtype is torch.bool or x.dtype.is_complex:
                return NotImplemented
            return rule(device, x, *args, **kwargs)

        return no_bool
    if name in _COMMON:
        computes = _COMMON[name]

        def in_common(device: torch.device, *args: Any, **kwargs: Any) -> Any:
            tensors = [a for a in args if isinstance(a, Tensor)]
            if not tensors or not isinstance(args[0], Tensor):
                return NotImplemented
            refused = any(t.dtype is torch.bool for t in tensors) if computes is None else not computes(promote(tensors))
            if refused or (name == "addcdiv" and not any(map(_is_inexact, tensors[1:]))):
                return NotImplemented
            return rule(device, *args, **kwargs)

        return in_common
    return rule


def _is_inexact(t: Tensor) -> bool:
    return t.dtype.is_floating_point or t.dtype.is_complex


def _is_functional(op: Any) -> bool:
    return len(op._schema.returns) == 1 and not writes_of(op)


def _family_rule(name: str, op: Any) -> Rule | None:
    """Of an operator without a row of its own, by its name."""
    if name in _BACKWARD:
        return _guarded(name, _op(_BACKWARD[name], _same)) if _is_functional(op) else None
    if name in _FAMILIES:
        count, dtype_of = _FAMILIES[name]
        fits = _is_functional(op) and len(op._schema.arguments) >= count and not _is_mode(op)
        return _guarded(name, _op(count, dtype_of)) if fits else None
    written = name.removesuffix("_")
    return _in_place(*_FAMILIES[written]) if written != name and written in _FAMILIES else None


def _is_mode(op: Any) -> bool:
    return any(a.name in ("rounding_mode", "decimals") for a in op._schema.arguments)


def rule_of(op: Any) -> Rule | None:
    return ROWS.get(op) or _family_rule(aten_name(op), op)


ROWS: dict[Any, Rule] = {
    aten.abs.default: _op(1, _real),
    aten.angle.default: _angle,
    aten.deg2rad.default: _into_like(as_float),
    aten.rad2deg.default: _into_like(as_float),
    aten.logit.default: _iterated_as_float,
    aten.nan_to_num.default: _into_like(_same),
    aten._prelu_kernel.default: _into_like(_same),
    aten.frexp.Tensor: _frexp,
    aten.isinf.default: _isinf,
    aten.polygamma.default: _polygamma,
    aten.round.decimals: _iterated_floats,
    aten.elu_backward.default: _elu_backward,
    aten.log_sigmoid_backward.default: _into_like(_same),
    aten.lerp.Scalar: _guarded("lerp", _lerp_by_number),
    aten.rsub.Tensor: _guarded("rsub", _reversed),
    aten.threshold_backward.default: _reversed,
    aten.leaky_relu_backward.default: _reversed,
    aten.where.self: _where,
    aten.div.Tensor_mode: _div_mode,
    aten.div.Scalar_mode: _div_mode,
    aten.clamp.default: _clamp,
    aten.clamp.Tensor: _clamp,
    aten.clamp_min.default: _clamp,
    aten.clamp_min.Tensor: _clamp,
    aten.clamp_max.default: _clamp,
    aten.clamp_max.Tensor: _clamp,
    aten.pow.Tensor_Scalar: _pow_tensor,
    aten.pow.Scalar: _pow_scalar,
    aten.pow.Tensor_Tensor: _op(2, _same),
    aten.pow_.Scalar: _in_place(1, _same),
    aten.ldexp.Tensor: _ldexp,
    aten.hardtanh.default: _hardtanh,
    aten.complex.default: _complex,
    aten.polar.default: _complex,
    aten.masked_fill.Scalar: _masked_fill,
    aten.masked_fill.Tensor: _masked_fill,
    aten.mse_loss.default: _loss(2),
    aten.smooth_l1_loss.default: _loss(2),
    aten.huber_loss.default: _loss(2, keeps_first=True),
    aten.native_dropout.default: _native_dropout,
    aten.bernoulli.p: _drawn_like,
    aten.bernoulli.default: _drawn_like,
    **dict.fromkeys((aten._sample_dirichlet.default, aten.binomial.default, aten._standard_gamma.default), _drawn_anew),
    aten.poisson.default: _drawn_anew,
    **dict.fromkeys((aten._dirichlet_grad.default, aten._standard_gamma_grad.default), _drawn_anew),
    aten.native_dropout_backward.default: _native_dropout_backward,
}
