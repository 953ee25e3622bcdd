"""ATen graphs in the compile record."""

from __future__ import annotations

from torch.fx import Graph, Node

from dynamo.fake import FakeTensor
from dynamo.trace import emit
from dynamo.trace.events import GraphCaptured, GraphNode


def shape_text(node: Node) -> str:
    val = node.meta.get("val")
    return f"{str(val.dtype).removeprefix('torch.')}{list(val.shape)}" if isinstance(val, FakeTensor) else ""


def graph_nodes(graph: Graph) -> tuple[GraphNode, ...]:
    """The nodes with the user lines they come from."""
    rows = []
    for node in graph.nodes:
        file, line, stack = node.meta.get("source", ("", 0, ()))
        text = f"{node.name} = {node.target}({', '.join(map(str, node.args))})" if node.op != "output" else f"return {node.args[0]}"
        rows.append(GraphNode(node.name, node.op, str(node.target), text, shape_text(node), file, line, tuple(stack)))
    return tuple(rows)


def report(graph: Graph, graph_id: str, compile_id: str, stage: str) -> None:
    nodes = graph_nodes(graph)
    ops = sum(n.op == "call_function" for n in nodes)
    emit(GraphCaptured(graph_id, compile_id, stage, ops, "\n".join(n.text for n in nodes), nodes))
