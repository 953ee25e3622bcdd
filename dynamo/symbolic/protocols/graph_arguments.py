"""Values as arguments of nodes: nodes for tensors, Python objects for everything known."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import torch

from dynamo.symbolic.attempt.tracer import PLAIN
from dynamo.symbolic.protocols.choices import ChoiceValue, tensor_of_choice
from dynamo.symbolic.protocols.tables import dict_items
from dynamo.symbolic.values.errors import NotConstant, RestartTrace
from dynamo.symbolic.values.kinds import (
    DictValue,
    GraphValue,
    ListValue,
    NumberValue,
    OpaqueValue,
    SetValue,
    SliceValue,
    TensorValue,
    TupleValue,
    Value,
)
from dynamo.symbolic.values.numpy_types import as_number
from dynamo.symbolic.values.slots import fill

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer

# Python's own types in place of dtypes, which the code of a graph would print as what they are.
_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
_TENSOR_TYPE = type(torch.FloatTensor)  # of the legacy names of types
# Objects that are not plain but may be arguments of a graph op, as attributes of the GraphModule.
_ATTRIBUTE_KINDS = (torch.Generator, torch.ScriptObject, torch.nn.Module)


def _node(tx: Tracer, v: TensorValue | GraphValue) -> Any:
    if torch.is_grad_enabled() and isinstance(v, TensorValue):
        tx.guard_leaf(v)
    return tx.builder.node_here(v.node)


def _choice(tx: Tracer, v: ChoiceValue) -> Any:
    if not v.is_tensor:
        raise tx.restart_plainly()
    made = tensor_of_choice(tx, v)
    tx.chosen.append(made.fake)
    return tx.builder.node_here(made.node)


def _list(tx: Tracer, v: ListValue) -> Any:
    if not issubclass(v.cls, list):  # a deque, which no operation takes
        raise tx.break_("DD010", v.describe())
    return [tx.to_fx(x) for x in tx.items(v.items)]


def _tuple(tx: Tracer, v: TupleValue) -> Any:
    parts = tuple(tx.to_fx(x) for x in tx.items(v.items))
    if v.cls is tuple or v.cls is torch.Size:
        return parts
    return v.cls(*parts) if hasattr(v.cls, "_fields") else parts


def _slice(tx: Tracer, v: SliceValue) -> Any:
    return slice(*(tx.to_fx(x) for x in v.parts))


def _dict(tx: Tracer, v: DictValue) -> Any:
    return {tx.as_python(k): tx.to_fx(x) for k, x in dict_items(tx, v)}


def _set(tx: Tracer, v: SetValue) -> Any:
    return {tx.to_fx(x) for x in v.table.values()}


def _constant(tx: Tracer, v: Value) -> Any:
    try:
        obj = tx.as_python(v)
    except NotConstant as e:
        kind = "DD003" if isinstance(v, NumberValue) else "DD011" if issubclass(v.cls, torch.Tensor) else "DD010"
        raise tx.break_(kind, v.describe()) from e
    if isinstance(obj, enum.Enum) and isinstance(obj, int | float | str):
        obj = obj.value  # a member of an IntEnum and the like prints as itself in the code of a graph
    if isinstance(obj, _TENSOR_TYPE):
        obj = f"{obj.__module__}.{obj.__name__}"  # `x.type()` takes the name too, and that can be written down
    if isinstance(obj, type):
        obj = _DTYPES.get(obj, obj)
    number = as_number(obj)  # so does a number of NumPy
    if number is None and obj is not None:
        raise tx.break_("DD010", v.describe())
    obj = number
    if _graph_constant(obj):
        return obj
    if not isinstance(obj, _ATTRIBUTE_KINDS):
        raise tx.break_("DD011" if isinstance(obj, torch.Tensor) else "DD010", v.describe())
    return tx.attribute_for(obj, v.source)


def _opaque(tx: Tracer, v: OpaqueValue) -> Any:
    """A generator of random numbers that earlier entries found others in place of is read at each call; anything else is a constant.

    Backends know generators as attributes of the graph only. So the graph draws from one of its own, which has the state of the caller's
    before the graph runs and passes it on behind it. Regions are left alone: a checkpoint draws again in the backward pass.
    """
    source = v.source
    if v.cls is not torch.Generator or source is None or source.kind == "const" or not tx.known.inputs:
        return _constant(tx, v)
    tx.guards.apart[source] = None
    if tx.builder.scopes:
        tx.known.inputs.discard(source.name)
        if source in tx.generators:
            raise RestartTrace
    given: Any = v.obj
    if source.name not in tx.known.inputs or given is torch.default_generator or given.device.type != "cpu":
        return _constant(tx, v)
    if source not in tx.generators:
        tx.guard(source, "is_not", torch.default_generator)
        tx.guard(source.attr("device"), "eq", given.device)
        own = torch.Generator(given.device)
        tx.generators[source] = own, tx.attribute_for(own, None)
    return tx.builder.node_here(tx.generators[source][1])


def _graph_constant(obj: object) -> bool:
    return isinstance(obj, (*PLAIN, slice, bytes, type(Ellipsis), torch.Size, range)) or (callable(obj) and not isinstance(obj, type))


fill(Value, to_fx=_constant)
fill(TensorValue, GraphValue, to_fx=_node)
fill(ChoiceValue, to_fx=_choice)
fill(ListValue, to_fx=_list)
fill(TupleValue, to_fx=_tuple)
fill(OpaqueValue, to_fx=_opaque)
fill(SliceValue, to_fx=_slice)
fill(DictValue, to_fx=_dict)
fill(SetValue, to_fx=_set)
