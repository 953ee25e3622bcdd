"""Real objects into values: one row per type, and which facts are guarded at once."""

from __future__ import annotations

import collections
import copy
import enum
import functools
import gc
import inspect
import operator
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from dynamo.guards.kinds import HasItems
from dynamo.inspection import HEAP, attributes_of, has_flag, is_library
from dynamo.source import Source, const_source
from dynamo.symbolic.attempt.warned import is_no_log, log
from dynamo.symbolic.protocols.changing import KINDS, Changing
from dynamo.symbolic.protocols.constants import IMMUTABLE_MODULES, is_frozen
from dynamo.symbolic.protocols.tables import dict_items, take_names
from dynamo.symbolic.values.keys import items_of, object_key
from dynamo.symbolic.values.kinds import (
    FALSE,
    NONE,
    TRUE,
    BuiltinValue,
    CellValue,
    ClassValue,
    Const,
    DictValue,
    ExceptionGroupValue,
    ExceptionValue,
    FunctionValue,
    Lazy,
    LazyItem,
    ListValue,
    MethodValue,
    ModuleValue,
    ObjectValue,
    OpaqueValue,
    PartialValue,
    PropertyValue,
    RealIterator,
    SetValue,
    SliceValue,
    TupleValue,
    Value,
)
from dynamo.symbolic.values.numpy_types import NUMBERS, np

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

SCALARS = (
    int,
    float,
    bool,
    str,
    bytes,
    complex,
    type(None),
    type(Ellipsis),
    type(NotImplemented),
    range,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    *NUMBERS,
    *((type(np.dtype(t)) for t in NUMBERS) if np is not None else ()),
)
_SINGLETONS = {None: NONE, True: TRUE, False: FALSE}
_BUILTIN_TYPES = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.MethodWrapperType,
    type(torch._C._get_tracing_state),
    type(operator.itemgetter(0)),
    type(operator.attrgetter("x")),
    type(operator.methodcaller("x")),
)
_DESCRIPTORS = (property, types.GetSetDescriptorType, types.MemberDescriptorType, functools.cached_property, classmethod, staticmethod)


def wrap(tx: Tracer, obj: object, source: Source | None) -> Value:
    """The value of `obj`. Objects with identity are wrapped once; a second path to one is guarded as an alias of the first."""
    if type(obj) in SCALARS:
        return _scalar(tx, obj, source)
    known = tx.identities.by_id.get(id(obj))
    if known is not None:
        if source is not None and known.source is None:
            _identity_guard(tx, obj, source)
        elif source is not None and known.source is not source:
            tx.guard(source, "same", known.source)
        return known
    kind = type(obj)  # not isinstance: it asks the object for its __class__
    if issubclass(kind, Value):
        return obj  # type: ignore[return-value]  # it is one
    for cls, make in ROWS:
        if issubclass(kind, cls):
            return tx.identities.remember(obj, make(tx, obj, source))
    return tx.identities.remember(obj, _object(tx, obj, source))


def _scalar(tx: Tracer, obj: Any, source: Source | None) -> Value:
    if source is None:
        if obj is None or obj is True or obj is False:
            return _SINGLETONS[obj]
        return Const(obj)
    if obj is None or obj is Ellipsis or obj is NotImplemented:
        tx.guard(source, "is", obj)
        v = Const(obj, source, tx)
        v.guarded = True
        return v
    tx.guard(source, "type", type(obj))
    if tx.known.changing and type(obj) in KINDS and source.name in tx.known.changing:
        tx.has_numbers = True
        return Changing(obj, source, tx)
    return Const(obj, source, tx)


def _type_guard(tx: Tracer, obj: object, source: Source | None) -> None:
    if source is not None:
        tx.guard(source, "type", type(obj))


def _identity_guard(tx: Tracer, obj: object, source: Source | None) -> None:
    if source is not None and source.kind != "const":
        tx.guard(source, "is", obj)


def _tensor(tx: Tracer, t: torch.Tensor, source: Source | None) -> Value:
    if type(t) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        if not _only_adds(type(t)):
            _type_guard(tx, t, source)
            return OpaqueValue(type(t), t, source)
        for name in ("__torch_function__", "__torch_dispatch__"):
            tx.lookup(type(t), name)
    if source is None:
        return tx.add_input(t, const_source(t, "constant"), baked=True)  # from a class or a default: an attribute of the graph
    baked = _is_module_state(source) and source.name not in tx.known.inputs
    if baked and source.base is not None and source.base.base is not None:
        owner = tx.identities.owners.get(source.base.base)
        if owner is not None:
            tx.baked.append((owner, source.base.arg, source.arg, t))
    return tx.add_input(t, source, baked)


