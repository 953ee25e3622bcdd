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
import importlib.util
import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any, Self

import dynamo
from dynamo import config, peer_names
from dynamo.backends import registry
from dynamo.trace import emit
from dynamo.trace.events import Note

PEER = "torch._dynamo"
_MISSING = object()
# Parts of torch that belong to its compiler: they get torch's own modules whatever they ask for.
_PEER_PARTS = (PEER, "torch._inductor", "torch._functorch", "torch._subclasses", "torch.export", "torch._export", "torch.fx.experimental")


class Installation:
    """What is replaced, and the way back."""

    def __init__(self, backend: str) -> None:
        self.backend = backend
        self.default_backend: Any = None
        self.attributes: list[tuple[Any, str, Any]] = []
        self.modules: dict[str, Any] = {}
        self.peer: dict[str, ModuleType] = {}
        self.noted: set[str] = set()
        self.lock = threading.RLock()
        self.loading = False


_installed: Installation | None = None


def install(backend: str = "") -> None:
    """Put this compiler in place of torch's. `backend` replaces the one every compile asks for."""
    global _installed
    import torch  # this module must be importable before the script has imported torch

    if _installed is not None:
        _installed.backend = backend
        return
    _installed = Installation(backend)
    served = {name for name in sys.modules if name == PEER or name.startswith(PEER + ".")}
    for name in served:
        _installed.peer[name] = sys.modules[name]
    for name in served & {PEER, *peer_names.MODULES}:
        _installed.modules[name] = sys.modules.pop(name)
    sys.meta_path.insert(0, _finder)
    for name, function in _OWN.items():
        _replace(dynamo, name, function)
    _replace(torch, "compile", torch_compile)
    if PEER in _installed.modules:
        _replace(torch, "_dynamo", importlib.import_module(PEER))
    for name, function in _TORCH_COMPILER.items():
        if hasattr(torch.compiler, name):
            _replace(torch.compiler, name, function)


def uninstall() -> None:
    """Undo `install`. Functions that are compiled already stay compiled."""
    global _installed
    if _installed is None:
        return
    done, _installed = _installed, None
    sys.meta_path.remove(_finder)
    for owner, name, old in reversed(done.attributes):
        delattr(owner, name) if old is _MISSING else setattr(owner, name, old)
    for name in [n for n, m in sys.modules.items() if isinstance(m, ServedModule)]:
        del sys.modules[name]
    torch = sys.modules["torch"]
    if isinstance(vars(torch).get("_dynamo"), ServedModule):
        del torch._dynamo
    sys.modules.update(done.peer)
    if PEER in done.peer:
        torch._dynamo = done.peer[PEER]  # type: ignore[attr-defined]


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


class AfterImport(MetaPathFinder):
    """Calls `then` once the module `name` has been imported."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self.name = name
        self.then = then

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenLoader(spec.loader, self.then)
        return spec


class _ThenLoader(Loader):
    def __init__(self, loader: Loader, then: Callable[[], None]) -> None:
        self.loader = loader
        self.then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.then()


def _replace(owner: Any, name: str, new: Any) -> None:
    assert _installed is not None
    _installed.attributes.append((owner, name, vars(owner).get(name, _MISSING)))
    setattr(owner, name, new)


def choose_backend(asked: Any) -> Any:
    """The backend a script gets: the one forced on the command line, otherwise the one it asks for."""
    return _installed.backend if _installed is not None and _installed.backend else asked


def _note(note_id: str, message: str) -> None:
    """Say it once per installation."""
    if _installed is not None and message in _installed.noted:
        return
    emit(Note(note_id, message))
    if _installed is not None:
        _installed.noted.add(message)


# ---- torch.compile, torch.compiler, and the same names of ours ----


def torch_compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    **later: Any,
) -> Any:
    """`torch.compile` with the same arguments; ones that a newer torch added are ignored with a note."""
    for name in later:
        _note("DN011", f"torch.compile({name}=...) has no effect in this compiler")
    if model is None:
        asked = {"fullgraph": fullgraph, "dynamic": dynamic, "backend": backend, "mode": mode, "options": options, "disable": disable}
        return functools.partial(torch_compile, **asked)
    asked_for = get_default_backend() if backend is None else backend
    chosen = choose_backend(asked_for)
    if chosen is not asked_for:
        mode = options = None  # they were meant for the other one
    return api().compile(model, fullgraph=fullgraph, dynamic=dynamic, backend=chosen, mode=mode, options=options, disable=disable)


def set_default_backend(backend: Any) -> None:
    """`torch.compiler.set_default_backend`; None goes back to inductor."""
    assert _installed is not None
    _installed.default_backend = backend


def get_default_backend() -> Any:
    chosen = _installed.default_backend if _installed is not None else None
    return "inductor" if chosen is None else chosen


def set_stance(stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None) -> Any:
    """`torch.compiler.set_stance`: a context manager, a decorator, or for good."""
    stances = importlib.import_module("dynamo.stances")  # loads the frame engine, which an import of the script should not
    if stance not in stances.STANCES or skip_guard_eval_unsafe or force_backend is not None:
        asked = stance if stance not in stances.STANCES else "skip_guard_eval_unsafe" if skip_guard_eval_unsafe else "force_backend"
        _note("DN013", f"torch.compiler.set_stance: {asked} has no effect in this compiler")
    return stances.Stance(stance if stance in stances.STANCES else stances.UNKNOWN)


def nested_compile_region(fn: Any = None, **options: Any) -> Any:
    """`torch.compiler.nested_compile_region` promises that a region is the same each time; it is traced each time here."""
    return fn if fn is not None else nested_compile_region


def optimize(backend: Any = "inductor", *args: Any, **kwargs: Any) -> Any:
    """`torch._dynamo.optimize`."""
    return api().optimize(choose_backend(backend), *args, **kwargs)


def optimize_assert(backend: Any = "inductor", *args: Any, **kwargs: Any) -> Any:
    return api().optimize_assert(choose_backend(backend), *args, **kwargs)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None, wrapping: bool = True) -> Any:
    """`torch.compiler.disable`. `wrapping` is for torch's own use; `reason` is for readers of the script."""
    if fn is None:
        return functools.partial(disable, recursive=recursive)
    return api().disable(fn, recursive=recursive)


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    return registry.list_backends(tuple(exclude_tags or ()))


