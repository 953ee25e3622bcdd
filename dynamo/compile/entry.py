"""The entry function of a compiled frame, as Python source.

An entry loads what it needs from the frame inputs, calls the graph, builds the objects the trace made, replays side effects,
and returns: the result, or a `Tail` into the native step of a graph break. Order matters: every path over the inputs
is read before effects change what the paths mean.

    def entry(i0, i1):                 # frame inputs
        v1 = i1.weight                 # loads
        g = graph(i0, v1)              # the captured graph
        l1 = [g[0], i0]                # new objects
        list_setitem(v3, all_, l1)     # effects
        return l1
"""

from __future__ import annotations

import collections
import functools
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx import Node

from dynamo import _C
from dynamo.graph import numpy_calls
from dynamo.inspection import is_library
from dynamo.source import Source
from dynamo.symbolic.attempt.tracer import Tracer
from dynamo.symbolic.protocols.attributes import getattr_
from dynamo.symbolic.protocols.choices import ChoiceValue
from dynamo.symbolic.python.warning_rows import give
from dynamo.symbolic.values.errors import CannotRebuild
from dynamo.symbolic.values.keys import object_key
from dynamo.symbolic.values.kinds import (
    ENDED,
    ArrayValue,
    BuiltinValue,
    CellValue,
    ClassValue,
    Const,
    DictValue,
    DictViewValue,
    ExceptionGroupValue,
    ExceptionValue,
    FunctionValue,
    GeneratorValue,
    GraphValue,
    IterValue,
    Lazy,
    ListValue,
    MethodValue,
    ModuleValue,
    Null,
    NumberValue,
    ObjectValue,
    OpaqueValue,
    PartialValue,
    PropertyValue,
    RealIterator,
    SetValue,
    SliceValue,
    SuperValue,
    TensorValue,
    TracebackValue,
    TupleValue,
    Value,
)
from dynamo.symbolic.values.numpy_types import np
from dynamo.symbolic.values.slots import fill, slots

# Names every entry can use.
_HELPERS: dict[str, Any] = {
    "dict_getitem": dict.__getitem__,
    "inst_dict": _C.inst_dict,
    "list_getitem": list.__getitem__,
    "tuple_getitem": tuple.__getitem__,
    "dict_setitem": dict.__setitem__,
    "dict_delitem": dict.__delitem__,
    "dict_clear": dict.clear,
    "list_setitem": list.__setitem__,
    "list_extend": list.extend,
    "set_update": set.update,
    "set_clear": set.clear,
    "object_setattr": object.__setattr__,
    "object_delattr": object.__delattr__,
    "new": object.__new__,
    "tuple_new": tuple.__new__,
    "list_new": list.__new__,
    "dict_new": dict.__new__,
    "set_new": set.__new__,
    "new_group": BaseExceptionGroup.__new__,
    "Cell": types.CellType,
    "Function": types.FunctionType,
    "Method": types.MethodType,
    "partial": functools.partial,
    "all_": slice(None),
    "Tail": _C.Tail,
}


class Names:
    """Constants of a generated function, by identity, under readable names."""

    def __init__(self) -> None:
        self.globals: dict[str, Any] = dict(_HELPERS)
        self._by_id: dict[int, str] = {}
        self._keep: list[Any] = []

    def const(self, obj: Any) -> str:
        name = self._by_id.get(id(obj))
        if name is None:
            text = getattr(obj, "__name__", None) or type(obj).__name__
            base = "".join(c if c.isalnum() else "_" for c in str(text)) or "c"
            name = f"{base}_{len(self._by_id)}"
            if isinstance(obj, type) and "<locals>" in obj.__qualname__ and not is_library(obj.__module__):
                self.globals[name] = weakref.ref(obj)  # the entry goes when the class does
                name += "()"
            else:
                self.globals[name] = obj
            self._by_id[id(obj)] = name
            self._keep.append(obj)
        return name


