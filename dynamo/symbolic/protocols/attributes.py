"""Attribute access: CPython's generic algorithm over values."""

from __future__ import annotations

import _thread
import enum
import functools
import sys
import types
from typing import TYPE_CHECKING, Any

import torch

from dynamo.guards.definitions import MISSING, lookup
from dynamo.guards.kinds import IsUnset
from dynamo.inspection import HEAP, attributes_of, c_name, has_flag, is_library
from dynamo.ops.facts import writes
from dynamo.source import Source, const_source
from dynamo.surroundings.pristine import builtin
from dynamo.symbolic.protocols.names import defined
from dynamo.symbolic.protocols.registry import GETSETS
from dynamo.symbolic.protocols.tables import dict_del, dict_get, dict_has, dict_set, name_written, set_name
from dynamo.symbolic.protocols.wrap import fill_dict, shown
from dynamo.symbolic.values.errors import Raised
from dynamo.symbolic.values.kinds import (
    BuiltinValue,
    CellValue,
    ClassValue,
    Const,
    DictValue,
    ExceptionValue,
    FunctionValue,
    ListValue,
    MethodValue,
    ModuleValue,
    ObjectValue,
    OpaqueValue,
    SuperValue,
    TensorValue,
    TracebackValue,
    TupleValue,
    Value,
)
from dynamo.symbolic.values.slots import fill, slots

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer


def getattr_(tx: Tracer, v: Value, name: str) -> Value:
    """`v.name`, or Raised(AttributeError)."""
    found = find_attr(tx, v, name)
    if found is None:
        raise _lacking(tx, v, name, _no_attribute(v, name))
    return found


def _lacking(tx: Tracer, v: Value, name: str, text: str) -> Raised:
    """An AttributeError that knows what was looked for, and where."""
    e = tx.throw(AttributeError, text)
    assert isinstance(e.value, ExceptionValue)
    e.value.slots |= {"name": Const(name), "obj": v}
    return e


def _no_attribute(v: Value, name: str) -> str:
    if isinstance(v, ModuleValue):
        return f"module '{v.obj.__name__}' has no attribute '{name}'"
    if isinstance(v, ClassValue):
        return f"type object '{c_name(v.obj)}' has no attribute '{name}'"
    if sys.version_info >= (3, 13) and isinstance(lookup(v.cls, name), types.MemberDescriptorType):
        return f"'{v.cls.__module__}.{v.cls.__qualname__}' object has no attribute '{name}'"
    return f"'{c_name(v.cls)}' object has no attribute '{name}'"


def find_attr(tx: Tracer, v: Value, name: str) -> Value | None:
    """`v.name`, or None when there is no such attribute (an AttributeError raised by user code passes through)."""
    found: Value | None = slots(v).getattr(tx, v, name)
    return found


def _callable_attr(tx: Tracer, v: FunctionValue | MethodValue, name: str) -> Value | None:
    found = _function_attr(tx, v, name)
    return found if found is not None else _object_attr(tx, v, name)


def _object_attr(tx: Tracer, v: Value, name: str) -> Value | None:
    """By the `__getattribute__` of its class."""
    custom = tx.lookup(v.cls, "__getattribute__")
    if type(custom) is types.FunctionType:
        return tx_call(tx, class_function(tx, custom), [v, Const(name)])
    if _other_method(custom, "__getattribute__"):
        return tx_call(tx, BuiltinValue(custom), [v, Const(name)])
    return generic_getattr(tx, v, name)


def tx_call(tx: Tracer, fn: Value, args: list[Value], kwargs: dict[str, Value] | None = None) -> Value:
    """`fn(*args, **kwargs)`."""
    result: Value = slots(fn).call(tx, fn, args, kwargs or {})
    return result


