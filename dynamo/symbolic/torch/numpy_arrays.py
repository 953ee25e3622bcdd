"""NumPy's arrays while tracing: an array is a tensor of the graph, a call of NumPy a node that computes with tensors.

What a call gives (an array or a number, its dtype and shape, whose memory) is asked of NumPy itself, with stand-ins for the arrays: zeros
for integers, ones for the rest. A call that raises on them, and anything that has no row here, is a break.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynamo.graph import numpy_calls
from dynamo.source import Source
from dynamo.surroundings.signals import let_through
from dynamo.symbolic.protocols.operators import fold_numpy
from dynamo.symbolic.protocols.registry import FUNCTIONS, GETSETS, METHODS
from dynamo.symbolic.protocols.wrap import ROWS
from dynamo.symbolic.values.kinds import (
    NOT_IMPLEMENTED,
    ArrayValue,
    ClassValue,
    Const,
    IterValue,
    ListValue,
    OpaqueValue,
    SliceValue,
    TensorValue,
    TupleValue,
    Value,
)
from dynamo.symbolic.values.numpy_types import NUMBERS, has_numbers, np

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

    Args = list[Value]
    Kwargs = dict[str, Value]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# ---- arrays that come in ----------------------------------------------------------------------------------


def wrap_array(tx: Tracer, a: Any, source: Source | None) -> Value:
    """The value of a real array: an input of the graph, by way of a tensor over its memory."""
    made = numpy_calls.tensor_of(a) if source is not None and not tx.arrays_written else None
    if made is None or source is None:
        if source is not None:
            tx.guard(source, "type", type(a))
        return OpaqueValue(type(a), a, source)
    t = tx.add_input(made, source.step("call", numpy_calls.tensor_of), baked=False)
    if not isinstance(t, TensorValue):
        return OpaqueValue(type(a), a, source)
    tx.guard(source, "type", type(a))
    v = ArrayValue(type(a), t, a, source)
    tx.arrays.append(v)
    return v


def _memory(t: TensorValue) -> int:
    return int(t.fake.untyped_storage()._cdata)


def _is_input(tx: Tracer, t: TensorValue) -> bool:
    return any(_memory(v.tensor) == _memory(t) for v in tx.arrays)


# ---- NumPy's own answer -----------------------------------------------------------------------------------


def _stand_in(tx: Tracer, v: Value) -> Any:
    if isinstance(v, ArrayValue):
        f = v.tensor.fake
        value = 0 if f.dtype.is_complex is False and not f.dtype.is_floating_point and f.dtype is not torch.bool else 1
        real = torch.empty_strided(f.shape, f.stride(), dtype=f.dtype).fill_(value)
        return real.numpy() if v.cls is np.ndarray else real.numpy()[()]
    if isinstance(v, ListValue | TupleValue) and v.cls in (list, tuple):
        return v.cls(_stand_in(tx, x) for x in tx.items(v.items))
    if isinstance(v, SliceValue):
        return slice(*(_stand_in(tx, x) for x in v.parts))
    known = tx.try_python(v) if v.cls is not np.ndarray else None  # the contents of an array that has no tensor may change
    if known is None:
        raise tx.break_("DD006", f"{v.describe()} beside an array")
    return known[0]


def _asked(tx: Tracer, what: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the call gives for stand-ins."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return fn(*args, **kwargs)
        except Exception as e:  # whatever NumPy raises here it raises in eager, or the stand-ins don't fit
            let_through(e)
            raise tx.break_("DD009", f"{what}: {type(e).__name__}: {e}", cause=e) from e


def _dtype(tx: Tracer, d: Any) -> torch.dtype:
    try:
        return torch.from_numpy(np.empty(0, d)).dtype
    except TypeError as e:
        raise tx.break_("DD010", f"dtype {d}") from e


def _graph_argument(tx: Tracer, v: Value) -> Any:
    if isinstance(v, ArrayValue):
        return tx.builder.node_here(v.tensor.node)
    if isinstance(v, ListValue | TupleValue):
        return v.cls(_graph_argument(tx, x) for x in tx.items(v.items))
    if isinstance(v, SliceValue):
        return slice(*(_graph_argument(tx, x) for x in v.parts))
    if isinstance(v, ClassValue) and (v.obj in NUMBERS or v.obj in (float, int, bool, complex)):
        return _dtype(tx, v.obj)
    if isinstance(v, Const) and isinstance(v.value, np.dtype):
        return _dtype(tx, v.value)
    return tx.to_fx(v)


def _call(tx: Tracer, what: str, fn: Callable[..., Any], target: Any, args: Args, kwargs: Kwargs) -> Value:
    """A node for `fn(*args, **kwargs)` of NumPy that computes with `target`, and its result as NumPy gives it."""
    reals = [_stand_in(tx, v) for v in args], {k: _stand_in(tx, v) for k, v in kwargs.items()}
    expected = _asked(tx, what, fn, tuple(reals[0]), reals[1])
    fx_args = tuple(_graph_argument(tx, v) for v in args)
    fx_kwargs = {k: _graph_argument(tx, v) for k, v in kwargs.items()}
    out = tx.builder.propagate("call_function", target, fx_args, fx_kwargs)
    if not isinstance(out, torch.Tensor):
        raise tx.break_("DD010", f"{what} gives a {type(out).__name__}")
    made = tx.wrap_output(tx.add_node("call_function", target, fx_args, fx_kwargs, out), out)
    assert isinstance(made, TensorValue)
    given = [(v, real) for v, real in zip(args, reals[0], strict=True) if isinstance(v, ArrayValue)]
    return _settled(tx, what, made, expected, given)


def _settled(tx: Tracer, what: str, made: TensorValue, expected: Any, given: list[tuple[ArrayValue, Any]]) -> Value:
    """The result with NumPy's dtype, layout and aliasing."""
    cls = type(expected)
    if cls is not (np.ndarray) and cls not in NUMBERS:
        raise tx.break_("DD010", f"{what} gives a {cls.__name__}")
    if tuple(made.fake.shape) != expected.shape:
        raise tx.break_("DD009", f"{what}: shape {tuple(made.fake.shape)} instead of {expected.shape}")
    kind = _dtype(tx, expected.dtype)
    if made.fake.dtype != kind:
        made = _tensor(tx.call_method("to", [made, Const(kind)], {}))
    for v, real in given:
        shared = cls is np.ndarray and isinstance(real, np.ndarray) and bool(np.may_share_memory(expected, real))
        if shared != (_memory(v.tensor) == _memory(made)):
            if shared:
                raise tx.break_("DD009", f"{what}: a view in NumPy, new memory in torch")
            made = _tensor(tx.call_method("clone", [made], {}))
    strides = [s // expected.itemsize for s, n in zip(expected.strides, expected.shape, strict=True) if n > 1]
    if expected.size and strides != [s for s, n in zip(made.fake.stride(), expected.shape, strict=True) if n > 1]:
        if not expected.flags.c_contiguous:
            raise tx.break_("DD009", f"{what}: another layout")
        made = _tensor(tx.call_method("clone", [made], {"memory_format": Const(torch.contiguous_format)}))
    return ArrayValue(cls, made)


def _tensor(v: Value) -> TensorValue:
    assert isinstance(v, TensorValue)
    return v


# ---- ufuncs -----------------------------------------------------------------------------------------------

_SAME = """
negative positive exp exp2 expm1 log log2 log10 log1p sqrt square sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh
arctanh arctan2 hypot maximum minimum fmax fmin floor ceil trunc isnan isinf isfinite signbit logical_and logical_or logical_xor
logical_not bitwise_and bitwise_or bitwise_xor greater greater_equal less less_equal not_equal add subtract multiply copysign matmul
logaddexp logaddexp2 deg2rad rad2deg
"""
_OTHERS = {"equal": torch.eq, "divide": torch.true_divide, "absolute": torch.abs, "invert": torch.bitwise_not, "rint": torch.round}
_UFUNCS: dict[str, Any] = {name: getattr(torch, name) for name in _SAME.split()} | _OTHERS
_UFUNCS["power"] = torch.pow
_TAKE_NUMBERS = frozenset(
    ["add", "subtract", "multiply", "divide", "power", "equal", "not_equal", "greater", "greater_equal", "less", "less_equal"]
)


def ufunc(tx: Tracer, fn: OpaqueValue, args: Args, kwargs: Kwargs) -> Value:
    """`np.sin(a)`: operands are converted to the types of NumPy's loop first."""
    u = fn.obj
    name = u.__name__
    if u not in _ufuncs() or kwargs or len(args) != u.nin or not all(isinstance(a, ArrayValue | Const) for a in args):
        raise tx.break_("DD005", f"numpy.{name}")
    if all(isinstance(a, Const) for a in args):
        return fold_numpy(tx, u, [a.value for a in args if isinstance(a, Const)])
    reals = [_stand_in(tx, a) for a in args]
    kinds = [type(r) if type(r) in (int, float, complex) else np.asarray(r).dtype for r in reals]
    loop = _asked(tx, f"numpy.{name}", u.resolve_dtypes, ((*kinds, None),), {})[: u.nin]
    if name == "power" and loop[0].kind not in "fc":
        raise tx.break_("DD005", "numpy.power of integers")
    expected = _asked(tx, f"numpy.{name}", u, tuple(reals), {})
    operands: list[Value] = []
    for a, kind in zip(args, loop, strict=True):
        dtype = _dtype(tx, kind)
        if isinstance(a, ArrayValue):
            same = a.tensor.fake.dtype == dtype
            operands.append(a.tensor if same else tx.call_method("to", [a.tensor, Const(dtype)], {}))
        elif name in _TAKE_NUMBERS and kind.kind != "b":
            operands.append(Const(a.value.item() if isinstance(a.value, np.generic) else a.value))  # type: ignore[attr-defined]  # a Const
        else:
            operands.append(tx.call_function(torch.full, [tx.make_tuple([]), Const(np.asarray(a.value).item())], {"dtype": Const(dtype)}))  # type: ignore[attr-defined]  # same
    made = _tensor(tx.call_function(_UFUNCS[name], operands, {}))
    return _settled(tx, f"numpy.{name}", made, expected, [(a, r) for a, r in zip(args, reals, strict=True) if isinstance(a, ArrayValue)])


@functools.cache
def _ufuncs() -> frozenset[Any]:
    return frozenset(getattr(np, name) for name in _UFUNCS)


_OPERATORS: dict[str, str] = {
    **{f"__{n}__": u for n, u in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "divide"), ("pow", "power"))},
    **{f"__{n}__": u for n, u in (("matmul", "matmul"), ("and", "bitwise_and"), ("or", "bitwise_or"), ("xor", "bitwise_xor"))},
    **{f"__{n}__": u for n, u in (("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal"))},
    **{f"__{n}__": u for n, u in (("eq", "equal"), ("ne", "not_equal"))},
    **{f"__{n}__": u for n, u in (("neg", "negative"), ("pos", "positive"), ("abs", "absolute"), ("invert", "invert"))},
}


