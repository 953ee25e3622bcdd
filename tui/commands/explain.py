"""`dynamo-debug explain`: what a compiler makes of a script, as text or JSON; and the page of a break or error id."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from dynamo.breaks import REASONS
from dynamo.peer_names import NOTES
from dynamo.trace import report
from dynamo.trace.events import GraphCaptured
from dynamo.trace.model import Run
from dynamo.trace.record import is_record
from tui import options
from tui.child import Request
from tui.console import put, put_json
from tui.errors import ERRORS, CliError, nearest
from tui.exits import Exit
from tui.runs import Outcome, load_run, narrate, run_script

_WIDTH = 100

Code = Annotated[str | None, typer.Option(help="Print the page of a graph break or error id; without ID, list all.", metavar="[ID]")]
Graph = Annotated[str, typer.Option(help="Print one graph only, in full.", show_default=False, metavar="ID")]
Full = Annotated[bool, typer.Option("--full", help="Do not shorten long graphs and guard lists.")]


def explain(
    script: options.Script = "",
    args: options.Args = None,
    code: Code = None,
    graph: Graph = "",
    full: Full = False,
    engine: options.Engine = "dynamo",
    backend: options.Backend = "",
    fail_on_break: options.FailOnBreak = False,
    internals: options.Internals = False,
    as_json: options.AsJson = False,
) -> int:
    """Run SCRIPT and report its graphs, breaks, guards, recompiles and times. The script's own output goes to stderr.

    Example: dynamo-debug explain train.py --epochs 1
    """
    if code is not None:
        return _page(code, as_json)
    if not script:
        raise CliError("CL008", "name a script: dynamo-debug explain SCRIPT; or an id: dynamo-debug explain --code ID")
    if is_record(Path(script)):
        run = load_run(Path(script))
        outcome = Outcome(run, int(Exit.OK), True)
    else:
        outcome = run_script(Request(script, tuple(args or ()), engine, backend, internals))
        narrate(outcome)
    _show(outcome.run, graph, full, as_json)
    if fail_on_break and outcome.code == Exit.OK and outcome.run.breaks:
        return Exit.FINDING
    return outcome.code


def _show(run: Run, graph: str, full: bool, as_json: bool) -> None:
    if graph:
        found = [_find_graph(run, graph)]
        put_json([report.graph_json(g) for g in found]) if as_json else put(found[0].code.rstrip("\n") + "\n")
    elif as_json:
        put_json(report.as_json(run))
    else:
        put(report.as_text(run, report.Detail(full)))


def _find_graph(run: Run, graph_id: str) -> GraphCaptured:
    known = {g.graph_id: g for g in run.all_graphs}
    if graph_id not in known:
        listed = ", ".join(known) or "none"
        raise CliError("CL006", f"{graph_id}: no such graph{nearest(graph_id, list(known))} (captured: {listed})")
    return known[graph_id]


def _page(error_id: str, as_json: bool) -> int:
    """The page of one id, or the list of all."""
    if not error_id:
        rows = [{"id": r.id, "title": r.title} for r in REASONS.values()]
        rows += [{"id": note_id, "title": title} for note_id, (title, _) in NOTES.items()]
        rows += [{"id": r.id, "title": r.title} for r in ERRORS.values()]
        put_json(rows) if as_json else put("".join(f"{r['id']}  {r['title']}\n" for r in rows))
        return Exit.OK
    wanted = error_id.upper()
    if wanted in REASONS:
        page: dict[str, Any] = asdict(REASONS[wanted])
    elif wanted in NOTES:
        page = _plain_page(wanted, *NOTES[wanted])
    elif wanted in ERRORS:
        page = _plain_page(wanted, ERRORS[wanted].title, ERRORS[wanted].page)
    else:
        known = [*REASONS, *NOTES, *ERRORS]
        raise CliError("CL005", f"{error_id}: unknown id{nearest(wanted, known)}; `dynamo-debug explain --code` lists all")
    put_json(page) if as_json else put(_page_text(page))
    return Exit.OK


def _plain_page(page_id: str, title: str, text: str) -> dict[str, Any]:
    return {"id": page_id, "title": title, "explanation": text, "hint": "", "example": ""}


def _page_text(page: dict[str, Any]) -> str:
    parts = [f"{page['id']}  {page['title']}", textwrap.fill(page["explanation"], _WIDTH)]
    if page["hint"]:
        parts.append(textwrap.fill(f"instead: {page['hint']}", _WIDTH))
    if page["example"]:
        parts.append(textwrap.indent(page["example"].rstrip("\n"), "    "))
    return "\n\n".join(parts) + "\n"
