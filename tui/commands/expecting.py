"""What the checks of `verify` raise."""

from __future__ import annotations


class Failed(Exception):
    """A check that ran and found something wrong."""


def expect(holds: bool, what: str) -> None:
    if not holds:
        raise Failed(what)
