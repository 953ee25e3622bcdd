"""What a backend of a script takes with it into other processes: what it needs, and nothing that runs the script."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from dynamo.backends import registry
from dynamo.peer import replacements
from minifier.graph.names import Unsupported, resolve
from minifier.recorder import backend_name
from minifier.script_backends import definition

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