def _only_adds(cls: type) -> bool:
    """Whether a class of tensors has names of its own at most: every operator takes its instances as plain tensors and gives plain ones."""
    base: Any = torch.Tensor
    own: Any = cls
    if own.__torch_function__ is not torch._C._disabled_torch_function_impl or own.__torch_dispatch__ is not base.__torch_dispatch__:
        return False
    if type(cls) not in (type(torch.Tensor), type(torch.nn.Parameter), type(torch.nn.Buffer)):
        return False
    known = (*torch.nn.Parameter.__mro__, *torch.nn.Buffer.__mro__)
    names = [n for c in cls.__mro__ if c not in known for n in vars(c) if n not in _OF_EVERY_CLASS]
    return not any(hasattr(torch.Tensor, n) for n in names)


# What making an instance needs, and what Python puts into classes.
_OF_EVERY_CLASS = frozenset(
    ("__torch_function__", "__new__", "__init__", "__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__")
    + ("__firstlineno__", "__static_attributes__", "__annotate__", "__annotate_func__", "__annotations_cache__")
)


def _is_module_state(source: Source) -> bool:
    """`m._parameters[...]` and `m._buffers[...]`: read through a module."""
    s = source.base
    if source.kind != "dict_item" or s is None or s.kind != "dict_item":
        return False
    return isinstance(s.arg, str) and s.arg in ("_parameters", "_buffers")  # a key may be a tensor, whose == is an operator


def _list(tx: Tracer, obj: Any, source: Source | None) -> Value:
    _type_guard(tx, obj, source)
    v = ListValue([], type(obj), obj, source)
    if source is None:
        v.items = [tx.wrap(x, None) for x in obj]
    elif isinstance(obj, list):
        length = list.__len__(obj)
        v.given, v.on_read = length, lambda: _read_list(tx, obj, source, length)
        v._items = [Lazy(x, source.step("list_item", i)) for i, x in enumerate(list.__iter__(obj))]
    else:
        tx.guard(source, "len", collections.deque.__len__(obj))
        v.items = [Lazy(x, source.step("call", _deque_item(i))) for i, x in enumerate(obj)]
        v.maxlen = obj.maxlen
        tx.guard(source.attr("maxlen"), "eq", obj.maxlen)
    return v


def _read_list(tx: Tracer, obj: list[Any], source: Source, length: int) -> None:
    tx.guard(source, "len", length)
    if tx.effects.warned:
        tx.guard(source, "pred", is_no_log)
        if obj is log():
            raise tx.break_("DD004", "a look at the warnings that were given")


@functools.cache
def _deque_item(i: int) -> Callable[[Any], Any]:
    def item(d: Any) -> Any:
        return d[i]

    item.__name__ = f"item{i}"
    return item


def _tuple(tx: Tracer, obj: Any, source: Source | None) -> Value:
    _type_guard(tx, obj, source)
    v = TupleValue([], type(obj), obj, source)
    if source is None:
        v.items = [tx.wrap(x, None) for x in obj]
        v.obj = None if type(obj) is tuple else obj
    else:
        tx.guard(source, "len", tuple.__len__(obj))
        v.items = [Lazy(x, source.step("tuple_item", i)) for i, x in enumerate(tuple.__iter__(obj))]
    return v


def fill_dict(tx: Tracer, v: DictValue, obj: Any, source: Source | None) -> None:
    """Enter the items of a real dict, unread."""
    for k, x in items_of(obj):
        if type(k) is str and source is not None:  # as attributes are
            v.table[k] = (Const(k), LazyItem(x, source, k))
            continue
        key = tx.wrap(k, None) if type(k) in SCALARS else _key(tx, k)
        child: Value | Lazy = tx.wrap(x, None) if source is None else Lazy(x, source.step("dict_item", k))
        v.table[object_key(k)] = (key, child)


def _key(tx: Tracer, k: object) -> Value:
    return tx.wrap(k, const_source(k, f"<{type(k).__name__} key>"))


def _dict(tx: Tracer, obj: Any, source: Source | None) -> Value:
    _type_guard(tx, obj, source)
    v = DictValue(type(obj), obj, source)
    v.fill = lambda: fill_dict(tx, v, obj, source)
    if tx.effects.global_writes:
        take_names(tx, v)
    if isinstance(obj, collections.defaultdict) and obj.default_factory is not None:
        v.default_factory = tx.wrap(obj.default_factory, source.attr("default_factory") if source is not None else None)
    return v