def generic_getattr(tx: Tracer, v: Value, name: str) -> Value | None:
    """object.__getattribute__, then __getattr__."""
    if name == "__class__" and not says_other_class(v.cls):
        return tx.wrap(v.cls, v.source.step("type") if v.source is not None else None)
    if name == "__dict__":
        d = instance_dict(tx, v)
        if d is not None:
            return d
    raw = tx.lookup(v.cls, name)
    if raw is not MISSING and is_data_descriptor(raw):
        return bind_descriptor(tx, raw, v, v.cls, name)
    d = instance_dict(tx, v)
    if d is not None:
        found = dict_get(tx, d, Const(name))
        if found is not None:
            return found
    if tx.effects.class_writes:
        written = _class_written(tx, v.cls, name)
        if written is not MISSING:
            return MethodValue(written, v) if isinstance(written, FunctionValue) else written
    own_attribute = slots(v).own_attribute
    if own_attribute is not None:
        found = own_attribute(tx, v, name, raw)
        if found is not None or raw is MISSING:
            return found
    if isinstance(v, OpaqueValue) and v.obj is not None and name in (attributes_of(v.obj) or ()):
        raise tx.break_("DD014", f"attribute {name!r} of {v.describe()}")
    if raw is not MISSING:
        return bind_descriptor(tx, raw, v, v.cls, name)
    fallback = tx.lookup(v.cls, "__getattr__")
    if fallback is not MISSING:
        if fallback is torch.nn.Module.__getattr__ and isinstance(v, ObjectValue):
            return _nn_module_getattr(tx, v, name)
        if type(fallback) is types.FunctionType:
            return tx_call(tx, class_function(tx, fallback), [v, Const(name)])
        if _other_method(fallback, "__getattr__"):
            return tx_call(tx, BuiltinValue(fallback), [v, Const(name)])
        raise tx.break_("DD014", f"attribute {name!r} of {v.describe()}")
    if isinstance(v, OpaqueValue) and v.obj is not None and hasattr(v.obj, name):
        raise tx.break_("DD014", f"attribute {name!r} of {v.describe()}")  # kept by C code in a place of its own
    return None


def says_other_class(cls: type) -> bool:
    """Whether `__class__` is not the type of its instances: proxies pass for what they stand for, compiled functions for functions."""
    return lookup(cls, "__class__") is not object.__dict__["__class__"]


def _nn_module_getattr(tx: Tracer, v: ObjectValue, name: str) -> Value | None:
    """torch.nn.Module.__getattr__: parameters, then buffers, then sub-modules."""
    d = instance_dict(tx, v)
    for table in ("_parameters", "_buffers", "_modules"):
        members = dict_get(tx, d, Const(table)) if d is not None else None
        if isinstance(members, DictValue):
            found = dict_get(tx, members, Const(name))
            if found is not None:
                return found
    return None


def is_data_descriptor(raw: Any) -> bool:
    t = type(raw)
    return hasattr(t, "__set__") or hasattr(t, "__delete__")


def instance_dict(tx: Tracer, v: Value) -> DictValue | None:
    """The instance dict of an object as a value; None for kinds without one (or whose dict we don't model)."""
    if isinstance(v, FunctionValue):
        if v.attrs is None:
            v.attrs = DictValue()
            if v.obj is not None:
                v.attrs.obj = v.obj.__dict__
                source = v.source.step("inst_dict") if v.source is not None else const_source(v.obj, v.qualname).step("inst_dict")
                v.attrs.source = source
                v.attrs.keys_guarded = False
                fill_dict(tx, v.attrs, v.obj.__dict__, source)
        return v.attrs
    if not isinstance(v, ObjectValue) or isinstance(v, OpaqueValue):
        return None
    if v.inst is not None:
        return v.inst
    if v.obj is None:
        if v.cls.__dictoffset__ == 0:
            return None
        v.inst = DictValue()
        v.inst.owner = v
        return v.inst
    real = attributes_of(v.obj)
    if real is None:
        return None
    base = v.source if v.source is not None else const_source(v.obj, v.cls.__name__)
    source = base.attr("__dict__") if issubclass(v.cls, _thread._local) else base.step("inst_dict")
    tx.identities.owners[source] = v.obj
    v.inst = DictValue(dict, real, source)
    v.inst.keys_guarded = False
    v.inst.owner = v
    fill_dict(tx, v.inst, real, source)
    return v.inst


