"""Names of code that continues a function after a break: `f__resume_at_12` is the rest of `f` from instruction 12 on."""

from __future__ import annotations

_MARK = "__resume_at_"


def continued(name: str, index: int) -> str:
    """The name of the rest of a function."""
    return f"{name}{_MARK}{index}"


def beginning(name: str) -> str:
    """The name of the function that the program has: of another's rest, that of the whole."""
    return name.partition(_MARK)[0]
