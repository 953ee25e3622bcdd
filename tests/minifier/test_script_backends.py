"""What a backend of a script takes with it into other processes: what it needs, and nothing that runs the script."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from dynamo.backends import registry
from dynamo.peer import replacements
from minifier.graph.names import Unsupported, resolve
from minifier.recorder import backend_name
from minifier.script_backends import definition, kept

SCRIPT = """
from __future__ import annotations
import ctypes, os
import torch
from torch import nn as layers

LIB = ctypes.CDLL(None)
LIB.abs.restype = ctypes.c_int
TABLE = {}
TABLE["tanh"] = torch.sin
OTHER = {}
OTHER["x"] = 1
LEVEL: int = 3


def helper(gm):
    return any(n.target in TABLE for n in gm.graph.nodes) and LEVEL


class Interpreter(torch.fx.Interpreter):
    level = LIB.abs(-1)


@torch.no_grad()
def backend(gm, x):
    def run(*args):
        y = f = helper(gm)
        return Interpreter(gm).run(*args)
    return run


@torch.compile(backend=backend)
def f(x):
    return x


for n in range(3):
    y = f(torch.ones(n))
x, args = torch.ones(3), 1
gm = f(x)
if __name__ == "__main__":
    TABLE = 1
"""


def test_a_backend_takes_what_it_reads_and_what_is_set_in_that() -> None:
    taken = definition(SCRIPT, "backend")
    compile(taken, "<taken>", "exec")
    for line in ("from __future__ import annotations", "LIB.abs.restype = ctypes.c_int", 'TABLE["tanh"] = torch.sin', "LEVEL: int = 3"):
        assert line in taken
    for word in ("layers", "OTHER", "torch.compile", "range(3)", "torch.ones", "gm = f(x)", "__main__"):
        assert word not in taken


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a = 1\n", ""),
        ("def b(gm):\n    return a\n", "def b(gm):\n    return a\n"),
        ("x = 1\nb = lambda gm: [x for x in gm]\n", "b = lambda gm: [x for x in gm]\n"),
        ("x = 1\ndef b(gm):\n    global x\n    x = x + 1\n", "x = 1\n\ndef b(gm):\n    global x\n    x = x + 1\n"),
        ("x = 1\nif x:\n    b = 2\nelse:\n    b = 3\n", "x = 1\n\nif x:\n    b = 2\nelse:\n    b = 3\n"),
    ],
)
def test_only_names_of_the_module_count(text: str, expected: str) -> None:
    assert definition(text, "b") == expected


def test_who_stands_between_does_not_see_what_torch_compiles_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.ops.higher_order.map` in eager asks torch's own compiler to run it with the backend `eager`."""
    monkeypatch.setattr(registry, "_between", lambda name, backend: pytest.fail(name))

    assert replacements.lookup_backend("eager") is registry.looked_up("eager")[1]


BACKENDS = """
import functools

class Quantised:
    def __call__(self, gm, inputs):
        return gm.forward

    def method(self, gm, inputs):
        return gm.forward

def make():
    def inner(gm, inputs):
        return gm.forward
    return inner

def function(gm, inputs, bits=8):
    return gm.forward

quantised, inner, partial, named = Quantised(), make(), functools.partial(function, bits=4), lambda gm, inputs: gm.forward
method = quantised.method
"""


