"""Keep sympy and torch's own compiler unloaded while one of torch's Python meta kernels or decompositions runs.

Many of those kernels ask `torch.fx.experimental.symbolic_shapes` (which imports sympy, 2 s with what it pulls in) questions
such as `guard_or_false(a == b)`, and `torch._prims_common.elementwise_dtypes` imports sympy only for an `isinstance` test.
Our shapes are plain integers, so while such a kernel runs two small modules answer in their place. Whatever they can't answer
(a symbolic argument, another name) goes to the real module, which is then loaded once and stays.
A third one answers `torch._disable_dynamo`, which decorates those kernels to keep torch's compiler from tracing them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace, TracebackType
from typing import Any

import torch


class _StandIn(ModuleType):
    """Forwards every name it lacks to the real module, and steps aside when that happens."""

    def real(self) -> ModuleType:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return importlib.import_module(self.__name__)

    def __getattr__(self, name: str) -> Any:
        if name == "__path__" and self.__name__ not in _PACKAGES:
            raise AttributeError(name)
        return getattr(self.real(), name)


_PACKAGES = frozenset({"sympy", "torch._dynamo"})
_shapes = _StandIn("torch.fx.experimental.symbolic_shapes")
_sympy = _StandIn("sympy")
_compiler = _StandIn("torch._dynamo")


def _eq(a: Any, b: Any) -> Any:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_eq(x, y) for x, y in zip(a, b, strict=True))
    return a == b


def _truth(*conditions: Any) -> bool:
    return bool(conditions[0])


def _same(value: Any, *_: Any, **__: Any) -> Any:
    return value


def _nothing(*_: Any, **__: Any) -> None:
    return None


# name -> the same question over plain numbers
_ANSWERS: dict[str, Callable[..., Any]] = {
    "guard_or_false": _truth,
    "guard_or_true": _truth,
    "guard_size_oblivious": _truth,
    "statically_known_true": _truth,
    "expect_true": _truth,
    "sym_and": lambda *conditions: all(conditions),
    "sym_or": lambda *conditions: any(conditions),
    "sym_eq": _eq,
    "guard_int": _same,
    "guard_scalar": _same,
    "guarding_hint_or_throw": _same,
    "hint_int": _same,
    "size_hint": _same,
    "is_nested_int": lambda value: False,
    "has_guarding_hint": lambda value: True,
    "has_hint": lambda value: True,
    "has_static_value": lambda value: True,
    "free_unbacked_symbols": lambda value: frozenset(),
    "constrain_range": _nothing,
    "_constrain_range_for_size": _nothing,
    "_advise_is_size": _nothing,
    "_advise_is_bounded": _nothing,
}
_SYMBOLIC = (torch.SymInt, torch.SymBool, torch.SymFloat)


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return not isinstance(value, _SYMBOLIC)


def _answer(name: str, over_numbers: Callable[..., Any]) -> Callable[..., Any]:
    def ask(*args: Any, **kwargs: Any) -> Any:
        if all(map(_is_plain, args)):
            return over_numbers(*args, **kwargs)
        return getattr(_shapes.real(), name)(*args, **kwargs)

    ask.__name__ = name
    return ask


def _disable(fn: Callable[..., Any], recursive: bool = True, *, wrapping: bool = True) -> Callable[..., Any]:
    """The decorator keeps what this returns for good, so it must obey the real one once that is loaded."""
    disabled: Callable[..., Any] | None = None

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal disabled
        if disabled is not None:
            return disabled(*args, **kwargs)
        real = sys.modules.get("torch._dynamo")
        if real is None or real is _compiler or not hasattr(real, "disable"):
            return fn(*args, **kwargs)
        disabled = real.disable(fn, recursive, wrapping=wrapping)
        return disabled(*args, **kwargs)

    return call


class _NoSuchExpression:
    """Stands for `sympy.Basic`: nothing is an instance of it."""


for _name, _over in _ANSWERS.items():
    setattr(_shapes, _name, _answer(_name, _over))
_sympy.Basic = _NoSuchExpression  # type: ignore[attr-defined]  # a module made here
_compiler.disable = _disable  # type: ignore[attr-defined]  # the same
_compiler.config = SimpleNamespace(error_on_nested_fx_trace=True)  # type: ignore[attr-defined]  # the same
_compiler.compiled_autograd = SimpleNamespace(_disable=nullcontext)  # type: ignore[attr-defined]  # the same; only that compiler turns it on
_STANDINS = (_shapes, _sympy, _compiler)


class plain_shapes:
    """Context: torch's Python kernels run without loading sympy. Re-entrant; does nothing once the real modules are loaded.

    With `only_shapes`, just the questions about sizes are answered: safe around user code, which may import sympy itself and
    must then get the real one.
    """

    __slots__ = ("mine", "offered")

    def __init__(self, only_shapes: bool = False) -> None:
        self.offered = _STANDINS[:1] if only_shapes else _STANDINS

    def __enter__(self) -> None:
        self.mine = [m for m in self.offered if m.__name__ not in sys.modules]
        for module in self.mine:
            sys.modules[module.__name__] = module

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for module in self.mine:
            if sys.modules.get(module.__name__) is module:
                del sys.modules[module.__name__]


class without_compiler(plain_shapes):
    """Context: torch code that asks its own compiler about settings does not load it."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.offered = (_compiler,)


def undecorate(fn: Callable[..., Any]) -> None:
    """Keep a function of torch under `torch._disable_dynamo` from loading the compiler when it is called."""
    inner = getattr(fn, "__wrapped__", None)
    if inner is not None and getattr(inner, "__dynamo_disable", None) is None:
        inner.__dynamo_disable = _disable(inner)
