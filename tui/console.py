"""Where output goes: data to stdout, narration to stderr."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dynamo.trace import codec
from dynamo.trace.quick import text_of
from tui.errors import CliError
from tui.views.page import HEIGHT, WIDTH, Page

PROGRAM = "dynamo-debug"
_JSON_LINES = 2
_NARROWEST = 40
_LAST_STREAM = 2
_IN_ASCII = str.maketrans({"✓": "+", "✗": "x", "↻": "@", "○": "o", "…": "...", "→": "->", "─": "-", "\u2212": "-", "·": "."})


def say(line: str) -> None:
    """One line of narration."""
    print(f"{PROGRAM}: {line}", file=sys.stderr, flush=True)


def open_closed_streams() -> None:
    """Let streams that were closed before this process began lead nowhere: their numbers would go to the next files that are opened."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= _LAST_STREAM:
        pass
    os.close(number)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode))


def _as_shown(text: str) -> str:
    """The text in what stdout can encode: a C locale or PYTHONIOENCODING may leave it ASCII."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding, getattr(sys.stdout, "errors", None) or "strict")
    except UnicodeEncodeError:
        return text.translate(_IN_ASCII).encode(encoding, "backslashreplace").decode(encoding)
    return text


def put(text: str) -> None:
    """Data. A reader that stopped listening (`| head`) is no error. Raises CliError where it cannot be written for another reason."""
    try:
        sys.stdout.write(_as_shown(text))
        sys.stdout.flush()
    except OSError as e:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left of it is not written at the end either
        if not isinstance(e, BrokenPipeError):
            raise CliError("CL032", f"standard output: cannot be written: {e.strerror}") from e


def put_json(value: Any) -> None:
    put(as_json(value) + "\n")


def as_json(value: Any, depth: int = _JSON_LINES, indent: str = "") -> str:
    """JSON with a line for each member of the outer objects and lists. Deeper ones stay on its line, which is quick for large records.
    Dataclasses are objects."""
    if not depth or isinstance(value, (str, int, float)) or not value:
        return text_of(value)
    inner = indent + "  "
    if isinstance(value, (list, tuple)):
        return "[\n" + ",\n".join(inner + as_json(v, depth - 1, inner) for v in value) + f"\n{indent}]"
    members = value if isinstance(value, dict) else codec.members(value)
    parts = [f"{inner}{text_of(str(key))}: {as_json(v, depth - 1, inner)}" for key, v in members.items()]
    return "{\n" + ",\n".join(parts) + f"\n{indent}}}"


def page() -> Page:
    """What stdout can show: its width and colours. Pipes and files get neither, NO_COLOR takes colours away."""
    terminal = sys.stdout.isatty()
    colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    columns = os.environ.get("COLUMNS", "")
    if terminal or columns.isdigit():
        return Page(max(_NARROWEST, shutil.get_terminal_size((WIDTH, HEIGHT)).columns), colour)
    return Page(WIDTH, colour)


def put_lines(lines: Sequence[str]) -> None:
    """Lines on stdout; through a pager when they are more than the terminal has."""
    text = "".join(f"{line}\n" for line in lines)
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and len(lines) >= shutil.get_terminal_size((WIDTH, HEIGHT)).lines:
        if _through_pager(text):
            return
    put(text)


def _through_pager(text: str) -> bool:
    """Whether a pager took the text. `PAGER` names it; empty means none."""
    command = shlex.split(os.environ.get("PAGER", "less"))
    if not command or shutil.which(command[0]) is None:
        return False
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, "LESS": os.environ.get("LESS", "-RFX")}) as pager:
        try:
            pager.communicate(text.encode("utf-8", "replace"))
        except BrokenPipeError:
            return True
        except KeyboardInterrupt:
            pager.wait()
    return True


@contextmanager
def progress(what: str, more: Callable[[], str] = lambda: "") -> Iterator[None]:
    """Says on stderr what takes longer than a second, once a second, and takes the line back at the end. Only on a terminal."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_tick, args=(what, more, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _tick(what: str, more: Callable[[], str], done: threading.Event) -> None:
    began, shown = time.monotonic(), False
    while not done.wait(1.0):
        facts = ", ".join(part for part in (f"{time.monotonic() - began:.0f} s", more()) if part)
        sys.stderr.write(f"\r\x1b[K{PROGRAM}: {what}: {facts}\r")
        sys.stderr.flush()
        shown = True
    if shown:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
