"""What controller, zygote, keeper and child tell each other: lengths and JSON, nothing that can be executed."""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import asdict, dataclass, field
from typing import Any

_LENGTH = struct.Struct("!Q")


@dataclass(frozen=True)
class Request:
    """One query. `oracle` is `module:function`, called with the path of the candidate; or `command` is run with that path as last argument.

    `fresh` starts a new interpreter instead of forking the warmed one. `memory` is in bytes, on top of what the warmed process has. After
    `look` seconds it is ended as soon as it stands still, in `frame` if there is one; 0: not before its time is up.
    """

    oracle: str
    command: tuple[str, ...]
    folder: str
    name: str
    timeout: float
    memory: int | None
    fresh: bool
    environment: dict[str, str]
    look: float = 0.0
    frame: str = ""


@dataclass(frozen=True)
class Report:
    """What the keeper saw. `status` as of `os.waitstatus_to_exitcode`; `ended` is `itself`, `timeout`, `memory` or `cancelled`.

    `said` are the lines the oracle wrote to its keeper, `faults` what faulthandler did; `output` and `errors` are the ends of its streams.
    """

    status: int
    ended: str
    seconds: float
    said: list[Any] = field(default_factory=list)
    faults: str = ""
    output: str = ""
    errors: str = ""


def send(sock: socket.socket, value: Any, data: bytes = b"") -> None:
    """A JSON value and bytes beside it. Raises OSError where nobody listens any more."""
    head = json.dumps(value).encode()
    sock.sendall(_LENGTH.pack(len(head)) + _LENGTH.pack(len(data)) + head + data)


def receive(sock: socket.socket) -> tuple[Any, bytes]:
    """What `send` sent. Raises EOFError where the other side is gone."""
    head, data = _LENGTH.unpack(_exactly(sock, 8))[0], _LENGTH.unpack(_exactly(sock, 8))[0]
    return json.loads(_exactly(sock, head)), _exactly(sock, data)


def _exactly(sock: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = sock.recv(min(count - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def request_of(value: Any) -> Request:
    """The inverse of `asdict`."""
    return Request(**{**value, "command": tuple(value["command"])})


def plain(value: Request | Report) -> dict[str, Any]:
    """As JSON can hold it."""
    return asdict(value)
