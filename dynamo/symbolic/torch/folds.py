"""Questions that torch code asks and that have one answer while tracing, or one that is known then."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import types
import warnings
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed
import torch.fx
import torch.jit
import torch.overrides
import torch.utils._python_dispatch

from dynamo.surroundings.signals import let_through
from dynamo.symbolic.protocols.attributes import tx_call
from dynamo.symbolic.protocols.operators import truth
from dynamo.symbolic.protocols.overrides import handle, has_override
from dynamo.symbolic.protocols.registry import FUNCTIONS, function
from dynamo.symbolic.protocols.tables import dict_set
from dynamo.symbolic.values.kinds import (
    FALSE,
    NONE,
    TRUE,
    Const,
    DictValue,
    FunctionValue,
    ListValue,
    MethodValue,
    TensorValue,
    TupleValue,
    Value,
)

if TYPE_CHECKING:
    from dynamo.source import Source
    from dynamo.symbolic.attempt.tracer import Tracer

    Args = list[Value]
    Kwargs = dict[str, Value]
    Row = Callable[[Tracer, Args, Kwargs], Value]


def _resolve(paths: str) -> list[Any]:
    """The objects at dotted paths below torch, each once, without those that this version of torch lacks."""
    found = []
    for path in paths.split():
        with contextlib.suppress(AttributeError):
            found.append(reduce(getattr, path.split("."), torch))
    return list({id(obj): obj for obj in found}.values())


# ---- one answer -------------------------------------------------------------------------------------------


def _always(answer: Value) -> Row:
    return lambda tx, args, kwargs: answer


_ANSWERS: tuple[tuple[Value, str], ...] = (
    (TRUE, "compiler.is_compiling compiler.is_dynamo_compiling _utils.is_compiling"),
    (FALSE, "compiler.is_exporting compiler._is_non_strict_tracing"),
    (FALSE, "jit.is_scripting jit.is_tracing _jit_internal.is_scripting _C._is_tracing"),
    (FALSE, "_C._is_torch_function_mode_enabled _C._are_functorch_transforms_active"),
    (FALSE, "fx._symbolic_trace.is_fx_tracing fx._symbolic_trace.is_fx_symbolic_tracing"),
    (FALSE, "utils._python_dispatch.is_in_torch_dispatch_mode"),
    (NONE, "_C._get_tracing_state _C._log_api_usage_once _C._log_api_usage_metadata"),
)
for _answer, _paths in _ANSWERS:
    for _found in _resolve(_paths):
        FUNCTIONS.add(_found)(_always(_answer))


# ---- answers known while tracing --------------------------------------------------------------------------


def _asked_now(fn: Callable[..., Any]) -> Row:
    def row(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
        known = tx.try_python(*args, *kwargs.values())
        if known is None:
            raise tx.break_("DD010", f"argument of {fn.__name__}")
        try:
            return tx.wrap(fn(*known[: len(args)], **dict(zip(kwargs, known[len(args) :], strict=True))), None)
        except Exception as e:  # whatever torch raises here it raises in eager
            let_through(e)
            raise tx.throw(type(e), *e.args) from e

    return row


_ASKED = """
typename get_default_device get_deterministic_debug_mode get_device_module get_float32_matmul_precision
cuda.is_available cuda.device_count cuda.current_device cuda.is_initialized cuda.get_device_capability cuda.get_device_name
cuda.is_bf16_supported cuda.get_arch_list cuda.is_current_stream_capturing cuda.amp.common.amp_definitely_not_available
cpu.is_available cpu.device_count cpu.current_device xpu.is_available xpu.device_count mps.is_available mps.device_count
mtia.is_available backends.mps.is_available backends.mps.is_built backends.cuda.is_built backends.mkldnn.is_available
backends.mkl.is_available backends.cudnn.is_available backends.cudnn.version backends.openmp.is_available
backends.opt_einsum.is_available backends.opt_einsum.get_opt_einsum
accelerator.is_available accelerator.device_count accelerator.current_accelerator accelerator.current_device_index
distributed.is_available distributed.is_initialized distributed.is_torchelastic_launched distributed.is_nccl_available
distributed.get_rank distributed.get_world_size distributed.get_backend
amp.autocast_mode.is_autocast_available amp.is_autocast_available _utils._get_available_device_type _utils._get_device_module
_utils._get_device_index
utils._foreach_utils._get_fused_kernels_supported_devices
_C._get_privateuse1_backend_name _C._infer_size broadcast_shapes
"""
for _found in _resolve(_ASKED):
    if callable(_found) and not isinstance(_found, type):
        FUNCTIONS.add(_found)(_asked_now(_found))


@FUNCTIONS.add(torch.utils._foreach_utils._get_foreach_kernels_supported_devices)
def _foreach_devices(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """Captured optimizers take their list implementation on every device: a graph of a few calls, whatever the number of parameters."""
    found = torch.utils._foreach_utils._get_foreach_kernels_supported_devices()
    return tx.wrap([*found, *({"cpu"} - set(found))], None)


# ---- overrides --------------------------------------------------------------------------------------------


def _has_override(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """Plain tensors have none."""
    members = [v for a in args for v in (tx.items(a.items) if isinstance(a, ListValue | TupleValue) else [a])]
    return TRUE if any(has_override(tx, v) for v in members) else FALSE


for _place in (torch.overrides, torch._C):
    for _prefix, _kind in itertools.product(("has", "_has"), ("", "_unary", "_variadic")):
        _found = getattr(_place, f"{_prefix}_torch_function{_kind}", None)
        if _found is not None:
            FUNCTIONS.add(_found)(_has_override)


@function(torch.overrides.handle_torch_function)
def _handle(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return handle(tx, args, kwargs)


@function(torch.is_tensor, torch.overrides.is_tensor_like)
def _is_tensor(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    (v,) = [*args, *kwargs.values()]
    return TRUE if issubclass(v.cls, torch.Tensor) else FALSE


@function(torch.is_storage)
def _is_storage(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    (v,) = [*args, *kwargs.values()]
    return TRUE if issubclass(v.cls, torch.UntypedStorage | torch.TypedStorage) else FALSE


# ---- signatures -------------------------------------------------------------------------------------------


@function(inspect.signature)
def _signature(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """Model code looks for parameters of `forward` by name."""
    if "eval_str" in kwargs:
        raise tx.break_("DD005", "inspect.signature that evaluates annotations")
    fn = args[0]
    while isinstance(fn, MethodValue) and isinstance(fn.fn, MethodValue):
        fn = fn.fn
    plain = fn.fn if isinstance(fn, MethodValue) else fn
    if isinstance(plain, FunctionValue):
        _guard_signature(tx, plain.obj, plain.source)
    if isinstance(fn, MethodValue) and isinstance(fn.fn, FunctionValue) and fn.fn.obj is not None:
        return tx.wrap(inspect.signature(types.MethodType(fn.fn.obj, object()), **_known(tx, kwargs)), None)
    known = tx.try_python(fn)
    if known is None:
        raise tx.break_("DD005", f"inspect.signature of {fn.describe()}")
    try:
        return tx.wrap(inspect.signature(known[0], **_known(tx, kwargs)), None)
    except (TypeError, ValueError) as e:
        raise tx.throw(type(e), *e.args) from e


def _guard_signature(tx: Tracer, fn: types.FunctionType | None, source: Source | None) -> None:
    """What the parameters of a function are read from, and those of the functions that it says it wraps."""
    while isinstance(fn, types.FunctionType) and source is not None:
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            tx.guard(source.attr(name), "is", getattr(fn, name))
        fn, source = vars(fn).get("__wrapped__"), source.attr("__wrapped__")


def _known(tx: Tracer, kwargs: Kwargs) -> dict[str, Any]:
    return {k: tx.as_python(v) for k, v in kwargs.items()}


# ---- TorchScript's annotations ----------------------------------------------------------------------------


@function(torch.jit.annotate)
def _annotate(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return [*args, *kwargs.values()][1]


@function(torch.jit._unwrap_optional)
def _unwrap_optional(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    (v,) = args
    if isinstance(v, Const) and v.value is None:
        raise tx.throw(AssertionError, "Unwrapping null optional")
    return v


# ---- checks -----------------------------------------------------------------------------------------------


def _checks(error: type[Exception]) -> Row:
    def row(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
        given = dict(zip(("cond", "message"), args, strict=False)) | kwargs
        cond, message = given["cond"], given.get("message", NONE)
        if isinstance(cond, TensorValue):
            raise tx.break_("DD001", cond.describe())
        if tx.as_python(cond):
            return NONE
        if isinstance(message, Const) and message.value is None:
            raise tx.throw(error, "Expected cond to be True, but got False")
        raise tx.throw(error, tx_call(tx, message, []))

    return row


for _name, _error in {
    "_check": RuntimeError,
    "_check_index": IndexError,
    "_check_value": ValueError,
    "_check_type": TypeError,
    "_check_not_implemented": NotImplementedError,
}.items():
    FUNCTIONS.add(getattr(torch, _name))(_checks(_error))


@function(torch._check_is_size)
def _check_is_size(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    given = dict(zip(("i", "message"), args, strict=False)) | kwargs
    if (text := getattr(torch._check_is_size, "__deprecated__", None)) is not None:
        tx_call(tx, tx.wrap(warnings.warn, None), [tx.wrap(text, None), tx.wrap(FutureWarning, None)])
    size, most = tx.as_python(given["i"]), tx.as_python(given.get("max", NONE))
    for holds in (size >= 0, most is None or size <= most):
        _checks(RuntimeError)(tx, [tx.wrap(holds, None), given.get("message", NONE)], {})
    return NONE


@function(torch._assert)
def _assert(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """A condition on data is checked by the running graph."""
    given = dict(zip(("condition", "message"), args, strict=False)) | kwargs
    cond, message = given["condition"], given["message"]
    if isinstance(cond, TensorValue):
        tx.add_node("call_function", torch._assert, (tx.to_fx(cond), tx.as_python(message)), {}, None)
        return NONE
    if not truth(tx, cond):
        raise tx.throw(AssertionError, message)
    return NONE


# ---- tensors in groups ------------------------------------------------------------------------------------


@function(torch._C._group_tensors_by_device_and_dtype)
def _grouped(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """Optimizers and gradient clipping sort lists of tensors by the facts of the first list's."""
    lists, with_indices = args[0], bool(tx.as_python(args[1])) if len(args) > 1 else False
    assert isinstance(lists, ListValue | TupleValue)
    rows = [tx.items(x.items) for x in tx.items(lists.items) if isinstance(x, ListValue | TupleValue)]
    groups: dict[tuple[Any, Any], list[int]] = {}
    for i, v in enumerate(rows[0]):
        if not isinstance(v, TensorValue):
            raise tx.break_("DD010", v.describe())
        groups.setdefault((v.fake.device, v.fake.dtype), []).append(i)
    out = DictValue()
    for key, where in groups.items():
        parts = tx.make_list(tx.make_list(row[i] for i in where) if row else tx.make_list([]) for row in rows)
        indices = tx.make_list(Const(i) for i in where) if with_indices else tx.make_list([])
        dict_set(tx, out, tx.wrap(key, None), tx.make_tuple([parts, indices]))
    return out
