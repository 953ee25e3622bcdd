"""Backends and compilers of ATen graphs with planted faults."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

IMPORTED_BY = os.getpid()


def _has(gm: fx.GraphModule, *names: str) -> bool:
    calls = [n.target for n in gm.graph.nodes if n.op.startswith("call")]
    found = {getattr(target, "__name__", str(target)).partition(".")[0] for target in calls}
    return set(names) <= found


class LoweringError(Exception):
    """What a compiler says that can't lower something."""


def refuses_erf_and_tanh(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    if _has(gm, "erf", "tanh"):
        raise LoweringError(f"can't lower erf, node 1 of {len(gm.graph.nodes)}")
    if _has(gm, "sqrt"):
        raise NotImplementedError("another fault")
    return gm.forward


def gives_nothing(gm: fx.GraphModule, inputs: list[Any]) -> None:
    """What a compiler refuses as it refuses whatever can't be called."""


def crashes_on_large(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    if _has(gm, "relu") and any(isinstance(i, torch.Tensor) and i.numel() > 1024 for i in inputs):
        ctypes.string_at(0)
    return gm.forward


def hangs_on_relu(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    while _has(gm, "relu"):
        time.sleep(1)
    return gm.forward


def wrong_relu(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    for n in gm.graph.nodes:
        if getattr(n.target, "__name__", "") == "relu":
            n.target = torch.abs
    gm.recompile()
    return gm.forward


def aten_without_sin(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    assert all("val" in n.meta for n in gm.graph.nodes)
    if any(n.target is torch.ops.aten.sin.default for n in gm.graph.nodes):
        raise LoweringError("no sin")
    return gm.forward


def refuses_and_survives_no_fork(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    if os.getpid() != IMPORTED_BY:
        os.abort()
    if _has(gm, "sin"):
        raise LoweringError("no sin")
    return gm.forward
