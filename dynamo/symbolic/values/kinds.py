"""What lives on the symbolic stack.

A `Value` stands for one Python object at run time. It knows the object's type (`cls`) and, when the object existed before
the frame began, the `source` to read it from. Values of mutable objects are shared, never copied: two names for one list
are one `ListValue`. Operations on values are functions in the sibling modules; these classes only hold state.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from dynamo import _C
from dynamo.inspection import written
from dynamo.source import Source

if TYPE_CHECKING:
    from torch.fx import Node


class Attempt(Protocol):
    """What values ask of the attempt that they belong to: see `tracer.py`."""

    root_step: int

    def guard(self, source: Source | None, kind: _C.GuardKind, arg: Any = None) -> None: ...

    def touch(self, v: Value) -> None: ...

    def item(self, items: list[Value | Lazy], i: int) -> Value: ...


class Value:
    """Base of all values. `obj` (on some kinds) is the real object when there is one."""

    cls: type = object
    source: Source | None = None

    def describe(self) -> str:
        """Short text for break messages."""
        where = f" {self.source.name}" if self.source is not None else ""
        return f"{self.cls.__name__}{where}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.describe()})"


class Null(Value):
    """The NULL that CPython pushes beside callables."""


NULL = Null()


class Lazy:
    """A child that nobody has looked at: no guard is due until it is realised."""

    __slots__ = ("obj", "source")

    def __init__(self, obj: object, source: Source) -> None:
        self.obj = obj
        self.source = source


class LazyItem(Lazy):
    """A child that is an item of a dict; its path is made when it is asked for."""

    __slots__ = ("key", "of")

    def __init__(self, obj: object, of: Source, key: str) -> None:
        self.obj = obj
        self.of = of
        self.key = key

    @property
    def source(self) -> Source:  # type: ignore[override]  # a path, made late
        return self.of.step("dict_item", self.key)


class Const(Value):
    """An immutable scalar. Reading `.value` of one with a source guards it."""

    __slots__ = ("_value", "cls", "guarded", "source", "tx")

    def __init__(self, value: object, source: Source | None = None, tx: Attempt | None = None) -> None:
        self._value = value
        self.cls = type(value)
        self.source = source
        self.tx = tx
        self.guarded = source is None

    @property
    def value(self) -> Any:
        if not self.guarded:
            self.guarded = True
            if self.tx is not None and self.source is not None:
                self.tx.guard(self.source, "eq", self._value)
        return self._value

    def peek(self) -> Any:
        """The value, for results that stay as unguarded as this one."""
        return self._value

    def describe(self) -> str:
        return f"{self.cls.__name__} {written(self._value)}"[:80]


NONE = Const(None)
TRUE = Const(True)
FALSE = Const(False)
NOT_IMPLEMENTED = Const(NotImplemented)


class CellValue(Value):
    """A closure cell. `contents` is a Value, a Lazy, or None when empty."""

    cls = types.CellType

    def __init__(self, contents: Value | Lazy | None = None, source: Source | None = None, obj: Any = None) -> None:
        self.contents = contents
        self.source = source
        self.obj = obj


class ObjectValue(Value):
    """An instance of a Python class, real (`obj`) or made by the trace (`obj is None`).

    `inst` is its instance dict as a value (None when the class has none); `slots` holds assignments to slot and getset attributes.
    """

    def __init__(self, cls: type, obj: Any = None, source: Source | None = None) -> None:
        self.cls = cls
        self.obj = obj
        self.source = source
        self.inst: DictValue | None = None
        self.slots: dict[str, Value | None] = {}
        self.init_args: list[Value] | None = None  # what cls.__new__ was called with, for kinds rebuilt through it


class ListValue(ObjectValue):
    """list, deque, or a subclass; also a mutable sequence view."""

    def __init__(self, items: list[Value | Lazy], cls: type = list, obj: Any = None, source: Source | None = None) -> None:
        super().__init__(cls, obj, source)
        self._items = items
        self.given = len(items)  # the real list may have grown since
        self.maxlen: int | None = None
        self.moves = 0  # how often items of a deque came, went or changed places
        self.on_read: Callable[[], None] | None = None  # guards the length of a real list when its items are first looked at

    @property
    def items(self) -> list[Value | Lazy]:
        if self.on_read is not None:
            guard, self.on_read = self.on_read, None
            guard()
        return self._items

    @items.setter
    def items(self, items: list[Value | Lazy]) -> None:
        self._items = items

    def append_unread(self, x: Value) -> None:
        """list.append: adds an item without depending on what is there."""
        self._items.append(x)

    def added_unread(self) -> list[Value | Lazy] | None:
        """Items added to a real list that nobody has looked at, or None when it was read."""
        return self._items[self.given :] if self.on_read is not None else None


class TupleValue(ObjectValue):
    """tuple or a subclass (named tuples, torch.Size, struct sequences)."""

    def __init__(self, items: list[Value | Lazy], cls: type = tuple, obj: Any = None, source: Source | None = None) -> None:
        super().__init__(cls, obj, source)
        self.items = items


class SliceValue(Value):
    """slice(start, stop, step) of values."""

    cls = slice

    def __init__(self, parts: list[Value]) -> None:
        self.parts = parts


class DictValue(ObjectValue):
    """dict or a subclass. `table` maps a hash key (see `hashing.py`) to (key, value). `keys_guarded`: the key list is guarded."""

    def __init__(self, cls: type = dict, obj: Any = None, source: Source | None = None) -> None:
        super().__init__(cls, obj, source)
        self.fill: Callable[[], None] | None = None  # enters the items of a real dict when they are first looked at
        self._table: dict[Any, tuple[Value, Value | Lazy]] = {}
        self.keys_guarded = source is None
        self.written: dict[Any, None] = {}  # hash keys of items that the trace has set, in the order that new keys would have
        self.deleted: set[Any] = set()  # hash keys that the trace has taken out, also where it put them back
        self.default_factory: Value | None = None
        self.moves = 0  # how often keys came, went or changed places
        self.base: DictValue | None = None  # what a mappingproxy shows
        self.owner: ObjectValue | None = None  # set when this is the instance dict of `owner`

    @property
    def table(self) -> dict[Any, tuple[Value, Value | Lazy]]:
        if self.base is not None:
            return self.base.table
        if self.fill is not None:
            fill, self.fill = self.fill, None
            fill()
        return self._table

    @table.setter
    def table(self, table: dict[Any, tuple[Value, Value | Lazy]]) -> None:
        self.fill = None
        self._table = table


class SetValue(ObjectValue):
    """set, frozenset or dict_keys-like set view, or a subclass."""

    def __init__(self, cls: type = set, obj: Any = None, source: Source | None = None) -> None:
        super().__init__(cls, obj, source)
        self.table: dict[Any, Value] = {}


class DictViewValue(Value):
    """dict.keys(), .values(), .items() of a DictValue."""

    def __init__(self, base: DictValue, what: str) -> None:
        self.base = base
        self.what = what
        self.cls = {"keys": type({}.keys()), "values": type({}.values()), "items": type({}.items())}[what]


class ExceptionValue(ObjectValue):
    """An exception instance. `args` as given; __cause__, __context__ and what was set as __traceback__ in `slots`."""

    def __init__(self, cls: type, args: list[Value], obj: Any = None, source: Source | None = None) -> None:
        super().__init__(cls, obj, source)
        self.args = args
        self.traceback: TracebackValue | None = None  # since it was raised

    def set_args(self, args: list[Value]) -> None:
        self.args = args
        if self.obj is not None or self.source is not None:
            self.slots["args"] = TupleValue([*args])


class TracebackValue(Value):
    """The traceback of an exception that the trace raised: known to be there, and its own. `born` is the root step that raised."""

    cls = types.TracebackType

    def __init__(self, born: int) -> None:
        self.born = born
        self.passed: list[tuple[types.CodeType, int]] = []  # frames that the exception has passed, innermost first, with their lines


class ExceptionGroupValue(ExceptionValue):
    """An exception group. `message` and `members` are what it was made of; assigning to `args` doesn't change them."""

    def __init__(
        self, cls: type, args: list[Value], message: Value, members: TupleValue, obj: Any = None, source: Source | None = None
    ) -> None:
        super().__init__(cls, args, obj, source)
        self.message = message
        self.members = members
        self.like: object = object()  # the same for groups that would have the same traceback


