"""Every loop of the generated C names the user lines it came from, through tracing, decompositions, fusion and the backward."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import dynamo
from dynamo.trace import session
from dynamo.trace.events import CodeGenerated, GraphCaptured
from inductor.ir.nest import Origin
from inductor.ir.text import print_program
from inductor.targets.cpu.c.unit import PRELUDE
from inductor.targets.cpu.comments import without_comments
from inductor.targets.origins import origin_text
from tests.inductor.reading_ir import parse_program

HEAD = "import torch\nimport torch.nn.functional as F\n\n\n"
# Bodies of `def f(...)`; the first statement is line 6 of the file.
PROGRAMS = {
    "pointwise": ("x, y", "z = x + y\n    return z.relu() * 2", "t(8, 40), t(40)"),
    "softmax": ("x", "y = x.sin()\n    return torch.softmax(y, -1)", "t(8, 40)"),
    "layer norm": ("x, w, b", "y = F.layer_norm(x, (64,), w, b)\n    return F.gelu(y)", "p(8, 64), p(64), p(64)"),
    "batch norm": ("x, w, b, m, v", "return F.relu(F.batch_norm(x, m, v, w, b, True))", "p(4, 3, 5, 5), p(3), p(3), z(3), o(3)"),
    "linear": ("x, w, b", "y = F.linear(x, w, b)\n    return F.silu(y).sum()", "p(8, 16), p(4, 16), p(4)"),
    "used twice": ("x", "y = x.exp()\n    a = y * 2\n    b = y.sin()\n    return (a + b).sum()", "p(8, 40)"),
    "dropout": ("x", "y = F.dropout(x, 0.5)\n    return y.tanh()", "p(8, 40)"),
    "embedding": ("w, i", "e = F.embedding(i, w)\n    return e.mean(0)", "p(16, 32), i(7)"),
    "cat and pad": ("x, y", "z = torch.cat([x, y * 2], 1)\n    return F.pad(z, (1, 2))", "p(4, 5), p(4, 6)"),
    "loss": ("x, i", "y = F.log_softmax(x, -1)\n    return F.nll_loss(y, i)", "p(6, 10), i(6)"),
    "in place": ("x, y", "x.mul_(2)\n    x[1:3] = y\n    return x.sum(0)", "t(6, 10), t(10)"),
    "long sum": ("x", "return (x * 3).sum()", "t(400, 300)"),
    "column sum": ("x", "y = x * x\n    return y.sum(0)", "p(256, 128)"),
    "cumsum": ("x", "return x.cumsum(1) * 2", "t(30, 40)"),
    "pooling": ("x", "y = F.max_pool2d(x, 2)\n    return F.avg_pool2d(y, 2)", "p(2, 3, 16, 16)"),
    "copied input": ("x", "return x.t(), x + 1", "t(4, 6)"),
    "no history": ("x", "with torch.no_grad():\n        y = x * 2\n    return y + x", "p(8, 40)"),
    "attention": ("q, k, v", "s = q @ k.transpose(-1, -2)\n    return torch.softmax(s, -1) @ v", "p(2, 8, 16), p(2, 8, 16), p(2, 8, 16)"),
}


def tensors(text: str) -> list[Any]:
    torch.manual_seed(0)
    made = {
        "t": lambda *s: torch.randn(s),
        "p": lambda *s: torch.randn(s, requires_grad=True),
        "z": lambda *s: torch.zeros(s),
        "o": lambda *s: torch.ones(s),
        "i": lambda *s: torch.randint(0, 5, s),
    }
    return list(eval(f"[{text}]", made))


def events(tmp_path: Path, name: str) -> list[Any]:
    arguments, body, inputs = PROGRAMS[name]
    path = tmp_path / "user_model.py"
    path.write_text(f"{HEAD}def f({arguments}):\n    {body}\n")
    spec = importlib.util.spec_from_file_location("user_model", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with session() as store:
        out = dynamo.compile(module.f, backend="inductor")(*tensors(inputs))
        for value in out if isinstance(out, tuple) else (out,):
            if value.requires_grad:
                value.sum().backward()
    return store.events


def uncommented(code: str) -> list[str]:
    """Loop nests of the unit (outer loops, and the blocks of their stages) whose comment names no line of the user."""
    lines = code.replace(PRELUDE, "").splitlines()
    bad = []
    for before, line in zip(["", *lines], lines, strict=False):
        is_nest = re.match(r"\s*for \(long it = ", line) or re.match(r"\s{8}\{$", line)
        if is_nest and not re.match(r"\s*/\* .*user_model\.py:\d+ \w+.* \*/$", before):
            bad.append(f"{before}\n{line}")
    return bad


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_loop_nest_names_lines_of_the_user(tmp_path: Path, name: str) -> None:
    found = events(tmp_path, name)
    units = [e for e in found if isinstance(e, CodeGenerated) and e.language == "c"]

    assert units
    assert [bad for e in units for bad in uncommented(e.code)] == []
    assert any("for (" in e.code.replace(PRELUDE, "") for e in units)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_aten_node_has_a_line_of_the_user(tmp_path: Path, name: str) -> None:
    graphs = [e for e in events(tmp_path, name) if isinstance(e, GraphCaptured)]
    lost = [(g.graph_id, n.name) for g in graphs for n in g.nodes if n.op != "output" and not n.file.endswith("user_model.py")]

    assert lost == []


def test_gradients_name_the_forward_line_and_are_marked(tmp_path: Path) -> None:
    (backward,) = [e.code for e in events(tmp_path, "layer norm") if isinstance(e, CodeGenerated) and e.name.endswith(".bw.c")]
    comments = " ".join(re.findall(r"/\*.*?\*/", backward.replace(PRELUDE, "")))

    assert re.search(r"user_model\.py:6 [\w, ]*native_layer_norm_backward[\w, ]* \(backward\)", comments)
    assert re.search(r"user_model\.py:7 [\w, ]*gelu_backward[\w, ]* \(backward\)", comments)


def test_a_sum_of_gradients_belongs_to_a_line_that_made_one(tmp_path: Path) -> None:
    graphs = {e.graph_id.split(".")[-1]: e for e in events(tmp_path, "used twice") if isinstance(e, GraphCaptured)}
    adds = [n for n in graphs["bw"].nodes if n.target == "aten.add.Tensor"]

    assert [n.line for n in adds] == [7]


def test_text_of_origins() -> None:
    origins = [Origin("mul.Tensor", "/a b/m.py", 3), Origin("_softmax.default", "/a b/m.py", 3), Origin("relu.default", "/x/n.py", 1, True)]

    assert origin_text(origins) == "m.py:3 mul, softmax; n.py:1 relu (backward)"
    assert origin_text([Origin("mul.Tensor")]) == "mul"
    assert without_comments("a /* x\ny */b") == "a b"


def test_origins_are_read_back_from_text() -> None:
    text = "in a0: f32[4] (1)\ntemp b0: f32[4] (1)\nnest n0 (i0:4) ; neg.default /a b/m.py:3 (backward)\n"
    text += "  %0 = load a0[i0] : f32\n  store b0[i0] = %0\nreturn b0[4](1)+0\n"

    assert print_program(parse_program(text)) == text
