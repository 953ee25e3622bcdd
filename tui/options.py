"""Options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# Options of ours are taken wherever they stand; unknown ones, and all after `--`, go to the script.
SCRIPT_CONTEXT = {"ignore_unknown_options": True}

Script = Annotated[str, typer.Argument(metavar="SCRIPT", help="Python file to run, or the folder of a stored record.", show_default=False)]
Args = Annotated[
    list[str] | None,
    typer.Argument(metavar="[ARGS]...", help="Arguments of the script. Write `--` before those that dynamo-debug would take."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]
Engine = Annotated[str, typer.Option(help="Compiler to watch: `dynamo` (this project's) or `torch` (torch.compile itself).")]
Backend = Annotated[str, typer.Option(help="Backend for every compile, instead of the one the script asks for.", show_default=False)]
Internals = Annotated[bool, typer.Option("--internals", help="Keep dynamo-debug's own frames in tracebacks of the script.")]
FailOnBreak = Annotated[bool, typer.Option("--fail-on-break", help="Exit with 1 when there is a graph break.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an older record at the same place.")]
Output = Annotated[Path, typer.Option("-o", "--output", help="Folder of the record to write.", show_default=False)]
