"""Errors of the command line: one row per id. Ids are stable: never renumber, never reuse."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from dynamo.trace.record import is_record
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
    Row("CL002", "the script is a folder", "SCRIPT must be a Python file; `tui` and `explain` also take the folder of a stored record."),
    Row("CL003", "the script cannot be read", "the file exists but is not readable, or is not text in the encoding it declares."),
    Row("CL004", "syntax error in the script", "Python cannot compile the file, so nothing was run."),
    Row("CL005", "unknown id", "`explain --code` takes the id of a graph break or of an error; without a value it lists all."),
    Row("CL006", "unknown graph", "`--graph` takes the id of a captured graph as the report shows it, for example 0/0."),
    Row("CL007", "the record cannot be opened or written", "the folder is not a record, or the place for a new one is taken."),
    Row("CL008", "nothing to do", "the command needs a SCRIPT or the folder of a record."),
    Row("CL009", "the run could not start", "the child process ended before the script began.", Exit.TOOL),
    Row("CL010", "unknown engine", "`--engine` is `dynamo` (this project's compiler) or `torch` (torch.compile itself)."),
    Row("CL011", "unknown export format", "`export --to` takes `chrome`, `dot` or `tree`."),
    Row("CL012", "unknown backend", "`--backend` takes the name of a backend that is installed with dynamo-debug or as a plug-in."),
    Row("CL013", "unknown stage", "`explain --stage` takes the name of a stage of the pipeline; docs/record.md describes them."),
    Row("CL014", "unknown cache action", "`cache` takes `info` or `clear`."),
    Row("CL015", "the cache cannot be cleared", "its files belong to somebody else, or the disk is read-only.", Exit.TOOL),
    Row("CL016", "an option cannot be read", "an environment variable of the configuration has a value of the wrong kind."),
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


def check_script(script: str) -> None:
    """Refuse, before anything runs, what Python could not run either."""
    path = Path(script)
    if path.is_dir():
        way_out = f"open it with `dynamo-debug tui {script}`" if is_record(path) else "name a Python file in it"
        raise CliError("CL002", f"{script}: is a {'record' if is_record(path) else 'folder'}; {way_out}")
    if not path.exists():
        parent = path.parent
        around = [str(parent / p.name) if str(parent) != "." else p.name for p in parent.glob("*.py")] if parent.is_dir() else []
        raise CliError("CL001", f"{script}: no such file{nearest(script, around)}")
    try:
        compile(path.read_bytes(), script, "exec", dont_inherit=True)
    except SyntaxError as e:
        raise CliError("CL004", _syntax_line(script, e)) from e
    except OSError as e:
        raise CliError("CL003", f"{script}: cannot be read: {e.strerror}") from e
    except ValueError as e:
        raise CliError("CL003", f"{script}: is not Python source: {e}") from e


def _syntax_line(script: str, error: SyntaxError) -> str:
    place = f"{script}:{error.lineno}" if error.lineno else script
    text = (error.text or "").rstrip("\n")
    shown = f"\n  {text.strip()}" if text.strip() else ""
    return f"{place}: {error.msg}{shown}"
