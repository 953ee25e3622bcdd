"""What one use of the compiler keeps: backend and options, and the caches of every code object compiled under them."""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from dynamo import _C
from dynamo.backends.registry import Backend, lookup_backend
from dynamo.bytecode.decode import decode, forget
from dynamo.bytecode.origins import is_resume
from dynamo.compile.resume import raising_function
from dynamo.guards.build import BuiltGuards
from dynamo.guards.lifetimes import Lifetime
from dynamo.inspection import attributes_of
from dynamo.surroundings.locks import Lock
from dynamo.symbolic.values.errors import BreakError
from dynamo.trace import emit, events

_frame_numbers = itertools.count()
# Functions that transforms make of one of the program, and that compute with what graphs don't have.
_HOME = "torch._functorch.eager_transforms"
_TRANSFORMS = frozenset({"jacrev.<locals>.wrapper_fn", "jacfwd.<locals>.wrapper_fn"})


def _leave(state: CodeState, fn: types.FunctionType, reason_id: str, reason: str) -> None:
    """Have CPython run it always, and say so of the function of the program that it wraps."""
    state.cache.mode = _C.Cache.SKIP
    inner = inspect.unwrap(fn)
    code = inner.__code__ if type(inner) is types.FunctionType else fn.__code__
    emit(events.FrameSkipped(code.co_qualname, code.co_filename, code.co_firstlineno, reason_id, reason))


@dataclass
class EntryInfo:
    """The Python side of a C entry: for explain, recompile reasons and tests."""

    compile_id: str
    guards: BuiltGuards
    graph: torch.fx.GraphModule | None
    code: str
    broke: BreakError | None
    lifetime: Lifetime
    promote: set[str] = field(default_factory=set)  # baked tensors that some call had others in place of
    changing: set[str] = field(default_factory=set)  # numbers that some call had others in place of
    relies_at: int = -1  # the instruction at which it breaks, if it relies on facts that led there


@dataclass(eq=False)
class CodeState:
    """What a context knows about one code object (with one globals dict)."""

    cache: _C.Cache
    number: int
    globals: dict[str, Any]
    lock: Lock = field(default_factory=Lock)
    compiles: int = 0
    parent: str = ""
    fullgraph: bool = False
    promote: set[str] = field(default_factory=set)  # tensors to take as inputs, from entries that are gone
    pending: BreakError | None = None  # a break to report if this continuation is ever reached
    nested: bool = False  # reached from a broken frame, not named by the user
    latest: tuple[BuiltGuards, Lifetime] | None = None  # of the entry that was made last, also when that has ended
    watchers: set[str] = field(default_factory=set)  # modes under which it was seen to run natively
    limited: bool = False  # it has reached its recompile limit, and that was told


# What C calls when no entry fits: see `dynamo/compile/misses.py`.
Miss = Callable[["Context", CodeState, _C.Compiled, tuple[Any, ...]], Callable[..., Any] | None]


class Context:
    """One use of the compiler: backend and options, and the caches of every code object compiled under them."""

    def __init__(self, backend: str | Backend, miss: Miss, *, fullgraph: bool = False, options: dict[str, Any] | None = None) -> None:
        self.backend_name, self.backend = lookup_backend(backend)
        self.miss = miss
        self.fullgraph = fullgraph
        self.options = dict(options or {})
        self._states: weakref.WeakValueDictionary[tuple[int, int], CodeState] = weakref.WeakValueDictionary()
        self._kept: list[CodeState] = []  # of code that lives as long as its module
        self._lock = Lock()
        _contexts.add(self)

    def compiled(self, fn: types.FunctionType, *, nested: bool = False, owned: bool = False) -> _C.Compiled:
        """The vectorcall object for a function under this context; it keeps what is compiled for it alive.

        owned: nothing else does, as the code was made for this object; otherwise other functions of the code find it, too.
        """
        state = self.state(fn, nested=nested, owned=owned)
        raising = raising_function if is_resume(fn.__code__) else None
        return _C.Compiled(fn, state.cache, functools.partial(self.miss, self, state), self, raising)

    def state(self, fn: types.FunctionType, *, nested: bool = False, owned: bool = False) -> CodeState:
        key = (id(fn.__code__), id(fn.__globals__))
        with self._lock:
            state = self._states.get(key)
            if state is None:
                state = self._states[key] = CodeState(_C.Cache(fn.__code__), next(_frame_numbers), fn.__globals__, nested=nested)
                if owned or not _is_of_module(fn):
                    weakref.finalize(state, forget, fn.__code__).atexit = False
                else:
                    self._kept.append(state)
                if decode(fn.__code__).is_generator:
                    _leave(state, fn, "DD025", "a generator or coroutine frame is run by CPython")
                elif fn.__globals__.get("__name__") == _HOME and fn.__code__.co_qualname in _TRANSFORMS and not self.fullgraph:
                    _leave(state, fn, "DD022", "a transform of torch.func hides what it runs from graphs")
            return state

    def reset(self) -> None:
        with self._lock:
            for state in list(self._states.values()):
                state.cache.clear()
                state.cache.mode = _C.Cache.ACTIVE
                if state.compiles:
                    state.number = next(_frame_numbers)  # ids of a record are never used twice
                state.compiles, state.latest, state.limited = 0, None, False

    def states(self) -> Iterator[CodeState]:
        return iter(list(self._states.values()))


def _is_of_module(fn: types.FunctionType) -> bool:
    """Whether the globals of a function are those of an imported module, which keeps the code alive that its text has made."""
    module = sys.modules.get(str(fn.__globals__.get("__name__")))
    return module is not None and attributes_of(module) is fn.__globals__


_contexts: weakref.WeakSet[Context] = weakref.WeakSet()


def contexts() -> list[Context]:
    return list(_contexts)