def _operator(tx: Tracer, name: str, self_: Value, rest: Args) -> Value | None:
    """A special method that is a ufunc; None = it is none."""
    plain, reflected, inplace = name, False, False
    if name not in _OPERATORS and name.startswith("__r"):
        plain, reflected = "__" + name[3:], True
    elif name not in _OPERATORS and name.startswith("__i"):
        plain, inplace = "__" + name[3:], True
    if plain not in _OPERATORS:
        return None
    if len(rest) > 1 or not all(isinstance(v, ArrayValue | Const) for v in rest):
        raise tx.break_("DD006", f"{name} of an array and {rest[0].describe()}")
    operands = [*rest, self_] if reflected else [self_, *rest]
    u = getattr(np, _OPERATORS[plain])
    if not inplace:
        return ufunc(tx, OpaqueValue(np.ufunc, u), operands, {})
    return _write(tx, getattr(operator, plain.replace("__", "__i", 1)), self_, rest, u)


def _write(tx: Tracer, inplace: Callable[..., Any], self_: Value, rest: Args, u: Any) -> Value:
    """`a += b`. NumPy says whether the result may be cast back."""
    if not isinstance(self_, ArrayValue) or self_.cls is not np.ndarray:
        return NOT_IMPLEMENTED
    target = _writable(tx, self_)
    _asked(tx, f"in-place numpy.{u.__name__}", inplace, (_stand_in(tx, self_), *(_stand_in(tx, v) for v in rest)), {})
    result = ufunc(tx, OpaqueValue(np.ufunc, u), [self_, *rest], {})
    assert isinstance(result, ArrayValue)
    tx.call_method("copy_", [target, result.tensor], {})
    return self_


