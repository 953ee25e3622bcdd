"""A process that another one waits for, and which has no work left once that has gone."""

from __future__ import annotations

import ctypes
import os
import signal

_VARIABLE = "DYNAMO_DEBUG_PARENT"
_PR_SET_PDEATHSIG = 1


def parent() -> dict[str, str]:
    """What `end_with_parent` finds in the environment of a process that this one starts."""
    return {_VARIABLE: str(os.getpid())}


def end_with_parent() -> None:
    """From now on this process is killed when the thread that started it ends, however that ends; what it starts itself is not."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)  # of Linux alone
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # refused in some sandboxes: then such a process may outlive its parent
    if int(os.environ.pop(_VARIABLE, os.getppid())) != os.getppid():  # it has gone already
        os._exit(128 + signal.SIGKILL)
