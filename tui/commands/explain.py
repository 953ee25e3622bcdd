"""`dynamo-debug explain`: what a compiler makes of a script, as text or JSON; and the page of a break or error id."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from dynamo.breaks import REASONS
from dynamo.peer_names import NOTES
from dynamo.trace import artefacts, report, stages
from dynamo.trace.events import GraphCaptured
from dynamo.trace.model import Run
from dynamo.trace.record import is_record
from dynamo.trace.stages import BY_NAME
from tui import options
from tui.child import Request
from tui.console import put, put_json
from tui.errors import ERRORS, CliError, nearest
from tui.exits import Exit
from tui.runs import Outcome, load_run, narrate, run_script

_WIDTH = 100

Code = Annotated[str | None, typer.Option(help="Print the page of a graph break or error id; without ID, list all.", metavar="[ID]")]
Graph = Annotated[
    str,
    typer.Option(help="Print one graph only, in full; with --stage or --decisions, what belongs to it.", show_default=False, metavar="ID"),
]
Stage = Annotated[
    str, typer.Option(help=f"Print what one stage made, in full: {', '.join(BY_NAME)}.", show_default=False, metavar="NAME")
]
Decisions = Annotated[bool, typer.Option("--decisions", help="List every optional step of the compiler: taken or refused, and why.")]
Full = Annotated[bool, typer.Option("--full", help="Do not shorten long graphs and guard lists.")]


def explain(
    script: options.Script = "",
    args: options.Args = None,
    code: Code = None,
    graph: Graph = "",
    stage: Stage = "",
    decisions: Decisions = False,
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
    view = View(graph, _known_stage(stage), decisions, full, as_json)
    if is_record(Path(script)):
        run = load_run(Path(script))
        outcome = Outcome(run, int(Exit.OK), True)
    else:
        outcome = run_script(Request(script, tuple(args or ()), engine, backend, internals))
        narrate(outcome)
    _show(outcome.run, view)
    if fail_on_break and outcome.code == Exit.OK and outcome.run.breaks:
        return Exit.FINDING
    return outcome.code


@dataclass(frozen=True)
class View:
    """What of the run is shown."""

    graph: str
    stage: str
    decisions: bool
    full: bool
    as_json: bool


def _known_stage(name: str) -> str:
    found = stages.ALIASES.get(name, name)
    if found and found not in BY_NAME:
        raise CliError("CL013", f"{name}: no such stage{nearest(name, list(BY_NAME))} (stages: {', '.join(BY_NAME)})")
    return found


def _show(run: Run, view: View) -> None:
    if view.stage or view.decisions:
        _show_parts(run, view)
    elif view.graph:
        found = [_find_graph(run, view.graph)]
        put_json([report.graph_json(g) for g in found]) if view.as_json else put(found[0].code.rstrip("\n") + "\n")
    elif view.as_json:
        put_json(report.as_json(run))
    else:
        put(report.as_text(run, report.Detail(view.full)))


def _show_parts(run: Run, view: View) -> None:
    """One stage, or the decisions of all stages or of one."""
    if view.graph:
        _check_part(run, view.graph)
    if not view.decisions:
        stage_json, stage_text = artefacts.stage_json, artefacts.stage_text
        put_json(stage_json(run, view.stage, view.graph)) if view.as_json else put(stage_text(run, view.stage, view.graph))
        return
    found = artefacts.decisions(run, view.stage, view.graph)
    if view.as_json:
        put_json([artefacts.decision_json(d) for d in found])
    else:
        put("".join(f"{line}\n" for line in artefacts.decision_lines(found)))


def _check_part(run: Run, graph_id: str) -> None:
    """`--graph` beside `--stage` names a compile or a graph of one."""
    if graph_id not in run.compiles:
        _find_graph(run, graph_id)


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
