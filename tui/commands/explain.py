"""`dynamo-debug explain`: what a compiler makes of a script, as text or JSON; and the page of a break or error id."""

from __future__ import annotations

import shlex
import textwrap
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from dynamo.breaks import REASONS
from dynamo.peer.names import NOTES
from dynamo.surroundings.collector import paused
from dynamo.trace import artefacts, codec, report, stages
from dynamo.trace.events import GraphCaptured
from dynamo.trace.model import Run
from dynamo.trace.record import LATER_NODES
from dynamo.trace.stages import BY_NAME
from tui import options
from tui.child import Request
from tui.console import page, put, put_json, put_lines
from tui.errors import ERRORS, CliError, check_graph, nearest
from tui.exits import Exit
from tui.runs import run_or_open
from tui.views import peer_says
from tui.views import report as reports
from tui.views.page import Page
from tui.views.table import VIEWS
from tui.views.verdict import verdict

_WIDTH = 100


def _ids(incomplete: str) -> list[str]:
    return [name for name in _known_ids() if name.startswith(incomplete)]


Code = Annotated[
    str | None,
    typer.Option(help="Print the page of a graph break or error id; without ID, list all.", metavar="[ID]", autocompletion=_ids),
]
Graph = Annotated[
    str,
    typer.Option(help="Print one graph only, in full; with --stage or --decisions, what belongs to it.", show_default=False, metavar="ID"),
]
Stage = Annotated[
    str,
    typer.Option(
        help=f"Print what one stage made, in full: {', '.join(BY_NAME)}.",
        show_default=False,
        metavar="NAME",
        autocompletion=options.stage_names,
    ),
]
Decisions = Annotated[bool, typer.Option("--decisions", help="List every optional step of the compiler: taken or refused, and why.")]
Graphs = Annotated[bool, typer.Option("--graphs", help="Also the graphs, node by node.")]
Guards = Annotated[bool, typer.Option("--guards", help="Also what compiled code relies on.")]
Recompiles = Annotated[bool, typer.Option("--recompiles", help="Also every recompile with all values.")]
Kernels = Annotated[bool, typer.Option("--kernels", help="Also the kernels.")]
Full = Annotated[bool, typer.Option("--full", help="Also everything else there is to show, and shorten nothing.")]


@paused()
def explain(
    script: options.Script = "",
    args: options.Args = None,
    code: Code = None,
    graph: Graph = "",
    stage: Stage = "",
    decisions: Decisions = False,
    graphs: Graphs = False,
    guards: Guards = False,
    recompiles: Recompiles = False,
    kernels: Kernels = False,
    full: Full = False,
    engine: options.Engine = "dynamo",
    backend: options.Backend = "",
    fail_on_break: options.FailOnBreak = False,
    internals: options.Internals = False,
    python: options.Python = None,
    as_json: options.AsJson = False,
) -> int:
    """What a compiler makes of SCRIPT, on one screen: breaks, recompiles, failures, times, and what to do next.

    SCRIPT is run, or is the folder of a record. The script's own output goes to stderr.

    Example: dynamo-debug explain train.py --epochs 1
    """
    if code is not None:
        return _page(code, as_json)
    if not script:
        raise CliError("CL008", "name a script: dynamo-debug explain SCRIPT; or an id: dynamo-debug explain --code ID")
    opened = {"graphs": graphs, "guards": guards, "recompiles": recompiles, "kernels": kernels}
    chosen = tuple(VIEWS) if full else tuple(name for name, wanted in opened.items() if wanted)
    shown = Shown(graph, _known_stage(stage), decisions, chosen, full, as_json)
    request = Request(script, options.given(args), engine, backend, internals, tuple(python or ()))
    outcome = run_or_open(request, unread(shown))
    _show(outcome.run, shown, shlex.join((script, *request.args)))
    if fail_on_break and outcome.code == Exit.OK and outcome.run.breaks:
        return Exit.FINDING
    return outcome.code


@dataclass(frozen=True)
class Shown:
    """What of the run is shown. `opened` are names of views that follow the verdict."""

    graph: str
    stage: str
    decisions: bool
    opened: tuple[str, ...]
    full: bool
    as_json: bool


def unread(shown: Shown) -> tuple[str, ...]:
    """Kinds of events that are not needed."""
    if shown.stage or shown.decisions or shown.graph or shown.full:
        return ()
    return ("decided", "code_generated") if shown.as_json else ("decided",) if shown.opened else ("decided", "guard_installed", LATER_NODES)


def _known_stage(name: str) -> str:
    found = stages.ALIASES.get(name, name)
    if found and found not in BY_NAME:
        raise CliError("CL013", f"{name}: no such stage{nearest(name, list(BY_NAME))} (stages: {', '.join(BY_NAME)})")
    return found


def _show(run: Run, view: Shown, target: str) -> None:
    if view.stage or view.decisions:
        _show_parts(run, view)
    elif view.graph:
        found = [_find_graph(run, view.graph)]
        put_json([report.graph_json(g) for g in found]) if view.as_json else put(found[0].code.rstrip("\n") + "\n")
    elif view.as_json:
        put_json({"verdict": verdict(run, target), **report.as_json(run)})
    else:
        on = page()
        put_lines(reports.lines(run, verdict(run, target), Page(on.width, on.colour, view.full), view.opened))


def _show_parts(run: Run, view: Shown) -> None:
    """One stage, or the decisions of all stages or of one."""
    if view.graph:
        check_graph(run, view.graph)
    if not view.decisions:
        stage_json, stage_text = artefacts.stage_json, artefacts.stage_text
        put_json(stage_json(run, view.stage, view.graph)) if view.as_json else put(stage_text(run, view.stage, view.graph))
        return
    found = artefacts.decisions(run, view.stage, view.graph)
    if view.as_json:
        put_json([codec.fields(d) for d in found])
    else:
        put("".join(f"{line}\n" for line in artefacts.decision_lines(found)))


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
    if wanted in peer_says.registry():
        page_of_torch = peer_says.page(wanted)
        put_json(page_of_torch) if as_json else put(_page_text(page_of_torch))
        return Exit.OK
    if wanted in REASONS:
        found: dict[str, Any] = {**asdict(REASONS[wanted]), "also": peer_says.ids_of(wanted)}
    elif wanted in NOTES:
        found = _plain_page(wanted, *NOTES[wanted])
    elif wanted in ERRORS:
        found = _plain_page(wanted, ERRORS[wanted].title, ERRORS[wanted].page)
    else:
        raise CliError("CL005", f"{error_id}: unknown id{nearest(wanted, _known_ids())}; `dynamo-debug explain --code` lists all")
    put_json(found) if as_json else put(_page_text(found))
    return Exit.OK


def _known_ids() -> list[str]:
    return [*REASONS, *NOTES, *ERRORS, *peer_says.registry()]


def _plain_page(page_id: str, title: str, text: str) -> dict[str, Any]:
    return {"id": page_id, "title": title, "explanation": text, "hint": "", "example": "", "also": []}


def _page_text(page: dict[str, Any]) -> str:
    parts = [f"{page['id']}  {page['title']}", textwrap.fill(page["explanation"], _WIDTH)]
    if page["hint"]:
        parts.append(textwrap.fill(f"instead: {page['hint']}", _WIDTH))
    if page["example"]:
        parts.append(textwrap.indent(page["example"].rstrip("\n"), "    "))
    if page["also"]:
        parts.append("the same under the other engine: " + ", ".join(f"dynamo-debug explain --code {name}" for name in page["also"]))
    return "\n\n".join(parts) + "\n"