def class_function(tx: Tracer, fn: types.FunctionType) -> Value:
    """A function found on a class: where it was found is relied upon already."""
    return tx.wrap(fn, const_source(fn, fn.__qualname__) if id(fn) not in tx.identities.by_id else None)


def bind_descriptor(tx: Tracer, raw: Any, v: Value, cls: type, name: str) -> Value | None:
    """What reading class entry `raw` through instance `v` gives."""
    if type(raw) is types.FunctionType:
        return MethodValue(class_function(tx, raw), v)
    if isinstance(raw, staticmethod):
        return tx.wrap(raw.__func__, const_source(raw.__func__, f"{cls.__name__}.{name}"))
    if isinstance(raw, classmethod):
        receiver = tx.wrap(cls, v.source.step("type") if v.source is not None else None)
        return MethodValue(tx.wrap(raw.__func__, const_source(raw.__func__, f"{cls.__name__}.{name}")), receiver)
    if isinstance(raw, property):
        if raw.fget is None:
            raise tx.throw(AttributeError, f"property '{name}' of '{cls.__name__}' object has no getter")
        return tx_call(tx, tx.wrap(raw.fget, const_source(raw.fget, f"{cls.__name__}.{name}")), [v])
    if isinstance(raw, types.MethodDescriptorType | types.WrapperDescriptorType):
        return MethodValue(BuiltinValue(raw), v)
    if isinstance(raw, types.ClassMethodDescriptorType):
        return MethodValue(BuiltinValue(raw), tx.wrap(cls, None))
    if isinstance(raw, types.BuiltinFunctionType):
        return BuiltinValue(raw)
    if isinstance(raw, types.GetSetDescriptorType | types.MemberDescriptorType):
        return _getset(tx, raw, v, name)
    if type(raw).__name__ == "_tuplegetter" and isinstance(v, TupleValue):
        return tx.item(v.items, v.cls._fields.index(name))  # type: ignore[attr-defined]  # named tuples have _fields
    if isinstance(raw, functools._lru_cache_wrapper):
        return MethodValue(tx.wrap(raw, const_source(raw, f"{cls.__name__}.{name}")), v)
    if type(raw).__name__ == "instancemethod":  # how pybind11 puts C functions into classes
        return MethodValue(BuiltinValue(raw.__func__), v)
    if isinstance(raw, functools.cached_property):
        return _cached_property(tx, raw, v, name)
    getter = tx.lookup(type(raw), "__get__")
    if type(getter) is types.FunctionType:
        if isinstance(v, ObjectValue) and v.obj is not None and isinstance(v.obj, enum.Enum):
            return tx.wrap(getattr(v.obj, name), None)
        owner = tx.wrap(cls, None)
        return tx_call(tx, class_function(tx, getter), [tx.wrap(raw, const_source(raw, f"{cls.__name__}.{name}")), v, owner])
    if getter is not MISSING and not isinstance(raw, type):
        raise tx.break_("DD014", f"attribute {name!r} of {v.describe()} (descriptor of type {type(raw).__name__})")
    return tx.wrap(raw, const_source(cls, cls.__qualname__).attr(name))


