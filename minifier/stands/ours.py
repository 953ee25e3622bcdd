"""A script under our compiler."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from dynamo import config, internal_errors
from dynamo.backends.registry import stand_between
from dynamo.peer import script_adapter


def record(recorder: Callable[[], Any], after: str, wanted: str) -> None:
    """Have the graphs of a script recorded; nothing of torch is loaded before the script loads it."""
    stand_between(lambda name, backend: recorder().between(name, backend))
    script_adapter.install_when_torch_loads()


def enter(backend: str, is_fresh: bool = False) -> None:
    """Put the compiler in its place, with errors of its own raised instead of told. `is_fresh` is asked of torch's compiler only."""
    config.suppress_errors = False
    script_adapter.install(backend)


def watch(told: Callable[[BaseException], object]) -> None:
    """Have its failures told before the script gets them."""
    internal_errors.before_raise = told


def warm(backend: str) -> None:
    """Load what scripts need. Nothing is compiled: they bring options of their own."""
    for name in ("dynamo.public.api", "dynamo.aot", "inductor.backend", "inductor.uncached"):
        importlib.import_module(name)


def switch_off() -> None:
    """Run the script without it."""
    enter("")
    config.disable = True
