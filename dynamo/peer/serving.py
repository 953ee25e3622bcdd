"""`torch._dynamo` as scripts import it: modules of ours under torch's names, with torch's own behind them.

What has a row in `names.py` is ours. The rest is torch's own, loaded when somebody first asks for it; a script that asks for something
that would steer torch's compiler hears that it steers nothing here.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from dynamo import config
from dynamo.peer import names as peer_names
from dynamo.peer.asking import Asker, asker
from dynamo.peer.installation import MISSING, PEER, Installation, active, note
from dynamo.peer.survey import surface
from dynamo.surroundings.collector import paused

_OURS = sys.modules["dynamo"]
_SPECIAL = "dynamo.peer.replacements"  # found by name: it asks this file for torch's own modules
_PACKAGES = (PEER, PEER + ".backends")


class ServedModule(ModuleType):
    """A module of torch's compiler as this one serves it. Every attribute is looked up when it is asked for."""

    def __getattr__(self, name: str) -> Any:
        who = asker(sys._getframe(1))
        if who is not Asker.PEER:
            found = served(self.__name__, name)
            if found is not MISSING:
                return found
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(peer_module(self.__name__), name)
        if who is Asker.SCRIPT and self.__name__ in peer_names.STEERING and not isinstance(value, ModuleType):
            note("DN015", f"{self.__name__}.{name} is torch's own and has no effect on this compiler")
        return value

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *peer_names.MODULES[self.__name__], *surface()["names"].get(self.__name__, ())})


class ServedConfig(ServedModule):
    """`torch._dynamo.config`: options that exist here are set here, others are kept and noted."""

    def __getattr__(self, name: str) -> Any:
        who = asker(sys._getframe(1))
        if name == "patch" and who is not Asker.PEER:
            return functools.partial(self._patch, who is not Asker.SCRIPT)
        if name in peer_names.DEFAULTS_OF_TORCH and config.source(name) == "default":
            return peer_names.DEFAULTS_OF_TORCH[name]
        if name in _options():
            return config.get(name)
        now = active()
        if name in peer_names.READ_BY_TORCH and (now is None or PEER not in now.peer):
            return peer_names.READ_BY_TORCH[name]
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        who = asker(sys._getframe(1))
        if name.startswith("__") or isinstance(value, ModuleType):
            super().__setattr__(name, value)
        elif who is Asker.PEER:
            setattr(peer_module(self.__name__), name, value)
        elif name in _options():
            setattr(config, name, value)
        else:
            _check(name)
            if who is Asker.SCRIPT:
                note("DN012", f"torch._dynamo.config.{name} has no effect in this compiler")
            super().__setattr__(name, value)

    @contextmanager
    def _patch(self, quiet: bool, *changes: Any, **more: Any) -> Iterator[None]:
        """`patch(name=value)`, `patch({name: value})` and `patch("name", value)`. Use of it in a library is not worth a note."""
        first = changes[0] if changes and isinstance(changes[0], dict) else dict([changes] if changes else [])
        wanted = {**first, **more}
        for name in sorted(wanted.keys() - _options()):
            _check(name)
            if not quiet:
                note("DN012", f"torch._dynamo.config.{name} has no effect in this compiler")
        with config.patch(**{name: value for name, value in wanted.items() if name in _options()}):
            yield


def _options() -> set[str]:
    return {option.name for option in config.OPTIONS} | config.ALIASES.keys()


def _check(name: str) -> None:
    """torch refuses options that it does not have; so does this, by the list of the torch that was surveyed and the one that is loaded."""
    if name in surface()["options"]["torch._dynamo.config"] or hasattr(peer_module(PEER + ".config"), name):
        return
    raise AttributeError(f"torch._dynamo.config.{name} does not exist")


def served(module: str, name: str) -> Any:
    """What we give for an attribute of a served module, or MISSING."""
    target = peer_names.MODULES[module].get(name)
    if target is None:
        full = f"{module}.{name}"
        return importlib.import_module(full) if full in peer_names.MODULES else MISSING
    where, _, attribute = target.rpartition(":")
    owner = importlib.import_module(_SPECIAL if where == "special" else where) if where else _OURS
    return getattr(owner, attribute)


def peer_module(name: str) -> ModuleType:
    """A module of torch's own compiler, loaded now if this is the first use."""
    now = active()
    assert now is not None
    with now.lock:
        if now.loading:
            return importlib.import_module(name)
        if name not in now.peer:
            with paused(), _real_modules(now):
                importlib.import_module(PEER)
                importlib.import_module(name)
        return now.peer[name]


@contextmanager
def _real_modules(installation: Installation) -> Iterator[None]:
    """torch's own modules under their names for the duration of an import, ours again afterwards."""
    ours = {name: module for name, module in sys.modules.items() if isinstance(module, ServedModule)}
    for name in ours:
        del sys.modules[name]
    sys.modules.update({name: module for name, module in installation.peer.items() if name in peer_names.MODULES})  # never loaded twice
    torch = sys.modules["torch"]
    vars(torch).pop("_dynamo", None)
    sys.meta_path.remove(FINDER)
    installation.loading = True
    try:
        yield
    finally:
        installation.loading = False
        sys.meta_path.insert(0, FINDER)
        for name, module in list(sys.modules.items()):
            if name == PEER or name.startswith(PEER + "."):
                installation.peer[name] = module
                if name in peer_names.MODULES:
                    del sys.modules[name]
        sys.modules.update(ours)
        vars(torch).pop("_dynamo", None)
        if PEER in ours:
            torch._dynamo = ours[PEER]  # type: ignore[attr-defined]  # loaded on first use


class _Finder(MetaPathFinder, Loader):
    """Finds `torch._dynamo` and the modules below it."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname in peer_names.MODULES:
            return _served_spec(fullname, self)
        if not fullname.startswith(PEER + "."):
            return None
        if fullname in peer_names.ALONE:
            return _alone(fullname)
        return ModuleSpec(fullname, _PeerLoader())

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return ServedConfig(spec.name) if spec.name == PEER + ".config" else ServedModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def _file_of(fullname: str) -> str:
    """Where torch has the file of that module."""
    path = os.path.join(os.path.dirname(sys.modules["torch"].__file__ or ""), *fullname.split(".")[1:])
    return os.path.join(path, "__init__.py") if fullname in _PACKAGES else path + ".py"


def _served_spec(fullname: str, loader: Loader) -> ModuleSpec:
    """Everything served may have modules below it. Its file is torch's, which is what those who look for one want to find."""
    spec = ModuleSpec(fullname, loader, origin=_file_of(fullname), is_package=True)
    spec.has_location = True
    spec.submodule_search_locations = []
    return spec


def _alone(fullname: str) -> ModuleSpec | None:
    """One file of torch's compiler that needs nothing else of it."""
    return importlib.util.spec_from_file_location(fullname, _file_of(fullname))


class _PeerLoader(Loader):
    """Loads a module of torch's own compiler for torch or a library."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return peer_module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


FINDER = _Finder()
