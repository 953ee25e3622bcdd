"""Types as objects: isinstance, issubclass, type, super, object's own methods, property and its kin."""

from __future__ import annotations

import abc
import inspect
import sys
import types
import typing
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynamo import _C
from dynamo.guards.kinds import NotSubclass
from dynamo.inspection import c_name, is_library
from dynamo.source import const_source
from dynamo.symbolic.protocols.attributes import (
    MISSING,
    bind_descriptor,
    find_attr,
    generic_getattr,
    generic_setattr,
    getattr_,
    hasattr_,
    instance_dict,
    is_data_descriptor,
    says_other_class,
    set_class_attr,
    setattr_,
    tx_call,
)
from dynamo.symbolic.protocols.calls import call_class, instantiate, new_object
from dynamo.symbolic.protocols.containers import bool_
from dynamo.symbolic.protocols.iteration import unpack_iterable
from dynamo.symbolic.protocols.names import cell_get
from dynamo.symbolic.protocols.operators import compare, is_, special, truth
from dynamo.symbolic.protocols.registry import FUNCTIONS, METHODS, getset, pure
from dynamo.symbolic.protocols.rows import on_class, on_function, on_method
from dynamo.symbolic.protocols.tables import dict_get
from dynamo.symbolic.python.strings import repr_, str_, text_of
from dynamo.symbolic.values.errors import Raised
from dynamo.symbolic.values.kinds import (
    FALSE,
    NONE,
    NOT_IMPLEMENTED,
    CellValue,
    ClassValue,
    Const,
    FunctionValue,
    MethodValue,
    ObjectValue,
    PropertyValue,
    SuperValue,
    TensorValue,
    TupleValue,
    Value,
)

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

_ABSTRACT = const_source(abc.ABCMeta, "abstract classes")
_UNIONS = (types.UnionType, getattr(typing, "_UnionGenericAlias", types.UnionType))


# ---- isinstance and issubclass ----------------------------------------------------------------------------


def is_instance(tx: Tracer, v: Value, spec: Value) -> bool:
    """isinstance(v, spec)."""
    if isinstance(spec, TupleValue):
        return any(is_instance(tx, v, x) for x in tx.items(spec.items))
    if isinstance(spec, ObjectValue) and hasattr_(tx, spec, "__bases__"):  # which makes a class of anything
        raise tx.break_("DD005", f"isinstance() with {spec.describe()}")
    known = spec.obj if isinstance(spec, ClassValue) else getattr(spec, "obj", None)
    return _instance_of(tx, v, known)


def _instance_of(tx: Tracer, v: Value, cls: Any) -> bool:
    if isinstance(cls, _UNIONS):
        return any(_instance_of(tx, v, type(None) if c is None else c) for c in typing.get_args(cls))
    if not isinstance(cls, type):
        origin = inspect.getattr_static(cls, "__origin__", None)
        if isinstance(origin, type) and not isinstance(cls, types.GenericAlias) and not typing.get_args(cls):
            return issubclass(v.cls, origin)
        if isinstance(cls, types.GenericAlias):
            raise tx.throw(TypeError, "isinstance() argument 2 cannot be a parameterized generic")
        raise tx.throw(TypeError, "isinstance() arg 2 must be a type, a tuple of types, or a union")
    if v.cls is cls:
        return True
    tx.guards.definitions.of_bases(v.cls)
    check = tx.lookup(type(cls), "__instancecheck__")
    if check is type.__instancecheck__:
        return issubclass(v.cls, cls) or issubclass(_said_class(tx, v), cls)
    if tx.lookup(cls, "_is_protocol") is True:
        return _protocol(tx, v, cls)
    if check is abc.ABCMeta.__instancecheck__:
        return _is_subclass(tx, v.cls, cls) or _is_subclass(tx, _said_class(tx, v), cls)
    if type(check) is types.FunctionType:
        return truth(tx, tx_call(tx, tx.wrap(check, None), [tx.wrap(cls, None), v]))
    if isinstance(v, TensorValue) and type(cls) is type(torch.FloatTensor):
        legacy: Any = cls  # torch.FloatTensor and its kin
        return bool(legacy.dtype == v.fake.dtype and legacy.is_cuda == v.fake.is_cuda and not legacy.is_sparse)
    return issubclass(v.cls, cls)