def mark_without_effect(*args: Any, **kwargs: Any) -> None:
    """Hints about addresses of tensors: every graph here takes its tensors at call time, so there is nothing to remember."""


def api() -> Any:
    """The functions behind the public names; loaded when a script first uses one, for it loads torch."""
    return importlib.import_module("dynamo.api")


def is_compile_supported(device: Any) -> bool:
    """Whether compiled code runs on a device: libraries ask before they compile helpers of their own."""
    return importlib.import_module("torch").device(device).type in ("cpu", "cuda")


def _forward(name: str) -> Callable[..., Any]:
    """The function of that name in `dynamo`, looked up when it is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(api(), name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


# `is_compiling` and its kin stay torch's own: outside a trace they are False, inside one the interpreter knows them.
_TORCH_COMPILER: dict[str, Any] = {
    "disable": disable,
    "get_default_backend": get_default_backend,
    "list_backends": list_backends,
    "nested_compile_region": nested_compile_region,
    "set_default_backend": set_default_backend,
    "set_stance": set_stance,
    "cudagraph_mark_step_begin": mark_without_effect,
    **{name: _forward(name) for name in ("allow_in_graph", "assume_constant_result", "reset")},
}

# Our own names that take a backend: a forced backend holds for them too.
_OWN: dict[str, Any] = {"compile": torch_compile, "optimize": optimize, "optimize_assert": optimize_assert}

# Names that are not simply the attribute of `dynamo` that peer_names says.
_SPECIAL: dict[str, Any] = {
    "optimize": optimize,
    "optimize_assert": optimize_assert,
    "set_stance": set_stance,
    "disable": disable,
    "is_compile_supported": is_compile_supported,
    "list_backends": list_backends,
    "mark_without_effect": mark_without_effect,
}


# ---- torch._dynamo ----


class ServedModule(ModuleType):
    """A module of torch's compiler as this one serves it. Every attribute is looked up when it is asked for."""

    def __getattr__(self, name: str) -> Any:
        asker = _asker(sys._getframe(1))
        if asker is Asker.PEER:
            return getattr(_peer_module(self.__name__), name)
        found = _served(self.__name__, name)
        if found is not _MISSING:
            return found
        if name.startswith("__"):
            raise AttributeError(name)
        if asker is not Asker.SCRIPT:
            return getattr(_peer_module(self.__name__), name)
        served = ", ".join(sorted(peer_names.MODULES[self.__name__]))
        raise AttributeError(
            f"{self.__name__}.{name} is not served by dynamo-debug; served are: {served}. `--engine torch` runs torch's own"
        )


