"""A recorded graph as Python: shapes, strides and devices as annotations, and above each group of nodes the user line it came from."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence

from dynamo.trace.events import GraphNode
from dynamo.trace.model import Place

SHORT = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
    "bool": "b8",
    "complex64": "c64",
    "complex128": "c128",
}

LineText = Callable[[Place], str]


def disk_line(place: Place) -> str:
    """The text of a source line as the file is now."""
    return linecache.getline(*place).strip()


def layout(node: GraphNode) -> str:
    """`f32[4, 8][8, 1]cpu`: dtype, size, stride and device; '' for what is no tensor."""
    if not node.dtype:
        return ""
    return f"{SHORT.get(node.dtype, node.dtype)}{list(node.size)}{list(node.stride)}{node.device}"


def readable(nodes: Sequence[GraphNode], line_text: LineText = disk_line, name: str = "GraphModule") -> str:
    """A module whose `forward` is the graph. It is Python, and runs where the operators it names exist."""
    inputs = [_annotated(n) for n in nodes if n.op == "placeholder"]
    head = ["self", *inputs]
    one_line = f"    def forward({', '.join(head)}):"
    signature = [one_line] if len(one_line) < 120 else ["    def forward(", *(f"        {part}," for part in head), "    ):"]
    return "\n".join([f"class {name}(torch.nn.Module):", *signature, *body(nodes, line_text)]) + "\n"


def body(nodes: Sequence[GraphNode], line_text: LineText = disk_line) -> list[str]:
    """The statements of `forward`."""
    out: list[str] = []
    last = ("", 0, "")
    for node in nodes:
        if node.op == "placeholder":
            continue
        here = (node.file, node.line, node.phase)
        if node.file and here != last:
            out += ["", f"        # {_where(node, line_text)}"] if out else [f"        # {_where(node, line_text)}"]
            last = here
        out.append(f"        {statement(node)}")
    return out


def statement(node: GraphNode) -> str:
    """One node as a statement."""
    if node.op == "output" or not node.dtype:
        return node.text
    _, _, value = node.text.partition(" = ")
    return f"{_annotated(node)} = {value}"


def _annotated(node: GraphNode) -> str:
    facts = layout(node)
    return f'{node.name}: "{facts}"' if facts else node.name


def _where(node: GraphNode, line_text: LineText) -> str:
    caller = node.stack[-1].rpartition(" ")[2] if node.stack else ""
    inside = f" in {caller}" if caller else ""
    mark = " (backward)" if node.phase == "backward" else ""
    text = line_text((node.file, node.line))
    return f"File: {node.file}:{node.line}{inside}{mark}" + (f", code: {text}" if text else "")
