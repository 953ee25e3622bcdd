"""`dynamo-debug bisect`: from wrong numbers to the decision of the compiler that makes them."""

from __future__ import annotations

from typing import Annotated

import typer

from tui import options
from tui.checks import check_program
from tui.console import put, put_json, say
from tui.errors import CliError, nearest
from tui.exits import Exit
from tui.lookup import check_backend, home_of

Draws = Annotated[int, typer.Option(help="Sets of inputs to try: those of the script, and their elements in other orders.", min=1)]
Graph = Annotated[str, typer.Option(help="Check this graph only, by the id that `explain` shows, for example 0/0.", show_default=False)]
Device = Annotated[
    str,
    typer.Option(help="Check graphs on this device (cpu, cuda), not the script's: is the fault that device's alone?", show_default=False),
]

_EXITS = {"within rounding": Exit.OK, "not reproduced": Exit.NOT_REPRODUCED, "flaky": Exit.FLAKY}


def bisect(
    script: options.Script,
    args: options.Args = None,
    module: options.AsModule = False,
    backend: options.Backend = "",
    draws: Draws = 3,
    graph: Graph = "",
    device: Device = "",
    as_json: options.AsJson = False,
) -> int:
    """Hold every graph of SCRIPT to eager and float64, and follow the first that is wrong to its stage, node and decision.

    Example: dynamo-debug bisect train.py
    """
    from minifier.bisect import elsewhere, front, report  # noqa: PLC0415  # loads torch

    script, given = options.words(script, args, module)
    check_program(script, given)
    check_backend(backend, "dynamo", home_of(script))
    known = elsewhere.devices()
    if device and device not in known:
        raise CliError("CL031", f"--device {device}: no such device{nearest(device, known)}; devices are {', '.join(known)}")
    try:
        found = front.bisect(front.Wish(script, given, backend, draws, graph, device), say)
    except front.ScriptFailed as e:
        raise CliError("CL018", f"{options.shown(script, given)}: {e}") from e
    if graph and not found.reports and not found.problems:
        graphs = ", ".join(found.others) or "none"
        raise CliError("CL006", f"--graph {graph}: no such graph{nearest(graph, found.others)}; graphs are {graphs}")
    for problem in found.problems:
        say(problem)
    if as_json:
        put_json(found.to_json())
    else:
        put(report.as_text(found.first))
    return _EXITS.get(found.first.verdict, Exit.FINDING)
