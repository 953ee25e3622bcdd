"""`dynamo-debug trace` writes the record of a run; `export` turns a record into other tools' formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from dynamo.surroundings.collector import paused
from dynamo.trace import report
from dynamo.trace.chrome import to_chrome
from dynamo.trace.dot import to_dot
from dynamo.trace.model import Run
from dynamo.trace.record import LATER_NODES
from dynamo.trace.tree import write_tree
from tui import options
from tui.child import Request
from tui.console import put, put_json, say
from tui.errors import CliError, nearest
from tui.exits import Exit
from tui.runs import load_run_events, narrate, open_record, run_script, say_damage


def trace(
    script: options.Script,
    args: options.Args = None,
    output: options.Output = None,
    force: options.Force = False,
    engine: options.Engine = "dynamo",
    backend: options.Backend = "",
    fail_on_break: options.FailOnBreak = False,
    internals: options.Internals = False,
    python: options.Python = None,
    as_json: options.AsJson = False,
) -> int:
    """Run SCRIPT and keep the record of its compiles in a folder. The script's own output passes through.

    Example: dynamo-debug trace -o run1 train.py --epochs 1 && dynamo-debug tui run1
    """
    rest = options.given(args)
    if output is None:
        output, flags, rest = _output_behind(rest)
        force, as_json = force or "--force" in flags, as_json or "--json" in flags
    outcome = run_script(Request(script, rest, engine, backend, internals, tuple(python or ())), output, force, own_stdout=not as_json)
    narrate(outcome)
    say(f"record written to {output}: {report.summary(outcome.run)}")
    if as_json:
        put_json({"record": str(output), **report.as_json(outcome.run)})
    if fail_on_break and outcome.code == Exit.OK and outcome.run.breaks:
        return Exit.FINDING
    return outcome.code


_FLAGS = ("--force", "--json")


def _output_behind(args: tuple[str, ...]) -> tuple[Path, set[str], tuple[str, ...]]:
    """`-o DIR` from behind the script, where nothing in front of it says where the record goes; with it the flags that follow it."""
    for option in ("-o", "--output"):
        if option in args[:-1]:
            at = args.index(option)
            behind = args[at + 2 :]
            rest = tuple(a for a in behind if a not in _FLAGS)
            return Path(args[at + 1]), {*behind} - {*rest}, args[:at] + rest
    raise CliError("CL008", "name the folder of the record: dynamo-debug trace -o DIR SCRIPT")


def _chrome(run: Run) -> str:
    return json.dumps(to_chrome(run), indent=1) + "\n"


def _dot(run: Run) -> str:
    return "".join(to_dot(graph) for graph in run.all_graphs)


TREE = "tree"
FORMATS: dict[str, Callable[[Run], str]] = {"chrome": _chrome, "dot": _dot}
# What a format never shows, by kind of event.
UNREAD: dict[str, tuple[str, ...]] = {
    "chrome": ("code_generated", "decided", "step_scheduled", LATER_NODES),
    "dot": ("code_generated", "decided", "step_scheduled", "guard_installed", "stage_timed"),
}

Record = Annotated[Path, typer.Argument(metavar="RECORD", help="Folder of a stored record.", show_default=False)]
To = Annotated[
    str,
    typer.Option(help="`chrome` (a trace for ui.perfetto.dev), `dot` (a digraph per graph), `tree` (folders as of TORCH_COMPILE_DEBUG)."),
]
File = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="File to write instead of stdout; for `tree` the folder it goes to.", show_default=False),
]


@paused()
def export(record: Record, to: To = "chrome", output: File = None) -> int:
    """Print a stored record in the format of another tool.

    Example: dynamo-debug export run1 --to dot | dot -Tsvg > graphs.svg
    """
    known = [*FORMATS, TREE]
    if to not in known:
        raise CliError("CL011", f"{to}: no such format{nearest(to, known)}; choose {' or '.join(known)}")
    if to == TREE:
        return _tree(record, output or Path())
    opened = open_record(record, UNREAD[to])
    text = FORMATS[to](opened.run)
    if output is None:
        put(text)
    else:
        _write(output, text)
    return opened.code


def _tree(record: Path, folder: Path) -> int:
    events, problems = load_run_events(record)
    say_damage(record, problems)
    said: list[str] = []
    root = write_tree(events, folder, said.append)
    if not root.exists():
        reason = said[-1] if said else f"{record}: nothing was recorded"
        raise CliError("CL007", reason)
    for line in said:
        say(line)
    put(f"{root}\n")
    return Exit.USAGE if problems else Exit.OK


def _write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.rename(path)
    except OSError as e:
        raise CliError("CL007", f"{path}: cannot be written: {e.strerror}") from e
