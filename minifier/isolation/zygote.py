"""The warmed process: imports what oracles need, makes one dummy run, then forks a keeper for every socket it is sent."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
import traceback
from types import FrameType

from dynamo.surroundings.collector import paused
from minifier.isolation.keeper import keep
from minifier.isolation.wire import send


def uses_cuda() -> bool:
    """Whether this process has touched a GPU, after which no forked child of it can."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


def warm(names: list[str]) -> dict[str, str]:
    """Import modules; of `module:function`, call the function too. What these give is set in the environment, and told."""
    told: dict[str, str] = {}
    for name in names:
        module, _, function = name.partition(":")
        found = importlib.import_module(module)
        if function:
            told |= getattr(found, function)() or {}
    os.environ.update(told)
    return told


def _reap(signum: int, frame: FrameType | None) -> None:
    """Keepers report to the controller. They are waited for, so that their CPU time counts as this process's."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def serve(control: socket.socket) -> None:
    """Fork for every socket that comes, until the controller is gone."""
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        try:
            data, fds, _, _ = socket.recv_fds(control, 1, 1)
        except ConnectionResetError:  # it went without having read that this process is ready
            return
        if not data:
            return
        if not fds:
            continue
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            keep(socket.socket(fileno=fds[0]))
        os.close(fds[0])


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    try:
        with paused():
            told = warm(json.loads(sys.argv[2]))
    except BaseException:  # noqa: BLE001  # the controller shows it
        send(control, {"problem": traceback.format_exc()})
        return
    gc.freeze()  # a fork that looked for garbage here would copy the memory it reads
    send(control, {"forks": not uses_cuda(), "environment": told})
    serve(control)
    os._exit(0)  # taking torch down takes its time, and nothing is left to be done


if __name__ == "__main__":
    main()
