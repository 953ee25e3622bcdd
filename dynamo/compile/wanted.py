"""Whether this thread's program wants no more compiles: the stance `fail_on_recompile`."""

from __future__ import annotations

import threading


class _Wanted(threading.local):
    compiles = True


_wanted = _Wanted()


def compiles_wanted() -> bool:
    return _wanted.compiles


def want_compiles(wanted: bool) -> bool:
    """Say whether a call that fits no entry may compile; what it was before."""
    before, _wanted.compiles = _wanted.compiles, wanted
    return before