def _mapping_proxy(tx: Tracer, obj: Any, source: Source | None) -> Value:
    _identity_guard(tx, obj, source)
    members = shown(obj)
    v = DictValue(types.MappingProxyType, obj, None)
    if type(members) is dict and "__module__" not in members and "__doc__" not in members:
        held = tx.wrap(members, source.step("call", shown) if source is not None else const_source(members, "mappingproxy"))
        assert isinstance(held, DictValue)
        v.base = held
        return v
    v.keys_guarded = False
    base = const_source(obj, source.name if source is not None else "mappingproxy")
    for k, x in obj.items():
        v.table[object_key(k)] = (_key(tx, k) if type(k) not in SCALARS else tx.wrap(k, None), Lazy(x, base.step("call", _getitem(k))))
    for (owner, name), value in tx.effects.class_writes.items():
        if value is not None and members is shown(owner.__dict__):
            v.table[name] = (Const(name), value)
    tx.effects.class_views.append((members, v))
    return v


def shown(proxy: Any) -> Any:
    """The mapping that a mappingproxy shows, such as a class's own names."""
    return gc.get_referents(proxy)[0]


def _getitem(key: Any) -> Callable[[Any], Any]:
    def getitem(m: Any) -> Any:
        return m[key]

    return getitem


def _set(tx: Tracer, obj: Any, source: Source | None) -> Value:
    _type_guard(tx, obj, source)
    v = SetValue(type(obj), obj, source)
    if source is not None:
        tx.guard(source, "pred", HasItems(frozenset(obj)))
    for x in obj:
        v.table[object_key(x)] = tx.wrap(x, None) if type(x) in SCALARS else _key(tx, x)
    return v


def _function(tx: Tracer, obj: types.FunctionType, source: Source | None) -> Value:
    if source is None:
        return FunctionValue(obj, None)
    if source.kind != "const" and "<locals>" in obj.__qualname__ and not (source.kind == "dict_item" and source.label):
        tx.guard(source, "code", obj.__code__)  # a new function of the same text is as good
        return FunctionValue(obj, source)
    _identity_guard(tx, obj, source)
    if not is_library(str(obj.__globals__.get("__name__", ""))):
        tx.guard(source, "code", obj.__code__)
    return FunctionValue(obj, source)


def _method(tx: Tracer, obj: types.MethodType, source: Source | None) -> Value:
    _type_guard(tx, obj, source)
    fn = tx.wrap(obj.__func__, source.attr("__func__") if source is not None else None)
    self_ = tx.wrap(obj.__self__, source.attr("__self__") if source is not None else None)
    return MethodValue(fn, self_, source)


def _builtin(tx: Tracer, obj: Any, source: Source | None) -> Value:
    self_ = getattr(obj, "__self__", None)
    if isinstance(self_, type) and isinstance(raw := inspect.getattr_static(self_, obj.__name__, None), types.ClassMethodDescriptorType):
        _identity_guard(tx, obj, source)
        return MethodValue(BuiltinValue(raw), tx.wrap(self_, None), source)
    if self_ is None or isinstance(self_, types.ModuleType | type) or not hasattr(type(self_), getattr(obj, "__name__", "")):
        _identity_guard(tx, obj, source)
        return BuiltinValue(obj, source)
    # A bound C method is a new object at each read: what matters is its receiver and its name.
    _type_guard(tx, obj, source)
    if source is not None:
        tx.guard(source.attr("__name__"), "eq", obj.__name__)
    receiver = tx.wrap(self_, source.attr("__self__") if source is not None else None)
    return MethodValue(BuiltinValue(getattr(type(self_), obj.__name__)), receiver, source)


def _class(tx: Tracer, obj: type, source: Source | None) -> Value:
    _identity_guard(tx, obj, source)
    return ClassValue(obj, source)


def _module(tx: Tracer, obj: types.ModuleType, source: Source | None) -> Value:
    _identity_guard(tx, obj, source)
    return ModuleValue(obj, source)


def _cell(tx: Tracer, obj: types.CellType, source: Source | None) -> Value:
    try:
        inner = obj.cell_contents
    except ValueError:
        return CellValue(None, source, obj)
    if source is None:
        source = const_source(obj, "cell")
    return CellValue(Lazy(inner, source.step("cell")), source, obj)


