"""int, float, complex, bool, bytes: constructors, arithmetic of constants, math, and the numeric builtins."""

from __future__ import annotations

import cmath
import math
import types
from typing import TYPE_CHECKING, Any

from dynamo.inspection import c_name
from dynamo.symbolic.protocols.attributes import MISSING, tx_call
from dynamo.symbolic.protocols.calls import call, fold
from dynamo.symbolic.protocols.changing import computed
from dynamo.symbolic.protocols.containers import index_of, is_iterable, size_of, subscript_of
from dynamo.symbolic.protocols.iteration import unpack_iterable
from dynamo.symbolic.protocols.operators import binary, special, truth
from dynamo.symbolic.protocols.registry import FUNCTIONS, METHODS, pure
from dynamo.symbolic.protocols.rows import inlined, on_class, on_function
from dynamo.symbolic.python import polyfills
from dynamo.symbolic.values.kinds import NOT_IMPLEMENTED, BuiltinValue, Const, ObjectValue, OpaqueValue, TensorValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

SCALAR_TYPES = (int, float, complex, bool, str, bytes, type(None), range, type(Ellipsis), type(NotImplemented))
_BINARY = frozenset(
    "add sub mul truediv floordiv mod divmod pow lshift rshift and or xor matmul radd rsub rmul rtruediv rfloordiv rmod rdivmod rpow"  # noqa: SIM905  # a list of words
    " rlshift rrshift rand ror rxor eq ne lt le gt ge".split()
)


_METHOD_KINDS = (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType)


