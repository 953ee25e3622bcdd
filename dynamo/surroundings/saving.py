"""Errors of the program's hooks on what autograd saves, which run inside of graphs: `saved_tensors_hooks`, those of `checkpoint` too."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any

import torch


def is_of_hook(error: BaseException) -> bool:
    """Did the hook that is given each saved tensor now raise it?

    It belongs to the program around the call and is no answer of an operator: a hook that is asked again may say something else, as it
    counts its calls. `checkpoint` ends its second run of a function by such an error, once it has what it was after.
    """
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
    if hooks is None:
        return False
    codes = set(_codes(hooks[0]))
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def raised_again(error: BaseException) -> Callable[[bool], None]:
    """From now on the first value that is saved meets this error, without asking the program's hook. Called, it ends that.

    The blocks of a frame that is run again end by it, and its handlers see it. Blocks of hooks that end take the topmost pair, whichever
    that is: in the end as many are left as there were.
    """
    pack, unpack = torch._C._autograd._top_saved_tensors_default_hooks(True)
    met: list[BaseException] = []

    def once(t: torch.Tensor) -> Any:
        if met:
            return pack(t)
        met.append(error)
        raise error

    torch._C._autograd._push_saved_tensors_default_hooks(once, unpack)
    return lambda returned: torch._C._autograd._pop_saved_tensors_default_hooks()


def _codes(hook: Any) -> Iterator[CodeType]:
    """Those of the function and of what it wraps: decorators that run frames themselves leave only the latter in a traceback."""
    while hook is not None:
        called = hook if isinstance(hook, FunctionType | MethodType) else type(hook).__call__
        if isinstance(code := getattr(called, "__code__", None), CodeType):
            yield code
        hook = hook.func if isinstance(hook, functools.partial) else inspect.getattr_static(hook, "__wrapped__", None)
