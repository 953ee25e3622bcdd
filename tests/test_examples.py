"""What adding a thing touches: patches in `tests/examples/`, applied to a copy of the tree, counted and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("dynamo", "inductor", "minifier", "tui")

OPERATOR = """
import torch, dynamo
from inductor.lowering.registry import ROWS
f, x = torch.special.spherical_bessel_j0, torch.linspace(-9, 9, 99)
equal = torch.allclose(dynamo.compile(f, backend="inductor")(x), f(x), atol=1e-6)
print(equal, torch.ops.aten.special_spherical_bessel_j0.default in ROWS)
"""
SCALAR_OP = """
from inductor.ir.ops import OPS
from inductor.targets.cpu.c.ops import C_OPS
from inductor.targets.triton.ops import TRITON_OPS
print(C_OPS["exp10"].for_operand("f32"), OPS["exp10"].torch(2.0), "exp10" in TRITON_OPS)
"""
GUARD_KIND = """
from dynamo import _C
from dynamo.guards.kinds import KINDS
tree = _C.GuardTree(("root", None, (), (("input", 0, ((1, "longer", 3),), ()),)))
print(KINDS["longer"].words(3), tree.check(([1, 2, 3, 4],)), tree.check(([1, 2, 3],)))
"""
TARGET = """
from inductor.runtime import devices
from inductor.targets import registry
print(registry.target("meta").name, devices.runtime("meta").versions()[0])
"""

VIEW = """
from dynamo.trace import events
from dynamo.trace.model import Run
from tui.main import COMMANDS
from tui.views.page import Page
from tui.views.table import VIEWS
view = VIEWS["noted"]
print(*view.lines(view.data(Run([events.Note("X", "hello")]), ""), Page()), *(c.name for c in COMMANDS if c.name == "noted"))
"""

# Name of the patch, the places of the product that it touches, a program about what it adds, and what that prints.
EXAMPLES = [
    ("break_reason", 1, "from dynamo.breaks import REASONS; print(REASONS['DD999'].title)", "an example"),
    ("backend", 2, "import torch, dynamo; print(dynamo.compile(lambda x: x + 1, backend='doubled')(torch.ones(1)).item())", "4.0"),
    ("command", 2, "import sys; sys.argv[1:] = ['hello']; from tui.main import main; main()", "hello"),
    (
        "event",
        2,
        "from dynamo.trace import codec, events, rows; e = codec.decode({'kind': 'greeted', 'id': 'you'}); print(*rows.lines_of(e))",
        "hello you",
    ),
    ("name_of_the_peer", 1, "from dynamo.peer.names import MODULES; print(MODULES['torch._dynamo.example'])", "{'compile': ':compile'}"),
    (
        "rewrite",
        1,
        "from inductor.passes.algebra import ROWS; print([r.name for r in ROWS if r.name.startswith('floor')][0])",
        "floor of trunc",
    ),
    ("operator", 1, OPERATOR, "True True"),
    ("scalar_op", 3, SCALAR_OP, "pow{s}(10, {0}) 100.0 True"),
    (
        "opcode",
        1,
        "import dynamo.symbolic.handlers; from dynamo.symbolic.interp.loop import OPS; print(OPS['END_ASYNC_FOR'].__name__)",
        "_end_async_for",
    ),
    ("guard_kind", 2, GUARD_KIND, "len > 3 True False"),
    ("target", 2, TARGET, "meta example"),
    ("view", 3, VIEW, "X hello noted"),
]
COMPILED = ("guard_kind",)  # which change the C extension


@pytest.mark.parametrize("name, places, program, printed", EXAMPLES, ids=[e[0] for e in EXAMPLES])
def test_example(tmp_path: Path, name: str, places: int, program: str, printed: str) -> None:
    text = (ROOT / "tests" / "examples" / f"{name}.patch").read_text()
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "*.c", "*.md"))
    if name in COMPILED:
        _sources(tmp_path)
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=text, text=True, check=True)
    if name in COMPILED:
        plainly = {**os.environ, "CFLAGS": "-O0"}
        subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=tmp_path, env=plainly, check=True, timeout=300)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)

    assert (done.stdout.strip(), done.stderr) == (printed, "")
    assert len(re.findall(r"^\+\+\+ ", text, re.MULTILINE)) == places


def _sources(tree: Path) -> None:
    """What the extensions are built of."""
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tree)
    for folder in ("dynamo/csrc", "inductor/csrc"):
        shutil.copytree(ROOT / folder, tree / folder, dirs_exist_ok=True)


def test_every_patch_has_its_row() -> None:
    assert sorted(p.stem for p in (ROOT / "tests" / "examples").glob("*.patch")) == sorted(e[0] for e in EXAMPLES)