class EntryWriter:
    """Writes one entry. `value(v)` gives an expression for a value, adding the statements that make it."""

    def __init__(self, tx: Tracer, inputs: int) -> None:
        self.tx = tx
        self.inputs = inputs
        self.names = Names()
        self.loads: list[str] = []
        self.body: list[str] = []
        self.first_effects: list[str] = []  # those that come before the graph runs
        self.effects: list[str] = []
        self.outputs: list[Node] = []
        self._loaded: dict[Source, str] = {}
        self._made: dict[int, str] = {}
        self._keep: list[Value] = []
        self._count = 0

    # ---- loads --------------------------------------------------------------------------------------------

    def load(self, source: Source) -> str:
        """The variable holding what `source` read when the entry began."""
        name = self._loaded.get(source)
        if name is None:
            text = source.code(self.load, self.names.const)
            if source.kind in ("input", "const"):
                name = text
            else:
                name = self._fresh("v")
                self.loads.append(f"{name} = {text}")
            self._loaded[source] = name
        return name

    def _fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    # ---- values -------------------------------------------------------------------------------------------

    def value(self, v: Value | Lazy) -> str:
        if isinstance(v, Lazy):
            return self.load(v.source)
        if isinstance(v, Const):
            return self._const(v)
        known = self._made.get(id(v))
        if known is not None:
            return known
        text = self._existing(v)
        if text is None:
            text = self._make(v)
        self._made[id(v)] = text
        self._keep.append(v)
        return text

    def _const(self, v: Const) -> str:
        if v.source is not None and not v.guarded:
            return self.load(v.source)
        x = v.value
        if type(x) in (int, bool, str, bytes, type(None)) or x is Ellipsis:
            return repr(x)
        if type(x) is float and x == x and abs(x) != float("inf"):
            return repr(x)
        return self.names.const(x)

    def _existing(self, v: Value) -> str | None:
        """Objects that exist without the entry making them: read by path, or kept as constants."""
        if v.source is not None:
            return self.load(v.source) if v.source.kind != "const" else self.names.const(v.source.arg)
        if isinstance(v, ClassValue | ModuleValue | BuiltinValue | PropertyValue | OpaqueValue | TensorValue):
            return self.names.const(v.obj) if v.obj is not None else None
        obj = getattr(v, "obj", None)
        return self.names.const(obj) if obj is not None else None

    def _make(self, v: Value) -> str:
        make = slots(v).rebuild
        if make is not None:
            return str(make(self, v))
        raise CannotRebuild(v.describe(), getattr(v, "born", 0))

    def assign(self, prefix: str, text: str, v: Value | None = None) -> str:
        name = self._fresh(prefix)
        self.body.append(f"{name} = {text}")
        if v is not None:
            self._made[id(v)] = name
            self._keep.append(v)
        return name

    def sequence(self, items: list[Value | Lazy] | list[Value]) -> str:
        return ", ".join(self.value(x) for x in items)

    def output(self, node: Node) -> int:
        if node not in self.outputs:
            self.outputs.append(node)
        return self.outputs.index(node)

    # ---- effects ------------------------------------------------------------------------------------------

    def replay(self) -> None:
        """Statements for every change of an object that existed before the frame."""
        for w in self.tx.effects.warned:
            parts = (self.value(w.message), *(self.names.const(x) for x in (w.category, w.place, w.filters)))
            (self.first_effects if w.early and not self.body else self.effects).append(f"{self.names.const(give)}({', '.join(parts)})")
        for source, (own, _) in self.tx.generators.items():
            given, drawn = self.load(source), self.names.const(own)
            self.first_effects.append(f"{drawn}.set_state({given}.get_state())")
            self.effects.append(f"{given}.set_state({drawn}.get_state())")
        for v in list(self.tx.effects.mutated.values()):
            if isinstance(v, CellValue):
                if v.obj is not None or v.source is not None:
                    self._cell_effect(v)
            elif isinstance(v, DictValue) and v.owner is not None:
                self._instance_effect(v, v.owner)
            elif isinstance(v, DictValue):
                self._dict_effect(v)
            elif isinstance(v, ListValue):
                self._list_effect(v)
            elif isinstance(v, RealIterator):
                self.effects.append(f"{self.names.const(_advance)}({self.value(v)}, {v.taken})")
            elif isinstance(v, SetValue):
                target = self.value(v)
                items = ", ".join(self.value(x) for x in v.table.values())
                self.effects += [f"set_clear({target})", f"set_update({target}, ({items}{',' if items else ''}))"]
            elif isinstance(v, TensorValue):
                target = self.value(v)
                for attr, held in v.attrs.items():
                    is_first = attr == "grad" and id(v) in self.tx.effects.grads_dropped  # as in eager: the graph may have that memory
                    (self.first_effects if is_first else self.effects).append(f"{target}.{attr} = {self.value(held)}")
            if isinstance(v, ObjectValue) and v.slots:
                self._slot_effect(v)
        for globals_, name, x in self.tx.effects.global_writes.values():
            target = self.names.const(globals_)
            self.effects.append(f"{target}[{name!r}] = {self.value(x)}" if x is not None else f"{target}.pop({name!r}, None)")
        for var, x in self.tx.effects.context_writes.items():
            self.effects.append(f"{self.names.const(var)}.set({self.value(x)})")
        for (cls, name), x in self.tx.effects.class_writes.items():
            target = self.names.const(cls)
            self.effects.append(f"{target}.{name} = {self.value(x)}" if x is not None else f"del {target}.{name}")

    def _cell_effect(self, v: CellValue) -> None:
        target = self.value(v)
        if v.contents is None:
            self.effects.append(f"del {target}.cell_contents")
        else:
            self.effects.append(f"{target}.cell_contents = {self.value(v.contents)}")

    def _list_effect(self, v: ListValue) -> None:
        target, added = self.value(v), v.added_unread()
        items = self.sequence(v.items if added is None else added)
        if added is not None:
            self.effects.append(f"list_extend({target}, ({items},))")
        elif issubclass(v.cls, collections.deque):
            self.effects += [f"{target}.clear()", f"{target}.extend(({items}{',' if items else ''}))"]
        else:
            self.effects.append(f"list_setitem({target}, all_, ({items}{',' if items else ''}))")

    def _slot_effect(self, v: ObjectValue) -> None:
        target = self.value(v)
        for name, x in v.slots.items():
            if x is None:
                self.effects.append(f"object_delattr({target}, {name!r})")
            else:
                self.effects.append(f"object_setattr({target}, {name!r}, {self.value(x)})")

    def _instance_effect(self, d: DictValue, owner: ObjectValue) -> None:
        if owner.obj is None and owner.source is None:
            return
        target = self.value(owner)
        removed, changed, same_order = self._changes(d)
        if not same_order:
            removed += [k for k in dict.__iter__(d.obj) if object_key(k) in d.deleted and object_key(k) in d.table]
        setter, deleter = (self.names.const(m) if m is not plain else text for m, plain, text in _attribute_methods(owner.cls))
        for key in removed:
            self.effects.append(f"{deleter}({target}, {key!r})")
        for key, x in changed:
            name = self.tx.as_python(key)
            self.effects.append(f"{setter}({target}, {name!r}, {self.value(x)})")

    def _dict_effect(self, d: DictValue) -> None:
        target = self.value(d)
        removed, changed, same_order = self._changes(d)
        setitem, delitem, clear = (
            ("OrderedDict_setitem", "OrderedDict_delitem", "OrderedDict_clear")
            if issubclass(d.cls, collections.OrderedDict)
            else ("dict_setitem", "dict_delitem", "dict_clear")
        )
        self._ordered_dict_helpers(setitem)
        if not same_order:
            pairs = [(self.value(k), self.value(x)) for k, x in d.table.values()]
            self.effects.append(f"{clear}({target})")
            self.effects += [f"{setitem}({target}, {k}, {x})" for k, x in pairs]
            return
        for key in removed:
            self.effects.append(f"{delitem}({target}, {self._key(key)})")
        self.effects += [f"{setitem}({target}, {self.value(k)}, {self.value(x)})" for k, x in changed]

    def _ordered_dict_helpers(self, setitem: str) -> None:
        if setitem.startswith("Ordered"):
            od = collections.OrderedDict
            self.names.globals |= {
                "OrderedDict_setitem": od.__setitem__,
                "OrderedDict_delitem": od.__delitem__,
                "OrderedDict_clear": od.clear,
            }

    def _key(self, key: Any) -> str:
        return repr(key) if type(key) in (str, int, bool, type(None)) else self.names.const(key)

    def _changes(self, d: DictValue) -> tuple[list[Any], list[tuple[Value, Value]], bool]:
        """(removed keys, changed items, whether plain deletes and sets give the right order) against the real dict.

        Items are set in the order of the program: a key that the real dict has now it may lack at the next call.
        """
        original = {object_key(k): (k, x) for k, x in dict.items(d.obj)}
        removed = [k for h, (k, _) in original.items() if h not in d.table]
        changed: list[tuple[Value, Value]] = []
        for h in dict.fromkeys([*(h for h in d.written if h in d.table), *d.table]):
            key, x = d.table[h]
            if isinstance(x, Lazy):
                continue
            before = original.get(h)
            if before is not None and h not in d.deleted and d.source is not None and x.source is d.source.step("dict_item", before[0]):
                continue  # that it is the same object as at this call says nothing of the next
            changed.append((key, x))
        kept = [h for h in original if h in d.table]
        same_order = list(d.table)[: len(kept)] == kept
        return removed, changed, same_order

    # ---- the whole ----------------------------------------------------------------------------------------

    def source_text(self, name: str, result: str, graph_call: list[str] | None) -> str:
        params = ", ".join(f"i{i}" for i in range(self.inputs))
        lines = [*self.loads, *self.first_effects]
        if graph_call is not None:
            lines += graph_call
        lines += [*self.body, *self.effects, f"return {result}"]
        return f"def {name}({params}):\n" + "".join(f"    {line}\n" for line in lines)