def _getset(tx: Tracer, raw: Any, v: Value, name: str) -> Value | None:
    if isinstance(v, ObjectValue) and name in v.slots:
        return v.slots[name]
    if isinstance(v, OpaqueValue) and issubclass(v.cls, torch.Tensor) and _asks_class(tx, v.cls):
        raise tx.break_("DD022", f"attribute {name!r} of {v.describe()}")
    handler = GETSETS.get(raw)
    if handler is not None:
        result: Value | None = handler(tx, v)
        return result
    if isinstance(v, TupleValue) and hasattr(v.cls, "n_fields"):
        return tx.item(v.items, v.cls.__match_args__.index(name))  # type: ignore[attr-defined]  # struct sequences have it
    getset = slots(v).getset
    if getset is not None:
        computed: Value | None = getset(tx, v, name)
        return computed
    if isinstance(v, Const):
        return tx.wrap(getattr(v.value, name), None)
    obj = getattr(v, "obj", None)
    if obj is not None:
        if isinstance(obj, torch.Tensor) and any(map(writes, tx.builder.mode.ran)):
            raise tx.break_("DD014", f"attribute {name!r} of {v.describe()}, whose memory the graph may have written by then")
        try:
            real = raw.__get__(obj, type(obj))
        except AttributeError:
            if v.source is not None:
                tx.guard(v.source, "pred", IsUnset(raw))
            return None
        except Exception as error:  # what the attribute raises, as saved tensors that are freed do: CPython asks for it again
            raise tx.break_("DD014", f"attribute {name!r} of {v.describe()} raises {type(error).__name__}") from error
        return tx.wrap(real, v.source.attr(name) if v.source is not None else None)
    if isinstance(raw, types.MemberDescriptorType) and "__slots__" in raw.__objclass__.__dict__:  # those of C types have values
        return None
    kind = "DD024" if isinstance(v, TracebackValue) else "DD014"  # what is raised in the end is the program's, as after no break
    raise tx.break_(kind, f"attribute {name!r} of {v.describe()}")


def _asks_class(tx: Tracer, cls: type) -> bool:
    """Whether C attributes of a kind of tensor run code of the program: a guard or the trace would run it more often than the program."""
    raw = tx.lookup(cls, "__torch_function__")
    function = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
    return type(function) is types.FunctionType and not is_library(str(function.__module__))


def _cached_property(tx: Tracer, raw: Any, v: Value, name: str) -> Value:
    d = instance_dict(tx, v)
    value = tx_call(tx, tx.wrap(raw.func, const_source(raw.func, name)), [v])
    if d is not None:
        dict_set(tx, d, Const(name), value)
    return value


def _module_attr(tx: Tracer, v: ModuleValue, name: str) -> Value | None:
    """Attributes of modules. torch and the standard library are taken as unchanging; others are guarded through their dict."""
    members = v.obj.__dict__
    written = name_written(tx, members, name)
    if written is not MISSING:
        return written
    found = builtin(members, name, MISSING)
    if found is MISSING:
        tx.guards.definitions.of_dict(members, name, MISSING)
        if name == "__dict__":
            raise tx.break_("DD014", f"__dict__ of {v.describe()}")
        tx.guards.definitions.of_dict(members, "__getattr__", members.get("__getattr__", MISSING))
        try:
            real = getattr(v.obj, name)
        except AttributeError:
            return None
        return tx.wrap(real, const_source(v.obj, v.obj.__name__).attr(name))
    if is_library(v.obj.__name__) and not isinstance(found, dict | list | set):
        return defined(tx, members, name, found)
    return tx.wrap(found, const_source(members, v.obj.__name__).step("dict_item", name, f"{v.obj.__name__}.{name}"))


