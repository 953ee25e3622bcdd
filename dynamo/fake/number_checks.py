"""Numbers that eager's kernels convert to a type of their own, and refuse where that type holds no such number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynamo.ops.facts import aten_name
from dynamo.ops.rows import words
from dynamo.torch_facts import CLAMP_TAKES_FAR_BOUNDS

Tensor = torch.Tensor
Check = Callable[..., None]


def require(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(message)


# Operators that bring both operands, of which one may be a number, to one type.
_PAIRS = words(
    """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign div floor_divide fmax fmin fmod gcd
    ge gt hypot igamma igammac lcm le logaddexp logaddexp2 lt maximum minimum mul nextafter remainder rsub special_xlog1py special_zeta
    sub xlogy"""
)
# Other operands that are. Of an operator without a row, the type of the first tensor counts.
_PROMOTED = {
    **dict.fromkeys(_PAIRS, "self other"),
    "addcdiv": "tensor1 tensor2",
    "addcmul": "tensor1 tensor2",
    "addr": "vec1 vec2",
    "bucketize": "boundaries",
    "clamp": "min max",
    "clamp_max": "max scalar",
    "clamp_min": "min scalar",
    "mse_loss": "target",
    "pow": "self exponent",
    "smooth_l1_loss": "target",
}


def promotion(op: Any) -> Callable[[Tensor, Sequence[Any], dict[str, Any]], torch.dtype]:
    """Of the first tensor, the arguments and the keywords of a call of `op`, the type that its operands are brought to."""
    places = places_of(op, _PROMOTED)

    def promoted(first: Tensor, args: Sequence[Any], kwargs: dict[str, Any]) -> torch.dtype:
        dtype = first.dtype
        for position, name in places:
            operand = args[position] if position < len(args) else kwargs.get(name)
            if operand is not None:
                known = operand if isinstance(operand, Tensor) else type(operand)(1)  # the kind of a number counts, not what it is
                dtype = torch.promote_types(dtype, torch.result_type(first, known))
        return dtype

    return promoted


def places_of(op: Any, rows: dict[str, str]) -> list[tuple[int, str]]:
    """Where the arguments stand that a table names for an operator and its in-place form."""
    names = rows.get(aten_name(op).removesuffix("_"), "").split()
    return [(i, a.name) for i, a in enumerate(op._schema.arguments) if a.name in names]


def holds(dtype: torch.dtype, value: Any) -> None:
    """Raises when a number is none of the type's, as storing it does."""
    if dtype.is_floating_point and type(value) in (int, float, bool):
        if abs(value) <= torch.finfo(dtype).max or (dtype.itemsize > 1 and not math.isfinite(value)):
            return
    if dtype is torch.bool or (dtype.is_complex and abs(value) < 1e4):
        return
    if not dtype.is_floating_point and not dtype.is_complex and type(value) in (int, bool):
        kind = torch.iinfo(dtype)
        if kind.min <= value <= kind.max:
            return
    with torch.utils._python_dispatch._disable_current_modes():
        torch.empty(2, dtype=dtype, device="cpu").fill_(value)


def filled(position: int, *, is_index: bool = False) -> Check:
    """The number at `position` is stored in the tensor or the size before it; single elements of 16 and 8 bits are stored unchecked."""

    def check(*args: Any, dtype: torch.dtype | None = None, **_: Any) -> None:
        if len(args) <= position or isinstance(args[position], Tensor):
            return
        value, into = args[position], args[position - 1] if position else ()
        given = next((a for a in args if isinstance(a, Tensor)), None)
        if dtype is None and given is None and type(value) is not float:
            return
        kind = dtype or (torch.get_default_dtype() if given is None else given.dtype)
        count = into.numel() if isinstance(into, Tensor) else math.prod(into)
        if is_index or count != 1 or not kind.is_floating_point or kind.itemsize > 2 or type(value) is complex:
            holds(kind, value)

    return check