@pytest.mark.parametrize(
    "given, name",
    [
        ("function", "function"),
        ("quantised", "quantised"),
        ("inner", "inner"),
        ("partial", "partial"),
        ("named", "named"),
        ("method", "method"),
        ("Quantised()", "<given>"),
        ("make()", "make.<locals>.inner"),
        ("quantised.method", "<Quantised.method>"),
        ("lambda gm, inputs: gm.forward", "<lambda>"),
    ],
)
def test_a_backend_has_the_name_under_which_that_very_object_is_found(given: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("backends_of_a_program")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(BACKENDS, vars(module))
    backend = eval(given, vars(module))

    assert backend_name("given", backend) == f"{module.__name__}:{name}"
    if "<" in name:
        with pytest.raises(Unsupported):
            resolve(f"{module.__name__}.{name}")


INNER = """
import torch

LEVEL = 1

def check(gm):
    if LEVEL and any(n.target is torch.sin for n in gm.graph.nodes):
        raise ValueError("no sin")
    return gm.forward

def made(level):
    def plain(gm: torch.fx.GraphModule, inputs: level, *, bits: int = level) -> level:
        "Checks."
        return check(gm) if bits else None
    def closed(gm, inputs):
        return level
    def late(gm, inputs):
        return LATE
    return plain, closed, late

PLAIN, CLOSED, LATER = made(4)
check_ = lambda gm, inputs: None
LAMBDAS = [lambda gm, inputs: check(gm), lambda gm, inputs: None]
LATE = 2 if __name__ == "no such" else None
if __name__ == "__main__":
    OTHER = LATE
    def needs_other(gm, inputs):
        return OTHER

def outer():
    def check(gm, inputs):
        return 2
    return check
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A script, as the process that runs it knows it."""
    (tmp_path / "program.py").write_text(INNER)
    home = ModuleType("__main__")
    home.__file__ = str(tmp_path / "program.py")
    exec(compile(INNER, home.__file__, "exec"), vars(home))
    monkeypatch.setitem(sys.modules, "__main__", home)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path[1:]])
    return home


@pytest.mark.parametrize(
    "given, name, has, hasnt",
    [
        ("PLAIN", "plain", ("def plain(gm, inputs, *, bits=4):", "def check(gm):", "LEVEL = 1"), ("made(4)", "LAMBDAS")),
        ("LAMBDAS[0]", "backend", ("backend = lambda gm, inputs: check(gm)", "def check(gm):"), ("made",)),
        ("LAMBDAS[1]", "backend", ("backend = lambda gm, inputs: None",), ("check",)),
        ("made(4)[2]", "late", ("def late(gm, inputs):", "LATE = 2"), ("made",)),
    ],
)
def test_a_function_made_inside_of_another_is_kept_where_it_needs_nothing_of_that(
    given: str, name: str, has: tuple[str, ...], hasnt: tuple[str, ...], program: ModuleType, tmp_path: Path
) -> None:
    function = eval(given, vars(program))

    assert kept(f"__main__:{function.__qualname__}", tmp_path, function) == f"script_backend:{name}"

    text = (tmp_path / "script_backend.py").read_text()
    compile(text, "<taken>", "exec")
    assert all(line in text for line in has) and not any(word in text for word in hasnt)


@pytest.mark.parametrize("given", ["CLOSED", "outer()", "made(())[0]", "needs_other"])
def test_a_function_that_needs_more_keeps_its_name(given: str, program: ModuleType, tmp_path: Path) -> None:
    """Variables around it, a name that the module has for something else, values that aren't plain, what is set while the script runs."""
    function = eval(given, vars(program))
    name = f"__main__:{function.__qualname__}"

    assert kept(name, tmp_path, function) == name
    assert not (tmp_path / "script_backend.py").exists()


def test_backends_of_one_script_do_not_replace_each_other(program: ModuleType, tmp_path: Path) -> None:
    names = [kept("__main__:<lambda>", tmp_path, vars(program)["LAMBDAS"][n]) for n in (0, 1, 0)]

    assert names == ["script_backend:backend", "script_backend_2:backend", "script_backend:backend"]


def test_a_backend_of_the_current_folder_goes_with_programs_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("here", "program", "kept"):
        (tmp_path / folder).mkdir()
    (tmp_path / "here" / "acme.py").write_text("import acme_rules\n\ndef compiler(gm, inputs):\n    return gm\n")
    (tmp_path / "here" / "acme_rules.py").write_text("")
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(tmp_path / "program")

    assert kept("acme:compiler", tmp_path / "kept") == "acme:compiler"
    assert sorted(p.name for p in (tmp_path / "kept").iterdir()) == ["acme.py", "acme_rules.py"]


def test_a_backend_of_a_script_in_another_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "script.py").write_bytes(b"# coding: latin-1\nNAME = 'gr\xf6\xdfe'\ndef acme(gm, inputs):\n    return NAME\n")
    script = ModuleType("__main__")
    script.__file__ = str(tmp_path / "script.py")
    monkeypatch.setitem(sys.modules, "__main__", script)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "kept").mkdir()

    assert kept("__main__:acme", tmp_path / "kept") == "script_backend:acme"
    written: dict[str, object] = {}
    exec((tmp_path / "kept" / "script_backend.py").read_bytes(), written)
    assert written["NAME"] == "größe"
