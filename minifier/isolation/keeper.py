"""One query: starts the child, watches time, memory and its streams, and leaves nothing alive below itself, whoever goes first."""

from __future__ import annotations

import json
import math
import os
import select
import signal
import socket
import time
from pathlib import Path
from typing import Any, NoReturn

from minifier.isolation import child
from minifier.isolation.linux import become_subreaper, below, end_all_below, resident, seconds_queued
from minifier.isolation.standing import Standing, ask
from minifier.isolation.wire import Report, Request, plain, receive, request_of, send

KEPT = 64 * 1024  # bytes of each stream
GRACE = 0.3  # seconds a process gets to say where it stands
SILENCE = 0.03  # seconds after which it has said it
LOOK = 0.2  # seconds between looks at the memory in use


def keep(sock: socket.socket) -> NoReturn:
    """Serve the one query of `sock` in this process, which was forked for it. Never returns."""
    try:
        become_subreaper()
        value, payload = receive(sock)
        request = request_of(value)
        Path(request.folder, request.name).write_bytes(payload)
        report = _watch(request, sock)
        if report.ended != "cancelled":
            send(sock, plain(report))
    except (OSError, EOFError):
        pass  # the controller is gone, or sees the end of the socket
    finally:
        end_all_below()
        os._exit(0)


class _Pipe:
    """A stream of the child, of which the end is kept."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()
        os.set_blocking(self.read, False)
        self.data = bytearray()
        self.is_open = True

    def take(self) -> None:
        """Read what is there."""
        try:
            while part := os.read(self.read, KEPT):
                self.data += part
                del self.data[:-KEPT]
            self.is_open = False
        except BlockingIOError:
            pass

    def text(self) -> str:
        return self.data.decode(errors="replace")


def _watch(request: Request, sock: socket.socket) -> Report:
    """Run the child to its end, or end it. Time in which it has no core, since others have them, does not count."""
    pipes = said, faults, output, errors = [_Pipe() for _ in range(4)]
    began = time.monotonic()
    shared = resident([os.getpid()])
    pid = os.fork()
    if pid == 0:
        _become_child(request, sock, said, faults, output, errors)
    for pipe in pipes:
        os.close(pipe.write)
    exited = os.pidfd_open(pid)
    ended, queued = "", 0.0
    standing = Standing(pid, request.look or math.inf, lambda: _stack(pid, faults), request.frame)
    while not ended:
        left = began + request.timeout + queued - time.monotonic()
        waiting: list[Any] = [exited, sock, *(pipe.read for pipe in pipes if pipe.is_open)]
        ready = select.select(waiting, [], [], max(0.0, min(left, LOOK)))[0]
        for pipe in pipes:
            if pipe.read in ready:
                pipe.take()
        if exited in ready:
            ended = "itself"
        elif sock in ready:
            ended = "cancelled"
        elif left <= 0:
            before, queued = queued, seconds_queued(below(os.getpid()))
            if queued < before + LOOK:
                ended = "timeout"
                _stack(pid, faults)
        elif standing.is_still(time.monotonic() - began - seconds_queued([pid])):
            ended = "timeout"
        elif request.memory is not None and not ready and resident(below(os.getpid())) - shared > request.memory:
            ended = "memory"
    seconds = time.monotonic() - began - seconds_queued([pid])
    signal.pidfd_send_signal(exited, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    end_all_below()
    for pipe in pipes:
        pipe.take()
    return Report(status, ended, seconds, _lines(said), faults.text(), output.text(), errors.text())


def _stack(pid: int, faults: _Pipe) -> str:
    """Where the child stands: what it now says replaces what it has said."""
    faults.take()
    if not ask(pid):
        return ""
    faults.data.clear()
    wait = GRACE
    while faults.is_open and select.select([faults.read], [], [], wait)[0]:
        faults.take()
        wait = SILENCE
    return faults.text()


def _lines(pipe: _Pipe) -> list[Any]:
    """Whole lines of JSON; anything else was not written by our side of the child."""
    found = []
    for line in pipe.text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _become_child(request: Request, sock: socket.socket, said: _Pipe, faults: _Pipe, output: _Pipe, errors: _Pipe) -> NoReturn:
    try:
        os.setsid()
        sock.close()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output.write, 1)
        os.dup2(errors.write, 2)
        for pipe in (said, faults, output, errors):
            os.close(pipe.read)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        child.begin(request, said.write, faults.write)
    except OSError as e:
        os.write(2, f"{e}\n".encode())
    finally:
        os._exit(127)
