"""The commands that show one view of a script or a record: the twins of the panes of the TUI."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from dynamo.surroundings.collector import paused
from dynamo.trace import codec
from dynamo.trace.model import Run
from dynamo.trace.record import is_record
from tui import options
from tui.child import Request
from tui.commands.unread import UNREAD, UNREAD_BY_COMPARE, UNREAD_BY_TEXT
from tui.console import page, put_json, put_lines
from tui.errors import CliError, check_graph
from tui.exits import Exit
from tui.runs import Outcome, open_record, run_or_open
from tui.views import compare as comparing
from tui.views.page import Page
from tui.views.table import VIEWS, View


def command_of(view: View) -> Callable[..., int]:
    """The command of a view."""

    @paused()
    def show(
        script: options.Script,
        args: options.Args = None,
        graph: options.Graph = "",
        full: options.Full = False,
        engine: options.Engine = "dynamo",
        backend: options.Backend = "",
        internals: options.Internals = False,
        python: options.Python = None,
        as_json: options.AsJson = False,
    ) -> int:
        by_text = () if as_json or graph else UNREAD_BY_TEXT.get(view.name, ())
        outcome = run_or_open(
            Request(script, options.given(args), engine, backend, internals, tuple(python or ())), (*UNREAD[view.name], *by_text)
        )
        if graph:
            check_graph(outcome.run, graph)
        data = view.data(outcome.run, graph)
        if as_json:
            put_json({**envelope(outcome.run), **codec.members(data)})
        else:
            shown = page()
            put_lines(view.lines(data, Page(shown.width, shown.colour, full)))
        return outcome.code

    show.__name__ = view.name
    show.__doc__ = f"{view.doc} SCRIPT is run, or is the folder of a record.\n\nExample: dynamo-debug {view.name} train.py --epochs 1"
    return show


def envelope(run: Run) -> dict[str, object]:
    """What the JSON of every view begins with: which run it is of, how that ended, what could not be read."""
    return {"script": run.script, "engine": run.engine, "exit": run.exit, "problems": list(run.problems)}


def __getattr__(name: str) -> Callable[..., int]:
    """The command of the view of that name."""
    if name in VIEWS:
        return command_of(VIEWS[name])
    raise AttributeError(name)


A = Annotated[Path, typer.Argument(metavar="A", help="Folder of a record.", show_default=False)]
B = Annotated[Path, typer.Argument(metavar="B", help="Folder of the record to compare it with.", show_default=False)]


@paused()
def compare(a: A, b: B, full: options.Full = False, as_json: options.AsJson = False) -> int:
    """What differs between two records: graphs, breaks, recompiles, kernels, times. Exits with 1 when more than times differs.

    Example: dynamo-debug trace -o before train.py && dynamo-debug trace -o after train2.py && dynamo-debug compare before after
    """
    left, right = _opened(a), _opened(b)
    found = comparing.view(left.run, right.run, str(a), str(b))
    if as_json:
        put_json(found)
    else:
        shown = page()
        put_lines(comparing.lines(found, Page(shown.width, shown.colour, full)))
    return max(left.code, right.code, int(Exit.OK if found.same else Exit.FINDING))


def _opened(folder: Path) -> Outcome:
    if not is_record(folder):
        raise CliError("CL007", f"{folder}: no such record; write one with `dynamo-debug trace -o {folder} SCRIPT`")
    return open_record(folder, UNREAD_BY_COMPARE)
