"""Errors of the command line: one row per id. Ids are stable: never renumber, never reuse."""

from __future__ import annotations

import contextlib
import difflib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynamo.peer.located import MAIN
from dynamo.recording.format import RecordingError, is_recording, read
from dynamo.trace.model import Run
from dynamo.trace.plain import read_plain
from dynamo.trace.record import is_record
from tui.applications import main_of
from tui.exits import Exit


@dataclass(frozen=True)
class Row:
    """One error: what its page says, and the exit code it ends with."""

    id: str
    title: str
    page: str
    exit: Exit = Exit.USAGE


_ROWS = (
    Row("CL001", "no such script", "the file named as SCRIPT does not exist. Paths are relative to the current folder."),
    Row("CL002", "the script is a folder", "SCRIPT is a file, or a folder or zip file with `__main__.py`; records open too."),
    Row("CL003", "the script cannot be read", "it is not readable, a device, a pipe or a socket, or no text in the encoding it declares."),
    Row("CL004", "syntax error in the script", "Python cannot compile the file, so nothing was run."),
    Row("CL005", "unknown id", "`explain --code` takes the id of a graph break or of an error; without a value it lists all."),
    Row("CL006", "unknown graph", "`--graph` takes the id of a captured graph as the report shows it, for example 0/0."),
    Row("CL007", "the record cannot be opened or written", "the folder is not a record, or the place for a new one is taken."),
    Row("CL008", "nothing to do, or too much", "the command needs a SCRIPT, or the folder of a record and nothing else."),
    Row("CL009", "the run could not start", "the child process ended before the script began.", Exit.TOOL),
    Row("CL010", "unknown engine", "`--engine` is `dynamo` (this project's compiler) or `torch` (torch.compile itself)."),
    Row("CL011", "unknown export format", "`export --to` takes `chrome`, `dot` or `tree`."),
    Row("CL012", "unknown backend", "`--backend` takes the name of an installed backend, or MODULE:FUNCTION as an import finds it."),
    Row("CL013", "unknown stage", "`explain --stage` takes the name of a stage of the pipeline; docs/record.md describes them."),
    Row("CL014", "unknown cache action", "`cache` takes `info` or `clear`."),
    Row("CL015", "the cache cannot be cleared", "its files belong to somebody else, or the disk is read-only.", Exit.TOOL),
    Row("CL016", "an option cannot be read", "an environment variable of the configuration has a value of the wrong kind."),
    Row("CL017", "unknown level of signature", "`minify --keep-signature` takes loose, standard or exact."),
    Row("CL018", "the script does not run", "`minify` and `bisect` run the script in eager; what fails there is no failure of a compiler."),
    Row("CL020", "the command of --oracle can't be used", "it does not exist, or calls an empty script interesting too."),
    Row("CL021", "not a repro", "`run` takes a bundle (.ddbg), the folder of a repro or the script in it; this is none, or a damaged one."),
    Row("CL019", "candidates cannot be run", "the process that runs them does not start, or the journal is of another run.", Exit.TOOL),
    Row("CL025", "unknown case or action of the corpus", "`corpus` takes list, show or run, and names of cases."),
    Row("CL026", "the corpus cannot be read", "its cases are not installed, or a manifest has a key that means nothing."),
    Row("CL030", "not a recorded frame", "`replay` takes a file that `record` or `replay_record_enabled` has written."),
    Row("CL031", "unknown device", "`bisect --device` takes cpu, or cuda with or without a number where there is one."),
    Row(
        "CL032",
        "the output cannot be written",
        "the folder of `-o` takes no files, or has others that they would replace; nothing was run.",
    ),
    Row("CL034", "the command line cannot be read", "an option or argument that the command does not have, or a value of the wrong kind."),
    Row("CL035", "programs cannot be drawn so", "`fuzz` takes times such as 10m, known kinds, and `--ops` only for kinds with operators."),
    Row(
        "CL036",
        "dynamo-debug itself failed",
        "A defect of this tool, not of the script. The line says what was raised and where in the tool: that is what to report.",
        Exit.TOOL,
    ),
)
ERRORS: dict[str, Row] = {row.id: row for row in _ROWS}


