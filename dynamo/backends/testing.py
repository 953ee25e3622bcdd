"""Backends with a known bug, for trying out the tools that find bugs.

Each looks for `relu` in the graph and then fails in its own way; graphs without relu run in eager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_RELU = (torch.relu, torch.nn.functional.relu, torch.ops.aten.relu.default, "relu")


class ReluCompileError(Exception):
    """The seeded compile-time bug."""


def _relus(gm: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [n for n in gm.graph.nodes if n.op.startswith("call_") and n.target in _RELU]


def relu_compile_error(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Raises ReluCompileError while compiling."""
    if _relus(gm):
        raise ReluCompileError("relu found")
    return gm.forward


def relu_runtime_error(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Compiles, and raises RuntimeError when the graph runs."""
    return _patched(gm, _raise)


def relu_accuracy_error(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """Compiles to something that adds 1 instead of relu."""
    return _patched(gm, _wrong)


def _raise(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    raise RuntimeError("relu is broken")


def _wrong(x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return x + 1


def _patched(gm: torch.fx.GraphModule, replacement: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    for n in _relus(gm):
        n.op, n.target = "call_function", replacement
    gm.recompile()
    return gm.forward
