"""Every small program, with both partitioners, against eager."""

from __future__ import annotations

import pytest
import torch

from dynamo.aot.joint import trace_joint
from tests.aot.cases import CASES
from tests.aot.compare import check, copy_inputs, graph_of, moved

DEVICES = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("strategy", ["min_cut", "save_all"])
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_eager(name: str, strategy: str, device: str) -> None:
    torch.manual_seed(1)
    fn, inputs = CASES[name]
    args = moved(inputs(), device)
    with torch.device(device):
        check(fn, *args, partition=strategy)


@pytest.mark.parametrize("name", CASES)
def test_graph_is_functional(name: str) -> None:
    """Only the writes to inputs, at the end of the forward, are in place."""
    fn, inputs = CASES[name]
    args = inputs()
    joint = trace_joint(graph_of(fn, len(args)), copy_inputs(args))
    for node in joint.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            assert not node.target._schema.is_mutable or node.meta["phase"] == "write", node