def _class_attr(tx: Tracer, v: ClassValue, name: str) -> Value | None:
    """type.__getattribute__."""
    cls = v.obj
    meta = type(cls)
    meta_raw = tx.lookup(meta, name)
    if meta_raw is not MISSING and is_data_descriptor(meta_raw) and name not in ("__doc__",):
        if isinstance(meta_raw, property):
            return bind_descriptor(tx, meta_raw, v, meta, name)
        if name == "__dict__":
            return tx.wrap(cls.__dict__, const_source(cls.__dict__, f"{cls.__name__}.__dict__"))
        tx.guards.definitions.of_class_itself(cls, name, cls.__dict__.get(name, MISSING))
        try:
            found = getattr(cls, name)
        except AttributeError:  # `__abstractmethods__` of most classes
            return None
        return tx.wrap(found, const_source(cls, cls.__qualname__).attr(name))
    written = _class_written(tx, cls, name) if tx.effects.class_writes else MISSING
    if written is not MISSING:
        return written
    if isinstance(cls, enum.EnumMeta) and name in cls._member_map_:
        return tx.wrap(cls._member_map_[name], None)
    raw = tx.lookup(cls, name)
    if raw is not MISSING:
        if isinstance(raw, classmethod):
            return MethodValue(tx.wrap(raw.__func__, const_source(raw.__func__, f"{cls.__name__}.{name}")), v)
        if isinstance(raw, staticmethod):
            return tx.wrap(raw.__func__, const_source(raw.__func__, f"{cls.__name__}.{name}"))
        if type(raw) is types.FunctionType:
            return class_function(tx, raw)
        if isinstance(raw, types.ClassMethodDescriptorType):
            return MethodValue(BuiltinValue(raw), v)
        getter = tx.lookup(type(raw), "__get__")
        if type(getter) is types.FunctionType:
            return tx_call(tx, class_function(tx, getter), [tx.wrap(raw, const_source(raw, name)), Const(None), v])
        owner = next(c for c in cls.__mro__ if name in c.__dict__)
        if is_library(owner.__module__) or isinstance(raw, types.MethodDescriptorType | types.WrapperDescriptorType | property):
            return tx.wrap(raw, None if not isinstance(raw, torch.Tensor) else const_source(raw, name))
        # A class attribute that user code may assign: guarded through the class.
        label = owner.__qualname__
        return tx.wrap(raw, (v.source or const_source(cls, label)).attr(name))
    written = _class_written(tx, meta, name) if tx.effects.class_writes else MISSING
    if written is not MISSING:
        return MethodValue(written, v) if isinstance(written, FunctionValue) else written
    if meta_raw is not MISSING:
        return bind_descriptor(tx, meta_raw, v, meta, name)
    fallback = tx.lookup(meta, "__getattr__")
    if type(fallback) is types.FunctionType:
        return tx_call(tx, class_function(tx, fallback), [v, Const(name)])
    return None


def _class_written(tx: Tracer, cls: type, name: str) -> Any:
    """What the trace has assigned to a class attribute, or MISSING."""
    for c in cls.__mro__:
        if (c, name) in tx.effects.class_writes:
            written = tx.effects.class_writes[c, name]
            if written is not None:
                return written
        elif name in c.__dict__:
            return MISSING
    return MISSING


def set_class_attr(tx: Tracer, v: ClassValue, name: str, value: Value | None) -> None:
    """type.__setattr__: kept aside and replayed by the entry. Special methods decide how values behave, so they are left to Python."""
    cls = v.obj
    if not has_flag(cls, HEAP) or name.startswith("__"):
        raise tx.break_("DD015", f"{v.describe()}.{name}")
    old = tx.lookup(cls, name)
    binds = value is not None and not isinstance(value, FunctionValue) and tx.lookup(value.cls, "__get__") is not MISSING
    if tx.lookup(type(old), "__get__") is not MISSING or value is None or binds:
        raise tx.break_("DD015", f"{v.describe()}.{name}")
    tx.effects.class_writes[cls, name] = value
    for members, view in tx.effects.class_views:
        if members is shown(cls.__dict__):
            view.table[name] = (Const(name), value)


