"""ATen graphs in the compile record."""

from __future__ import annotations

import base64
import math
import operator
import zlib
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from dynamo.aot.functionalise import Cloned
from dynamo.fake import FakeTensor
from dynamo.trace import emit, is_watched
from dynamo.trace.events import GraphCaptured, GraphNode
from dynamo.trace.readable import readable

INLINE_ELEMENTS = 64  # a constant this small is shown as numbers
KEPT_BYTES = 1 << 20  # a larger constant is kept as its layout only


def python(value: Any) -> str:
    """An argument of a node as Python text that means the same with `torch` imported."""
    if isinstance(value, Node):
        return value.name
    if isinstance(value, tuple) and type(value) is tuple:
        return f"({', '.join(map(python, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, (list, torch.Size)):
        return f"[{', '.join(map(python, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {python(v)}" for k, v in value.items()) + "}"
    if isinstance(value, slice):
        return f"slice({python(value.start)}, {python(value.stop)}, {python(value.step)})"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    return repr(value) if isinstance(value, (str, bool, int, float, complex, type(None))) else str(value)


def node_text(node: Node) -> str:
    """A node as one statement. `aten` is `torch.ops.aten`, and so on for other namespaces of operators."""
    if node.op == "placeholder":
        return f"{node.name} = input"
    if node.op == "get_attr":
        return f"{node.name} = self.{node.target}"
    if node.op == "output":
        return f"return {python(node.args[0])}"
    if node.target is operator.getitem:
        return f"{node.name} = {python(node.args[0])}[{python(node.args[1])}]"
    target: Any = node.target
    if isinstance(target, Cloned):
        target = f"Cloned(torch.ops.{target.op}, {target.writes!r})"
    elif not isinstance(target, (str, torch._ops.OpOverload)):
        target = getattr(target, "__name__", target)
    args = [python(a) for a in node.args] + [f"{k}={python(v)}" for k, v in node.kwargs.items()]
    return f"{node.name} = {target}({', '.join(args)})"


def constant_text(value: Any) -> str:
    """A constant tensor as Python text: numbers, or packed bytes; '' when it is too large to keep."""
    if not isinstance(value, torch.Tensor) or value.device.type != "cpu" or value.layout is not torch.strided:
        return ""
    dense = value.detach().contiguous()
    if dense.numel() <= INLINE_ELEMENTS:
        return f"torch.tensor({python(dense.tolist())}, dtype={dense.dtype})"
    if dense.numel() * dense.element_size() > KEPT_BYTES:
        return ""
    raw = bytes(dense.reshape(-1).view(torch.uint8).tolist())
    packed = base64.b85encode(zlib.compress(raw)).decode()
    return f"unpacked({packed!r}, {list(dense.shape)}, {dense.dtype})"


def graph_nodes(graph: Graph, root: torch.nn.Module | None = None) -> tuple[GraphNode, ...]:
    """The nodes with the user lines they come from."""
    return tuple(_graph_node(node, root) for node in graph.nodes)


def _graph_node(node: Node, root: torch.nn.Module | None) -> GraphNode:
    file, line, stack = node.meta.get("source", ("", 0, ()))
    constant = constant_text(getattr(root, str(node.target), None)) if node.op == "get_attr" else ""
    inputs = tuple(n.name for n in node.all_input_nodes)
    target, text, phase = str(node.target), node_text(node), node.meta.get("phase", "")
    val = node.meta.get("val")
    if not isinstance(val, FakeTensor):
        constant = constant or (python(val) if node.op == "placeholder" else "")
        return GraphNode(node.name, node.op, target, text, "", file, line, tuple(stack), inputs, phase, value=constant)
    dtype = str(val.dtype).removeprefix("torch.")
    size, stride = tuple(map(int, val.shape)), tuple(map(int, val.stride()))
    shape = f"{dtype}{list(size)}"
    return GraphNode(
        node.name, node.op, target, text, shape, file, line, tuple(stack), inputs, phase, dtype, size, stride, str(val.device), constant
    )


def report(gm: GraphModule | Graph, graph_id: str, compile_id: str, stage: str, root: torch.nn.Module | None = None) -> None:
    """Put a graph into the record, where somebody reads it. `root` holds the constants of a bare graph."""
    if not is_watched():
        return
    graph, root = (gm.graph, gm) if isinstance(gm, GraphModule) else (gm, root)
    nodes = graph_nodes(graph, root)
    ops = sum(n.op == "call_function" for n in nodes)
    emit(GraphCaptured(graph_id, compile_id, stage, ops, readable(nodes), nodes))
