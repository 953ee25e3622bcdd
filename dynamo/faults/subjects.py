"""What a point of the compiler is about at this moment: the operator, the tensors it reads and makes. Conditions of faults ask this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node


@dataclass(frozen=True)
class Subject:
    """`ops` are the operators concerned, `reads` those that made what they read; `elements` is the size of the largest tensor."""

    name: str
    ops: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    elements: int = 0
    is_strided: bool = False
    dtypes: tuple[str, ...] = ()
    is_backward: bool = False


def op_name(target: Any) -> str:
    """An operator or function as faults name it: without namespace and overload."""
    if isinstance(target, str):
        return target
    packet = getattr(target, "overloadpacket", target)
    return str(getattr(packet, "__name__", packet))


def of_values(name: str, ops: Iterable[str], reads: Iterable[str], values: Iterable[Any], is_backward: bool = False) -> Subject:
    """The subject of an operation on tensors, fake or real; what is no tensor among `values` does not count."""
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    return Subject(
        name,
        tuple(ops),
        tuple(reads),
        max((t.numel() for t in tensors), default=0),
        any(not t.is_contiguous() for t in tensors),
        tuple(dict.fromkeys(str(t.dtype).removeprefix("torch.") for t in tensors)),
        is_backward,
    )


def _made_by(read: Iterable[Node]) -> list[str]:
    """The operators that made what is read; inputs are made by none, whatever their names."""
    return [op_name(n.target) for n in read if n.op.startswith("call_")]


def of_node(node: Node, *rest: Any) -> Subject:
    """A node of a graph."""
    read = node.all_input_nodes
    values = [n.meta.get("val") for n in (node, *read)]
    backward = node.meta.get("phase") == "backward"
    return of_values(node.name, [op_name(node.target)], _made_by(read), values, backward)


def of_call(target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], value: Any, is_backward: bool = False) -> Subject:
    """A call that is about to become a node."""
    read: list[Node] = []
    torch.fx.node.map_arg((args, dict(kwargs)), lambda n: read.append(n))
    values = [value, *(n.meta.get("val") for n in read)]
    return of_values(op_name(target), [op_name(target)], _made_by(read), values, is_backward)


def of_guard(record: Any, *rest: Any) -> Subject:
    """A fact that a compiled entry relies on; its operator is the kind of guard."""
    return Subject(f"{record.kind} {record.source.name if record.source is not None else 'the state'}", (record.kind,))