def _writable(tx: Tracer, v: ArrayValue) -> TensorValue:
    """Arrays that come in may share memory in ways that tensors over them don't show: only NumPy writes there."""
    if v.cls is not np.ndarray or _is_input(tx, v.tensor):
        raise tx.break_("DD015", "an item of an array that came in")
    return v.tensor


# ---- methods ----------------------------------------------------------------------------------------------

_METHOD_CALLS = _words(
    """
    sum mean std var prod any all argmax argmin cumsum cumprod clip reshape ravel flatten transpose swapaxes squeeze copy astype
    dot trace diagonal round
    """
)
_RENAMED = {"max": numpy_calls.amax, "min": numpy_calls.amin}
_TARGETS: dict[str, Any] = {name: getattr(numpy_calls, name) for name in _METHOD_CALLS} | _RENAMED


def array_method(tx: Tracer, raw: Any, self_: Value, rest: Args, kwargs: Kwargs) -> Value:
    """A C method of an array or of a NumPy number in the graph, or of a number beside one."""
    name = raw.__name__
    if not isinstance(self_, ArrayValue) and not (isinstance(self_, Const) and self_.cls in NUMBERS):
        if isinstance(self_, Const) and name.startswith("__") and name.endswith("__"):
            return NOT_IMPLEMENTED  # the array's reflected method is asked
        raise tx.break_("DD006", f"{name} of {self_.describe()} with an array")
    found = _operator(tx, name, self_, rest) if not kwargs else None
    if found is not None:
        return found
    row = _SPECIAL.get(name)
    if row is not None and isinstance(self_, ArrayValue):
        return row(tx, self_, rest, kwargs)
    target = _TARGETS.get(name)
    if target is None or not isinstance(self_, ArrayValue):
        raise tx.break_("DD003" if name in _READS else "DD005", f"{self_.cls.__name__}.{name}")
    return _call(tx, f"{self_.cls.__name__}.{name}", raw, target, [self_, *rest], kwargs)