def _attribute_methods(cls: type) -> Iterator[tuple[Any, Any, str]]:
    """Per way to change an attribute: the C method for instances of a class, object's, and how that is called in entries."""
    for name, text in (("__setattr__", "object_setattr"), ("__delattr__", "object_delattr")):
        found = (c.__dict__.get(name) for c in cls.__mro__)
        own = next(m for m in found if isinstance(m, types.WrapperDescriptorType) and m.__name__ == name)
        yield own, getattr(object, name), text


# ---- makers: an object is named before it is filled, so that cycles close ---------------------------------


def _tensor(w: EntryWriter, v: TensorValue) -> str:
    index = w.output(v.node)
    if not v.attrs:
        return f"g[{index}]"
    name = w.assign("t", f"g[{index}]", v)
    w.body += [f"{name}.{attr} = {w.value(x)}" for attr, x in v.attrs.items()]
    return name


def _array(w: EntryWriter, v: ArrayValue) -> str:
    fn = numpy_calls.number_of if issubclass(v.cls, np.generic) else numpy_calls.array_of
    return w.assign("a", f"{w.names.const(fn)}({w.value(v.tensor)})", v)


def _number(w: EntryWriter, v: NumberValue) -> str:
    return w.assign("n", f"{w.value(v.tensor)}.item()", v)


