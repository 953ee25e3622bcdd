"""What the points of the compiler of ATen graphs are about."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from dynamo.faults.subjects import Subject
from inductor.ir.dims import hint
from inductor.ir.expr import Expr
from inductor.ir.nest import Nest, Origin
from inductor.schedule.group import Group
from inductor.schedule.kernel import Kernel


def _ops(origins: Iterable[Origin]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(o.op.partition(".")[0] for o in origins))


def of_nest(nest: Nest, *rest: Any) -> Subject:
    """One loop nest."""
    return Subject(nest.name, _ops(nest.origins), elements=hint(nest.points), is_backward=any(o.is_backward for o in nest.origins))


def of_groups(*groups: Group) -> Subject:
    """Groups of nests."""
    origins = [o for g in groups for m in g.members for o in m.origins]
    elements = max(hint(g.points) for g in groups)
    return Subject(" + ".join(g.name for g in groups), _ops(origins), elements=elements, is_backward=any(o.is_backward for o in origins))


def of_inlined(producer: Nest, nest: Nest) -> Subject:
    """A nest whose value is computed where another reads it."""
    return Subject(f"{producer.name} into {nest.name}", _ops(producer.origins), _ops(nest.origins), hint(producer.points))


def of_kernel(kernel: Kernel, *rest: Any) -> Subject:
    """A kernel of the schedule."""
    return Subject(kernel.name, _ops(kernel.origins), elements=hint(kernel.work))


def of_plan(plan: Any) -> Subject:
    """A whole schedule; what it is made of does not matter."""
    return Subject("the schedule", _ops(o for k in plan.kernels for o in k.origins))


def of_expression(node: Expr) -> Subject:
    """One operation of a kernel."""
    return Subject(node.op, (node.op,), tuple(a.op for a in node.args), dtypes=(node.type,))


def of_source(source: str) -> Subject:
    """The C source of a graph; its operators are the words in it."""
    return Subject("the C source", tuple(sorted(set(re.findall(r"[a-z]\w*", source)))))