def _is_subclass(tx: Tracer, cls: type, spec: Any) -> bool:
    if isinstance(spec, tuple):
        return any(_is_subclass(tx, cls, x) for x in spec)
    tx.guards.definitions.of_bases(cls)
    check = tx.lookup(type(spec), "__subclasscheck__")
    if type(check) is types.FunctionType and not is_library(check.__module__):
        return truth(tx, tx_call(tx, tx.wrap(check, None), [tx.wrap(spec, None), tx.wrap(cls, None)]))
    found = issubclass(cls, spec)
    if not found and isinstance(spec, abc.ABCMeta):
        tx.guard(_ABSTRACT, "pred", NotSubclass(cls, spec))
    return found


def _said_class(tx: Tracer, v: Value) -> type:
    """What `v.__class__` says."""
    said = find_attr(tx, v, "__class__") if says_other_class(v.cls) else None
    return said.obj if isinstance(said, ClassValue) else v.cls


@getset(_C.Compiled.__dict__["__class__"])
def _class_of_compiled(tx: Tracer, v: Value) -> Value:
    return tx.wrap(types.FunctionType, None)


def _protocol(tx: Tracer, v: Value, cls: Any) -> bool:
    """typing.runtime_checkable: nominal, or all members present."""
    tx.guards.definitions.of_bases(v.cls)
    if cls in v.cls.__mro__:
        return True
    if tx.lookup(cls, "_is_runtime_protocol") is not True:
        raise tx.throw(TypeError, "Instance and class checks can only be used with @runtime_checkable protocols")
    members = getattr(cls, "__protocol_attrs__", None)
    if members is None:
        members = typing._get_protocol_attrs(cls)  # type: ignore[attr-defined]  # 3.11 has no public name for it
    return all(hasattr_(tx, v, name) for name in sorted(members))


@on_function(isinstance, "object classinfo")
def _isinstance(tx: Tracer, v: Value, spec: Value) -> Value:
    return bool_(is_instance(tx, v, spec))


@on_function(issubclass, "cls classinfo")
def _issubclass(tx: Tracer, cls: Value, spec: Value) -> Value:
    if not isinstance(cls, ClassValue):
        if hasattr_(tx, cls, "__bases__"):
            raise tx.break_("DD005", f"issubclass of {cls.describe()}, which has bases of its own")
        raise tx.throw(TypeError, "issubclass() arg 1 must be a class")
    try:
        return bool_(_is_subclass(tx, cls.obj, tx.as_python(spec)))
    except TypeError as e:
        raise tx.throw(TypeError, str(e)) from e


@on_method(type, "__instancecheck__", "instance", ClassValue)
def _instancecheck(tx: Tracer, self: ClassValue, v: Value) -> Value:
    tx.guards.definitions.of_bases(v.cls)
    return bool_(issubclass(v.cls, self.obj))


@on_method(type, "__subclasscheck__", "subclass", ClassValue)
def _subclasscheck(tx: Tracer, self: ClassValue, v: Value) -> Value:
    if isinstance(v, ClassValue):
        tx.guards.definitions.of_bases(v.obj)
    return bool_(isinstance(v, ClassValue) and self.obj in v.obj.__mro__)


@on_function(abc.ABCMeta.__instancecheck__, "cls instance")
def _abc_instancecheck(tx: Tracer, cls: Value, v: Value) -> Value:
    assert isinstance(cls, ClassValue)
    return bool_(_is_subclass(tx, v.cls, cls.obj))


@on_function(abc.ABCMeta.__subclasscheck__, "cls subclass")
def _abc_subclasscheck(tx: Tracer, cls: Value, v: Value) -> Value:
    assert isinstance(cls, ClassValue)
    assert isinstance(v, ClassValue)
    return bool_(_is_subclass(tx, v.obj, cls.obj))


# ---- type and super ---------------------------------------------------------------------------------------


@on_class(type, "object bases? namespace? **")
def _type(tx: Tracer, cls: type, v: Value, bases: Value | None, namespace: Value | None, kwargs: dict[str, Value]) -> Value:
    if bases is not None or namespace is not None or kwargs:
        raise tx.break_("DD019", "type() with three arguments")
    return tx.wrap(v.cls, None)