class FunctionValue(Value):
    """A Python function: real (`obj`) or made by MAKE_FUNCTION while tracing."""

    cls = types.FunctionType

    def __init__(self, obj: types.FunctionType | None, source: Source | None = None) -> None:
        self.obj = obj
        self.source = source
        self.code: types.CodeType = obj.__code__ if obj is not None else None  # type: ignore[assignment]  # made functions set it
        self.globals: dict[str, Any] = obj.__globals__ if obj is not None else {}
        self.name: str = obj.__name__ if obj is not None else ""
        self.qualname: str = obj.__qualname__ if obj is not None else ""
        self.closure: list[CellValue] | None = None
        self.defaults: Value | None = None
        self.kwdefaults: Value | None = None
        self.annotations: Value | None = None
        self.attrs: DictValue | None = None
        self.slots: dict[str, Value] = {}  # __name__, __doc__ and the like, set on a function the trace made

    def describe(self) -> str:
        return f"function {self.qualname or self.name}"


class MethodValue(Value):
    """A bound method: `fn` (a function, builtin or any callable value) with `self_`. Methods in C are bound to objects of other types."""

    def __init__(self, fn: Value, self_: Value, source: Source | None = None) -> None:
        self.fn: Value = fn
        self.cls = _BOUND.get(type(fn.obj), types.MethodType) if isinstance(fn, BuiltinValue) else types.MethodType
        self.self_ = self_
        self.source = source

    def describe(self) -> str:
        return f"{self.fn.describe()} of {self.self_.describe()}"


_BOUND: dict[type, type] = {
    types.MethodDescriptorType: types.BuiltinMethodType,
    types.ClassMethodDescriptorType: types.BuiltinMethodType,
    types.WrapperDescriptorType: types.MethodWrapperType,
}


