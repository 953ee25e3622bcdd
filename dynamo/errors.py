"""Errors users see. Each has a stable id and says the way out."""

from __future__ import annotations

import linecache

from dynamo.symbolic.values.errors import BreakError


class CompileError(RuntimeError):
    """Base of all errors of this compiler.

    While it stands in for torch's, the classes have the names that torch's have; `own_name` is the same always.
    """

    id = "DD000"
    own_name = "dynamo.errors.CompileError"

    def __init_subclass__(cls) -> None:
        cls.own_name = f"{cls.__module__}.{cls.__qualname__}"


class GraphBreakError(CompileError):
    """`fullgraph=True` (or nopython=True) met a graph break. `.broke` is the break with reason, span and hint."""

    def __init__(self, broke: BreakError) -> None:
        self.broke = broke
        self.id = broke.id
        file, line, *_ = broke.span
        stack = "".join(f'\n  File "{f}", line {ln}, in {name}{_source(f, ln)}' for f, ln, name in broke.stack)
        hint = f"\n  write instead: {broke.hint}" if broke.hint else ""
        super().__init__(
            f"graph break under fullgraph=True: {broke.reason.title}: {broke.what} [{broke.id}]\n"
            f"  at {file}:{line}\n  why: {broke.reason.explanation}{hint}\n"
            f"  more: dynamo-debug explain --code {broke.id}" + (f"\n\nfrom user code:{stack}" if stack else "")
        )


def _source(file: str, line: int) -> str:
    text = linecache.getline(file, line).strip()
    return f"\n    {text}" if text else ""


class RecompileLimitError(CompileError):
    """`recompile_limit` was reached under fullgraph=True."""

    id = "DD026"


class RecompileError(CompileError):
    """A call would have compiled, and the program asked for an error instead."""

    id = "DD030"


class BackendError(CompileError):
    """A backend raised while it compiled a graph."""

    id = "DD091"

    def __init__(self, name: str, cause: BaseException) -> None:
        super().__init__(f"backend {name!r} failed: {type(cause).__name__}: {cause} [DD091]")
        self.backend = self.backend_name = name
        self.cause = self.inner_exception = cause  # the second of each is torch's name
