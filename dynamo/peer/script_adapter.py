"""Let unchanged scripts run on this compiler: `torch.compile`, `torch.compiler.*` and the old `torch._dynamo` names lead here.

    install() / uninstall()          now, in this process
    install_when_torch_loads()       as soon as the program imports torch, so that it may set environment variables first
    with as_torch_compile(): ...     for a while
    install_as_torch_compile()       the same as install, usable as a context manager too

`torch._dynamo` is served by module objects of ours: torch's own compiler is imported only if torch or an installed library asks for
a part of it that has no counterpart here, and even then the script keeps talking to us.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from dynamo.peer import installation, replacements, serving
from dynamo.peer.after_import import AfterImport
from dynamo.peer.installation import MISSING, PEER
from dynamo.peer.names import EXC, MODULES

_OURS = sys.modules["dynamo"]  # loaded, as this is a part of it; it names this file's functions, so nothing here may import it


def install(backend: str = "") -> None:
    """Put this compiler in place of torch's. `backend` replaces the one every compile asks for."""
    import torch  # noqa: PLC0415  # this module must be importable before the script has imported torch

    if (now := installation.active()) is not None:
        now.backend = backend
        return
    now = installation.begin(backend)
    served = {name for name in sys.modules if name == PEER or name.startswith(PEER + ".")}
    for name in served:
        now.peer[name] = sys.modules[name]
    for name in served & {PEER, *MODULES}:
        now.modules[name] = sys.modules.pop(name)
    sys.meta_path.insert(0, serving.FINDER)
    for name, function in replacements.OWN.items():
        now.replace(_OURS, name, function)
    for name in MODULES[EXC]:
        cls = serving.served(EXC, name)
        if cls.__module__ != EXC:  # of several names of one class the first
            now.rename(cls, EXC, name)
    now.replace(torch, "compile", replacements.torch_compile)
    if PEER in now.modules:
        now.replace(torch, "_dynamo", importlib.import_module(PEER))
    for name, function in replacements.TORCH_COMPILER.items():
        if hasattr(torch.compiler, name):
            now.replace(torch.compiler, name, function)


def uninstall() -> None:
    """Undo `install`. Functions that are compiled already stay compiled."""
    if installation.active() is None:
        return
    done = installation.end()
    sys.meta_path.remove(serving.FINDER)
    for owner, name, old in reversed(done.attributes):
        delattr(owner, name) if old is MISSING else setattr(owner, name, old)
    for name in [n for n, m in sys.modules.items() if isinstance(m, serving.ServedModule)]:
        del sys.modules[name]
    torch = sys.modules["torch"]
    if isinstance(vars(torch).get("_dynamo"), serving.ServedModule):
        del torch._dynamo
    sys.modules.update(done.peer)
    if PEER in done.peer:
        torch._dynamo = done.peer[PEER]  # type: ignore[attr-defined]  # loaded on first use


@contextmanager
def as_torch_compile(backend: str = "") -> Iterator[None]:
    """`torch.compile` and its relatives mean this compiler inside the block."""
    install(backend)
    try:
        yield
    finally:
        uninstall()


class install_as_torch_compile:
    """Install now. Used in a `with` statement, uninstall at its end."""

    def __init__(self, backend: str = "") -> None:
        install(backend)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        uninstall()


def install_when_torch_loads(backend: str = "") -> None:
    """`install`, now if torch is loaded, otherwise right after the import that loads it."""
    if "torch" in sys.modules:
        install(backend)
    else:
        sys.meta_path.insert(0, AfterImport("torch", functools.partial(install, backend)))