def _super_attr(tx: Tracer, v: SuperValue, name: str) -> Value | None:
    receiver = v.self_
    of_class = isinstance(receiver, ClassValue) and issubclass(receiver.obj, v.start)  # else a metaclass looks at its instance
    cls = receiver.obj if isinstance(receiver, ClassValue) and of_class else receiver.cls
    mro = cls.__mro__
    if name == "__class__":
        return tx.wrap(super, None)
    tx.guards.definitions.of_bases(cls)
    for c in mro[mro.index(v.start) + 1 :]:
        written = tx.effects.class_writes.get((c, name))
        if written is not None:
            return written if of_class or not isinstance(written, FunctionValue) else MethodValue(written, receiver)
        tx.guards.definitions.of_class_itself(c, name, c.__dict__.get(name, MISSING))
        if name in c.__dict__:
            raw = c.__dict__[name]
            if of_class:
                if isinstance(raw, classmethod):
                    return MethodValue(tx.wrap(raw.__func__, const_source(raw.__func__, name)), receiver)
                if isinstance(raw, staticmethod):  # __new__ is one
                    return tx.wrap(raw.__func__, const_source(raw.__func__, name))
                if isinstance(raw, types.ClassMethodDescriptorType):
                    return MethodValue(BuiltinValue(raw), receiver)
                return tx.wrap(raw, const_source(raw, f"{c.__name__}.{name}"))
            if tx.lookup(type(raw), "__get__") is MISSING:  # guarded where it was found: a class in between may have another
                return tx.wrap(raw, const_source(c, c.__qualname__).attr(name))
            return bind_descriptor(tx, raw, receiver, cls, name)
    own = {"__thisclass__": v.start, "__self_class__": cls}
    return receiver if name == "__self__" else tx.wrap(own[name], None) if name in own else None


def _function_attr(tx: Tracer, v: FunctionValue | MethodValue, name: str) -> Value | None:
    """Attributes of functions and bound methods that live in C getsets."""
    if isinstance(v, MethodValue):
        if name == "__self__":
            return v.self_
        if v.cls is not types.MethodType:
            return _c_method_attr(tx, v, name)
        if name == "__func__":
            return v.fn
        if name in ("__class__", "__call__", "__get__", "__eq__", "__hash__"):
            return None
        return find_attr(tx, v.fn, name)
    if name in v.slots:
        return v.slots[name]
    source = v.source or (const_source(v.obj, v.qualname) if v.obj is not None else None)
    if is_library(str(v.globals.get("__name__", ""))):
        source = None  # defaults of library functions don't change
    if name in ("__name__", "__qualname__", "__module__", "__doc__"):
        d = instance_dict(tx, v)
        own = dict_get(tx, d, Const(name)) if d is not None and name in ("__name__", "__qualname__", "__doc__", "__module__") else None
        if own is not None:
            return own
        if v.obj is not None:
            return tx.wrap(getattr(v.obj, name), source.attr(name) if source else None)
        made = {"__name__": v.name, "__qualname__": v.qualname, "__module__": v.globals.get("__name__"), "__doc__": _doc(v.code)}
        return tx.wrap(made[name], None)
    if name == "__type_params__" and v.obj is None:
        return tx.make_tuple([])
    if name == "__code__":
        return OpaqueValue(types.CodeType, v.code, None)
    if name == "__defaults__":
        if v.defaults is not None:
            return v.defaults
        return tx.wrap(v.obj.__defaults__, source.attr(name) if source else None) if v.obj is not None else Const(None)
    if name == "__kwdefaults__":
        if v.kwdefaults is not None:
            return v.kwdefaults
        return tx.wrap(v.obj.__kwdefaults__, source.attr(name) if source else None) if v.obj is not None else Const(None)
    if name == "__closure__":
        cells = closure(tx, v)
        return tx.make_tuple(cells) if cells else Const(None)
    if name == "__globals__":
        raise tx.break_("DD014", f"__globals__ of {v.describe()}")
    if name == "__annotations__" and v.obj is None:
        v.slots[name] = _made_annotations(tx, v)
        return v.slots[name]
    if name == "__annotations__" and v.obj is not None:
        return tx.wrap(v.obj.__annotations__, source.attr(name) if source else None)
    return None


