"""`dynamo-debug fuzz`: random programs for any backend, and a certified repro of each different failure."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynamo.trace.model import plural
from minifier.engine import Decided, Event
from minifier.isolation import IsolationError
from tui import options
from tui.console import put, put_json, say
from tui.errors import CliError, check_output, nearest
from tui.exits import Exit
from tui.lookup import check_backend

if TYPE_CHECKING:
    from minifier.fuzz.types import Cluster, Summary

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_EVERY = 50  # programs between two lines of progress where stderr is no terminal

Backend = Annotated[str, typer.Option(metavar="NAME|MODULE:FN", help="Backend to try out.", autocompletion=options.backends)]
Time = Annotated[str, typer.Option(help="How long programs are drawn: 90s, 10m, 8h. Making failures small is not counted.")]
Seed = Annotated[int, typer.Option(help="Program N of a seed is always the same.", min=0)]
First = Annotated[int, typer.Option(help="Number of the first program.", min=0)]
Programs = Annotated[int, typer.Option(help="Programs to draw at most; 0: no limit.", min=0)]
Failures = Annotated[int, typer.Option(help="Stop after so many different failures; 0: go on.", min=0)]
Ops = Annotated[str, typer.Option(metavar="NAMES", help="Only these operators, with commas between: sin,where.", show_default=False)]
Kinds = Annotated[
    str, typer.Option(metavar="NAMES", help="Only these kinds of programs: tensors,modules,capture,calls.", show_default=False)
]
Jobs = Annotated[int, typer.Option(help="Programs that run at a time.", min=1)]
Reduction = Annotated[
    float, typer.Option("--reduce", help="Seconds in which one failure is made small; 0: no limit.", min=0.0, callback=options.a_number)
]
Folder = Annotated[Path, typer.Option("-o", "--out", help="Folder for everything that is written.")]


def fuzz(
    backend: Backend = "inductor",
    engine: options.Engine = "dynamo",
    time: Time = "10m",
    seed: Seed = 0,
    first: First = 0,
    programs: Programs = 0,
    failures: Failures = 0,
    ops: Ops = "",
    kinds: Kinds = "",
    jobs: Jobs = 2,
    reduce: Reduction = 180.0,
    out: Folder = Path("fuzzed"),
    as_json: options.AsJson = False,
) -> int:
    """Draw random programs, hold what a backend makes of them to eager, and hand over a certified repro of each different failure.

    Beside each repro: an issue text, all of it as one file (repro.ddbg), and a pytest file that fails as long as the failure is there.

    Example: dynamo-debug fuzz --backend mypackage:backend --time 10m
    """
    from minifier.fuzz import fuzzing  # noqa: PLC0415  # loads torch

    if engine not in options.ENGINES:
        raise CliError("CL010", f"--engine {engine}: unknown{nearest(engine, list(options.ENGINES))}; engines are dynamo and torch")
    check_backend(backend, engine, Path.cwd())
    if ":" in backend:
        sys.path.insert(0, os.getcwd())  # as `python -m` would find it
    check_output(out)
    wanted = _words(kinds)
    for kind in wanted:
        if kind not in fuzzing.KINDS:
            raise CliError("CL035", f"--kinds {kind}: unknown{nearest(kind, list(fuzzing.KINDS))}; kinds are {', '.join(fuzzing.KINDS)}")
        if ops and not fuzzing.KINDS[kind].takes_ops:
            raise CliError("CL035", f"--ops: programs of kind {kind} are not drawn from operators; leave out one of the two options")
    wish = fuzzing.Wish(
        target=fuzzing.Target(backend, engine),
        seconds=_seconds(time),
        seed=seed,
        first=first,
        programs=programs or None,
        failures=failures or None,
        ops=_words(ops),
        kinds=wanted,
        jobs=jobs,
        folder=out,
        reduction=reduce,
    )
    try:
        found = fuzzing.fuzz(wish, say, _progress, _narrate)
    except IsolationError as e:
        raise CliError("CL019", str(e)) from e
    return _tell(found, as_json)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if found is None:
        raise CliError("CL035", f"--time {text}: not a time; write it as 90s, 10m or 8h")
    return float(found[1]) * _UNITS[found[2]]


def _progress(summary: Summary) -> None:
    failures = plural(len(summary.clusters), "different failure")
    line = f"{plural(summary.programs, 'program')}, {summary.outcomes['failed']} failed, {failures}"
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[Kdynamo-debug: {line}")
        sys.stderr.flush()
    elif summary.programs % _EVERY == 0:
        say(line)


def _narrate(event: Event) -> None:
    if isinstance(event, Decided) and event.verdict.value == "interesting" and sys.stderr.isatty():
        say(f"size {event.size[0]} after {plural(event.calls, 'run')}, {event.seconds:.0f} s")


def _tell(summary: Summary, as_json: bool) -> int:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    if as_json:
        put_json(summary.to_json())
    else:
        put(as_text(summary))
    if summary.is_interrupted:
        return Exit.INTERRUPTED
    statuses = {c.status for c in summary.clusters}
    if not statuses:
        return Exit.OK
    if "certified" in statuses:
        return Exit.FINDING
    return Exit.FLAKY if "flaky" in statuses else Exit.NOT_REPRODUCED


def as_text(summary: Summary) -> str:
    """The table that `fuzz` prints."""
    rate = summary.programs / summary.searching if summary.searching > 0 else 0.0
    outcomes = ", ".join(f"{count} {name}" for name, count in summary.outcomes.items())
    kinds = ", ".join(f"{count} {name}" for name, count in summary.by_kind.items())
    wish = summary.wish
    lines = [
        f"{plural(summary.programs, 'program')} of seed {wish.seed} ({kinds}), {rate:.1f} a second: {outcomes}",
        f"{plural(len(summary.clusters), 'different failure')}; `--seed {wish.seed} --first {summary.next_number}` goes on",
    ]
    for number, cluster in enumerate(summary.clusters, 1):
        lines += _cluster_lines(number, cluster)
    return "".join(f"{line}\n" for line in lines)


def _cluster_lines(number: int, cluster: Cluster) -> list[str]:
    size = f", {plural(cluster.op_nodes, 'operation')}" if cluster.op_nodes else ""
    shown = ", ".join(str(n) for n in cluster.programs[:5]) + (", ..." if len(cluster.programs) > 5 else "")
    count = plural(len(cluster.programs), "program")
    blame = f"; {cluster.first.culprit}" if cluster.first.culprit else ""
    lines = ["", f"{number}. {cluster.stage}: {cluster.shown}", f"   {count} ({shown}); {cluster.status}{size}{blame}"]
    if cluster.repro:
        return [*lines, f"   {cluster.repro}", f"   {cluster.test}"]
    return [*lines, *(f"   tried: {line}" for line in cluster.tried[:3])]
