"""Values that no input decides are computed once, when the graph is compiled.

In: operators whose operands are all constants. Out: `full` where every element is the same, which costs nothing in a kernel; else a
constant tensor of the program. Chains of `arange`, comparisons and the like that are only index arithmetic stay: computed in the loop
that reads them they are cheaper than a load. A value that the caller gets stays too: it has to be fresh memory at every call.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from dynamo.ops.facts import known_facts
from inductor.passes.row import Call, Replacement, Row, Seen, aten, row

MAX_ELEMENTS = 1 << 16


def known(tree: Any, seen: Seen) -> Any:
    """Arguments with constants in place of nodes; KeyError where one is not constant."""
    if isinstance(tree, Node):
        return seen.constants[tree]
    if isinstance(tree, (list, tuple)):
        return type(tree)(known(t, seen) for t in tree)
    return tree


def is_uniform(node: Node) -> bool:
    facts = known_facts(node.target)
    return facts is not None and facts.uniform


def value_of(node: Node, seen: Seen) -> torch.Tensor | None:
    """The value, if nothing but constants decides it and it is small; remembered for those that read it."""
    val, facts = node.meta.get("val"), known_facts(node.target)
    if not isinstance(val, torch.Tensor) or val.device.type != "cpu" or val.numel() > MAX_ELEMENTS or val.is_quantized:
        return None
    if facts is None or facts.writes or facts.random or facts.unset or not (facts.constant or node.all_input_nodes):
        return None
    try:
        args, kwargs = known(node.args, seen), {k: known(v, seen) for k, v in node.kwargs.items()}
    except KeyError:
        return None
    target: Any = node.target
    with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes():
        try:
            value = target(*args, **kwargs)
        except (IndexError, RuntimeError, ValueError):
            return None  # it refuses these values, as it does when the graph runs
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.dtype != val.dtype or value.shape != val.shape:
        return None
    seen.constants[node] = value
    return value


def as_uniform(value: torch.Tensor) -> float | int | bool | None:
    """The number that all elements are; None for complex ones and those whose sign or payload a number would lose."""
    if not value.numel() or value.dtype.is_complex:
        return None
    first = value.flatten()[0]
    if not bool((value == first).all()) or (value.dtype.is_floating_point and bool((torch.signbit(value) != torch.signbit(first)).any())):
        return None
    number: float | int | bool = first.item()
    return number


def fold(node: Node, seen: Seen) -> Replacement:
    value, facts = value_of(node, seen), known_facts(node.target)
    if value is None or facts is None or node in seen.shown or facts.constant or facts.views:
        return None
    if all(n.op == "get_attr" or is_uniform(n) for n in node.all_input_nodes) or value.numel() == 1:
        number = as_uniform(value)
        if number is not None and value.is_contiguous():
            return Call(aten.full.default, (list(value.shape), number), (("dtype", value.dtype), ("device", torch.device("cpu"))))
    if facts.pointwise and not any(n.op == "get_attr" for n in node.all_input_nodes):
        return None
    return value.clone(memory_format=torch.preserve_format)


ROWS: tuple[Row, ...] = (row("constant", fold),)
