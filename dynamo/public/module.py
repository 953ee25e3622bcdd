"""The compiled form of an `nn.Module`."""

from __future__ import annotations

import copy
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from dynamo import _C
from dynamo.bytecode.assemble import shown_as
from dynamo.compile.context import Context

# what a wrapper has of its own; the last two are set on copies for several devices (`torch.nn.parallel.replicate`)
OWN = frozenset(("_modules", "_parameters", "_buffers", "__doc__", "_is_replica", "_former_parameters"))

# what the module that is wrapped has alone: hooks run in its call
_OF_THE_MODULE = (
    *(
        "_forward_hooks",
        "_forward_hooks_with_kwargs",
        "_forward_hooks_always_called",
        "_forward_pre_hooks",
        "_forward_pre_hooks_with_kwargs",
    ),
    *("_backward_hooks", "_backward_pre_hooks", "_is_full_backward_hook", "training"),
)


class OptimizedModule(torch.nn.Module):
    """Behaves as the module it wraps (`_orig_mod`): attributes, parameters, train/eval and state go there; calls go to the compiler."""

    _orig_mod: torch.nn.Module
    _compiled: Callable[..., Any]

    def __init__(self, mod: torch.nn.Module, compiled: Callable[..., Any]) -> None:
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.__dict__["_compiled"] = compiled
        for name in _OF_THE_MODULE:
            self.__dict__.pop(name, None)
        self.__doc__ = mod.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self.__dict__["_modules"]["_orig_mod"]
        return getattr(self.__dict__["_modules"]["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in OWN or "_modules" not in self.__dict__ or "_orig_mod" not in self._modules:
            super().__setattr__(name, value)
        elif name == "_orig_mod":
            super().__setattr__(name, value)
            self.__dict__["_compiled"] = self._compiled_for(value)
        elif name == "forward":
            self.__dict__[name] = value
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def train(self, mode: bool = True) -> OptimizedModule:
        self._orig_mod.train(mode)
        return self

    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type]  # a module without len raises as it would itself

    def __iter__(self) -> Any:
        return iter(self._orig_mod)  # type: ignore[call-overload]  # same

    def __getitem__(self, key: Any) -> Any:
        return self._orig_mod[key]  # type: ignore[index]  # same

    def __setitem__(self, key: Any, value: Any) -> None:
        self._orig_mod[key] = value  # type: ignore[operator]  # same

    def __delitem__(self, key: Any) -> None:
        del self._orig_mod[key]  # type: ignore[operator]  # same

    def __contains__(self, key: Any) -> bool:
        return key in self._orig_mod  # type: ignore[operator]  # same

    def __reversed__(self) -> Any:
        return reversed(self._orig_mod)  # type: ignore[call-overload]  # same

    def __bool__(self) -> bool:
        return bool(self._orig_mod)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __copy__(self) -> OptimizedModule:
        return self._over(copy.copy(self._orig_mod))

    def __deepcopy__(self, memo: dict[int, Any]) -> OptimizedModule:
        made = memo[id(self)] = self._over(copy.deepcopy(self._orig_mod, memo))
        return made

    def _over(self, mod: torch.nn.Module) -> OptimizedModule:
        """A copy of the module behind the same compiled code."""
        _share_compiled(mod, self._orig_mod)
        return OptimizedModule(mod, self._compiled_for(mod))

    def _compiled_for(self, mod: torch.nn.Module) -> types.MethodType:
        return types.MethodType(self._compiled.__func__, mod)  # type: ignore[attr-defined]  # a bound method


def _module_call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    return self(*args, **kwargs)


module_compiled: weakref.WeakKeyDictionary[torch.nn.Module, dict[int, _C.Compiled]] = weakref.WeakKeyDictionary()


def compiled_module(mod: torch.nn.Module, ctx: Context) -> _C.Compiled:
    """One object per module and context: compiling a module again finds what was compiled before, and it goes with the module."""
    known = module_compiled.setdefault(mod, {})
    compiled = known.get(id(ctx))
    if compiled is None:
        fn = next(iter(known.values())).fn if known else _module_function(mod)
        compiled = known[id(ctx)] = ctx.compiled(fn, owned=True)  # type: ignore[arg-type]  # a Compiled holds a plain function
    return compiled


def _module_function(mod: torch.nn.Module) -> types.FunctionType:
    """A function with a code object of its own per module, so that modules don't share a cache (and its limit)."""
    code = _module_call.__code__
    forward = getattr(type(mod).forward, "__code__", code)
    name = f"{type(mod).__qualname__}.__call__"
    fn = types.FunctionType(shown_as(code, forward, name), _module_call.__globals__, "__call__", None, None)
    fn.__qualname__ = name
    return fn


def _share_compiled(copy: torch.nn.Module, mod: torch.nn.Module) -> None:
    """A copy of a module finds what was compiled for the module."""
    known = module_compiled.get(mod)
    if known is not None:
        module_compiled[copy] = known
