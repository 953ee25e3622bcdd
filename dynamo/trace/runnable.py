"""A recorded ATen graph as a script that runs by itself: compiled and in eager, on random inputs of the same layout, and compared."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dynamo.trace.events import GraphNode
from dynamo.trace.readable import LineText, disk_line, readable

HIGHEST = 8
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")

HEAD = '''"""{name}: runs this graph compiled and in eager, and compares.

    python fx_graph_runnable.py [--backend NAME] [--seed N]

Exit code 0: equal; 1: not equal, or one of them failed. Inputs are random; only their layout is that of the run.
"""

import argparse
import base64
import sys
import zlib

import torch

import dynamo
{imports}
{namespaces}


def unpacked(text, size, dtype):
    """A constant of the graph."""
    raw = bytearray(zlib.decompress(base64.b85decode(text)))
    return torch.frombuffer(raw, dtype=dtype).reshape(size)


'''

TAIL = '''

def tensor(size, stride, dtype, device, bound, high, positive):
    """Random numbers in that layout: below `bound` and `high` where they are whole, and not below zero where `positive`."""
    count = 1 + sum((n - 1) * s for n, s in zip(size, stride)) if all(size) else 0
    if dtype == torch.bool:
        flat = torch.randint(0, 2, (count,)).bool()
    elif dtype.is_floating_point or dtype.is_complex:
        flat = (torch.rand(count) if positive else torch.randn(count)).to(dtype)
    else:
        flat = torch.randint(0, min(bound, high), (count,)).to(dtype)
    return flat.to(device).as_strided(size, stride)


def inputs(seed, high=8, positive=False):
    torch.manual_seed(seed)
    return [tensor(*spec, high, positive) if isinstance(spec, tuple) else spec for spec in INPUTS.values()]


def outcome(call, args, seed):
    """Results, and inputs as they are afterwards, which may have been written to."""
    torch.manual_seed(seed)
    with torch.no_grad():
        results = call(*args)
    return list(results) + list(args)


def run_eager(module, seed):
    """Whole numbers may be indices and floats may be probabilities: the first inputs that eager accepts are taken."""
    problem = None
    for positive in (False, True):
        for high in (8, 2, 1):
            try:
                return outcome(module, inputs(seed, high, positive), seed), (high, positive)
            except (IndexError, RuntimeError) as e:
                problem = problem or e
    raise problem


def difference(found, expected):
    """None where two values agree, else what is wrong."""
    if not isinstance(expected, torch.Tensor):
        return None if found == expected else f"{found!r} instead of {expected!r}"
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return f"{found.dtype}{list(found.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if not (expected.dtype.is_floating_point or expected.dtype.is_complex):
        return None if torch.equal(found, expected) else f"{int((found != expected).sum())} elements differ"
    tolerance = {torch.float64: 1e-7, torch.complex128: 1e-7, torch.float32: 1e-3, torch.complex64: 1e-3}.get(expected.dtype, 2e-2)
    if torch.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True):
        return None
    return f"largest difference {(found - expected).abs().nan_to_num().max().item():.3g}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    module = Repro()
    expected, (high, positive) = run_eager(module, options.seed)
    dynamo.config.suppress_errors = False
    compiled = dynamo.compile(module, backend=options.backend, fullgraph=True)
    found = outcome(compiled, inputs(options.seed, high, positive), options.seed)
    names = [f"result {i}" for i in range(len(expected) - len(INPUTS))] + [f"input {name}" for name in INPUTS]
    wrong = {name: problem for name, f, e in zip(names, found, expected) if (problem := difference(f, e)) is not None}
    for name, problem in wrong.items():
        print(f"{name}: {problem}")
    print(f"{len(wrong)} of {len(names)} values differ" if wrong else f"ok: {len(names)} values equal eager")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
'''


def runnable(nodes: Sequence[GraphNode], name: str, line_text: LineText = disk_line) -> str:
    """The script. It needs torch and this package, and nothing of the program the graph came from."""
    module = readable(nodes, line_text, "Repro").splitlines()
    made = ["    def __init__(self):", "        super().__init__()", *map(_constant, (n for n in nodes if n.op == "get_attr")), ""]
    if all(n.op != "output" for n in nodes):
        module.append("        return ()")
    bound = _bound(nodes)
    specs = [f"    {n.name!r}: {_spec(n, bound)}," for n in nodes if n.op == "placeholder"]
    inputs = ["", "", "# name: (size, stride, dtype, device, bound of whole numbers), or the value itself", "INPUTS = {", *specs, "}"]
    body = "\n".join([module[0], *made, *module[1:], *inputs])
    has_clones = any("= Cloned(" in n.text for n in nodes)
    imports = "from dynamo.aot.functionalise import Cloned\n" if has_clones else ""
    return HEAD.format(name=name, imports=imports, namespaces=_namespaces(nodes)) + body + "\n" + TAIL


def _constant(node: GraphNode) -> str:
    value = node.value or f"torch.zeros({list(node.size)}, dtype=torch.{node.dtype})  # too large to be kept in the record"
    return f"        self.{node.target} = {value}"


def _spec(node: GraphNode, bound: int) -> str:
    if not node.dtype:
        return node.value or "None"
    return f"({node.size!r}, {node.stride!r}, torch.{node.dtype}, {node.device!r}, {bound})"


def _bound(nodes: Sequence[GraphNode]) -> int:
    """A number that is an index into every dim there is: some operators write where an index says without looking."""
    return min((n for node in nodes for n in (*node.size, *map(int, _NUMBER.findall(node.text))) if n > 1), default=HIGHEST)


def _namespaces(nodes: Sequence[GraphNode]) -> str:
    """`aten = torch.ops.aten`, and the same for whatever other operators the graph calls."""
    found = {n.target.split(".")[0] for n in nodes if n.op == "call_function" and "." in n.target and " = " in n.text}
    used = sorted(name for name in found if name.isidentifier())
    return "\n".join(f"{name} = torch.ops.{name}" for name in used)
