"""Graphs of devices without a target run uncompiled, and say so."""

from __future__ import annotations

import pytest
import torch

import dynamo
from dynamo.trace import session
from dynamo.trace.events import Note
from inductor.compile import compile_graph


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def test_a_graph_with_a_tensor_elsewhere_is_refused() -> None:
    gm = torch.fx.symbolic_trace(add_one)
    for node in gm.graph.nodes:
        node.meta["val"] = torch.empty(3, device="meta")
    with session() as store:
        (y,) = compile_graph(gm, [])([torch.ones(3)])

    assert y.tolist() == [2, 2, 2]
    assert ["only graphs on cpu and cuda are compiled" in note.message for note in store.of(Note)] == [True]


@pytest.mark.gpu
def test_a_graph_on_a_gpu_equals_eager() -> None:
    x = torch.randn(64, device="cuda")
    with session() as store:
        torch.testing.assert_close(dynamo.compile(add_one, backend="inductor", fullgraph=True)(x), add_one(x))

    assert [note.message for note in store.of(Note)] == []