_READS = _words(
    """
    item tolist tobytes __bool__ __int__ __float__ __complex__ __index__ __repr__ __str__ __format__ __contains__
    """
)


def _getitem(tx: Tracer, self_: ArrayValue, rest: Args, kwargs: Kwargs) -> Value:
    return _call(tx, "an item of an array", operator.getitem, operator.getitem, [self_, _key(tx, rest[0])], {})


def _key(tx: Tracer, key: Value) -> Value:
    """An index without booleans, whose result's shape would depend on data."""
    parts = tx.items(key.items) if isinstance(key, TupleValue) else [key]
    for p in parts:
        if isinstance(p, ArrayValue) and p.tensor.fake.dtype == torch.bool:
            raise tx.break_("DD003", "a mask of an array")
        if isinstance(p, Const) and isinstance(p.value, bool | np.bool_):
            raise tx.break_("DD005", "a truth value as index of an array")
    return key


def _setitem(tx: Tracer, self_: ArrayValue, rest: Args, kwargs: Kwargs) -> Value:
    key, value = rest
    target = _writable(tx, self_)
    if not isinstance(value, Const | ArrayValue):
        raise tx.break_("DD015", f"an item of an array to {value.describe()}")
    reals = [_stand_in(tx, v) for v in (self_, _key(tx, key), value)]
    _asked(tx, "an item of an array", operator.setitem, tuple(reals), {})
    given = value.tensor if isinstance(value, ArrayValue) else Const(np.asarray(value.value).item())
    if isinstance(value, ArrayValue) and value.tensor.fake.dtype != target.fake.dtype:
        given = _tensor(tx.call_method("to", [given, Const(target.fake.dtype)], {}))
    fx = (tx.builder.node_here(target.node), _graph_argument(tx, key), tx.to_fx(given))
    tx.builder.propagate("call_function", operator.setitem, fx, {})
    tx.add_node("call_function", operator.setitem, fx, {}, None)
    return Const(None)


def _length(tx: Tracer, self_: ArrayValue, rest: Args, kwargs: Kwargs) -> Value:
    if not self_.tensor.fake.dim():
        raise tx.throw(TypeError, "len() of unsized object")
    return Const(int(self_.tensor.fake.shape[0]))


def _iterator(tx: Tracer, self_: ArrayValue, rest: Args, kwargs: Kwargs) -> Value:
    if not self_.tensor.fake.dim():
        raise tx.throw(TypeError, "iteration over a 0-d array")
    at, n = [0], int(self_.tensor.fake.shape[0])

    def step() -> Value:
        if at[0] >= n:
            raise StopIteration
        at[0] += 1
        return _getitem(tx, self_, [Const(at[0] - 1)], {})

    return IterValue(tx, type(iter(())), step)


