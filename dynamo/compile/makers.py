"""How an entry makes an object of each kind that the trace made: it is named before it is filled, so that cycles close."""

from __future__ import annotations

import collections
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from dynamo.compile.entry import EntryWriter
from dynamo.graph import numpy_calls
from dynamo.symbolic.protocols.attributes import getattr_
from dynamo.symbolic.protocols.choices import ChoiceValue
from dynamo.symbolic.values.errors import CannotRebuild
from dynamo.symbolic.values.kinds import (
    ENDED,
    ArrayValue,
    BuiltinValue,
    CellValue,
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
    Null,
    NumberValue,
    ObjectValue,
    PartialValue,
    SetValue,
    SliceValue,
    SuperValue,
    TensorValue,
    TracebackValue,
    TupleValue,
)
from dynamo.symbolic.values.numpy_types import np
from dynamo.symbolic.values.slots import fill


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
        extend = "list_extend"
    elif issubclass(v.cls, collections.deque):
        name = w.assign("l", f"{w.names.const(v.cls)}(maxlen={v.maxlen!r})", v)
        extend = w.names.const(collections.deque.extend)
    else:
        name = w.assign("l", f"list_new({w.names.const(v.cls)})", v)
        extend = "list_extend"
    if v.items:
        items = w.sequence(v.items)
        w.body.append(f"{extend}({name}, ({items},))")
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
        if v.base is None:
            raise CannotRebuild(v.describe(), 0)
        return w.assign("d", f"{w.names.const(types.MappingProxyType)}({w.value(v.base)})", v)
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
    if issubclass(v.cls, StopIteration | SystemExit | SyntaxError):  # keep some arguments as attributes
        init = next(raw for c in v.cls.__mro__ if isinstance(raw := c.__dict__.get("__init__"), types.WrapperDescriptorType))
        w.body.append(f"{w.names.const(init)}({name}{', ' + args if args else ''})")
    for slot in ("__cause__", "__context__"):
        if v.slots.get(slot) is not None:
            w.body.append(f"{name}.{slot} = {w.value(v.slots[slot])}")  # type: ignore[arg-type]  # not None here
    if v.traceback is not None and "__traceback__" not in v.slots:
        w.body.append(f"{name}.__traceback__ = {w.names.const(_traceback_of)}({w.names.const(tuple(v.traceback.passed))})")
    _attributes(w, v, name, skip=("__cause__", "__context__", "__traceback__", "__suppress_context__", "args"))
    return name


def _frame() -> types.FrameType:
    return sys._getframe()


def _traceback_of(passed: tuple[tuple[types.CodeType, int], ...]) -> types.TracebackType | None:
    """A traceback through frames of these names, innermost first. The frames hold nothing: theirs have never been."""
    made = None
    for code, line in passed:
        named = _frame.__code__.replace(
            co_name=code.co_name, co_qualname=code.co_qualname, co_filename=code.co_filename, co_firstlineno=code.co_firstlineno
        )
        made = types.TracebackType(made, types.FunctionType(named, {"sys": sys})(), -1, line)
    return made


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
    _fill_cell(w, v)
    return name


def _fill_cell(w: EntryWriter, v: CellValue) -> None:
    if v.contents is not None:
        w.body.append(f"{w.value(v)}.cell_contents = {w.value(v.contents)}")


def _function(w: EntryWriter, v: FunctionValue) -> str:
    new = [c for c in v.closure or () if c.source is None and c.obj is None and not w.is_made(c)]
    for c in new:  # filled once there is the function, which one of them may hold
        w.assign("c", "Cell()", c)
    cells = ", ".join(w.value(c) for c in v.closure or ())
    closure = f"({cells},)" if cells else "None"
    code, globals_ = w.names.const(v.code), w.names.const(v.globals)
    defaults = w.value(v.defaults) if v.defaults is not None else "None"
    name = w.assign("f", f"Function({code}, {globals_}, {v.name!r}, {defaults}, {closure})", v)
    for c in new:
        _fill_cell(w, c)
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
    if isinstance(v.fn, BuiltinValue) and hasattr(type(v.fn.obj), "__get__"):
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
    if kind == "values" and v.cls in _MADE_OF:
        return w.assign("it", f"{w.names.const(_MADE_OF[v.cls])}([{w.sequence(values)}])", v)
    return w.assign("it", maker(w, values), v)


# Iterators whose own `__next__` may be on the stack already: their type, and how one that gives certain values is made.
_MADE_OF: dict[type, Callable[[list[Any]], Any]] = {
    type(iter({})): lambda values: iter(dict.fromkeys(values)),
    type(iter({}.values())): lambda values: iter(dict(enumerate(values)).values()),
    type(iter({}.items())): lambda values: iter(dict(values).items()),
    type(reversed({})): lambda values: reversed(dict.fromkeys(values[::-1])),
    type(reversed({}.values())): lambda values: reversed(dict(enumerate(values[::-1])).values()),
    type(reversed({}.items())): lambda values: reversed(dict(values[::-1]).items()),
    type(iter(collections.OrderedDict())): lambda values: iter(collections.OrderedDict(enumerate(values)).values()),
    type(reversed([])): lambda values: reversed(list(values[::-1])),
    type(reversed(collections.deque())): lambda values: reversed(collections.deque(values[::-1])),
}


def _sequence_iterator(w: EntryWriter, values: list[Any]) -> str:
    owner, index = values
    maker = w.names.const(_iterator_at)
    return f"{maker}({w.value(owner)}, {index})"


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


def _advanced(it: Any, steps: int) -> Any:
    """The iterator, after some steps."""
    for _ in range(steps):
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
    "advanced": lambda w, values: f"{w.names.const(_advanced)}({w.value(values[1])}({w.sequence(values[2:])}), {w.value(values[0])})",
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
