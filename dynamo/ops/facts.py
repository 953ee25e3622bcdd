"""What is known of an operator: one row of facts each, from torch's schemas and tags, and from `rows` where those say nothing or not the
truth. Asked wherever an operator might be left out, merged with another, computed again, or run again.

An operator *acts* when the program can tell that it ran: it draws random numbers, writes to an argument, gives no result at all, or
belongs to somebody else's library, whose code nobody here knows. It *may raise* when some values of its arguments are refused at run
time: an index out of range, a singular matrix. Wrong shapes and dtypes are no part of this: those are refused while tracing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import torch
from torch.fx import Graph, Node

from dynamo.ops import rows

OpOverload = torch._ops.OpOverload
Tag = torch.Tag


class Facts(NamedTuple):
    """One operator. Where a fact has a row in `rows`, the row says more."""

    base: str  # its name without namespace, overload, and the underscore of operators that write
    writes: tuple[int | str, ...] = ()  # positions or keyword names it writes to, as its schema says
    views: bool = False  # returns views of its first tensor, or that tensor itself; `reshape` and `contiguous` do so or copy
    shares: bool = False  # the same, hidden from its schema
    same: bool = False  # returns its argument
    absolute: bool = False
    reshapes_in_place: bool = False
    updates: bool = False
    alone: bool = False
    mixes_devices: bool = False
    training: rows.Training | None = None
    asks_grad_mode: bool = False
    acts: bool = False
    has_results: bool = True
    refuses: bool = False  # some values
    divides: bool = False  # refuses integer divisors of zero
    one_dtype: bool = False  # refuses tensors of several types
    only_checks: bool = False
    random: bool = False
    pointwise: bool = False
    needs_values: bool = False  # the shape of its results, or which they are, depends on values
    cheap: bool = False  # may be computed twice
    constant: bool = False
    uniform: bool = False
    unset: bool = False
    keeps_zeros: bool = False
    adds: bool = False
    scales: bool = False
    exact: bool = True  # torch's decomposition of it, if there is one, rounds as the kernel does


def writes_of(op: OpOverload) -> tuple[int | str, ...]:
    """`facts_of(op).writes`, for who asks nothing else of hundreds of operators."""
    if not op._schema.is_mutable:
        return ()
    arguments = op._schema.arguments
    return tuple(a.name if a.kwarg_only else i for i, a in enumerate(arguments) if a.alias_info is not None and a.alias_info.is_write)


@cache
def facts_of(op: OpOverload) -> Facts:
    schema, tags = op._schema, op.tags
    namespace, _, name = schema.name.partition("::")
    base = name.rstrip("_")
    full = f"{name}.{schema.overload_name or 'default'}" if namespace == "aten" else schema.name
    written = writes_of(op)
    views = not written and any(r.alias_info is not None for r in schema.returns)

    def has(row: frozenset[str], name: str = name) -> bool:
        return namespace == "aten" and (name in row or full in row)

    random, pointwise = Tag.nondeterministic_seeded in tags and not has(rows.DRAWS_NOTHING), Tag.pointwise in tags
    known = namespace in rows.NAMESPACES
    return Facts(
        base=base,
        writes=written,
        views=views,
        shares=has(rows.SHARES),
        same=has(rows.SAME),
        absolute=has(rows.ABSOLUTE),
        reshapes_in_place=Tag.inplace_view in tags,
        updates=has(rows.UPDATES, base),
        alone=has(rows.ALONE, base),
        mixes_devices=has(rows.MIXES_DEVICES),
        training=rows.TRAINING.get(full),
        asks_grad_mode=has(rows.ASKS_GRAD_MODE),
        acts=not known or bool(written) or not schema.returns or random,
        has_results=bool(schema.returns),
        refuses=has(rows.REFUSES) or not (known if namespace != "aten" else pointwise or has(rows.TOTAL) or _never_refuses(name, views)),
        divides=base in rows.DIVIDES or (base in rows.DIVIDES_ROUNDED and any(a.name == "rounding_mode" for a in schema.arguments)),
        one_dtype=has(rows.ONE_DTYPE),
        only_checks=has(rows.CHECKS),
        random=random,
        pointwise=pointwise,
        needs_values=Tag.data_dependent_output in tags or Tag.dynamic_output_shape in tags,
        cheap=not random and (views or pointwise or has(rows.CHEAP)),
        constant=has(rows.CONSTANT),
        uniform=has(rows.UNIFORM),
        unset=has(rows.UNSET),
        keeps_zeros=has(rows.KEEPS_ZEROS),
        adds=has(rows.ADDS),
        scales=has(rows.SCALES),
        exact=not has(rows.ROUNDS_ITS_OWN_WAY),
    )


def _never_refuses(name: str, views: bool) -> bool:
    """The backward of an operator that ran, copies, views, and the steps of lists and optimizers."""
    return views or name.endswith(("_backward", "_backward_data", "_copy")) or name.startswith(("_foreach_", "_fused_"))


def aten_name(op: OpOverload) -> str:
    """`"add_"` of torch.ops.aten.add_.Tensor; nothing for operators of other libraries."""
    namespace, _, name = op._schema.name.partition("::")
    return name if namespace == "aten" else ""


def overload(name: str) -> OpOverload | None:
    """`"add.Tensor"` -> torch.ops.aten.add.Tensor; None when this torch has no such overload."""
    packet_name, _, overload_name = name.partition(".")
    packet = getattr(torch.ops.aten, packet_name, None)
    return getattr(packet, overload_name or "default", None)


def overloads(name: str) -> list[OpOverload]:
    """All forms of an operator of ATen; none when this torch lacks it."""
    packet = getattr(torch.ops.aten, name, None)
    return [getattr(packet, o) for o in packet.overloads()] if packet is not None else []


@cache
def unwritten_form(op: OpOverload) -> OpOverload | None:
    """The operator that computes the same and writes nothing, by its name and arguments: `add.Tensor` of `add_.Tensor` and `add.out`."""
    namespace, _, name = op._schema.name.partition("::")
    library = getattr(torch.ops, namespace)
    wanted = _signature([a for a in op._schema.arguments if not (a.kwarg_only and a.alias_info is not None and a.alias_info.is_write)])
    for candidate in (name[:-1] if name.endswith("_") else name, name, f"{name}functional", f"{name}_functional"):
        packet = getattr(library, candidate, None)
        for form in [getattr(packet, o) for o in packet.overloads()] if isinstance(packet, torch._ops.OpOverloadPacket) else []:
            if _signature(form._schema.arguments) == wanted and not writes_of(form):
                return form
    return None


def _signature(arguments: list[Any]) -> list[tuple[str, bool, str]]:
    return [(a.name, a.kwarg_only, str(a.type)) for a in arguments]


def is_composite(op: OpOverload) -> bool:
    """Is it made of other operators, for autograd too? Then its result may be its argument. Kernels can be registered at any time."""
    return torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")


# ---- asked of whatever a graph calls ----


def known_facts(op: Any) -> Facts | None:
    """None of what is no operator."""
    return facts_of(op) if isinstance(op, OpOverload) else None


def writes(op: Any) -> bool:
    """To an argument?"""
    return isinstance(op, OpOverload) and bool(writes_of(op))


def is_random(op: Any) -> bool:
    """Does it draw from a generator?"""
    return isinstance(op, OpOverload) and facts_of(op).random


def is_pointwise(op: Any) -> bool:
    return isinstance(op, OpOverload) and facts_of(op).pointwise


def is_view(op: Any) -> bool:
    """May its result share memory with its first argument?"""
    return isinstance(op, OpOverload) and (facts_of(op).views or facts_of(op).shares)


def acts(op: Any) -> bool:
    """Can the program tell that the operator ran, other than by its results?"""
    op = _operator_of(op)
    return facts_of(op).acts if isinstance(op, OpOverload) else getattr(op, "__name__", "") != "getitem"


def may_raise(op: Any, dtype: torch.dtype | None = None, mixes: bool = False) -> bool:
    """Are some values of the arguments refused when it runs?

    `dtype` is that of the result, where it is known; `mixes`: its tensors have several types.
    """
    op = _operator_of(op)
    if not isinstance(op, OpOverload):
        return getattr(op, "__name__", "") != "getitem"
    facts = facts_of(op)
    if facts.divides:
        return dtype is None or not (dtype.is_floating_point or dtype.is_complex)
    return facts.refuses or (mixes and facts.one_dtype)


def mixes_types(tensors: Iterable[Any]) -> bool:
    """Have they several types?"""
    return len({d for d in map(dtype_of, tensors) if d is not None}) > 1


# Counts in the place of an operator that refuses the types of its tensors.
CHECKS_TYPES = torch.ops.aten._assert_async.default

# Composites that refuse values which fakes don't have, and run no operator on fakes that refuses any: `can_fail` doesn't see them.
ONE_HOT: frozenset[Any] = frozenset((torch.nn.functional.one_hot, torch.ops.aten.one_hot, torch.ops.aten.one_hot.default))


def can_run_again(op: Any) -> bool:
    """May a whole program be started again after this ran, as if it had not? Random numbers can be drawn again, and writes are undone or
    were never seen; what an operator without results does is its own."""
    op = _operator_of(op)
    if not isinstance(op, OpOverload):
        return True
    facts = facts_of(op)
    return facts.has_results or bool(facts.writes) or facts.only_checks


def _operator_of(op: Any) -> Any:
    """Of a functional wrapper around an operator that writes, that operator."""
    return op if isinstance(op, OpOverload) else getattr(op, "op", op)


# ---- asked of nodes ----


def dtype_of(value: Any) -> torch.dtype | None:
    """Of a tensor, or of the first one in a result of several."""
    if isinstance(value, (list, tuple)):
        return next((d for d in map(dtype_of, value) if d is not None), None)
    return value.dtype if isinstance(value, torch.Tensor) else None


def must_run(node: Node) -> bool:
    """Is the node more than its value, so that it stays though nothing reads that?"""
    if node.op != "call_function":
        return False
    mixes = mixes_types(n.meta.get("val") for n in node.all_input_nodes)
    return acts(node.target) or may_raise(node.target, dtype_of(node.meta.get("val")), mixes)


def acting(graph: Graph, *phases: str) -> list[Node]:
    """The nodes of these directions (none: of both) that are more than their values: effects and checks."""
    return [n for n in graph.nodes if n.meta.get("phase") in (phases or ("forward", "backward")) and must_run(n)]


def draws(node: Node) -> bool:
    return node.op == "call_function" and is_random(node.target)