_SPECIAL: dict[str, Callable[[Tracer, ArrayValue, Args, Kwargs], Value]] = {
    "__getitem__": _getitem,
    "__setitem__": _setitem,
    "__len__": _length,
    "__iter__": _iterator,
}


# ---- attributes -------------------------------------------------------------------------------------------


def _fact(name: str) -> Callable[[Tracer, ArrayValue], Value]:
    def row(tx: Tracer, v: Any) -> Value:
        if not isinstance(v, ArrayValue):
            return tx.wrap(getattr(v.value if isinstance(v, Const) else v.obj, name), None)
        real = _stand_in(tx, v)
        return tx.wrap(getattr(real, name), None)

    return row


def _view(name: str) -> Callable[[Tracer, ArrayValue], Value]:
    def row(tx: Tracer, v: Any) -> Value:
        if not isinstance(v, ArrayValue):
            return tx.wrap(getattr(v.value if isinstance(v, Const) else v.obj, name), None)
        if name == "T":
            return _call(tx, "T of an array", operator.attrgetter("T"), numpy_calls.transpose, [v], {})
        raise tx.break_("DD014", f"{name} of an array")

    return row


if np is not None:
    for _owner in (np.ndarray, np.generic):
        for _name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes", "strides"):
            GETSETS.add(_owner.__dict__[_name])(_fact(_name))
        GETSETS.add(_owner.__dict__["T"])(_view("T"))


# ---- functions --------------------------------------------------------------------------------------------

_FUNCTION_CALLS = _words(
    """
    sum mean std var prod any all argmax argmin cumsum cumprod clip where reshape ravel transpose swapaxes moveaxis expand_dims
    squeeze dot outer einsum concatenate stack vstack hstack sort roll tile zeros_like ones_like full_like trace diagonal diag
    tril triu round diff amax amin linalg.norm linalg.inv linalg.det linalg.solve array asarray copy
    """
)