def _graph_value(w: EntryWriter, v: GraphValue) -> str:
    if v.cls is torch._C._InferenceMode:
        raise CannotRebuild("an inference mode that the trace entered", v.born)
    return f"g[{w.output(v.node)}]"


def _tuple(w: EntryWriter, v: TupleValue) -> str:
    items = w.sequence(v.items)
    text = f"({items}{',' if len(v.items) == 1 else ''})"
    if v.cls is not tuple:
        cls = w.names.const(v.cls)
        plain = hasattr(v.cls, "_fields") or not (v.cls is torch.Size or hasattr(v.cls, "n_fields"))
        text = f"tuple_new({cls}, {text})" if plain else f"{cls}({text})"
    name = w.assign("t", text, v)
    _attributes(w, v, name)
    return name


def _list(w: EntryWriter, v: ListValue) -> str:
    if v.cls is list and all(isinstance(x, Lazy | Const | TensorValue) or x.source is not None for x in v.items):
        return w.assign("l", f"[{w.sequence(v.items)}]", v)
    if v.cls is list:
        name = w.assign("l", "[]", v)
        fill = "list_extend"
    elif issubclass(v.cls, collections.deque):
        name = w.assign("l", f"{w.names.const(v.cls)}(maxlen={v.maxlen!r})", v)
        fill = w.names.const(collections.deque.extend)
    else:
        name = w.assign("l", f"list_new({w.names.const(v.cls)})", v)
        fill = "list_extend"
    if v.items:
        items = w.sequence(v.items)
        w.body.append(f"{fill}({name}, ({items},))")
    _attributes(w, v, name)
    return name