class ServedConfig(ServedModule):
    """`torch._dynamo.config`: options that exist here are set here, others are kept and noted."""

    def __getattr__(self, name: str) -> Any:
        asker = _asker(sys._getframe(1))
        if name == "patch" and asker is not Asker.PEER:
            return functools.partial(self._patch, asker is not Asker.SCRIPT)
        if name in _options():
            return config.get(name)
        if name in peer_names.READ_BY_TORCH and PEER not in (_installed.peer if _installed else ()):
            return peer_names.READ_BY_TORCH[name]
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _options():
            setattr(config, name, value)
            return
        if not name.startswith("__"):
            _note("DN012", f"torch._dynamo.config.{name} has no effect in this compiler")
        super().__setattr__(name, value)

    @contextmanager
    def _patch(self, quiet: bool, *changes: Any, **more: Any) -> Iterator[None]:
        """`patch(name=value)`, `patch({name: value})` and `patch("name", value)`. Use of it in a library is not worth a note."""
        first = changes[0] if changes and isinstance(changes[0], dict) else dict([changes] if changes else [])
        wanted = {**first, **more}
        for name in () if quiet else sorted(wanted.keys() - _options()):
            _note("DN012", f"torch._dynamo.config.{name} has no effect in this compiler")
        with config.patch(**{name: value for name, value in wanted.items() if name in _options()}):
            yield


def _options() -> set[str]:
    return {option.name for option in config.OPTIONS} | config.ALIASES.keys()


def _served(module: str, name: str) -> Any:
    """What we give for an attribute of a served module, or _MISSING."""
    target = peer_names.MODULES[module].get(name)
    if target is None:
        full = f"{module}.{name}"
        return importlib.import_module(full) if full in peer_names.MODULES else _MISSING
    where, _, attribute = target.rpartition(":")
    if where == "special":
        return _SPECIAL[attribute]
    return getattr(importlib.import_module(where) if where else dynamo, attribute)


class Asker(Enum):
    """Who asks for a name of torch's compiler. Only scripts are told that something is not served; libraries get torch's own."""

    SCRIPT = auto()
    LIBRARY = auto()
    PEER = auto()


_LIBRARIES = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})


def _asker(frame: FrameType | None) -> Asker:
    """Whose code asks; the import machinery and this module are skipped."""
    while frame is not None:
        name, file = str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename
        if name.startswith(_PEER_PARTS):
            return Asker.PEER
        if name == "torch" or name.startswith("torch.") or file.startswith(_LIBRARIES):
            return Asker.LIBRARY
        if name != __name__ and not file.startswith("<frozen importlib") and not name.startswith("importlib"):
            return Asker.SCRIPT
        frame = frame.f_back
    return Asker.SCRIPT


def _peer_module(name: str) -> ModuleType:
    """A module of torch's own compiler, loaded now if torch needs it for the first time."""
    assert _installed is not None
    with _installed.lock:
        if _installed.loading:
            return importlib.import_module(name)
        if name not in _installed.peer:
            with _real_modules(_installed):
                importlib.import_module(PEER)
                importlib.import_module(name)
        return _installed.peer[name]


@contextmanager
def _real_modules(installation: Installation) -> Iterator[None]:
    """torch's own modules under their names for the duration of an import, ours again afterwards."""
    ours = {name: module for name, module in sys.modules.items() if isinstance(module, ServedModule)}
    for name in ours:
        del sys.modules[name]
    sys.modules.update({name: module for name, module in installation.peer.items() if name in ours})
    torch = sys.modules["torch"]
    vars(torch).pop("_dynamo", None)
    sys.meta_path.remove(_finder)
    installation.loading = True
    try:
        yield
    finally:
        installation.loading = False
        sys.meta_path.insert(0, _finder)
        for name, module in list(sys.modules.items()):
            if name == PEER or name.startswith(PEER + "."):
                installation.peer[name] = module
                if name in peer_names.MODULES:
                    del sys.modules[name]
        sys.modules.update(ours)
        vars(torch).pop("_dynamo", None)
        if PEER in ours:
            torch._dynamo = ours[PEER]  # type: ignore[attr-defined]


class _Finder(MetaPathFinder, Loader):
    """Finds `torch._dynamo` and the modules below it."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname in peer_names.MODULES:
            spec = ModuleSpec(fullname, self, is_package=True)
            spec.submodule_search_locations = []
            return spec
        if not fullname.startswith(PEER + "."):
            return None
        if fullname in peer_names.ALONE:
            return _alone(fullname)
        if _asker(sys._getframe(1)) is not Asker.SCRIPT:
            return ModuleSpec(fullname, _PeerLoader())
        served = ", ".join(sorted(peer_names.MODULES))
        raise ModuleNotFoundError(f"{fullname} is not served by dynamo-debug; served are: {served}", name=fullname)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return ServedConfig(spec.name) if spec.name == PEER + ".config" else ServedModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def _alone(fullname: str) -> ModuleSpec | None:
    """One file of torch's compiler that needs nothing else of it."""
    folder = os.path.dirname(sys.modules["torch"].__file__ or "")
    path = os.path.join(folder, *fullname.split(".")[1:]) + ".py"
    return importlib.util.spec_from_file_location(fullname, path)


class _PeerLoader(Loader):
    """Loads a module of torch's own compiler for torch or a library."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _peer_module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


_finder = _Finder()
