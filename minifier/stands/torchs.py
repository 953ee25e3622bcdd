"""A script under torch's own compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynamo.backends.registry import looked_up
from dynamo.peer import patient, watching


def record(recorder: Callable[[], Any], after: str, wanted: str) -> None:
    """Have the graphs of a script recorded; nothing of torch is loaded before the script loads it."""
    patient.stand_between_when_torch_loads(lambda: recorder().taken, after, wanted)
    patient.note_failures()


def enter(backend: str, is_fresh: bool = False) -> None:
    """Make it use a backend, a name of its own or `module:function`; '' keeps the script's own. `is_fresh`: nothing that was compiled for
    an earlier call is used again."""
    if backend:
        watching.observe(looked_up(backend)[1] if ":" in backend else backend)
    if is_fresh:
        patient.compile_every_call()


def watch(told: Callable[[BaseException], object]) -> None:
    """Have its failures told before the script gets them."""
    patient.tell_failures(told)


def switch_off() -> None:
    """Run the script without it."""
    patient.switch_off()


def warm(backend: str) -> None:
    """Load what scripts need, and have the compiler warm."""
    patient.warm(backend)
