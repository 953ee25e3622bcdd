"""Wrong rewrites of ATen graphs: rows like those of `inductor/passes`, that the driver takes and asks fuel for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.fx import Node

from inductor.passes.row import Replacement, Row, Seen, operand, row, same_facts

if TYPE_CHECKING:
    from dynamo.faults.planting import Hit


def drop_mask(rows: tuple[Row, ...], hit: Hit) -> tuple[Row, ...]:
    """where(c, a, b) = a."""
    return (row("dropped mask", _second), *rows)


def drop_operator(rows: tuple[Row, ...], hit: Hit) -> tuple[Row, ...]:
    """f(x) = x."""
    return (row("dropped operator", _first), *rows)


def _first(node: Node, seen: Seen) -> Replacement:
    return _fitting(node, operand(node))


def _second(node: Node, seen: Seen) -> Replacement:
    return _fitting(node, operand(node, 1))


def _fitting(node: Node, source: Node | None) -> Replacement:
    return source if source is not None and same_facts(node, source) else None