def _dict(w: EntryWriter, v: DictValue) -> str:
    ordered = issubclass(v.cls, collections.OrderedDict)
    if v.cls is dict:
        name = w.assign("d", "{}", v)
    elif issubclass(v.cls, collections.defaultdict):
        factory = w.value(v.default_factory) if v.default_factory is not None else "None"
        cls = w.names.const(v.cls)
        name = w.assign("d", f"{cls}({factory})" if v.cls is collections.defaultdict else f"{cls}.__new__({cls})", v)
    elif v.cls is types.MappingProxyType:
        raise CannotRebuild(v.describe(), 0)
    else:
        base = w.names.const(collections.OrderedDict.__new__) if ordered else "dict_new"
        name = w.assign("d", f"{base}({w.names.const(v.cls)})", v)
    setitem = w.names.const(collections.OrderedDict.__setitem__) if ordered else "dict_setitem"
    w.body += [f"{setitem}({name}, {w.value(k)}, {w.value(x)})" for k, x in v.table.values()]
    _attributes(w, v, name)
    return name


def _set(w: EntryWriter, v: SetValue) -> str:
    items = ", ".join(w.value(x) for x in v.table.values())
    text = f"({items}{',' if items else ''})"
    if issubclass(v.cls, frozenset):
        return w.assign("s", f"{w.names.const(v.cls)}({text})", v)
    name = w.assign("s", "set()" if v.cls is set else f"set_new({w.names.const(v.cls)})", v)
    if items:
        w.body.append(f"set_update({name}, {text})")
    _attributes(w, v, name)
    return name


def _exception(w: EntryWriter, v: ExceptionValue) -> str:
    cls = w.names.const(v.cls)
    args = w.sequence(v.args)
    if isinstance(v, ExceptionGroupValue):
        name = w.assign("e", f"new_group({cls}, {w.value(v.message)}, {w.value(v.members)})", v)
    else:
        name = w.assign("e", f"{cls}.__new__({cls}{', ' + args if args else ''})", v)
    w.body.append(f"{name}.args = ({args}{',' if args else ''})")
    for slot in ("__cause__", "__context__"):
        if v.slots.get(slot) is not None:
            w.body.append(f"{name}.{slot} = {w.value(v.slots[slot])}")  # type: ignore[arg-type]  # not None here
    _attributes(w, v, name, skip=("__cause__", "__context__", "__traceback__", "__suppress_context__", "args"))
    return name


def _object(w: EntryWriter, v: ObjectValue) -> str:
    plain = not issubclass(v.cls, types.SimpleNamespace)  # made by C, which `object` refuses to do for it
    name = w.assign("o", f"{'new' if plain else w.names.const(types.SimpleNamespace.__new__)}({w.names.const(v.cls)})", v)
    _attributes(w, v, name)
    return name


def _attributes(w: EntryWriter, v: ObjectValue, name: str, skip: tuple[str, ...] = ()) -> None:
    if v.inst is not None:
        for k, x in v.inst.table.values():
            w.body.append(f"object_setattr({name}, {w.tx.as_python(k)!r}, {w.value(x)})")
    for slot, slot_value in v.slots.items():
        if slot not in skip and slot_value is not None:
            w.body.append(f"object_setattr({name}, {slot!r}, {w.value(slot_value)})")


def _partial(w: EntryWriter, v: PartialValue) -> str:
    parts = [w.value(v.fn), *(w.value(a) for a in v.args), *(f"{k}={w.value(x)}" for k, x in v.kwargs.items())]
    return w.assign("p", f"partial({', '.join(parts)})", v)


def _cell(w: EntryWriter, v: CellValue) -> str:
    name = w.assign("c", "Cell()", v)
    if v.contents is not None:
        w.body.append(f"{name}.cell_contents = {w.value(v.contents)}")
    return name


def _function(w: EntryWriter, v: FunctionValue) -> str:
    cells = ", ".join(w.value(c) for c in v.closure or ())
    closure = f"({cells},)" if cells else "None"
    code, globals_ = w.names.const(v.code), w.names.const(v.globals)
    defaults = w.value(v.defaults) if v.defaults is not None else "None"
    name = w.assign("f", f"Function({code}, {globals_}, {v.name!r}, {defaults}, {closure})", v)
    w.body.append(f"{name}.__qualname__ = {v.qualname!r}")
    if v.kwdefaults is not None and not isinstance(v.kwdefaults, Const):
        w.body.append(f"{name}.__kwdefaults__ = {w.value(v.kwdefaults)}")
    if v.attrs is not None:
        w.body += [f"{name}.{w.tx.as_python(k)} = {w.value(x)}" for k, x in v.attrs.table.values()]
    if v.annotations is not None:
        getattr_(w.tx, v, "__annotations__")  # enters them among the slots
    w.body += [f"{name}.{slot} = {w.value(x)}" for slot, x in v.slots.items()]
    return name