def _row(fn: Any, target: Any) -> Callable[[Tracer, Args, Kwargs], Value]:
    what = f"numpy.{fn.__name__}"

    def row(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
        given = [_numpy(tx, v, [], {}) if target is numpy_calls.asarray and isinstance(v, TensorValue) else v for v in args]
        if not any(_has_array(tx, v) for v in (*given, *kwargs.values())):
            return _made(tx, what, fn, given, kwargs)
        if target in (numpy_calls.array, numpy_calls.asarray) and not isinstance(given[0], ArrayValue):
            raise tx.break_("DD005", f"{what} of arrays")
        if target is numpy_calls.asarray and len(args) == 1 and not kwargs and given[0].cls is np.ndarray:
            return given[0]
        return _call(tx, what, fn, target, given, kwargs)

    return row


def _has_array(tx: Tracer, v: Value) -> bool:
    if isinstance(v, ListValue | TupleValue):
        return any(_has_array(tx, x) for x in tx.items(v.items))
    return isinstance(v, ArrayValue)


def _made(tx: Tracer, what: str, fn: Any, args: Args, kwargs: Kwargs) -> Value:
    """An array of constants: made now, and copied by each call of the graph."""
    reals = [_stand_in(tx, v) for v in args], {k: _stand_in(tx, v) for k, v in kwargs.items()}
    real = _asked(tx, what, fn, tuple(reals[0]), reals[1])
    if type(real) is not np.ndarray or real.size > _MOST_CONSTANT or (held := numpy_calls.tensor_of(real.copy(order="K"))) is None:
        raise tx.break_("DD005", what)
    constant = tx.wrap(held, None)
    made = _tensor(tx.call_method("clone", [constant], {}))
    return _settled(tx, what, made, real, [])


_MOST_CONSTANT = 1 << 16

_MAKERS = ["zeros", "ones", "full", "eye", "arange", "linspace", "identity"]
if np is not None:
    for _path in _FUNCTION_CALLS:
        _found = functools.reduce(getattr, _path.split("."), np)
        FUNCTIONS.add(_found)(_row(_found, getattr(numpy_calls, _path.rpartition(".")[2])))
    FUNCTIONS.add(np.max)(_row(np.max, numpy_calls.amax))
    FUNCTIONS.add(np.min)(_row(np.min, numpy_calls.amin))
    for _name in _MAKERS:
        _found = getattr(np, _name)
        FUNCTIONS.add(_found)(_row(_found, None))


def dispatched(tx: Tracer, fn: OpaqueValue, args: Args, kwargs: Kwargs) -> Value:
    """A function of NumPy that its array protocol wraps."""
    row = FUNCTIONS.get(fn.obj)
    if row is None:
        raise tx.break_("DD005", f"numpy.{fn.obj.__name__}")
    result: Value = row(tx, args, kwargs)
    return result


# ---- between arrays and tensors ---------------------------------------------------------------------------


def _numpy(tx: Tracer, self_: Any, args: Args, kwargs: Kwargs) -> Value:
    """`x.numpy()`: an array over the memory of `x`. What eager refuses is left to it."""
    t, force = self_, any(tx.as_python(v) for v in (*args, *kwargs.values()))
    f = t.fake
    if f.requires_grad and force:
        t = _tensor(tx.call_method("detach", [t], {}))
        f = t.fake
    if f.requires_grad or f.device.type != "cpu" or f.is_conj() or f.is_neg() or t.cls is not torch.Tensor or f.is_inference():
        raise tx.break_("DD003", "Tensor.numpy")
    if f.dtype not in _dtypes_of_numpy():
        raise tx.break_("DD003", f"Tensor.numpy of {f.dtype}")
    return ArrayValue(np.ndarray, t)


@functools.cache
def _dtypes_of_numpy() -> frozenset[torch.dtype]:
    names = ["bool_", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64", "complex64", "complex128"]
    return frozenset(torch.from_numpy(np.empty(0, getattr(np, name))).dtype for name in names)


def _tensor_over(tx: Tracer, v: ArrayValue) -> TensorValue:
    """`torch.from_numpy(a)`. Who has the tensor may write to it: the only array that came in, or memory of the graph's own."""
    if _is_input(tx, v.tensor):
        if len(tx.arrays) > 1:
            raise tx.break_("DD005", "torch.from_numpy of one of several arrays that came in")
        tx.arrays_written = True
    return _tensor(tx.call_method("detach", [v.tensor], {}))


if np is not None:
    METHODS.add(torch._C.TensorBase.numpy)(_numpy)

    @FUNCTIONS.add(torch.from_numpy)
    def _from_numpy(tx: Tracer, args: Args, kwargs: Kwargs) -> Value:
        if len(args) != 1 or not isinstance(args[0], ArrayValue) or args[0].cls is not np.ndarray:
            raise tx.break_("DD005", "torch.from_numpy")
        return _tensor_over(tx, args[0])


def tensor_from(tx: Tracer, name: str, args: Args, kwargs: Kwargs) -> Value | None:
    """`torch.tensor`, `as_tensor` and `asarray` of an array; None for anything else."""
    if not args or not isinstance(args[0], ArrayValue):
        return None
    known = {k: tx.as_python(v) for k, v in kwargs.items()}
    device = known.pop("device", None)
    if len(args) > 1 or known.keys() - {"dtype"} or (device is not None and torch.device(device).type != "cpu"):
        raise tx.break_("DD005", f"torch.{name} of an array")
    if name != "tensor" and args[0].cls is not np.ndarray:
        raise tx.break_("DD005", f"torch.{name} of a number")
    dtype = known.get("dtype") or args[0].tensor.fake.dtype
    if name == "tensor" or dtype != args[0].tensor.fake.dtype:
        return tx.call_method("to", [args[0].tensor, Const(dtype)], {"copy": Const(True)})
    return _tensor_over(tx, args[0])


def with_dtype(tx: Tracer, fn: Any, args: Args, kwargs: Kwargs) -> Kwargs:
    """Arguments that say the dtype that a tensor takes over from NumPy's numbers: in the graph they are Python's."""
    if not args or "dtype" in kwargs or (known := tx.try_python(args[0])) is None or not has_numbers(known[0]):
        return kwargs
    try:
        return {**kwargs, "dtype": Const(fn(known[0]).dtype)}
    except (TypeError, ValueError, RuntimeError) as e:
        raise tx.throw(type(e), *e.args) from e


if np is not None:
    ROWS.append((np.ndarray, wrap_array))
