"""Running a script with every graph that it compiles checked where it is called first.

    python -m minifier.bisect.script REQUEST SCRIPT|-m NAME [ARGS]...

REQUEST is JSON: `pipe` (a file descriptor for one report per line), `backend` ('' for what the script asks for), `draws`, `graph`,
`device` ('': where the script has them).
Graphs run in eager, so the script takes the way that it takes without a compiler; compiled code only runs inside the check.

With `captures` nothing is checked, and the one line that each process tells at its end has decisions, nodes and guards of all graphs that
it captured.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import json
import os
import sys
from typing import Any, TextIO

from dynamo.backends.registry import Backend, stand_between
from dynamo.peer.script_adapter import install_when_torch_loads
from dynamo.surroundings.parent import end_with_parent
from dynamo.trace.events import Decided, GraphCaptured, GuardInstalled
from dynamo.trace.store import Store, session
from minifier import children
from minifier.programs import run_as_main


def main() -> None:
    end_with_parent()
    request = json.loads(sys.argv[1])
    children.take_part("minifier.bisect.script:begin", sys.argv[2:], asked={**request, "of": os.getpid()})
    pipe = os.fdopen(request["pipe"], "w")
    is_watched = request.get("captures", False)
    _check(request, pipe)
    with session() as store:
        try:
            run_as_main(sys.argv[2:])
        finally:
            if is_watched:
                _tell(pipe, facts(store))
            else:
                _tell_failures(pipe)


def begin(request: dict[str, Any]) -> None:
    """The beginning of a process that the script has started: it tells into the pipe of the script, for as long as that is there."""
    children.begun(request)
    asked = request["asked"]
    with contextlib.suppress(OSError):
        pipe = open(f"/proc/{asked['of']}/fd/{asked['pipe']}", "w")  # noqa: SIM115  # as long as the process
        _check(asked, pipe)
        if asked.get("captures", False):
            lasting = contextlib.ExitStack()
            atexit.register(lasting.close)
            atexit.register(_tell_facts, pipe, lasting.enter_context(session()))
        else:
            atexit.register(_tell_failures, pipe)


def _tell_failures(pipe: TextIO) -> None:
    """Functions of this process that could not be captured and ran in eager."""
    if failures := children.internal():
        with contextlib.suppress(OSError):  # nobody listens any more
            _tell(pipe, {"failures": failures})


def _tell_facts(pipe: TextIO, store: Store) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        _tell(pipe, facts(store))


def _tell(pipe: TextIO, data: dict[str, Any]) -> None:
    """One line, whole also where others write."""
    fcntl.lockf(pipe, fcntl.LOCK_EX)
    pipe.write(json.dumps(data) + "\n")
    pipe.flush()
    fcntl.lockf(pipe, fcntl.LOCK_UN)


def _check(request: dict[str, Any], pipe: TextIO) -> None:
    """Have every graph of this process checked."""
    is_watched = request.get("captures", False)

    def between(name: str, backend: Backend) -> Backend:
        from minifier.bisect import checker  # noqa: PLC0415  # loads torch, which the script may want to prepare first

        if is_watched:
            return checker.in_eager
        tell = functools.partial(_tell, pipe)
        return checker.Checker(tell, request["backend"], request["draws"], request["graph"], request["device"]).between(name, backend)

    stand_between(between)
    install_when_torch_loads()


def facts(store: Store) -> dict[str, Any]:
    """Decisions, nodes and guards of a run, as plain data."""
    graphs = [g for g in store.of(GraphCaptured) if g.stage == "capture"]
    return {
        "decided": [(d.number, d.stage, d.what, d.taken) for d in store.of(Decided) if d.number],
        "nodes": [(g.graph_id, n.name, n.target, n.file, n.line) for g in graphs for n in g.nodes],
        "guards": [(g.compile_id, g.source, g.check, g.file, g.line) for g in store.of(GuardInstalled)],
    }


if __name__ == "__main__":
    main()
