"""Every private name of torch that the product uses has its row, and this torch has every name."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dynamo import torch_facts

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("dynamo", "inductor", "minifier", "tui")
# The adapter to torch's own compiler, and what serves its names to scripts.
ELSEWHERE = ("dynamo/peer/watching.py", "dynamo/peer/script_adapter.py", "dynamo/peer/names.py", "dynamo/peer/")


def private_names(text: str) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything private that is read from torch; names bound by import or assignment are followed."""
    tree = ast.parse(text)
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            bound |= {a.asname or "torch": a.name if a.asname else "torch" for a in node.names if a.name.split(".")[0] == "torch"}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
            for a in node.names:
                bound[a.asname or a.name] = f"{node.module}.{a.name}"
                yield node.lineno, f"{node.module}.{a.name}"
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            if (name := dotted(node.value, bound)) is not None:
                bound[node.targets[0].id] = name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (name := dotted(node, bound)) is not None:
            yield node.lineno, name


def dotted(node: ast.AST, bound: dict[str, str]) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name) and node.id in bound:
        return ".".join([bound[node.id], *reversed(parts)])
    return None


def is_private(name: str) -> bool:
    parts = name.split(".")
    return (
        not name.startswith("torch.ops.") and parts != ["torch", "_C"] and any(p.startswith("_") and not p.startswith("__") for p in parts)
    )


def has_row(name: str) -> bool:
    return any(name == row or name.startswith(row + ".") for row in torch_facts.PRIVATE)


def test_every_private_name_has_its_row() -> None:
    without = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            if not file.startswith(ELSEWHERE):
                found = private_names(path.read_text())
                without += [f"{file}:{line} {name}" for line, name in found if is_private(name) and not has_row(name)]
    assert not without, "give these a row in dynamo/torch_facts.py, or use a public name:\n" + "\n".join(without)


def test_every_row_is_used() -> None:
    used = {n for p in PACKAGES for path in (ROOT / p).rglob("*.py") for _, n in private_names(path.read_text())}
    assert [row for row in torch_facts.PRIVATE if not any(n == row or n.startswith(row + ".") for n in used)] == []


def test_this_torch_has_every_name() -> None:
    assert torch_facts.missing() == []


def test_the_scan_sees_aliases_and_imports() -> None:
    text = "import torch\nfrom torch._ops import OpOverload\n_C = torch._C\ndef f():\n    return _C._made_up.x\n"
    assert {n for _, n in private_names(text) if is_private(n)} == {"torch._ops.OpOverload", "torch._C._made_up.x", "torch._C._made_up"}


@pytest.mark.parametrize("version, warns", [("2.15.1", False), ("2.16.0", True), ("3.0.0", True)])
def test_a_newer_torch_is_named_in_one_line(version: str, warns: bool) -> None:
    program = (
        f"import torch; torch.__version__ = torch.torch_version.TorchVersion({version!r})\n"
        "import dynamo; f = dynamo.compile(lambda x: x + 1, backend='eager'); print(f(torch.ones(1)).item())"
    )
    done = subprocess.run([sys.executable, "-W", "always", "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "2.0\n"
    assert ("is newer than 2.15" in done.stderr) is warns
    shown = [line for line in done.stderr.splitlines() if "DD099" in line or "warn" in line.lower()]
    assert len(shown) == warns