class CliError(Exception):
    """Ends the command with one line on stderr and the exit code of its row."""

    def __init__(self, error_id: str, message: str) -> None:
        super().__init__(message)
        self.row = ERRORS[error_id]

    def line(self) -> str:
        return f"dynamo-debug: error[{self.row.id}]: {self}"


def nearest(name: str, known: list[str]) -> str:
    """`; did you mean X or Y?`, or '' when nothing is close."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def check_output(folder: Path) -> None:
    """Refuse a folder in which nothing can be written. What is made to find that out goes again."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as e:
        reason = "it is a file" if folder.is_file() else e.strerror
        raise CliError("CL032", f"{folder}: cannot be written: {reason}; choose another folder with -o") from e
    finally:
        for path in missing:
            with contextlib.suppress(OSError):
                path.rmdir()


def check_free(folder: Path, makes: Sequence[str], marks: Sequence[str]) -> None:
    """Refuse a folder with files that those of a command would replace, unless an earlier run of it was there, which leaves `marks`."""
    if any(next(folder.glob(mark), None) for mark in marks):
        return
    taken = [name for name in makes if os.path.lexists(folder / name)]
    if taken:
        raise CliError("CL032", f"{folder}: {', '.join(taken)} would be replaced; choose another folder with -o")


def check_script(script: str) -> None:
    """Refuse, before anything runs, what Python could not run either."""
    path, application = Path(script), main_of(script)
    if application is not None:
        loader: Any = application.loader
        return check_code(loader.get_source(MAIN) or "", application.origin or script)
    if path.is_dir():
        way_out = f"open it with `dynamo-debug tui {script}`" if is_record(path) else "name a Python file in it; it has no __main__.py"
        raise CliError("CL002", f"{script}: is a {'record' if is_record(path) else 'folder'}; {way_out}")
    if not path.exists() or script.endswith(os.sep):  # a path drops the slash that makes a folder of it
        if script.startswith("-"):
            raise CliError("CL034", f"{script}: no such option; those of the script stand behind SCRIPT")
        parent = path.parent
        around = [str(parent / p.name) if str(parent) != "." else p.name for p in parent.glob("*.py")] if parent.is_dir() else []
        raise CliError("CL001", f"{script}: no such file{nearest(script, around)}")
    if is_recording(path):
        return check_recording(path)
    try:
        check_code(read_plain(path), script)
    except OSError as e:
        raise CliError("CL003", f"{script}: cannot be read: {e.strerror}") from e


def check_code(text: str | bytes, script: str) -> None:
    """Refuse what Python cannot compile."""
    if "\0" in text if isinstance(text, str) else b"\0" in text:
        raise CliError("CL003", f"{script}: is not Python source: it holds null bytes; name a script or the folder of a record")
    try:
        compile(text, script, "exec", dont_inherit=True)
    except SyntaxError as e:
        raise CliError("CL004", _syntax_line(script, e)) from e
    except ValueError as e:
        raise CliError("CL003", f"{script}: is not Python source: {e}") from e


def check_recording(path: Path) -> None:
    """Refuse a file that is no recorded frame. Nothing of it is run."""
    try:
        read(path)
    except RecordingError as e:
        raise CliError("CL030", str(e)) from e
    except OSError as e:
        raise CliError("CL003", f"{path}: cannot be read: {e.strerror}") from e


def check_graph(run: Run, wanted: str) -> None:
    """Refuse the id of a compile or graph that the run does not have."""
    known = [*run.compiles, *(g.graph_id for g in run.all_graphs)]
    if wanted not in known:
        listed = ", ".join(g.graph_id for g in run.graphs) or "none"
        raise CliError("CL006", f"{wanted}: no such graph{nearest(wanted, known)} (captured: {listed})")


def _syntax_line(script: str, error: SyntaxError) -> str:
    place = f"{script}:{error.lineno}" if error.lineno else script
    text = (error.text or "").rstrip("\n")
    shown = f"\n  {text.strip()}" if text.strip() else ""
    return f"{place}: {error.msg}{shown}"