def _binary_row(raw: Any) -> Any:
    def row(tx: Tracer, self: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Constants are computed; anything unknown is left to the other operand, as C types do."""
        if any(isinstance(a, TensorValue) for a in args):
            return NOT_IMPLEMENTED
        result = fold(tx, raw, [self, *args], kwargs)
        if result is None and args and raw.__objclass__ in (str, bytes):  # the slots of sequences refuse by themselves
            name = c_name(args[0].cls)
            if raw.__name__ == "__add__":
                text = f'can only concatenate str (not "{name}") to str' if raw.__objclass__ is str else f"can't concat {name} to bytes"
                raise tx.throw(TypeError, text)
            if raw.__name__ in ("__mul__", "__rmul__"):
                return tx_call(tx, BuiltinValue(raw), [self, Const(subscript_of(tx, args[0], OverflowError))])
        return NOT_IMPLEMENTED if result is None else result

    return row


for _cls in SCALAR_TYPES:
    for _name, _raw in vars(_cls).items():
        if isinstance(_raw, types.WrapperDescriptorType) and _name.strip("_") in _BINARY and _raw not in (str.__mod__, bytes.__mod__):
            METHODS.add(_raw)(_binary_row(_raw))
        elif isinstance(_raw, _METHOD_KINDS):
            pure(_raw)

pure(
    *(
        getattr(_cls, _name)
        for _cls in (int, float, str, bytes)
        for _name in ("from_bytes", "fromhex", "maketrans", "from_number")
        if hasattr(_cls, _name)
    )
)
pure(chr, ord, bin, hex, oct)
pure(*(f for f in vars(math).values() if callable(f)), *(f for f in vars(cmath).values() if callable(f)))


# ---- constructors -----------------------------------------------------------------------------------------


def _need_value(tx: Tracer, what: str, v: Value) -> None:
    if isinstance(v, TensorValue):
        raise tx.break_("DD003", f"{what}({v.describe()})")


# What conversions insist on.
_GIVES = {"__int__": int, "__index__": int, "__float__": float, "__complex__": complex, "__bytes__": bytes}


def _convert(tx: Tracer, cls: type, names: tuple[str, ...], args: list[Value]) -> Value:
    """cls(*args), where `names` are the special methods that cls asks an argument for, in its order."""
    x = args[0] if args else None
    if isinstance(x, TensorValue) and len(args) == 1 and cls in (int, float, complex):
        return _asked(tx, x, names[0])  # a tensor made of numbers that the trace has seen is known
    for a in args:
        _need_value(tx, cls.__name__, a)
    if tx.has_numbers and cls in (int, float) and (made := computed(tx, cls, args)) is not None:
        return made
    if x is not None and ((isinstance(x, ObjectValue) and x.obj is None) or tx.try_python(x) is None):
        return _through_methods(tx, cls, names, x)
    return _of_constants(tx, cls, args)


def _asked(tx: Tracer, v: Value, name: str) -> Value:
    """What a special method that the value has gives."""
    found = special(tx, v, name)
    assert found is not None
    return found


def _through_methods(tx: Tracer, cls: type, names: tuple[str, ...], x: Value) -> Value:
    for name in names:
        if tx.lookup(x.cls, name) is not MISSING:
            found = _asked(tx, x, name)
            if found.cls is not _GIVES.get(name, found.cls):
                raise tx.break_("DD009", f"{name} that gives {found.describe()}")
            if (result := fold(tx, cls, [found], {})) is not None:
                return result
    return _refuse(tx, cls, x)


def _of_constants(tx: Tracer, cls: type, args: list[Value]) -> Value:
    if cls is not bool and any(cls is not base and issubclass(cls, base) for base in (int, float, complex, bytes)):
        raise tx.break_("DD005", f"{cls.__name__}()")
    folded = fold(tx, cls, args, {})
    if folded is None:
        raise tx.break_("DD005", f"{cls.__name__}({args[0].describe() if args else ''})")
    return folded


def _refuse(tx: Tracer, cls: type, v: Value) -> Value:
    if isinstance(v, ObjectValue) and not isinstance(v, OpaqueValue) and not issubclass(v.cls, str | bytes):
        wanted = {
            "int": "int() argument must be a string, a bytes-like object or a real number",
            "float": "float() argument must be a string or a real number",
            "complex": "complex() first argument must be a string or a number",
        }.get(cls.__name__)
        if wanted is not None:
            raise tx.throw(TypeError, f"{wanted}, not '{c_name(v.cls)}'")
    raise tx.break_("DD005", f"{cls.__name__}({v.describe()})")


@on_class(int, "x? | base?")
def _make_int(tx: Tracer, cls: type, x: Value | None, base: Value | None) -> Value:
    if x is not None and base is not None and not issubclass(x.cls, str | bytes | bytearray):
        of = index_of(tx, base)
        if of != 0 and not 2 <= of <= 36:
            raise tx.throw(ValueError, "int() base must be >= 2 and <= 36, or 0")
        raise tx.throw(TypeError, "int() can't convert non-string with explicit base")
    return _convert(tx, cls, ("__int__", "__index__", "__trunc__"), [v for v in (x, base) if v is not None])


@on_class(float, "x?")
def _make_float(tx: Tracer, cls: type, x: Value | None) -> Value:
    return _convert(tx, cls, ("__float__", "__index__"), [x] if x is not None else [])


@on_class(complex, "| real? imag?")
def _make_complex(tx: Tracer, cls: type, real: Value | None, imag: Value | None) -> Value:
    return _convert(tx, cls, ("__complex__", "__float__", "__index__"), [v for v in (real, imag) if v is not None])


@on_class(bool, "x?")
def _make_bool(tx: Tracer, cls: type, x: Value | None) -> Value:
    return tx.wrap(x is not None and truth(tx, x), None)


@on_class(bytes, "| source? encoding? errors?")
def _make_bytes(tx: Tracer, cls: type, source: Value | None, encoding: Value | None, errors: Value | None) -> Value:
    args = [v for v in (source, encoding, errors) if v is not None]
    if source is not None and tx.try_python(source) is None and tx.lookup(source.cls, "__bytes__") is MISSING:
        if tx.lookup(source.cls, "__index__") is not MISSING:
            args[0] = Const(size_of(tx, source))
        elif not isinstance(source, OpaqueValue):
            if not is_iterable(source):
                raise tx.throw(TypeError, f"cannot convert '{c_name(source.cls)}' object to bytes")
            args[0] = tx.make_list(unpack_iterable(tx, source))
    return _convert(tx, cls, ("__bytes__",), args)


def to_float(tx: Tracer, v: Value) -> float:
    made = _make_float(tx, float, v)
    return float(tx.as_python(made))


# ---- builtins ---------------------------------------------------------------------------------------------


@on_function(abs, "x")
def _abs(tx: Tracer, x: Value) -> Value:
    return _through(tx, abs, "__abs__", x, "bad operand type for abs(): '{}'")


def _through(tx: Tracer, fn: Any, name: str, x: Value, complaint: str, *more: Value) -> Value:
    if isinstance(x, Const):
        found = (computed(tx, fn, [x, *more]) if tx.has_numbers else None) or fold(tx, fn, [x, *more], {})
        if found is None:
            raise tx.break_("DD005", f"{fn.__name__}() with {more[0].describe()}")
        return found
    if isinstance(x, TensorValue) and fn is abs:
        return tx.call_function(fn, [x], {})
    result = special(tx, x, name, *more)
    if result is None:
        raise tx.throw(TypeError, complaint.format(c_name(x.cls)))
    return result


@on_function(round, "| number ndigits?")
def _round(tx: Tracer, x: Value, ndigits: Value | None) -> Value:
    more = [] if ndigits is None or (isinstance(ndigits, Const) and ndigits.value is None) else [ndigits]
    return _through(tx, round, "__round__", x, "type {} doesn't define __round__ method", *more)


@on_function(divmod, "x y")
def _divmod(tx: Tracer, x: Value, y: Value) -> Value:
    if isinstance(x, Const) and isinstance(y, Const):
        found = fold(tx, divmod, [x, y], {})
        assert found is not None
        return found
    for v, name, other in ((x, "__divmod__", y), (y, "__rdivmod__", x)):
        result = special(tx, v, name, other)
        if result is not None and not (isinstance(result, Const) and result.value is NotImplemented):
            return result
    raise tx.throw(TypeError, f"unsupported operand type(s) for divmod(): '{c_name(x.cls)}' and '{c_name(y.cls)}'")


@on_function(pow, "| base exp mod?")
def _pow(tx: Tracer, base: Value, exp: Value, mod: Value | None) -> Value:
    if mod is None or (isinstance(mod, Const) and mod.value is None):
        return binary(tx, "**", base, exp)
    folded = fold(tx, pow, [base, exp, mod], {})
    if folded is None:
        raise tx.break_("DD005", "pow() with three arguments")
    return folded


# ---- math -------------------------------------------------------------------------------------------------


def _math_row(fn: Any, protocol: tuple[str, ...]) -> None:
    def row(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        for a in args:
            _need_value(tx, f"math.{fn.__name__}", a)
        if tx.has_numbers and not kwargs and (made := computed(tx, fn, args)) is not None:
            return made
        if args and tx.try_python(args[0]) is None:
            if fn in _POLYFILLS:
                return inlined(tx, _POLYFILLS[fn], args, kwargs)
            name = next((n for n in protocol if tx.lookup(args[0].cls, n) is not MISSING), None)
            if protocol == ("__index__",):
                return call(tx, BuiltinValue(fn), [Const(index_of(tx, a)) for a in args], kwargs)
            if name == "__float__":
                return call(tx, BuiltinValue(fn), [_make_float(tx, float, args[0]), *args[1:]], kwargs)
            if name is not None:
                return _asked(tx, args[0], name)
            if fn in _OF_MANY and tx.lookup(args[0].cls, "__iter__") is not MISSING:
                args = [tx.make_list(unpack_iterable(tx, args[0])), *args[1:]]
        folded = fold(tx, fn, args, kwargs)
        if folded is None:
            if fn in _POLYFILLS:
                return inlined(tx, _POLYFILLS[fn], args, kwargs)
            raise tx.break_("DD005", f"math.{fn.__name__}")
        return folded

    FUNCTIONS.add(fn)(row)


_PROTOCOLS: dict[Any, tuple[str, ...]] = {
    math.floor: ("__floor__", "__float__"),
    math.ceil: ("__ceil__", "__float__"),
    math.trunc: ("__trunc__",),
    **dict.fromkeys((math.factorial, math.gcd, math.lcm, math.comb, math.perm, math.isqrt), ("__index__",)),
}
_POLYFILLS: dict[Any, Any] = {math.prod: polyfills.prod}
_OF_MANY = [getattr(math, name) for name in ("fsum", "prod", "dist", "sumprod") if hasattr(math, name)]  # sumprod since 3.12
for _fn in [f for f in vars(math).values() if isinstance(f, types.BuiltinFunctionType)]:
    _math_row(_fn, _PROTOCOLS.get(_fn, ("__float__",)))
