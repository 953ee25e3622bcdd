"""Every private name of torch that the product uses has its row, and this torch has every name."""

from __future__ import annotations

import ast
import importlib
import re
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
    own = _own_attributes(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute | ast.Call) or (read := _read(node)) is None:
            continue
        base, attribute = read
        if (name := dotted(base, bound)) is not None:
            yield node.lineno, f"{name}.{attribute}"
        elif attribute in OF_OBJECTS and attribute not in own and not _is_namespace(base):
            yield from ((node.lineno, name) for name in of_objects(attribute))


def _read(node: ast.Attribute | ast.Call) -> tuple[ast.AST, str] | None:
    """The object and the name: `base.name`, or `getattr(base, "name")` and its like."""
    if isinstance(node, ast.Attribute):
        return node.value, node.attr
    if not isinstance(node.func, ast.Name) or node.func.id not in ("getattr", "hasattr", "setattr", "delattr") or len(node.args) < 2:
        return None
    name = node.args[1]
    return (node.args[0], name.value) if isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def _own_attributes(tree: ast.AST) -> set[str]:
    """Attributes that a file's own classes have: set on `self`, or declared in a class body."""
    attributes = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
    own = {n.attr for n in attributes if isinstance(n.value, ast.Name) and n.value.id in ("self", "cls")}
    for cls in (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)):
        own |= {n.target.id for n in cls.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    return own


def _is_namespace(base: ast.AST) -> bool:
    """Attributes of a namespace of operators are operators."""
    return "ops" in ast.unparse(base).split(".") or ast.unparse(base) == "aten"


def private_names_in_c(text: str) -> Iterator[str]:
    """Names in literals that some module which the file imports has, or an object of OWNERS."""
    modules = [importlib.import_module(name) for name in re.findall(r'PyImport_ImportModule\("(torch[\w.]*)"\)', text)]
    for name in re.findall(r'"(_[a-zA-Z]\w*)"', text):
        yield from (f"{module.__name__}.{name}" for module in modules if hasattr(module, name))
        yield from of_objects(name)


def _of_objects() -> dict[str, list[str]]:
    """Private attribute -> the owners that have it."""
    found: dict[str, list[str]] = {}
    for owner, obj in torch_facts.OWNERS.items():
        for name in dir(obj):
            if name.startswith("_") and not name.startswith("__"):
                found.setdefault(name, []).append(owner)
    return found


OF_OBJECTS = _of_objects()


def of_objects(attribute: str) -> list[str]:
    """The names of an attribute whose object isn't known: those with a row, or all that it could be."""
    names = [f"{owner}.{attribute}" for owner in OF_OBJECTS.get(attribute, ())]
    return [name for name in names if has_row(name)] or names


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
    if name.rpartition(".")[0] in torch_facts.OWNERS:
        return name in torch_facts.PRIVATE
    return any(name == row or name.startswith(row + ".") for row in torch_facts.PRIVATE)


def c_files() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package / "csrc").glob("*.[ch]"))


def test_every_private_name_has_its_row() -> None:
    without = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            if not file.startswith(ELSEWHERE):
                found = private_names(path.read_text())
                without += [f"{file}:{line} {name}" for line, name in found if is_private(name) and not has_row(name)]
    for path in c_files():
        without += [f"{path.relative_to(ROOT)} {name}" for name in private_names_in_c(path.read_text()) if not has_row(name)]
    assert not without, "give these a row in dynamo/torch_facts.py, or use a public name:\n" + "\n".join(without)


def test_every_row_is_used() -> None:
    used = {n for p in PACKAGES for path in (ROOT / p).rglob("*.py") for _, n in private_names(path.read_text())}
    used |= {name for path in c_files() for name in private_names_in_c(path.read_text())}
    assert [row for row in torch_facts.PRIVATE if not any(n == row or n.startswith(row + ".") for n in used)] == []


def test_this_torch_has_every_name() -> None:
    assert torch_facts.missing() == []


def test_the_scan_sees_aliases_and_imports() -> None:
    text = "import torch\nfrom torch._ops import OpOverload\n_C = torch._C\ndef f():\n    return _C._made_up.x\n"
    assert {n for _, n in private_names(text) if is_private(n)} == {"torch._ops.OpOverload", "torch._C._made_up.x", "torch._C._made_up"}


def test_the_scan_sees_names_in_calls_and_attributes_of_objects() -> None:
    text = (
        "import torch\nclass A:\n    _conj: int\n    def f(self, t, op):\n"
        "        getattr(torch._C, '_made_up', None), hasattr(t, '_is_view'), t._base, op._schema, self._buffers, t._buffers, t._conj\n"
    )
    found = {n for _, n in private_names(text) if is_private(n)}
    assert found - {"torch._C"} == {"torch._C._made_up", "torch.Tensor._is_view", "torch.Tensor._base", "torch._ops.OpOverload._schema"}


def test_the_scan_sees_names_in_c() -> None:
    text = 'PyImport_ImportModule("torch._C"); PyObject_GetAttrString(x, "_cdata"); f(m, "_get_tracing_state"); f(m, "_nowhere");'
    assert set(private_names_in_c(text)) == {"torch._C._get_tracing_state", "torch.Tensor._cdata", "torch.UntypedStorage._cdata"}


def test_attributes_that_objects_have_no_more_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(torch_facts.PRIVATE, "torch.Tensor._made_up", "nothing")
    assert torch_facts.missing() == ["torch.Tensor._made_up"]


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


# Ways in which a program first needs the compiler while something of torch watches each operator.
UNDER = {
    "a dispatch mode": "with Dispatch(): load()",
    "a function mode": "with Function(): load()",
    "fakes": "with FakeTensorMode(): load()",
    "make_fx": "make_fx(lambda x: (load(), x + 1)[1], pre_dispatch=True)(torch.ones(2)).graph.nodes",
    "jit.trace": "torch.jit.trace(lambda x: (load(), x + 1)[1], (torch.ones(2),))",
}
_WATCHED = """
import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        raise AssertionError(f)

class Function(TorchFunctionMode):
    def __torch_function__(self, f, types, args=(), kwargs=None):
        assert not isinstance(f, type(torch.clamp)), f
        return f(*args, **(kwargs or {}))

def load():
    import dynamo.torch_facts
    assert dynamo.torch_facts.CLAMP_IGNORES_A_SINGLE_NAN in (True, False)

"""


@pytest.mark.parametrize("way", list(UNDER))
def test_facts_are_asked_below_modes_and_traces(way: str) -> None:
    command = [
        sys.executable,
        "-W",
        "error",
        "-W",
        "ignore::DeprecationWarning",
        "-W",
        "ignore::FutureWarning",
        "-c",
        _WATCHED + UNDER[way],
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert (done.returncode, done.stderr) == (0, "")
