"""The built package at work: what `doctor` shows of it, and functions that `verify` compiles, runs and compares with eager."""

from __future__ import annotations

from typing import Any

import torch

import dynamo
from dynamo import _C
from dynamo.trace import events, session
from dynamo.trace.store import Store
from inductor.targets.cpu import machine
from tui.commands.expecting import expect


def tensors() -> dict[str, str]:
    """How guards read tensors."""
    direct = _C.layout_report()["tensor"] == "raw"
    return {
        "guards read tensors": "directly" if direct else "through torch: the layout of this torch's tensors is not known, guards cost more"
    }


def machine_facts() -> dict[str, Any]:
    """What thresholds of the compiler are made from."""
    return dict(machine.rows())


def extension() -> str:
    """How the C extension reads the objects of this torch."""
    return ", ".join(f"{name} {value}" for name, value in _C.layout_report().items())


def capture() -> str:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + torch.cos(x)

    x = torch.randn(10, 10)
    with session() as store:
        compiled = dynamo.compile(program, backend="eager")
        expect(torch.equal(compiled(x), program(x)), "compiled and eager results differ")
        expect(torch.equal(compiled(x + 1), program(x + 1)), "compiled and eager results differ on the second call")
        return _count(store, graphs=1, compiles=1) + ", second call hit the cache"


def breaks() -> str:
    def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        x = a / (torch.abs(a) + 1)
        if b.sum() < 0:
            b = b * -1
        return x * b

    a, b = torch.randn(10), torch.ones(10)
    with session() as store:
        compiled = dynamo.compile(program, backend="eager")
        for sign in (1, -1):
            expect(torch.equal(compiled(a, b * sign), program(a, b * sign)), "compiled and eager results differ")
        expect(len(store.of(events.GraphBroke)) == 1, f"{len(store.of(events.GraphBroke))} breaks, expected 1")
        return _count(store, graphs=3, compiles=3) + ", resumed on both sides"


def _count(store: Store, graphs: int, compiles: int) -> str:
    found = len(store.of(events.GraphCaptured)), len(store.of(events.CompileStarted))
    expect(found == (graphs, compiles), f"{found[0]} graphs in {found[1]} compiles, expected {graphs} in {compiles}")
    return f"{graphs} graphs in {compiles} compiles"
