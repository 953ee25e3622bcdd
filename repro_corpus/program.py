"""A program of the corpus: what it does, where the report is that it was written after, and how it is run.

    @program("pytorch#112594", "x.copy_ of its own transpose reads what it has overwritten")
    def copy_of_own_transpose(compile):
        @compile
        def f(x):
            x.copy_(x.mT * 1.0)
            return x

        return f(torch.arange(16.0).view(4, 4))

`compile` takes a function or module, as `torch.compile` does, also with `fullgraph=` or as a decorator; in the eager run it gives
back what it got. The result is what is observed: any pytree of tensors and plain values. What else the program leaves behind (printed
text, warnings, global modes, random state, an exception) is observed by the runner. Programs of this project are written afresh from
the facts of a report; none is copied from one.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Compile = Callable[..., Any]
BACKENDS = ("eager", "aot_eager", "inductor")


@dataclass(frozen=True)
class Program:
    """`report` is a public issue (`repository#number`) or "". `tolerance` is (rtol, atol) in place of the dtype's default; (0, 0) is exact.

    `differs` says why compiled code may differ from eager here, and is "" for nearly all programs: then any difference is a defect.
    `raises` is a part of what the program ends with in eager ("TypeError: ...") where it is about an error, else "" (see `undeclared`).
    """

    module: str
    name: str
    report: str
    facts: str
    run: Callable[[Compile], Any]
    backends: tuple[str, ...] = BACKENDS
    tolerance: tuple[float, float] | None = None
    differs: str = ""
    raises: str = ""

    @property
    def id(self) -> str:
        return f"{self.module.rpartition('.')[2]}:{self.name}"


def program(
    report: str,
    facts: str,
    *,
    backends: tuple[str, ...] = BACKENDS,
    tolerance: tuple[float, float] | None = None,
    differs: str = "",
    raises: str = "",
) -> Callable[[Callable[[Compile], Any]], Program]:
    """Makes a Program of a function."""

    def make(run: Callable[[Compile], Any]) -> Program:
        return Program(run.__module__, run.__name__, report, facts, run, backends, tolerance, differs, raises)

    return make


def programs_of(module: str) -> list[Program]:
    """The programs of one module, in the order they are written in."""
    return [p for p in vars(importlib.import_module(module)).values() if isinstance(p, Program) and p.module == module]


def modules_below(package: str) -> list[str]:
    """The modules of programs in a package."""
    found = importlib.import_module(package)
    return [f"{package}.{m.name}" for m in pkgutil.iter_modules(found.__path__) if not m.name.startswith(("_", "test_"))]
