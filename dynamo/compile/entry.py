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
from collections.abc import Iterator
from typing import Any

from torch.fx import Node

from dynamo import _C
from dynamo.inspection import is_library
from dynamo.source import Source, literal
from dynamo.symbolic.attempt.tracer import Tracer
from dynamo.symbolic.attempt.warned import give
from dynamo.symbolic.values.errors import CannotRebuild
from dynamo.symbolic.values.keys import items_of, object_key
from dynamo.symbolic.values.kinds import (
    BuiltinValue,
    CellValue,
    ClassValue,
    Const,
    DictValue,
    Lazy,
    ListValue,
    ModuleValue,
    ObjectValue,
    OpaqueValue,
    PropertyValue,
    RealIterator,
    SetValue,
    TensorValue,
    Value,
)
from dynamo.symbolic.values.slots import slots

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
        self.outputs: dict[Node, int] = {}  # with the place of each
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

    def is_made(self, v: Value) -> bool:
        return id(v) in self._made

    def _const(self, v: Const) -> str:
        if v.source is not None and not v.guarded:
            return self.load(v.source)
        return literal(v.value, self.names.const)

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
        return self.outputs.setdefault(node, len(self.outputs))

    # ---- effects ------------------------------------------------------------------------------------------

    def replay(self, starts_over: bool) -> None:
        """Statements for every change of an object that existed before the frame. `starts_over`: the graph may raise, and plain Python
        then does all this again, so that it can see whether it was done."""
        for w in self.tx.effects.warned:
            parts = (self.value(w.message), *(self.names.const(x) for x in (w.category, w.place, w.filters)))
            is_first = w.early and not self.body and not starts_over
            (self.first_effects if is_first else self.effects).append(f"{self.names.const(give)}({', '.join(parts)})")
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
                    if is_first and starts_over and v.source is not None and self._is_read(v.source.attr("grad")):
                        is_first = False
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

    def _is_read(self, source: Source) -> bool:
        """Whether a result or the graph is made of what `source` reads."""
        return source in self._loaded or any(p.source is source and n.users for n, p in self.tx.builder.placeholders)

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
            self.effects += [f"list_extend({target}, ({items},))"] if items else []
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
        return literal(key, self.names.const)

    def _changes(self, d: DictValue) -> tuple[list[Any], list[tuple[Value, Value]], bool]:
        """(removed keys, changed items, whether plain deletes and sets give the right order) against the real dict.

        Items are set in the order of the program: a key that the real dict has now it may lack at the next call.
        """
        original = {object_key(k): (k, x) for k, x in items_of(d.obj)}
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


def _advance(it: Any, steps: int) -> None:
    for _ in range(steps):
        next(it)
