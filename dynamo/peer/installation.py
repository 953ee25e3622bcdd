"""What is replaced while this compiler stands in for torch's: one state per process, and the remarks made meanwhile."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dynamo.surroundings.locks import Lock
from dynamo.trace import emit
from dynamo.trace.events import Note

PEER = "torch._dynamo"
MISSING = object()


class Installation:
    """What is replaced, and the way back. `peer` holds modules of torch's own compiler that are loaded behind the served ones."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.default_backend: Any = None
        self.attributes: list[tuple[Any, str, Any]] = []
        self.modules: dict[str, Any] = {}
        self.peer: dict[str, ModuleType] = {}
        self.noted: set[str] = set()
        self.lock = Lock()
        self.loading = False

    def replace(self, owner: Any, name: str, new: Any) -> None:
        """Set an attribute of torch or of ours until `uninstall`."""
        self.attributes.append((owner, name, vars(owner).get(name, MISSING)))
        setattr(owner, name, new)

    def rename(self, cls: type, module: str, name: str) -> None:
        """Give a class of ours another name until `uninstall`."""
        for attribute, new in (("__module__", module), ("__qualname__", name), ("__name__", name)):
            self.attributes.append((cls, attribute, getattr(cls, attribute)))
            setattr(cls, attribute, new)

    def original(self, owner: Any, name: str) -> Any:
        """What `name` of `owner` was before it was replaced."""
        return next(old for o, n, old in self.attributes if o is owner and n == name)


_now: list[Installation] = []


def active() -> Installation | None:
    """The state while something is installed."""
    return _now[-1] if _now else None


def begin(backend: str) -> Installation:
    _now.append(Installation(backend))
    return _now[-1]


def end() -> Installation:
    return _now.pop()


def note(note_id: str, message: str) -> None:
    """Say it once per installation."""
    now = active()
    if now is not None:
        if message in now.noted:
            return
        now.noted.add(message)
    emit(Note(note_id, message))