def _method(w: EntryWriter, v: MethodValue) -> str:
    if isinstance(v.fn, BuiltinValue):
        receiver = w.value(v.self_)
        of_class = isinstance(v.fn.obj, types.ClassMethodDescriptorType)
        return w.assign("m", f"{w.value(v.fn)}.__get__({f'None, {receiver}' if of_class else receiver})", v)
    return w.assign("m", f"Method({w.value(v.fn)}, {w.value(v.self_)})", v)


def _slice(w: EntryWriter, v: SliceValue) -> str:
    return w.assign("s", f"slice({', '.join(w.value(p) for p in v.parts)})", v)


def _super(w: EntryWriter, v: SuperValue) -> str:
    return w.assign("s", f"super({w.names.const(v.start)}, {w.value(v.self_)})", v)


def _dict_view(w: EntryWriter, v: DictViewValue) -> str:
    return w.assign("k", f"{w.value(v.base)}.{v.what}()", v)


def _traceback(w: EntryWriter, v: TracebackValue) -> str:
    raise CannotRebuild("a traceback", v.born)


def _generator(w: EntryWriter, v: GeneratorValue) -> str:
    raise CannotRebuild("a generator in use", v.born)


def _iterator(w: EntryWriter, v: IterValue) -> str:
    if v.rebuild is None:
        raise CannotRebuild(f"a {v.cls.__name__} in use", v.born)
    kind, values = v.rebuild()
    maker = ITERATORS.get(kind)
    if maker is None:
        raise CannotRebuild(f"a {v.cls.__name__} in use", v.born)
    return w.assign("it", maker(w, values), v)


def _sequence_iterator(w: EntryWriter, values: list[Any]) -> str:
    owner, index = values
    maker = w.names.const(_iterator_at)
    return f"{maker}({w.value(owner)}, {index})"


def _advance(it: Any, steps: int) -> None:
    for _ in range(steps):
        next(it)


def _iterator_at(owner: Any, index: int) -> Any:
    """An iterator over `owner` that has taken `index` steps."""
    it = iter(owner)
    if index >= ENDED:
        for _ in it:
            pass
        return it
    if hasattr(it, "__setstate__"):
        it.__setstate__(index)
        return it
    for _ in range(index):
        next(it, None)
    return it


# iterator kind (IterValue.rebuild) -> expression; rows of other kinds are added beside the iterators that use them
ITERATORS: dict[str, Callable[[EntryWriter, list[Any]], str]] = {
    "sequence": _sequence_iterator,
    "values": lambda w, values: f"iter([{w.sequence(values)}])",
    "zip": lambda w, values: f"zip({w.sequence(values[:-1])}{', ' if len(values) > 1 else ''}strict={w.value(values[-1])})",
    "enumerate": lambda w, values: f"enumerate({w.value(values[0])}, {w.value(values[1])})",
    "map": lambda w, values: f"map({w.sequence(values)})",
    "filter": lambda w, values: f"filter({w.sequence(values)})",
    "call": lambda w, values: f"{w.value(values[0])}({w.sequence(values[1:])})",
}


def _choice(w: EntryWriter, v: ChoiceValue) -> str:
    raise v.tx.restart_plainly()


def _null(w: EntryWriter, v: Null) -> str:
    raise AssertionError("NULL is not a value")


fill(Null, rebuild=_null)
fill(TensorValue, rebuild=_tensor)
fill(ArrayValue, rebuild=_array)
fill(NumberValue, rebuild=_number)
fill(ChoiceValue, rebuild=_choice)
fill(GraphValue, rebuild=_graph_value)
fill(TupleValue, rebuild=_tuple)
fill(ListValue, rebuild=_list)
fill(DictValue, rebuild=_dict)
fill(SetValue, rebuild=_set)
fill(ExceptionValue, rebuild=_exception)
fill(PartialValue, rebuild=_partial)
fill(ObjectValue, rebuild=_object)
fill(CellValue, rebuild=_cell)
fill(FunctionValue, rebuild=_function)
fill(MethodValue, rebuild=_method)
fill(SliceValue, rebuild=_slice)
fill(SuperValue, rebuild=_super)
fill(DictViewValue, rebuild=_dict_view)
fill(GeneratorValue, rebuild=_generator)
fill(TracebackValue, rebuild=_traceback)
fill(IterValue, rebuild=_iterator)
