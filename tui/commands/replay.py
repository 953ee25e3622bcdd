"""`dynamo-debug record` and `replay`: one frame of a script, kept in a file and run again alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from dynamo.recording.format import NOT_WRITTEN, SAID, WRITTEN, read
from dynamo.trace import report
from tui import options
from tui.checks import check_program
from tui.child import Child, Request
from tui.commands.view import tui as view
from tui.console import page, put, put_json, put_lines, say
from tui.errors import CliError, check_output, check_recording
from tui.runs import narrate, run_script
from tui.views.verdict import lines as verdict_lines
from tui.views.verdict import verdict

Always = Annotated[bool, typer.Option("--always", help="Keep every frame that is compiled, not only those whose capture fails.")]
Folder = Annotated[Path, typer.Option("-o", "--output", help="Folder for the files.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="A file that `record` or `replay_record_enabled` has written.")]
Break = Annotated[list[int] | None, typer.Option("--break", help="Run the frame in eager under pdb, which stops at this line; may repeat.")]
Tui = Annotated[bool, typer.Option("--tui", help="Follow the replay in the TUI.")]
Show = Annotated[bool, typer.Option("--show", help="Say what is in the file; run nothing.")]


def record(
    script: options.Script,
    args: options.Args = None,
    module: options.AsModule = False,
    always: Always = False,
    output: Folder = Path("recorded-frames"),
    backend: options.Backend = "",
    internals: options.Internals = False,
    as_json: options.AsJson = False,
) -> int:
    """Run SCRIPT and write each frame whose capture fails to a file: code, arguments, closure, globals and modules it uses.

    Example: dynamo-debug record train.py
    """
    script, given = options.words(script, args, module)
    check_program(script, given)
    check_output(output)
    with _option("DYNAMO_REPLAY_RECORD_DIR", str(output.absolute())):
        with _option("DYNAMO_REPLAY_RECORD_ALWAYS" if always else "TORCH_COMPILE_REPLAY_RECORD", "1"):
            outcome = run_script(Request(script, given, backend=backend, internals=internals))
    narrate(outcome)
    said = [note.message for note in outcome.run.notes if note.id == WRITTEN]
    files = [message.removeprefix(SAID).partition(".rec. ")[0] + ".rec" for message in said]
    put_json({"files": files}) if as_json else put("".join(f"{file}\n" for file in files))
    failed = [note.message for note in outcome.run.notes if note.id == NOT_WRITTEN]
    for message in failed:
        say(f"warning[{NOT_WRITTEN}]: {message}")
    if not files and not failed:
        say("no frame was recorded: no capture failed (with --always, every frame that is compiled is kept)")
    return outcome.code


def replay(
    file: File,
    lines: Break = None,
    tui: Tui = False,
    show: Show = False,
    backend: options.Backend = "eager",
    internals: options.Internals = False,
    as_json: options.AsJson = False,
) -> int:
    """Run one recorded frame again, in a process of its own. This executes the code in FILE; --show does not.

    Example: dynamo-debug replay recorded-frames/Net.forward_GraphBreakError_12.rec --break 14
    """
    if file.is_dir() or not file.exists():
        raise CliError("CL001", f"{file}: {'is a folder; name a file in it' if file.is_dir() else 'no such file'}")
    check_recording(file)
    if show:
        return _show(file, as_json)
    if tui:
        return view(str(file), backend=backend)
    request = Request(str(file), tuple(str(line) for line in lines or ()), backend=backend, internals=internals)
    if lines:
        child = Child(request)
        for _ in child.events():
            pass
        return child.exit_code()
    outcome = run_script(request)
    narrate(outcome)
    if as_json:
        put_json(report.as_json(outcome.run))
    else:
        put_lines(verdict_lines(verdict(outcome.run, str(file)), page()))
    return outcome.code


def _show(file: Path, as_json: bool) -> int:
    frame = read(file)
    held = [v for v in frame.frame["values"] if v["kind"] == "placeholder"]
    facts = {
        "frame": frame.title,
        "error": frame.frame["error"].partition("\n")[0],
        "versions": frame.frame["versions"],
        "values": len(frame.frame["values"]),
        "tensor_bytes": len(frame.tensors),
        "sources": sorted(frame.frame["sources"]),
        "not_recorded": sorted({f"{v['type']} ({v['text']})" if v["text"] else v["type"] for v in held}),
    }
    put_json(facts) if as_json else put("".join(f"{name}: {'none' if value in ('', []) else value}\n" for name, value in facts.items()))
    return 0


@contextmanager
def _option(name: str, value: str) -> Iterator[None]:
    """An option for the child."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
