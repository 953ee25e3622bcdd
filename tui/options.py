"""Options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from dynamo.backends.registry import list_backends
from dynamo.trace.stages import BY_NAME

# Options of ours are taken wherever they stand; unknown ones, and all after `--`, go to the script.
SCRIPT_CONTEXT = {"ignore_unknown_options": True}
# Options of ours stand before SCRIPT; everything behind it is the script's.
SCRIPT_LAST = {"allow_interspersed_args": False}
ENGINES = ("dynamo", "torch")


def _engines(incomplete: str) -> list[str]:
    return [name for name in ENGINES if name.startswith(incomplete)]


def backends(incomplete: str) -> list[str]:
    """Backends whose name begins so, for completion."""
    return [name for name in list_backends(exclude_tags=()) if name.startswith(incomplete)]


def stage_names(incomplete: str) -> list[str]:
    """Stages whose name begins so, for completion."""
    return [name for name in BY_NAME if name.startswith(incomplete)]


Script = Annotated[str, typer.Argument(metavar="SCRIPT", help="Python file to run, or the folder of a stored record.", show_default=False)]
AsModule = Annotated[bool, typer.Option("-m", help="SCRIPT is the name of a module, as for `python -m`.")]
Args = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ARGS]...", help="Arguments of the script: everything behind SCRIPT."),
]


def a_number(value: float) -> float:
    """Callback of options that are numbers: no bound is above or below `nan`, so older parsers let it pass."""
    if math.isnan(value):
        raise typer.BadParameter("nan is not a number of seconds")
    return value


def words(script: str, args: list[str] | None, is_module: bool) -> tuple[str, tuple[str, ...]]:
    """Script and arguments as Python is told of them: of a module it is `-m`, and the name is the first argument."""
    return ("-m", (script, *(args or ()))) if is_module else (script, tuple(args or ()))


def shown(script: str, args: Sequence[str]) -> str:
    """How messages name what is run."""
    return f"-m {args[0]}" if script == "-m" else script


def given(args: list[str] | None) -> tuple[str, ...]:
    """What the script gets. One `--` right behind SCRIPT only says so."""
    found = tuple(args or ())
    return found[1:] if found[:1] == ("--",) else found


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]
Engine = Annotated[
    str, typer.Option(help="Compiler to watch: `dynamo` (this project's) or `torch` (torch.compile itself).", autocompletion=_engines)
]
Backend = Annotated[
    str,
    typer.Option(help="Backend for every compile, instead of the one the script asks for.", show_default=False, autocompletion=backends),
]
Internals = Annotated[bool, typer.Option("--internals", help="Keep dynamo-debug's own frames in tracebacks of the script.")]
Python = Annotated[
    list[str] | None,
    typer.Option(
        "--python", help="Option of Python itself for SCRIPT. As they are: -W, -X, -O, -u, -B, -b, -I, -E, -s, -P, -v.", metavar="OPTION"
    ),
]
FailOnBreak = Annotated[bool, typer.Option("--fail-on-break", help="Exit with 1 when there is a graph break.")]
Full = Annotated[bool, typer.Option("--full", help="Shorten nothing and leave nothing out.")]
Graph = Annotated[str, typer.Option(help="Only this compile (`0/0`) or graph (`0/0.fw`).", show_default=False, metavar="ID")]
Force = Annotated[bool, typer.Option("--force", help="Replace an older record at the same place.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="Folder of the record to write.", show_default=False)]
