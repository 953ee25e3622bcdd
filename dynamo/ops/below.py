"""Builtins of torch below a Python function of the same name (`torch.functional.cdist`).

FX writes `torch.cdist` for either, so the text of a graph would call the Python function with the builtin's arguments. A graph calls
what is here in their place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _calling(name: str) -> Callable[..., Any]:
    builtin = getattr(torch._C._VariableFunctions, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        return builtin(*args, **kwargs)

    call.__module__, call.__name__, call.__qualname__ = __name__, name, name
    return call


_FUNCTIONS = {name: _calling(name) for name in torch.functional.__all__ if hasattr(torch._C._VariableFunctions, name)}
BELOW: dict[Any, Callable[..., Any]] = {getattr(torch._C._VariableFunctions, name): function for name, function in _FUNCTIONS.items()}


def __getattr__(name: str) -> Callable[..., Any]:
    try:
        return _FUNCTIONS[name]
    except KeyError:
        raise AttributeError(name) from None
