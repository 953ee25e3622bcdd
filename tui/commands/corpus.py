"""`dynamo-debug corpus`: cases with planted faults, and what the minifier makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from minifier.corpus import Case, ManifestError, Verdict, load_all, run_cases
from tui import options
from tui.console import put, put_json, say
from tui.errors import CliError, check_output, nearest
from tui.exits import Exit

_ACTIONS = ["list", "show", "run"]
_ENGINES = ["dynamo", "torch"]

Action = Annotated[str, typer.Argument(help="`list` the cases, `show` manifests and scripts, or `run` cases through minify.")]
Names = Annotated[list[str], typer.Argument(help="Cases; none: all of them.", show_default=False)]
Engine = Annotated[str, typer.Option(help="Whose compiler: `dynamo` (this one) or `torch`.")]
Jobs = Annotated[int, typer.Option(help="Cases at a time.", min=1)]
Folder = Annotated[Path, typer.Option("-o", "--output", help="Folder for everything that is written, one below it per case.")]


def corpus(
    action: Action,
    names: Names = [],  # noqa: B006  # Typer reads the default, and nothing changes it
    engine: Engine = "dynamo",
    backend: options.Backend = "",
    jobs: Jobs = 1,
    output: Folder = Path("corpus"),
    as_json: options.AsJson = False,
) -> int:
    """Try the minifier on faults that are known: scripts with a planted fault each, and manifests of what should be found.

    With `--engine torch` the faults are those of torch's own compiler, in programs written after public reports.

    Example: dynamo-debug corpus run wrong_lowering two_errors
    """
    if action not in _ACTIONS:
        raise CliError("CL025", f"corpus {action}: unknown{nearest(action, _ACTIONS)}; it is {', '.join(_ACTIONS)}")
    if engine not in _ENGINES:
        raise CliError("CL010", f"--engine {engine}: unknown{nearest(engine, _ENGINES)}; it is {' or '.join(_ENGINES)}")
    cases = _chosen(names, engine)
    if action == "list":
        return _list(cases, as_json)
    if action == "show":
        return _show(cases, as_json)
    check_output(output)
    found = []
    for verdict in run_cases(cases, output, jobs, engine, backend):
        found.append(verdict)
        say(f"{len(found)} of {len(cases)}: {verdict.case}: {'; '.join(verdict.problems) or 'as known'}")
    if as_json:
        put_json([v.to_json() for v in found])
    else:
        put(table([_cells(v) for v in found]))
    met = sum(v.is_met for v in found)
    say(f"{met} of {len(found)} cases end as known")
    return Exit.OK if met == len(found) else Exit.FINDING


def _chosen(names: list[str], engine: str) -> list[Case]:
    try:
        cases = load_all(engine=engine)
    except ManifestError as e:
        raise CliError("CL026", str(e)) from e
    by_name = {c.name: c for c in cases}
    for name in names:
        if name not in by_name:
            known = f"`dynamo-debug corpus list --engine {engine}` has them"
            raise CliError("CL025", f"corpus: no case {name}{nearest(name, list(by_name))}; {known}")
    return [by_name[n] for n in names] or cases


def _list(cases: list[Case], as_json: bool) -> int:
    if as_json:
        put_json([{"name": c.name, "kind": c.kind, "stage": c.stage, "summary": c.summary, "command": c.command} for c in cases])
    else:
        put(table([["CASE", "KIND", "STAGE", "SUMMARY"], *([c.name, c.kind, c.stage, c.summary] for c in cases)], heads=False))
    return Exit.OK


def _show(cases: list[Case], as_json: bool) -> int:
    if as_json:
        put_json([{"name": c.name, "manifest": c.text, "script": c.script.read_text(), "command": c.command} for c in cases])
    for case in () if as_json else cases:
        put(f"# {case.name}\n# {case.command}\n\n{case.text}\n{case.script.read_text()}\n")
    return Exit.OK


_HEADS = ["CASE", "VERDICT", "SIZE", "KNOWN", "STAGE", "CULPRIT", "SIGNATURE", "CALLS", "SECONDS"]


def _cells(v: Verdict) -> list[str]:
    verdict = "met" if v.is_met else "; ".join(v.problems)
    return [v.case, verdict, str(v.size), f"{v.known} {v.unit}", v.stage, v.culprit, v.shown[:60], str(v.calls), f"{v.seconds:.0f}"]


def table(rows: list[list[str]], heads: bool = True) -> str:
    """Rows as columns of text, with the heads of verdicts above."""
    rows = [_HEADS, *rows] if heads else rows
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n" for row in rows)