def _c_method_attr(tx: Tracer, v: MethodValue, name: str) -> Value | None:
    """Those of a method in C that is bound, which says the class of its object and no module."""
    if name == "__qualname__" and v.cls is types.BuiltinMethodType and isinstance(v.fn, BuiltinValue):
        owner = v.self_.obj if isinstance(v.self_, ClassValue) else v.self_.cls
        return Const(f"{owner.__qualname__}.{v.fn.obj.__name__}")
    if name == "__module__" and v.cls is types.BuiltinMethodType:
        return Const(None)
    if name == "__call__":
        return v
    return find_attr(tx, v.fn, name) if name in ("__name__", "__qualname__", "__doc__", "__text_signature__", "__objclass__") else None


def _made_annotations(tx: Tracer, v: FunctionValue) -> Value:
    """The annotations of a function made while tracing: names and values alternate in the tuple that MAKE_FUNCTION takes."""
    d = DictValue()
    flat = tx.items(v.annotations.items) if isinstance(v.annotations, TupleValue) else []
    for k, x in zip(flat[::2], flat[1::2], strict=True):
        dict_set(tx, d, k, x)
    return d


def _doc(code: types.CodeType) -> str | None:
    """Where a code object keeps its docstring depends on the version."""
    cells = tuple(types.CellType() for _ in code.co_freevars)
    return types.FunctionType(code, {}, None, None, cells).__doc__


def closure(tx: Tracer, v: FunctionValue) -> list[CellValue]:
    """The cells of a function."""
    if v.closure is None:
        v.closure = []
        cells = (v.obj.__closure__ or ()) if v.obj is not None else ()
        source: Source | None = v.source or const_source(v.obj, v.qualname)
        for i, (cell, name) in enumerate(zip(cells, v.code.co_freevars, strict=True)):
            known = tx.identities.by_id.get(id(cell))
            if known is None:
                base = source.attr("__closure__").step("tuple_item", i) if source is not None else const_source(cell, name)
                known = tx.wrap(cell, base)
            assert isinstance(known, CellValue)
            v.closure.append(known)
    return v.closure


# ---- setting and deleting ---------------------------------------------------------------------------------


def _missing_text(name: str) -> str:
    """CPython's complaint about a name that a module lacks, which depends on the version."""
    try:
        delattr(types.ModuleType("module"), name)
    except AttributeError as e:
        return str(e)
    raise AssertionError(name)


def setattr_(tx: Tracer, v: Value, name: str, value: Value | None) -> None:
    """`v.name = value`; None deletes."""
    if isinstance(v, ModuleValue):
        if value is None and _module_attr(tx, v, name) is None:
            raise tx.throw(AttributeError, _missing_text(name))
        set_name(tx, v.obj.__dict__, name, value)
        return
    hook = tx.lookup(v.cls, "__setattr__" if value is not None else "__delattr__")
    if type(hook) is types.FunctionType:
        if not (hook is torch.nn.Module.__setattr__ and value is not None and _module_fast_set(tx, v, name, value)):
            tx_call(tx, class_function(tx, hook), [v, Const(name)] + ([value] if value is not None else []))
        return
    if _other_method(hook, "__setattr__" if value is not None else "__delattr__"):
        tx_call(tx, BuiltinValue(hook), [v, Const(name)] + ([value] if value is not None else []))
        return
    if isinstance(v, ClassValue):
        set_class_attr(tx, v, name, value)
        return
    generic_setattr(tx, v, name, value)


def _other_method(raw: Any, name: str) -> bool:
    """Whether a class has a C method of another name in this place: `__setattr__ = dict.__setitem__`."""
    return isinstance(raw, types.WrapperDescriptorType | types.MethodDescriptorType) and raw.__name__ != name


