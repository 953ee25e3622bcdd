"""Calling values: one dispatch by kind, inlining of Python functions, making instances."""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING, Any

import torch

from dynamo.bytecode.decode import decode
from dynamo.guards.kinds import Holds, payload
from dynamo.inspection import UNMADE, c_name, has_flag
from dynamo.source import const_source
from dynamo.surroundings.signals import let_through
from dynamo.symbolic.attempt.frame import Frame
from dynamo.symbolic.protocols.attributes import MISSING, getattr_, tx_call
from dynamo.symbolic.protocols.constants import is_frozen
from dynamo.symbolic.protocols.overrides import ask_method, overriding
from dynamo.symbolic.protocols.registry import CODES, CONSTRUCTORS, FUNCTIONS, METHODS, NEW, PURE
from dynamo.symbolic.protocols.tensor_numbers import refused
from dynamo.symbolic.values.errors import NotConstant
from dynamo.symbolic.values.kinds import (
    BuiltinValue,
    ClassValue,
    Const,
    DictValue,
    ExceptionValue,
    FunctionValue,
    GeneratorValue,
    Lazy,
    MethodValue,
    NumberValue,
    ObjectValue,
    OpaqueValue,
    PartialValue,
    PropertyValue,
    TensorValue,
    TupleValue,
    Value,
)
from dynamo.symbolic.values.slots import fill, slots

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer


# Calls deeper than this are left to CPython.
MAX_INLINE_DEPTH = 200


