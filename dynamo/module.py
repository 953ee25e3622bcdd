"""The compiled form of an `nn.Module`."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from typing import Any

import torch


class OptimizedModule(torch.nn.Module):
    """Behaves as the module it wraps (`_orig_mod`): attributes, parameters, train/eval and state go there; calls go to the compiler."""

    _orig_mod: torch.nn.Module
    _compiled: Callable[..., Any]

    def __init__(self, mod: torch.nn.Module, compiled: Callable[..., Any]) -> None:
        super().__init__()
        self._modules["_orig_mod"] = mod
        self.__dict__["_compiled"] = compiled
        self.__dict__.pop("training", None)
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
        if (
            name in ("_modules", "_parameters", "_buffers", "__doc__")
            or "_modules" not in self.__dict__
            or "_orig_mod" not in self._modules
        ):
            super().__setattr__(name, value)
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

    def __repr__(self) -> str:
        return f"OptimizedModule({self._orig_mod!r})"

    def __copy__(self) -> OptimizedModule:
        return self._over(copy.copy(self._orig_mod))

    def __deepcopy__(self, memo: dict[int, Any]) -> OptimizedModule:
        made = memo[id(self)] = self._over(copy.deepcopy(self._orig_mod, memo))
        return made

    def _over(self, mod: torch.nn.Module) -> OptimizedModule:
        """A copy of the module behind the same compiled code."""
        from dynamo.api import share_compiled

        share_compiled(mod, self._orig_mod)
        return OptimizedModule(mod, types.MethodType(self._compiled.__func__, mod))  # type: ignore[attr-defined]  # a bound method

    def __reduce__(self) -> Any:
        return self._orig_mod.__reduce__()
