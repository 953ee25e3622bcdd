"""The real command in a pseudo terminal: drawn, live, and gone without a trace on `q`."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, EMITTING, ROOT, environment, run, write

PATIENCE = 180.0
_OUTPUT = re.compile(r"\x1b\[(?P<arguments>[0-9;?]*)(?P<final>[A-Za-z])|\x1b[^\[]|(?P<character>[^\x1b])", re.DOTALL)


class Terminal:
    """A child process on a pseudo terminal; `wait_for` reads until a text has been drawn."""

    def __init__(self, *arguments: str, cwd: Path, columns: int = 80, lines: int = 24, colour: bool = False) -> None:
        self.seen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a read may end inside a character
        self.columns = columns
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            # A size in the environment, which pytest's workers have, would hide that of the terminal.
            shown = {name: value for name, value in environment().items() if name not in ("COLUMNS", "LINES", "NO_COLOR" * colour)}
            os.execve(COMMAND[0], [*COMMAND, *arguments], {**shown, "TERM": "xterm-256color"})
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self.fd], [], [], max(0.0, deadline - time.monotonic()))
        try:
            data = os.read(self.fd, 65536) if ready else b""
        except OSError:  # the last process has closed the terminal
            return False
        self.seen += self._decoder.decode(data)
        return bool(data)

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while text not in self.screen():
            assert self._read(deadline), f"{text!r} was never drawn; on the screen:\n{self.screen()}"

    def screen(self) -> str:
        """What has been drawn: only changed cells are sent, so texts must be looked for on the screen, not in the stream."""
        cells: dict[tuple[int, int], str] = {}
        x = y = 0
        for found in _OUTPUT.finditer(self.seen):
            character = found["character"]
            if found["final"] == "H":
                y, x = ([int(part or 1) - 1 for part in found["arguments"].split(";")] + [0, 0])[:2]
            elif character in ("\r", "\n"):
                x, y = (0, y) if character == "\r" else (x, y + 1)
            elif character:
                cells[y, x] = character
                x += 1
        lines = [
            "".join(cells.get((line, column), " ") for column in range(self.columns))
            for line in range(max((place[0] for place in cells), default=-1) + 1)
        ]
        return "\n".join(lines)

    def press(self, key: str) -> None:
        os.write(self.fd, key.encode())

    def exit_code(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            continue
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize("columns, lines", [(80, 24), (60, 20)])
def test_a_stored_record_is_drawn_and_q_quits(tmp_path: Path, columns: int, lines: int) -> None:
    write(tmp_path, EMITTING)
    run("trace", "script.py", "-o", "rec", cwd=tmp_path)
    terminal = Terminal("tui", "rec", cwd=tmp_path, columns=columns, lines=lines)
    terminal.wait_for("graph 0/0")
    terminal.press("q")

    assert terminal.exit_code() == 0
    assert "\x1b[?1049l" in terminal.seen
    assert "Traceback" not in terminal.seen


def test_a_live_run_is_drawn_before_it_ends_and_its_child_ends_with_q(tmp_path: Path) -> None:
    write(tmp_path, EMITTING + "import os, time\nopen('pid', 'w').write(str(os.getpid()))\nprint('printed')\ntime.sleep(600)\n")
    terminal = Terminal("tui", "script.py", cwd=tmp_path)
    terminal.wait_for("graph 0/0")
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.05)
    child = int((tmp_path / "pid").read_text())
    terminal.press("q")

    assert terminal.exit_code() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_real_compile_is_drawn(tmp_path: Path) -> None:
    terminal = Terminal(
        "tui", "--backend", "eager", str(ROOT / "repro_corpus" / "examples" / "graph_break.py"), cwd=tmp_path, columns=120, lines=40
    )
    terminal.wait_for("DD001 break")
    terminal.wait_for("4 graphs, 11 ops, 1 break")
    terminal.press("q")

    assert terminal.exit_code() == 0
    assert "Traceback" not in terminal.seen


def test_a_missing_script_is_refused_before_the_screen_is_taken(tmp_path: Path) -> None:
    terminal = Terminal("tui", "nowhere.py", cwd=tmp_path)

    assert terminal.exit_code() == 2
    assert "error[CL001]" in terminal.seen
    assert "\x1b[?1049h" not in terminal.seen


def gone(pid: int) -> bool:
    """Whether a process has ended. Children of this one are waited for."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False


@pytest.mark.parametrize("hears_hangup", [True, False], ids=["SIGHUP", "SIGHUP ignored"])
def test_a_closed_terminal_ends_the_viewer_and_its_script(tmp_path: Path, hears_hangup: bool) -> None:
    write(tmp_path, EMITTING + "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n")
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL if hears_hangup else signal.SIG_IGN)
    try:
        terminal = Terminal("tui", "script.py", cwd=tmp_path)
    finally:
        signal.signal(signal.SIGHUP, before)
    terminal.wait_for("graph 0/0")
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.05)
    script = int((tmp_path / "pid").read_text())
    os.close(terminal.fd)
    deadline = time.monotonic() + 20
    ended = {pid: False for pid in (terminal.pid, script)}
    while not all(ended.values()) and time.monotonic() < deadline:
        ended = {pid: is_gone or gone(pid) for pid, is_gone in ended.items()}
        time.sleep(0.05)
    for pid in (pid for pid, is_gone in ended.items() if not is_gone):
        os.kill(pid, signal.SIGKILL)

    assert all(ended.values()), ended