def _slice(tx: Tracer, obj: slice, source: Source | None) -> Value:
    _type_guard(tx, obj, source)
    return SliceValue([tx.wrap(getattr(obj, n), source.attr(n) if source is not None else None) for n in ("start", "stop", "step")])


def _partial(tx: Tracer, obj: functools.partial[Any], source: Source | None) -> Value:
    _type_guard(tx, obj, source)
    sub = (lambda n: source.attr(n)) if source is not None else (lambda n: None)
    fn = tx.wrap(obj.func, sub("func"))
    args = tx.wrap(obj.args, sub("args"))
    kwargs = tx.wrap(obj.keywords, sub("keywords"))
    assert isinstance(args, TupleValue)
    assert isinstance(kwargs, DictValue)
    dict_items(tx, kwargs)
    return PartialValue(type(obj), fn, tx.items(args.items), kwargs, obj, source)


def _exception(tx: Tracer, obj: BaseException, source: Source | None) -> Value:
    _type_guard(tx, obj, source)
    if isinstance(obj, BaseExceptionGroup):
        return _exception_group(tx, obj, source)
    if source is None:
        return ExceptionValue(type(obj), [tx.wrap(a, None) for a in obj.args], obj)
    args = tx.wrap(obj.args, source.attr("args"))
    assert isinstance(args, TupleValue)
    return ExceptionValue(type(obj), tx.items(args.items), obj, source)


def _exception_group(tx: Tracer, obj: BaseExceptionGroup[Any], source: Source | None) -> Value:
    args, message, members = (
        tx.wrap(getattr(obj, name), source.attr(name) if source is not None else None) for name in ("args", "message", "exceptions")
    )
    assert isinstance(args, TupleValue)
    assert isinstance(members, TupleValue)
    return ExceptionGroupValue(type(obj), tx.items(args.items), message, members, obj, source)


def _descriptor(tx: Tracer, obj: Any, source: Source | None) -> Value:
    return PropertyValue(obj, source)


def _object(tx: Tracer, obj: object, source: Source | None) -> Value:
    """Any other object: an instance of a Python class, or something opaque of a C type."""
    cls = type(obj)
    if is_frozen(obj) or issubclass(cls, enum.Enum):
        _identity_guard(tx, obj, source)
        return ObjectValue(cls, obj, source)
    python_class = has_flag(cls, HEAP) or cls is types.SimpleNamespace
    if python_class and (attributes_of(obj) is not None or _has_python_slots(cls)):
        _type_guard(tx, obj, source)
        return ObjectValue(cls, obj, source)
    if type(obj).__module__ in IMMUTABLE_MODULES:
        _identity_guard(tx, obj, source)
    else:
        _type_guard(tx, obj, source)
    return OpaqueValue(cls, obj, source)


def _has_python_slots(cls: type) -> bool:
    return any("__slots__" in c.__dict__ for c in cls.__mro__)


def _remaining(it: Iterator[Any]) -> tuple[Any, ...]:
    """What an iterator over a tuple has still to give; the iterator stays where it is."""
    return tuple(copy.copy(it))


_TUPLE_ITERATOR = type(iter(()))


def _tuple_iterator(tx: Tracer, obj: Iterator[Any], source: Source | None) -> Value:
    """An iterator over a tuple; the entry advances the real one.

    That of a loop in progress is left to CPython: each of its steps would be a variant.
    """
    if source is None or source.root.label.startswith(("L['___stack", "L['.0'")):
        return _object(tx, obj, source)
    _type_guard(tx, obj, source)
    rest, base = _remaining(obj), source.step("call", _remaining)
    tx.guard(base, "len", len(rest))
    return RealIterator(tx, obj, source, [Lazy(x, base.step("tuple_item", i)) for i, x in enumerate(rest)])


# Type -> maker of the value; the first row that fits counts.
ROWS: list[tuple[Any, Callable[[Tracer, Any, Source | None], Value]]] = [
    (torch.Tensor, _tensor),
    (enum.Enum, _object),
    (list, _list),
    (collections.deque, _list),
    (tuple, _tuple),
    (dict, _dict),
    (types.MappingProxyType, _mapping_proxy),
    ((set, frozenset), _set),
    (_TUPLE_ITERATOR, _tuple_iterator),
    (types.FunctionType, _function),
    (types.MethodType, _method),
    (_BUILTIN_TYPES, _builtin),
    (type, _class),
    (types.ModuleType, _module),
    (types.CellType, _cell),
    (slice, _slice),
    (functools.partial, _partial),
    (BaseException, _exception),
    (_DESCRIPTORS, _descriptor),
]