class RealValue(Value):
    """What is known by the real object alone."""

    def __init__(self, obj: Any, source: Source | None = None) -> None:
        self.obj = obj
        self.cls = type(obj)
        self.source = source


class BuiltinValue(RealValue):
    """A callable implemented in C (function, method descriptor, slot wrapper, class method descriptor), unbound."""

    def describe(self) -> str:
        return f"builtin {getattr(self.obj, '__qualname__', getattr(self.obj, '__name__', repr(self.obj)))}"


class ClassValue(RealValue):
    """A type object."""

    obj: type

    def describe(self) -> str:
        return f"class {self.obj.__qualname__}"


class ModuleValue(RealValue):
    """A Python module (the import kind)."""

    obj: types.ModuleType

    def describe(self) -> str:
        return f"module {self.obj.__name__}"


class SuperValue(Value):
    """super(cls, obj)."""

    cls = super

    def __init__(self, start: type, self_: Value) -> None:
        self.start = start
        self.self_ = self_


class PartialValue(ObjectValue):
    """functools.partial. `keywords` is a dict that the program may have as well."""

    def __init__(
        self, cls: type, fn: Value, args: list[Value], keywords: dict[str, Value] | DictValue, obj: Any = None, source: Source | None = None
    ) -> None:
        super().__init__(cls, obj, source)
        self.fn = fn
        self.args = args
        if isinstance(keywords, dict):
            given, keywords = keywords, DictValue()
            keywords.table = {k: (Const(k), v) for k, v in given.items()}
        self.keywords = keywords

    @property
    def kwargs(self) -> dict[str, Value]:
        return {key.value: v for key, v in self.keywords.table.values() if isinstance(key, Const) and isinstance(v, Value)}


class PropertyValue(RealValue):
    """A property-like descriptor object read from a class."""


class TensorValue(Value):
    """A tensor: an FX node and the fake tensor with its facts. `obj` is the real tensor for inputs."""

    def __init__(self, node: Node, fake: Any, cls: type, obj: Any = None, source: Source | None = None) -> None:
        self.node = node
        self.fake = fake
        self.cls = cls
        self.obj = obj
        self.source = source
        self.attrs: dict[str, Value] = {}  # Python attributes set by the trace (grad, user attributes)

    def describe(self) -> str:
        return f"tensor {self.node.name}"


class ArrayValue(Value):
    """A NumPy array, or a NumPy number that the graph computes: `tensor` has its values (and, for an array, its memory)."""

    def __init__(self, cls: type, tensor: TensorValue, obj: Any = None, source: Source | None = None) -> None:
        self.cls = cls
        self.tensor = tensor
        self.obj = obj
        self.source = source


class NumberValue(Value):
    """A Python number that the graph computes (`x.item()`): `tensor` holds it, without dimensions and in Python's precision."""

    def __init__(self, cls: type, tensor: TensorValue) -> None:
        self.cls = cls
        self.tensor = tensor

    def describe(self) -> str:
        return f"{self.cls.__name__} that a tensor holds"


class GraphValue(Value):
    """A Python object that an op of the graph makes when it runs (a mode guard); known by its node only."""

    def __init__(self, node: Node, cls: type, born: int = 0) -> None:
        self.node = node
        self.cls = cls
        self.born = born  # the root step that made it


class TracingState(Value):
    """Marker base for values that can't be rebuilt in generated code; `born` is the root step that made them."""

    def __init__(self, tx: Attempt) -> None:
        self.born = tx.root_step


class IterValue(TracingState):
    """An iterator made by the trace. `next` returns a Value or raises StopIteration (the Python one, of the tracer)."""

    def __init__(
        self, tx: Attempt, cls: type, step: Callable[[], Value], rebuild: Callable[[], tuple[str, list[Any]]] | None = None
    ) -> None:
        super().__init__(tx)
        self.cls = cls
        self.next = step
        self.rebuild = rebuild  # -> (kind, values), see codegen

    def __iter__(self) -> Iterator[Value]:
        while True:
            try:
                yield self.next()
            except StopIteration:
                return


# The index of an iterator over a sequence that has ended: it stays so when the sequence grows.
ENDED = 1 << 60


class RealIterator(IterValue):
    """An iterator over a tuple that existed before the frame. `taken` items of it are read."""

    def __init__(self, tx: Attempt, obj: Iterator[Any], source: Source, rest: list[Value | Lazy]) -> None:
        self.obj = obj
        self.source = source
        self.taken = 0

        def step() -> Value:
            if self.taken >= len(rest):
                raise StopIteration
            tx.touch(self)
            self.taken += 1
            return tx.item(rest, self.taken - 1)

        super().__init__(tx, type(obj), step)


class GeneratorValue(TracingState):
    """A generator of an inlined function; `frame` is its suspended interpreter frame."""

    cls = types.GeneratorType

    def __init__(self, tx: Attempt, frame: Any) -> None:
        super().__init__(tx)
        self.frame = frame
        self.state = "created"  # created, suspended, running, closed


class OpaqueValue(ObjectValue):
    """A real object of a C type we know nothing about: may be passed around, compared by identity, and returned."""
