"""Errors of the compiler, each with a stable id."""

from __future__ import annotations


class InductorError(RuntimeError):
    """Base of all errors of this package."""

    id = "DI000"


class BuildError(InductorError):
    """The C compiler is missing, was killed, or refused the generated code. The message holds the command and its output."""

    id = "DI001"


class Unsupported(InductorError):
    """A graph this compiler does not take: other devices, sizes that depend on data, or operators that change tensors in place."""

    id = "DI002"
