"""Runs the text of a tutorial program with this compiler in place of torch's, then the checks of its test."""

from __future__ import annotations

import contextlib
import copy
import io
import linecache
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

import dynamo
from dynamo.backends import registry
from dynamo.trace import Store, session
from dynamo.trace.events import GraphBroke, GraphCaptured
from tests.models import torchvision_ops


@dataclass
class Ran:
    """What is left of a program: its names, its output and the record of its compiles."""

    names: dict[str, Any]
    printed: str
    store: Store

    @property
    def graphs(self) -> list[list[str]]:
        """Operator names of each captured graph."""
        captured = [e for e in self.store.of(GraphCaptured) if e.stage == "capture"]
        return [[_op(node.target) for node in e.nodes if node.op.startswith("call_")] for e in captured]

    @property
    def breaks(self) -> list[tuple[str, str]]:
        """Break id and source line of each graph break, once."""
        found = self.store.of(GraphBroke)
        return list(dict.fromkeys((e.id, linecache.getline(e.file, e.line).strip()) for e in found))


@contextlib.contextmanager
def ran(program: str) -> Iterator[Ran]:
    """Run a program; inside the block its compiled functions can be called, and are recorded.

    The tutorials ask for "inductor". Here that is the eager backend, so that a result differs from eager only if capture is wrong.
    """
    torchvision_ops.declare()
    text = textwrap.dedent(program).strip("\n") + "\n"
    file = f"tutorial_{abs(hash(text)) % 10**8}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "tutorial"}
    dynamo.reset()
    with session() as store, dynamo.as_torch_compile(), mock.patch.dict(registry._registered, {"inductor": _eager}):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(text, file, "exec"), names)
        yield Ran(names, printed.getvalue(), store)
    dynamo.reset()


def equal_to_eager(eager: Callable[..., Any], compiled: Callable[..., Any], *args: Any) -> None:
    """Call both on copies of the same arguments, from the same random state, and compare results and arguments."""
    left_args, right_args = copy.deepcopy(args), copy.deepcopy(args)
    torch.manual_seed(1)
    left = eager(*left_args)
    torch.manual_seed(1)
    right = compiled(*right_args)

    torch.testing.assert_close(right, left, equal_nan=True)
    tensors = [(b, a) for a, b in zip(left_args, right_args, strict=True) if isinstance(a, torch.Tensor)]
    for actual, expected in tensors:
        torch.testing.assert_close(actual, expected)


def _eager(graph_module: torch.fx.GraphModule, example_inputs: object, **options: object) -> Callable[..., Any]:
    return graph_module.forward


def _op(target: str) -> str:
    return target.rsplit(".", 1)[-1]
