"""What can go wrong while computing with fakes, as types a tracer can tell apart."""

from __future__ import annotations

import torch


class FakeError(RuntimeError):
    """Base of the errors below."""


class DataDependent(FakeError):
    """The op needs values, not only shapes: `.item()`, `nonzero`, a boolean mask index."""

    def __init__(self, op: torch._ops.OpOverload | str) -> None:
        super().__init__(f"{op} depends on tensor values, which a fake tensor does not have")
        self.op = op


class NoMeta(FakeError):
    """Nobody said what shape the op returns: it has neither a rule here, nor a meta or fake implementation."""

    def __init__(self, op: torch._ops.OpOverload, detail: str = "") -> None:
        super().__init__(f"{op} has no meta implementation{': ' + detail if detail else ''}")
        self.op = op


class Unsupported(FakeError):
    """A real tensor of a kind that has no fake: sparse, quantized, nested, a subclass."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