def call(tx: Tracer, fn: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`fn(*args, **kwargs)`."""
    result: Value = slots(fn).call(tx, fn, args, kwargs)
    return result


def call_method(tx: Tracer, fn: MethodValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return call(tx, fn.fn, [fn.self_, *args], kwargs)


def call_partial(tx: Tracer, fn: PartialValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return call(tx, fn.fn, [*fn.args, *args], {**fn.kwargs, **kwargs})


def call_descriptor_object(tx: Tracer, fn: PropertyValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if isinstance(fn.obj, staticmethod):
        return call(tx, tx.wrap(fn.obj.__func__, None), args, kwargs)
    return call_object(tx, fn, args, kwargs)


def call_object(tx: Tracer, fn: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Instances: by `__call__` of their class, unless calls of that class are something else to torch."""
    special = tx.above.policy.callable_object(fn)
    if special is not None:
        return special(tx, fn, args, kwargs)
    method = tx.lookup(fn.cls, "__call__")
    if method is MISSING:
        raise tx.throw(TypeError, f"'{c_name(fn.cls)}' object is not callable")
    if type(method) is types.FunctionType:
        return tx_call(tx, tx.wrap(method, const_source(method, method.__qualname__)), [fn, *args], kwargs)
    row = METHODS.get(method)
    if row is not None:
        return row(tx, fn, args, kwargs)
    raise tx.break_("DD005", fn.describe())


# ---- Python functions -------------------------------------------------------------------------------------


def call_python(tx: Tracer, fn: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if fn.obj is not None:
        handler = FUNCTIONS.get(fn.obj)
        if handler is not None:
            return handler(tx, args, kwargs)
    row = CODES.get(fn.code)
    if row is not None:
        answer: Value | None = row(tx, fn, args, kwargs)
        if answer is not None:
            return answer
    if fn.obj is not None:
        verdict = tx.above.policy.python_function(tx, fn, args, kwargs)
        if verdict is not None:
            return verdict
    return inline(tx, fn, args, kwargs)


def inline(tx: Tracer, fn: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Interpret the function's own bytecode; generators become generator values."""
    if len(tx.frames) > MAX_INLINE_DEPTH:
        raise tx.break_("DD017", fn.describe())
    frame = Frame(fn, bind(tx, fn, args, kwargs), tx.frame if tx.frames else None)
    flags = fn.code.co_flags
    if flags & inspect.CO_GENERATOR:
        return GeneratorValue(tx, frame)
    if flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise tx.break_("DD018", fn.describe())
    return tx.above.run(tx, frame)


def bind(tx: Tracer, fn: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> list[Value | Lazy | None]:
    """Slots of a new frame: CPython's argument binding, then cells and free variables left to MAKE_CELL and COPY_FREE_VARS."""
    code = fn.code
    npos, nkw = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    bound: list[Value | Lazy | None] = [None] * len(decode(code).slots)
    extra: dict[str, Value] = {}
    bound[: min(npos, len(args))] = args[:npos]
    at = npos + nkw
    if code.co_flags & inspect.CO_VARARGS:
        bound[at] = tx.make_tuple(args[npos:])
        at += 1
    elif len(args) > npos:
        raise _binding_error(tx, fn, args, kwargs)
    for name, v in kwargs.items():
        i = _index(names, name, code.co_posonlyargcount, npos + nkw)
        if i is None:
            extra[name] = v
        elif bound[i] is not None:
            raise _binding_error(tx, fn, args, kwargs)
        else:
            bound[i] = v
    if code.co_flags & inspect.CO_VARKEYWORDS:
        bound[at] = _keyword_dict(tx, extra)
    elif extra:
        raise _binding_error(tx, fn, args, kwargs)
    _fill_defaults(tx, fn, bound, args, kwargs)
    return bound


def _index(names: tuple[str, ...], name: str, start: int, stop: int) -> int | None:
    for i in range(start, stop):
        if names[i] == name:
            return i
    return None


def _keyword_dict(tx: Tracer, items: dict[str, Value]) -> DictValue:
    d = DictValue()
    for k, v in items.items():
        d.table[k] = (Const(k), v)
    return d


def _fill_defaults(tx: Tracer, fn: FunctionValue, slots: list[Value | Lazy | None], args: list[Value], kwargs: dict[str, Value]) -> None:
    code = fn.code
    npos = code.co_argcount
    if any(slots[i] is None for i in range(npos)):
        defaults = getattr_(tx, fn, "__defaults__")
        items = defaults.items if isinstance(defaults, TupleValue) else []
        for i in range(npos):
            if slots[i] is None:
                j = i - (npos - len(items))
                if j < 0:
                    raise _binding_error(tx, fn, args, kwargs)
                slots[i] = items[j]
    if any(slots[i] is None for i in range(npos, npos + code.co_kwonlyargcount)):
        kw = getattr_(tx, fn, "__kwdefaults__")
        for i in range(npos, npos + code.co_kwonlyargcount):
            if slots[i] is None:
                name = code.co_varnames[i]
                entry = kw.table.get(name) if isinstance(kw, DictValue) else None
                if entry is None:
                    raise _binding_error(tx, fn, args, kwargs)
                slots[i] = entry[1]


def _binding_error(tx: Tracer, fn: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Exception:
    """The TypeError CPython itself gives, from a twin function that is called with placeholders."""
    code = fn.code
    defaults = tx.try_python(fn.defaults) if fn.defaults is not None else None
    n = len(fn.obj.__defaults__ or ()) if fn.obj is not None else (len(defaults[0] or ()) if defaults else 0)
    cells = tuple(types.CellType(None) for _ in code.co_freevars)
    twin = types.FunctionType(code, {}, fn.name, (None,) * n, cells)
    twin.__qualname__ = fn.qualname
    if fn.obj is not None:
        twin.__kwdefaults__ = dict.fromkeys(fn.obj.__kwdefaults__ or {})
    try:
        twin(*args, **kwargs)
    except TypeError as e:
        return tx.throw(TypeError, str(e))
    return tx.break_("DD005", f"arguments of {fn.describe()}")


# ---- C functions ------------------------------------------------------------------------------------------


def call_builtin(tx: Tracer, fn: BuiltinValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    obj = fn.obj
    handler = FUNCTIONS.get(obj)
    if handler is not None:
        return handler(tx, args, kwargs)
    if isinstance(obj, types.MethodDescriptorType | types.WrapperDescriptorType):
        return call_descriptor(tx, obj, args, kwargs)
    verdict = tx.above.policy.c_function(tx, fn, args, kwargs)
    if verdict is not None:
        return verdict
    as_method = METHODS.get(tx.lookup(type(obj), "__call__"))
    if as_method is not None:
        return as_method(tx, fn, args, kwargs)
    if id(obj) in PURE:
        folded = fold(tx, obj, args, kwargs)
        if folded is not None:
            return folded
    raise tx.break_("DD005", fn.describe())


def call_descriptor(tx: Tracer, raw: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A method of a C type; args[0] is the receiver."""
    if not args:
        raise tx.throw(TypeError, f"unbound method {raw.__name__}() needs an argument")
    if raw in (str.__add__, bytes.__add__):
        args = [plain(tx, a) if issubclass(a.cls, raw.__objclass__) else a for a in args]
    elif raw.__objclass__ in _PLAIN and not (raw.__name__ in ("__mod__", "__rmod__") and raw.__objclass__ in (str, bytes)):
        takes_texts = raw.__objclass__ in (str, bytes) and raw.__name__ not in ("__getitem__", "__mul__", "__rmul__")
        seen = SCALARS_OF_C if takes_texts else _NUMBERS
        args = [plain(tx, args[0]), *(plain(tx, a) if issubclass(a.cls, seen) and raw not in _TEMPLATES else a for a in args[1:])]
    self_, rest = args[0], args[1:]
    if isinstance(self_, TensorValue) and (asked := overriding(tx, (*rest, *kwargs.values()))):
        return ask_method(tx, raw, asked, args, kwargs)
    if tx.has_numbers and any(isinstance(a, NumberValue) for a in args) and issubclass(raw.__objclass__, int | float):
        raise refused(tx, f"{raw.__objclass__.__name__}.{raw.__name__}")
    handler = None if _is_opaque_tensor(self_, raw) else METHODS.get(raw)
    if handler is not None:
        return handler(tx, self_, rest, kwargs)
    verdict = tx.above.policy.c_method(tx, raw, self_, rest, kwargs)
    if verdict is not None:
        return verdict
    if isinstance(self_, Const | TupleValue | ClassValue) or _is_immutable_c(self_) or id(raw) in PURE:
        folded = fold(tx, raw, args, kwargs)
        if folded is not None:
            return folded
    name = raw.__name__
    if raw.__objclass__ is object:
        inherited = METHODS.get(object.__dict__.get(name))
        if inherited is not None:
            return inherited(tx, self_, rest, kwargs)
    raise tx.break_("DD005", f"{raw.__objclass__.__name__}.{name} on {self_.describe()}")


SCALARS_OF_C = (int, float, complex, str, bytes)
_NUMBERS = (int, float, complex)
_PLAIN = (*SCALARS_OF_C, bool)
_TEMPLATES = (str.format, str.format_map)  # ask objects for their own text, as % does, which may give the template itself


def plain(tx: Tracer, v: Value) -> Value:
    """A number or text of a class of the program as the constant that methods of its base class see."""
    if not isinstance(v, ObjectValue) or v.obj is None or not issubclass(v.cls, SCALARS_OF_C) or is_frozen(v.obj):
        return v
    held = payload(v.obj)
    assert held is not None
    if v.source is not None and v.source.kind != "const":
        tx.guard(v.source, "pred", Holds(held[1]))
    return Const(held[1])


def _is_opaque_tensor(v: Value, method: Any) -> bool:
    """A tensor that no graph takes, asked as a tensor: rows of such methods read the fake that stands for one."""
    return isinstance(v, OpaqueValue) and issubclass(v.cls, torch.Tensor) and method.__objclass__ is torch._C.TensorBase


def _is_immutable_c(v: Value) -> bool:
    return isinstance(v, OpaqueValue) and v.cls.__module__ == "re"


def fold(tx: Tracer, fn: Any, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """Run a pure function on known objects; exceptions become exceptions of the program. None when an argument isn't known."""
    try:
        real_args = [tx.as_python(a) for a in args]
        real_kwargs = {k: tx.as_python(v) for k, v in kwargs.items()}
    except NotConstant:
        return None
    try:
        result = fn(*real_args, **real_kwargs)
    except Exception as e:  # whatever the program's own call raises is the program's exception
        let_through(e)
        raise tx.throw(type(e), *e.args) from e
    return tx.wrap(result, None)


# ---- classes ----------------------------------------------------------------------------------------------


def call_class(tx: Tracer, fn: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    cls = fn.obj
    handler = CONSTRUCTORS.get(cls)
    if handler is not None:
        return handler(tx, cls, args, kwargs)
    verdict = tx.above.policy.class_call(tx, fn, args, kwargs)
    if verdict is not None:
        return verdict
    meta_call = tx.lookup(type(cls), "__call__")
    if type(meta_call) is types.FunctionType:
        return tx_call(tx, tx.wrap(meta_call, const_source(meta_call, meta_call.__qualname__)), [fn, *args], kwargs)
    if isinstance(meta_call, type):  # typed dicts are made by dict itself
        return tx_call(tx, tx.wrap(meta_call, None), args, kwargs)
    return instantiate(tx, fn, args, kwargs)


def instantiate(tx: Tracer, fn: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """type.__call__: make an instance, then initialise it."""
    cls = fn.obj
    v = make_instance(tx, fn, args, kwargs)
    if isinstance(v, Value) and issubclass(v.cls, cls):
        init = tx.lookup(v.cls, "__init__")
        if type(init) is types.FunctionType:
            result = tx_call(tx, tx.wrap(init, const_source(init, init.__qualname__)), [v, *args], kwargs)
            if not (isinstance(result, Const) and result.value is None):
                raise tx.throw(TypeError, f"__init__() should return None, not '{c_name(result.cls)}'")
        elif init is not object.__init__:
            handler = METHODS.get(init)
            if handler is None:
                raise tx.break_("DD005", f"{cls.__name__}.__init__")
            handler(tx, v, args, kwargs)
        elif (args or kwargs) and tx.lookup(cls, "__new__") is object.__new__:
            raise tx.throw(TypeError, f"{cls.__name__}() takes no arguments")
    return v


def make_instance(tx: Tracer, fn: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """cls.__new__(cls, *args, **kwargs)."""
    if has_flag(fn.obj, UNMADE):
        raise tx.throw(TypeError, f"cannot create '{c_name(fn.obj)}' instances")
    if tx.lookup(fn.obj, "__del__") is not MISSING:
        raise tx.break_("DD031", fn.obj.__qualname__)
    new = tx.lookup(fn.obj, "__new__")
    new = new.__func__ if isinstance(new, staticmethod) else new
    if type(new) is types.FunctionType:
        return tx_call(tx, tx.wrap(new, const_source(new, new.__qualname__)), [fn, *args], kwargs)
    return new_object(tx, fn.obj, new, args, kwargs)


def new_object(tx: Tracer, cls: type, new: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """An instance made by a C __new__: of object, or of a base type that has a row in the constructors."""
    if new is object.__new__:
        if inspect.isabstract(cls):
            try:
                object.__new__(cls)
            except TypeError as e:
                raise tx.throw(TypeError, str(e)) from e
        return ObjectValue(cls)
    for base in cls.__mro__:
        make = NEW.get(base)
        if make is not None:
            return make(tx, cls, args, kwargs)
    for base in cls.__mro__[:-1]:
        handler = CONSTRUCTORS.get(base)
        if handler is not None:
            if base in (dict, list, set) or (base.__module__ == "collections" and base.__name__ in ("OrderedDict", "defaultdict", "deque")):
                return handler(tx, cls, [], {})  # their __init__ fills them
            return handler(tx, cls, args, kwargs)
    if issubclass(cls, torch.Tensor):
        raise tx.break_("DD011", f"making a {cls.__name__}")
    raise tx.break_("DD005", f"{cls.__name__}()")


@NEW.add(BaseException)
def _new_exception(tx: Tracer, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return ExceptionValue(cls, args)


fill(Value, call=call_object)
fill(MethodValue, call=call_method)
fill(FunctionValue, call=call_python)
fill(BuiltinValue, call=call_builtin)
fill(ClassValue, call=call_class)
fill(PartialValue, call=call_partial)
fill(PropertyValue, call=call_descriptor_object)
