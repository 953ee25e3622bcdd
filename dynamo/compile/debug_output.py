"""What a program writes about its compiles while it runs: debug trees and logs, switched by options and environment variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable
from pathlib import Path
from types import ModuleType

from torch._logging._internal import log_state

from dynamo import config
from dynamo.trace import store
from dynamo.trace.events import Event

Listener = Callable[[Event], None]

_active: dict[str, tuple[Hashable, Listener]] = {}


def attach() -> None:
    """Make the listeners fit the options. Called before every compile: the options may be set by the program at any time."""
    keys: dict[str, Hashable] = {  # what a listener is made for; a forked child gets its own: one run is one process
        "tree": (os.getpid(), config.debug_dir) if config.compile_debug else None,
        "trace": (os.getpid(), config.cache_dir) if config.inductor_trace else None,
        "logs": _logs() or None,
    }
    for name, wanted in keys.items():
        known, listener = _active.get(name, (None, None))
        if wanted == known:
            continue
        if listener is not None:
            _listeners().remove(listener)
            del _active[name]
        if wanted is not None:
            made = _MAKERS[name]()
            _active[name] = (wanted, made)
            _listeners().append(made)


def _listeners() -> list[Listener]:
    """Those of the process: a session within it passes its events on."""
    return store.of_process().listeners


def debug_root() -> Path:
    """`$TORCH_COMPILE_DEBUG_DIR`, or the current folder."""
    return Path(config.debug_dir or ".").absolute()


def cache_root() -> Path:
    """Where `TORCHINDUCTOR_TRACE` puts its folders."""
    base = config.cache_dir or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "dynamo-debug")
    return Path(base).absolute() / "debug"


def _logs() -> str:
    """Names of our option; else those of `TORCH_LOGS` and `torch._logging.set_logs` that mean something here."""
    if config.logs:
        return str(config.logs)
    torchs = [os.environ.get("TORCH_LOGS", ""), *sorted(log_state.artifact_names)]
    return str(_writers().logs.known(",".join(torchs))) if any(torchs) else ""


def _writers() -> ModuleType:
    from dynamo.trace import writers  # noqa: PLC0415  # only where an option asks for files or logs

    return writers


def _new_tree() -> Listener:
    tree = _writers().tree
    return tree.TreeWriter(debug_root() / "torch_compile_debug" / tree.run_name(), _say)


def _new_trace() -> Listener:
    tree = _writers().tree
    return tree.TreeWriter(None, _say, cache_root())


def _new_logs() -> Listener:
    return _writers().logs.LogWriter(_logs())


_MAKERS: dict[str, Callable[[], Listener]] = {"tree": _new_tree, "trace": _new_trace, "logs": _new_logs}


def _say(line: str) -> None:
    print(f"dynamo: {line}", file=sys.stderr, flush=True)