# Numbers that are converted to the type of the operands, and those converted to the type that is computed in, float32 for 16 bits.
_STORED = {
    "add": "alpha",
    "addmv": "alpha beta",
    "addr": "alpha beta",
    "clamp": "min max",
    "clamp_max": "max scalar",
    "clamp_min": "min scalar",
    "constant_pad_nd": "value",
    "fill_diagonal": "fill_value",
    "hardshrink": "lambd",
    "hardtanh": "min_val max_val",
    "index_add": "alpha",
    "linspace": "start end",
    "logit": "eps",
    "logspace": "start end",
    "pow": "exponent",
    "rsub": "alpha",
    "sub": "alpha",
    "threshold": "value",
}
_COMPUTED = {
    "addbmm": "alpha beta",
    "addcdiv": "value",
    "addcmul": "value",
    "addmm": "alpha beta",
    "baddbmm": "alpha beta",
    "celu": "alpha",
    "elu": "alpha scale input_scale",
    "leaky_relu": "negative_slope",
    "lerp": "weight",
    "softplus": "beta threshold",
    "softshrink": "lambd",
    "threshold": "threshold",
}
_SCALED = frozenset({"add", "addr", "rsub", "sub"})  # these look at the kind of the number first
_LOWER_BOUNDS = {"clamp": "min", "clamp_max": "", "clamp_min": "min scalar", "hardtanh": "min_val"}  # others are upper ones
_NEGATED = frozenset({"rsub", "sub"})  # sums of the negated number
_WIDE = frozenset({torch.float32, torch.float64, torch.complex64, torch.complex128})  # the exponent of `pow` is left as it is here


def _scales(dtype: torch.dtype, value: Any) -> None:
    require(type(value) is not bool or dtype is torch.bool, "Boolean alpha only supported for Boolean results.")
    is_inexact = dtype.is_floating_point or dtype.is_complex
    require(is_inexact or type(value) is not float, "For integral input tensors, argument alpha must not be a floating point number.")
    require(dtype.is_complex or type(value) is not complex, "For non-complex input tensors, argument alpha must not be a complex number.")


def _may_bound(dtype: torch.dtype, value: Any, is_lower: bool) -> None:
    """Of integers: a bound that no number of the type meets is refused, one that all meet is none."""
    if type(value) is float:
        holds(torch.int64, value)
    kind = torch.iinfo(dtype)
    name = "min" if is_lower else "max"
    missed = value > kind.max if is_lower else value < kind.min
    require(not missed, f"Clamp {name} value {float(value):g} is outside the representable range of {_INTEGERS[dtype]}")


_INTEGERS = {torch.uint8: "Byte", torch.int8: "Char", torch.int16: "Short", torch.int32: "Int", torch.int64: "Long"}


def number_check(op: Any) -> Check | None:
    """The check of the numbers that `op` converts."""
    stored, computed = places_of(op, _STORED), places_of(op, _COMPUTED)
    if not stored and not computed:
        return None
    promoted, family = promotion(op), aten_name(op).removesuffix("_")

    def check(*args: Any, **kwargs: Any) -> None:
        first = next((a for a in args if isinstance(a, Tensor)), None)
        for places, is_stored in ((stored, True), (computed, False)):
            for position, name in places:
                value: Any = args[position] if position < len(args) else kwargs.get(name)
                if type(value) not in _NUMBERS:
                    continue
                dtype = promoted(first, args, kwargs) if first is not None else kwargs.get("dtype") or torch.get_default_dtype()
                if family in _SCALED:
                    _scales(dtype, value)
                is_bound = CLAMP_TAKES_FAR_BOUNDS and family in _LOWER_BOUNDS and dtype in _INTEGERS
                if is_bound and type(value) is not complex and value == value:
                    _may_bound(dtype, value, name in _LOWER_BOUNDS[family].split())
                elif family != "pow" or dtype not in _WIDE:
                    holds(torch.float32 if not is_stored and dtype in _SHORT else dtype, -value if family in _NEGATED else value)

    return check


_NUMBERS = frozenset({bool, int, float, complex})
_SHORT = frozenset({torch.float16, torch.bfloat16})
