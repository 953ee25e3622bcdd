"""`dynamo-debug tui`: walk through a run, live or stored. Without a terminal it prints the same tree as text."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dynamo.surroundings.collector import paused
from dynamo.trace import report
from dynamo.trace.record import LATER_NODES, is_record
from tui import options
from tui.child import Request
from tui.client import RecordClient, ScriptClient
from tui.console import put, put_json
from tui.exits import Exit
from tui.hangup import leave_at_hangup
from tui.runs import check_request, run_or_open


def tui(
    script: options.Script,
    args: options.Args = None,
    engine: options.Engine = "dynamo",
    backend: options.Backend = "",
    internals: options.Internals = False,
    python: options.Python = None,
    as_json: options.AsJson = False,
) -> int:
    """Explore the compiles of SCRIPT while it runs, or of a stored record. Keys: `?` in the app.

    Example: dynamo-debug tui train.py
    """
    request = Request(script, options.given(args), engine, backend, internals, tuple(python or ()))
    stored = is_record(Path(script))
    if not stored:
        check_request(request)
    if as_json or not has_terminal():
        return _plain(request, as_json)
    return _app(request, stored)


# What the tree and the report do not need.
_UNREAD = ("code_generated", "decided", "step_scheduled")
UNREAD_BY_TEXT = (*_UNREAD, LATER_NODES)


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


@paused()
def _plain(request: Request, as_json: bool) -> int:
    outcome = run_or_open(request, _UNREAD if as_json else UNREAD_BY_TEXT)
    run = outcome.run
    put_json({"tree": report.tree_json(run), **report.as_json(run)}) if as_json else put(report.tree_text(run) + report.summary(run) + "\n")
    return outcome.code


def _app(request: Request, stored: bool) -> int:
    from tui.app import Explorer  # noqa: PLC0415  # Textual loads only when there is a terminal to draw on

    client = RecordClient(Path(request.script)) if stored else ScriptClient(request)
    app = Explorer(client)
    leave_at_hangup(client.stop)
    app.run()
    return Exit.TOOL if app.return_code else Exit.OK
