"""The beginning of a process that a followed script has started: its compiles go into the record of the script."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

from dynamo import _C
from dynamo.peer.private_names import PrivateNames, clashing
from dynamo.peer.script_adapter import install_when_torch_loads
from dynamo.peer.watching import observe_when_torch_loads
from dynamo.surroundings import collector
from dynamo.trace.processes import ProcessWriter
from dynamo.trace.store import of_process


def begin(request: dict[str, Any]) -> None:
    """`request`: `folder` of the events, `engine`, `backend`, `pid` of the script, `began`, its zero of time on the monotonic clock.

    With the id of the script it is what the script has put in its own place.
    """
    collector.skip_at_exit()
    store = of_process()
    store.began = request["began"]
    store.listeners.append(ProcessWriter(request["folder"], request["pid"] if request["pid"] != os.getpid() else 0, _C.write_whole))
    if request["engine"] == "torch":
        observe_when_torch_loads(request["backend"])
    else:
        install_when_torch_loads(request["backend"])


def step_aside(root: str, theirs: dict[str, ModuleType]) -> None:
    """Give the process back its own modules of our names; `theirs` are those it has loaded."""
    names = {name.partition(".")[0] for name in theirs} | set(clashing([path for path in sys.path if path != root], root))
    if names:
        PrivateNames(sorted(names)).install()
        sys.modules.update(theirs)
    elif root not in sys.path:
        sys.path.append(root)