def _module_fast_set(tx: Tracer, v: Value, name: str, value: Value) -> bool:
    """torch.nn.Module.__setattr__ for a plain attribute: one that is in no table and gets no parameter, module or buffer."""
    if isinstance(value, TensorValue) and value.cls is not torch.Tensor:
        return False
    if isinstance(value, ObjectValue) and issubclass(value.cls, torch.nn.Module):
        return False
    d = instance_dict(tx, v)
    if d is None:
        return False
    for table in ("_parameters", "_buffers", "_modules"):
        members = dict_get(tx, d, Const(table))
        if not isinstance(members, DictValue) or dict_has(tx, members, Const(name)):
            return False
    generic_setattr(tx, v, name, value)
    return True


def generic_setattr(tx: Tracer, v: Value, name: str, value: Value | None) -> None:
    """object.__setattr__ / object.__delattr__."""
    raw = tx.lookup(v.cls, name)
    if isinstance(raw, property):
        fn = raw.fset if value is not None else raw.fdel
        if fn is None:
            what = "setter" if value is not None else "deleter"
            raise tx.throw(AttributeError, f"property '{name}' of '{v.cls.__name__}' object has no {what}")
        tx_call(tx, tx.wrap(fn, const_source(fn, name)), [v] + ([value] if value is not None else []))
        return
    set_attribute = slots(v).set_attribute
    if set_attribute is not None:
        set_attribute(tx, v, name, value)
        return
    if name == "__class__":
        raise tx.break_("DD015", f"__class__ of {v.describe()}")
    if raw is not MISSING and is_data_descriptor(raw):
        if isinstance(v, FunctionValue) and v.obj is None and value is not None and name in _FUNCTION_SLOTS:
            v.slots[name] = value
            return
        if isinstance(raw, types.MemberDescriptorType | types.GetSetDescriptorType):
            if isinstance(v, ObjectValue) and name != "__dict__":
                if value is None and isinstance(raw, types.MemberDescriptorType) and find_attr(tx, v, name) is None:
                    raise tx.throw(AttributeError, name)
                tx.touch(v)
                if isinstance(v, ExceptionValue) and name == "args":
                    if not isinstance(value, TupleValue | ListValue):
                        raise tx.break_("DD015", f"{v.describe()}.args")
                    v.set_args(tx.items(value.items))
                else:
                    v.slots[name] = value
                return
        hook = tx.lookup(type(raw), "__set__" if value is not None else "__delete__")
        if type(hook) is types.FunctionType:
            tx_call(tx, class_function(tx, hook), [tx.wrap(raw, const_source(raw, name)), v] + ([value] if value is not None else []))
            return
        raise tx.break_("DD015", f"{v.describe()}.{name}")
    d = instance_dict(tx, v)
    if d is None:
        if raw is not MISSING:
            raise tx.throw(AttributeError, f"'{c_name(v.cls)}' object attribute '{name}' is read-only")
        text = _no_attribute(v, name) + _NO_DICT
        raise _lacking(tx, v, name, text) if _NO_DICT else tx.throw(AttributeError, text)
    if value is None:
        if dict_del(tx, d, Const(name)) is None:
            raise tx.throw(AttributeError, _no_attribute(v, name))
        return
    dict_set(tx, d, Const(name), value)


_NO_DICT = " and no __dict__ for setting new attributes" if sys.version_info >= (3, 13) else ""
_FUNCTION_SLOTS = ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "__type_params__")


def hasattr_(tx: Tracer, v: Value, name: str) -> bool:
    try:
        return find_attr(tx, v, name) is not None
    except Raised as e:
        if issubclass(e.value.cls, AttributeError):
            return False
        raise


fill(Value, getattr=_object_attr)
fill(ModuleValue, getattr=_module_attr)
fill(ClassValue, getattr=_class_attr)
fill(SuperValue, getattr=_super_attr)
fill(FunctionValue, MethodValue, getattr=_callable_attr)
