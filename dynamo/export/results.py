"""The result of a captured frame as rows that build it from the outputs of the graph and the arguments of the call."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from dynamo.compile.capture import Captured
from dynamo.export.facts import Constant, ExportError, Given, Made, Output, Row
from dynamo.export.trees import KINDS, kind_of
from dynamo.source import Source
from dynamo.symbolic.values.errors import NotConstant
from dynamo.symbolic.values.kinds import (
    BuiltinValue,
    ClassValue,
    Const,
    DictValue,
    ExceptionValue,
    FunctionValue,
    Lazy,
    ListValue,
    ModuleValue,
    ObjectValue,
    PartialValue,
    SetValue,
    TensorValue,
    TupleValue,
    Value,
)

_STEPS = {"attr": "attr", "dict_item": "item", "list_item": "item", "tuple_item": "item"}


class Results:
    """`rows` build the result, the last is the whole; `outputs` are the nodes that the graph returns."""

    def __init__(
        self,
        captured: Captured,
        parameters: list[str],
        node_of: Callable[[TensorValue], Node],
        node_of_constant: Callable[[torch.Tensor], Node],
    ) -> None:
        self.tx = captured.tx
        self.parameters = parameters
        self.node_of = node_of
        self.node_of_constant = node_of_constant
        self.outputs: list[Node] = []
        self.rows: list[Row] = []
        self._row_of: dict[int, int] = {}
        self._open: set[int] = set()
        assert captured.result is not None
        last = self.row(captured.result)
        if last != len(self.rows) - 1:
            self.rows.append(self.rows[last])

    def row(self, v: Value | Lazy) -> int:
        """The row of a value, made if there is none."""
        known = self._row_of.get(id(v))
        if known is not None:
            return known
        if id(v) in self._open:
            raise ExportError("the result contains itself [DD094]")
        self._open.add(id(v))
        made = self._make(v)
        self._open.discard(id(v))
        self.rows.append(made)
        self._row_of[id(v)] = len(self.rows) - 1
        return len(self.rows) - 1

    def _make(self, v: Value | Lazy) -> Row:
        if isinstance(v, TensorValue):
            return self._tensor(v)
        given = self._given(v.source)
        if given is not None:
            return given
        if isinstance(v, Lazy):
            value = self.tx.realize(v)
            return self._tensor(value) if isinstance(value, TensorValue) else Constant(v.obj)
        if isinstance(v, Const):
            return Constant(v.value)
        obj = getattr(v, "obj", None)
        if obj is None:
            return self._container(v)
        return Constant(obj) if v.source is not None else self._known(obj)

    def _known(self, obj: Any) -> Row:
        """An object that a function assumed constant made: containers are made anew by each call, as they would be."""
        if isinstance(obj, torch.Tensor):
            return self._output(self.node_of_constant(obj))
        kind = "set" if isinstance(obj, set | frozenset) else kind_of(obj)
        if kind is None:
            return Constant(obj)
        parts = list(KINDS[kind].parts(obj))
        items = []
        for _, part in parts:
            self.rows.append(self._known(part))
            items.append(len(self.rows) - 1)
        return Made(kind, type(obj), tuple(k for k, _ in parts), tuple(items))

    def _tensor(self, v: TensorValue) -> Row:
        if v.attrs:
            raise ExportError(f"a tensor of the result was given attributes: {', '.join(v.attrs)} [DD094]")
        return self._output(self.node_of(v))

    def _output(self, node: Node) -> Output:
        if node not in self.outputs:
            self.outputs.append(node)
        return Output(self.outputs.index(node))

    def _given(self, source: Source | None) -> Given | None:
        """Read from the arguments, if it was there."""
        if source is None or source.root.kind != "input" or int(source.root.arg) >= len(self.parameters):
            return None
        steps = source.path()[1:]
        if any(s.kind not in _STEPS for s in steps):
            return None
        return Given(self.parameters[int(source.root.arg)], tuple((_STEPS[s.kind], s.arg) for s in steps))

    def _container(self, v: Value) -> Row:
        match v:
            case TupleValue() if v.cls is not torch.Size:
                named = hasattr(v.cls, "_fields")
                kind = "tuple" if v.cls is tuple else "namedtuple" if named else "structseq"
                keys = getattr(v.cls, "_fields", None) or range(len(v.items))
                return Made(kind, v.cls, tuple(keys), self._rows_of(v.items), self._attributes(v))
            case ListValue():
                kind = "list" if v.cls is list else "deque" if issubclass(v.cls, collections.deque) else "sequence"
                if kind == "deque" and v.maxlen is not None:
                    raise ExportError("a deque with a length limit in the result [DD094]")
                return Made(kind, v.cls, tuple(range(len(v.items))), self._rows_of(v.items), self._attributes(v))
            case DictValue():
                keys = tuple(self.tx.as_python(k) for k, _ in v.table.values())
                attributes = self._attributes(v)
                if v.default_factory is not None and not (isinstance(v.default_factory, Const) and v.default_factory.value is None):
                    attributes = (*attributes, ("default_factory", self.row(v.default_factory)))
                return Made("dict", v.cls, keys, self._rows_of([x for _, x in v.table.values()]), attributes)
            case SetValue():
                items = list(v.table.values())
                return Made("set", v.cls, tuple(range(len(items))), self._rows_of(items), self._attributes(v))
            case ClassValue() | BuiltinValue() | ModuleValue():
                return Constant(v.obj)
            case FunctionValue() | PartialValue() | ExceptionValue():
                raise self._refused(v)
            case ObjectValue() if not isinstance(v, TupleValue) and v.init_args is None:
                named_rows = self._attributes(v)
                return Made("object", v.cls, tuple(n for n, _ in named_rows), tuple(i for _, i in named_rows))
        try:
            return Constant(self.tx.as_python(v))
        except NotConstant as e:
            raise self._refused(v) from e

    def _rows_of(self, items: list[Any]) -> tuple[int, ...]:
        return tuple(self.row(x) for x in items)

    def _attributes(self, v: ObjectValue) -> tuple[tuple[str, int], ...]:
        found = {} if v.inst is None else {self.tx.as_python(k): x for k, x in v.inst.table.values()}
        found |= {name: x for name, x in v.slots.items() if x is not None}
        return tuple((name, self.row(x)) for name, x in found.items())

    def _refused(self, v: Value) -> ExportError:
        return ExportError(f"the result holds {v.describe()}, which is no tensor, number, string or container of them [DD094]")