@on_method(type, "__call__", "*args **", ClassValue)
def _type_call(tx: Tracer, self: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if self.obj is type:
        return call_class(tx, self, args, kwargs)
    return instantiate(tx, self, args, kwargs)


@on_method(type, "__getattribute__", "name", ClassValue)
def _type_getattribute(tx: Tracer, self: ClassValue, name: Value) -> Value:
    return getattr_(tx, self, text_of(tx, name))


@on_method(type, "__setattr__", "name value", ClassValue)
def _type_setattr(tx: Tracer, self: ClassValue, name: Value, value: Value) -> Value:
    set_class_attr(tx, self, text_of(tx, name), value)
    return NONE


@on_method(type, "mro", "", ClassValue)
def _mro(tx: Tracer, self: ClassValue) -> Value:
    tx.guards.definitions.of_bases(self.obj)
    return tx.make_list([tx.wrap(c, None) for c in type.mro(self.obj)])


pure(*(type.__dict__[n] for n in ("__repr__", "__dir__", "__or__", "__ror__") if n in type.__dict__))


@on_method(type, "__subclasses__", "", ClassValue)
def _subclasses(tx: Tracer, self: ClassValue) -> Value:
    found = tx.wrap(type.__subclasses__(self.obj), const_source(self.obj, self.obj.__qualname__).step("call", type.__subclasses__))
    return tx.make_list(unpack_iterable(tx, found))


@on_class(super, "type? object?")
def _super(tx: Tracer, cls: type, start: Value | None, v: Value | None) -> Value:
    if start is None:
        start, v = _implicit(tx)
    if not isinstance(start, ClassValue):
        raise tx.throw(TypeError, f"super() argument 1 must be a type, not {c_name(start.cls)}")
    if v is None or v is NONE:
        raise tx.break_("DD014", "super() without an object")
    if not (issubclass(v.cls, start.obj) or (isinstance(v, ClassValue) and issubclass(v.obj, start.obj))):
        raise tx.throw(TypeError, _not_below(start.obj, v))
    return SuperValue(start.obj, v)


def _not_below(start: type, v: Value) -> str:
    if sys.version_info < (3, 13):
        return "super(type, obj): obj must be an instance or subtype of type"
    shown = f"type {v.obj.__name__}" if isinstance(v, ClassValue) else f"instance of {v.cls.__name__}"
    return f"super(type, obj): obj ({shown}) is not an instance or subtype of type ({start.__name__})."


def _implicit(tx: Tracer) -> tuple[Value, Value]:
    """What super() without arguments means: the `__class__` cell and the first argument of the frame."""
    frame = tx.frame
    slots = frame.program.slots
    if not frame.code.co_argcount:
        raise tx.throw(RuntimeError, "super(): no arguments")
    cell = next((frame.slots[i] for i, s in enumerate(slots) if s.name == "__class__"), None)
    if not isinstance(cell, CellValue):
        raise tx.throw(RuntimeError, "super(): __class__ cell not found")
    first = frame.slots[0]
    if first is None:
        raise tx.throw(RuntimeError, "super(): arg[0] deleted")
    v = tx.realize(first)
    if isinstance(v, CellValue):
        v = cell_get(tx, v, slots[0].name, False)
    return cell_get(tx, cell, "__class__", True), v


# ---- object -----------------------------------------------------------------------------------------------


@on_class(object, "*args **")
def _object(tx: Tracer, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if cls is object and (args or kwargs):
        raise tx.throw(TypeError, "object() takes no arguments")
    return new_object(tx, cls, object.__new__, args, kwargs)


@on_method(object, "__init__", "*args **")
def _object_init(tx: Tracer, self: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    own = tx.lookup(self.cls, "__init__") is not object.__init__
    if (args or kwargs) and (own or tx.lookup(self.cls, "__new__") is object.__new__):
        text = (
            "object.__init__() takes exactly one argument (the instance to initialize)"
            if own
            else f"{c_name(self.cls)}() takes no arguments"
        )
        raise tx.throw(TypeError, text)
    return NONE


@on_method(object, "__getattribute__", "name")
def _object_getattribute(tx: Tracer, self: Value, name: Value) -> Value:
    """Without the class's `__getattr__`, which only the full lookup falls back to."""
    text = text_of(tx, name)
    if isinstance(self, FunctionValue | MethodValue | ClassValue):
        return getattr_(tx, self, text)
    fallback = tx.lookup(self.cls, "__getattr__")
    found = generic_getattr(tx, self, text) if fallback is MISSING else plain_attr(tx, self, text)
    if found is None:
        raise tx.throw(AttributeError, f"'{c_name(self.cls)}' object has no attribute '{text}'")
    return found


def plain_attr(tx: Tracer, v: Value, name: str) -> Value | None:
    if name in ("__class__", "__dict__"):
        return generic_getattr(tx, v, name)
    raw = tx.lookup(v.cls, name)
    if raw is not MISSING and is_data_descriptor(raw):
        return bind_descriptor(tx, raw, v, v.cls, name)
    d = instance_dict(tx, v)
    found = dict_get(tx, d, Const(name)) if d is not None else None
    if found is None and raw is not MISSING:
        found = bind_descriptor(tx, raw, v, v.cls, name)
    return found


@on_method(object, "__setattr__", "name value")
def _object_setattr(tx: Tracer, self: Value, name: Value, value: Value) -> Value:
    generic_setattr(tx, self, text_of(tx, name), value)
    return NONE


@on_method(object, "__delattr__", "name")
def _object_delattr(tx: Tracer, self: Value, name: Value) -> Value:
    generic_setattr(tx, self, text_of(tx, name), None)
    return NONE


@on_method(object, "__eq__", "value")
def _object_eq(tx: Tracer, self: Value, value: Value) -> Value:
    return bool_(True) if is_(tx, self, value) else NOT_IMPLEMENTED


@on_method(object, "__ne__", "value")
def _object_ne(tx: Tracer, self: Value, value: Value) -> Value:
    if tx.lookup(self.cls, "__eq__") is object.__eq__:
        return FALSE if is_(tx, self, value) else NOT_IMPLEMENTED
    result = special(tx, self, "__eq__", value)
    if result is None or (isinstance(result, Const) and result.value is NotImplemented):
        return NOT_IMPLEMENTED
    return bool_(not truth(tx, result))


@on_method(object, "__lt__ __le__ __gt__ __ge__", "value")
def _object_order(tx: Tracer, self: Value, value: Value) -> Value:
    return NOT_IMPLEMENTED


@on_method(object, "__repr__")
def _object_repr(tx: Tracer, self: Value) -> Value:
    if tx.lookup(self.cls, "__repr__") is object.__repr__:
        return Const(repr_(tx, self))
    raise tx.break_("DD005", f"object.__repr__ of {self.describe()}")


@on_method(object, "__str__")
def _object_str(tx: Tracer, self: Value) -> Value:
    return Const(repr_(tx, self))


@on_method(object, "__format__", "spec")
def _object_format(tx: Tracer, self: Value, spec: Value) -> Value:
    if text_of(tx, spec):
        raise tx.throw(TypeError, f"unsupported format string passed to {c_name(self.cls)}.__format__")
    return Const(str_(tx, self))


@on_method(object, "__hash__")
def _object_hash(tx: Tracer, self: Value) -> Value:
    obj = getattr(self, "obj", None)
    if obj is None:
        raise tx.break_("DD005", f"hash of {self.describe()}", "an object made while tracing has no address yet.")
    if self.source is not None and self.source.kind != "const":
        tx.guard(self.source, "is", obj)
    return Const(object.__hash__(obj))


@on_method(object, "__init_subclass__ __subclasshook__")
def _nothing(tx: Tracer, self: Value) -> Value:
    return NONE


@on_method(object, "__reduce_ex__ __reduce__ __dir__ __sizeof__ __getstate__", "*args")
def _object_inside(tx: Tracer, self: Value, args: list[Value]) -> Value:
    raise tx.break_("DD005", f"object protocol of {self.describe()}")


@getset(types.CellType.cell_contents)
def _cell_contents(tx: Tracer, self: CellValue) -> Value:
    if self.contents is None:
        raise tx.break_("DD014", "contents of an empty cell")
    return cell_get(tx, self, "cell_contents", free=True)


# ---- descriptors made by calls ----------------------------------------------------------------------------


def _real_parts(tx: Tracer, cls: type, parts: Sequence[Value | None]) -> list[Any]:
    """What a descriptor is made of, as real objects; a function made while tracing is none yet."""
    known = tx.try_python(*(NONE if v is None else v for v in parts))
    if known is None:
        raise tx.break_("DD019", f"{cls.__name__}() of a function made while tracing")
    for v in parts:
        if isinstance(v, FunctionValue) and v.source is not None and v.source.kind != "const":
            tx.guard(v.source, "is", v.obj)
    return known


@on_class(property, "| fget? fset? fdel? doc?")
def _property(tx: Tracer, cls: type, fget: Value | None, fset: Value | None, fdel: Value | None, doc: Value | None) -> Value:
    made: property = property.__new__(cls)
    property.__init__(made, *_real_parts(tx, cls, (fget, fset, fdel, doc)))
    return PropertyValue(made)


@on_method(property, "__init__", "| fget? fset? fdel? doc?", PropertyValue)
def _property_init(tx: Tracer, self: PropertyValue, *given: Value | None) -> Value:
    property.__init__(self.obj, *_real_parts(tx, property, given))
    return NONE


@on_class(staticmethod, "function")
@on_class(classmethod, "function")
def _method_descriptor(tx: Tracer, cls: type, fn: Value) -> Value:
    return PropertyValue(cls(*_real_parts(tx, cls, [fn])))


@on_class(types.MethodType, "function instance")
def _method(tx: Tracer, cls: type, fn: Value, instance: Value) -> Value:
    return MethodValue(fn, instance)


@on_method(types.FunctionType, "__get__", "instance owner?", FunctionValue)
def _function_get(tx: Tracer, self: FunctionValue, instance: Value, owner: Value | None) -> Value:
    if isinstance(instance, Const) and instance.value is None and owner is not None:
        return self
    return MethodValue(self, instance)


@on_method(types.FunctionType, "__call__", "*args **", FunctionValue)
def _function_call(tx: Tracer, self: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tx_call(tx, self, args, kwargs)


@on_method(types.MethodType, "__call__", "*args **", MethodValue)
def _method_call(tx: Tracer, self: MethodValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tx_call(tx, self, args, kwargs)


@on_method(types.MethodWrapperType, "__eq__", "value", MethodValue)
@on_method(types.BuiltinMethodType, "__eq__", "value", Value)
@on_method(types.MethodType, "__eq__", "value", MethodValue)
def _method_eq(tx: Tracer, self: Value, value: Value) -> Value:
    if not isinstance(self, MethodValue) or not isinstance(value, MethodValue):
        return NOT_IMPLEMENTED
    return bool_(is_(tx, self.self_, value.self_) and truth(tx, compare(tx, "==", self.fn, value.fn)))


def _property_row(name: str, attribute: str) -> None:
    raw = property.__dict__[name]

    def row(tx: Tracer, self: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        fn = getattr(getattr(self, "obj", None), attribute, None)
        if fn is None:
            raise tx.throw(AttributeError, f"property has no {attribute}")
        if name == "__get__" and isinstance(args[0], Const) and args[0].value is None:
            return self
        return tx_call(tx, tx.wrap(fn, None), args[:1] if name == "__get__" else args)

    METHODS.add(raw)(row)


for _name, _attribute in (("__get__", "fget"), ("__set__", "fset"), ("__delete__", "fdel")):
    _property_row(_name, _attribute)


# ---- attribute builtins -----------------------------------------------------------------------------------


def _attribute_name(tx: Tracer, name: Value) -> str:
    if not issubclass(name.cls, str):
        raise tx.throw(TypeError, f"attribute name must be string, not '{c_name(name.cls)}'")
    return text_of(tx, name)


@on_function(getattr, "object name default?")
def _getattr(tx: Tracer, v: Value, name: Value, default: Value | None) -> Value:
    text = _attribute_name(tx, name)
    if default is None:
        return getattr_(tx, v, text)
    try:
        found = find_attr(tx, v, text)
    except Raised as e:
        if issubclass(e.value.cls, AttributeError):
            return default
        raise
    return found if found is not None else default


@on_function(hasattr, "object name")
def _hasattr(tx: Tracer, v: Value, name: Value) -> Value:
    return bool_(hasattr_(tx, v, _attribute_name(tx, name)))


@on_function(setattr, "object name value")
def _setattr(tx: Tracer, v: Value, name: Value, value: Value) -> Value:
    setattr_(tx, v, _attribute_name(tx, name), value)
    return NONE


@on_function(delattr, "object name")
def _delattr(tx: Tracer, v: Value, name: Value) -> Value:
    setattr_(tx, v, _attribute_name(tx, name), None)
    return NONE


@on_function(callable, "object")
def _callable(tx: Tracer, v: Value) -> Value:
    return bool_(tx.lookup(v.cls, "__call__") is not MISSING)


FUNCTIONS.add(torch.nn.Parameter.__instancecheck__)(
    lambda tx, args, kwargs: bool_(isinstance(args[-1], TensorValue) and issubclass(args[-1].cls, torch.nn.Parameter))
)
