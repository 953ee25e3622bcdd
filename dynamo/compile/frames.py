"""Frames reached from broken code: what the frame hook does with each."""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from dynamo import _C, marks
from dynamo.bytecode.decode import decode
from dynamo.compile.context import Context
from dynamo.graph.rescue import plain_call
from dynamo.inspection import attributes_of, is_a
from dynamo.skipped import skip_file


def frame_handler(fn: types.FunctionType, ctx: Any) -> _C.Compiled | None:
    """Decide once per code and context what the frame hook does."""
    code = fn.__code__
    if not isinstance(ctx, Context) or marks.disabled(fn) is False:
        return None
    if marks.disabled(fn) or getattr(fn, "_torchdynamo_disable", False) is True:
        return _disabled(_without_closure(fn), ctx)
    if skip_file(code.co_filename) or decode(code).is_generator:
        return None
    return ctx.compiled(_without_closure(fn), nested=True)


def _without_closure(fn: types.FunctionType) -> types.FunctionType:
    """A function of the same code that keeps nothing alive: frames bring their own cells."""
    return types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, None, tuple(types.CellType() for _ in fn.__code__.co_freevars))


def _disabled(fn: types.FunctionType, ctx: Context) -> _C.Compiled:
    """A frame under `disable`: run with everything below it in eager, however it was reached."""
    code = fn.__code__

    def run(compiled: _C.Compiled, inputs: tuple[Any, ...]) -> Callable[..., Any]:
        def eager(*inputs: Any) -> Any:
            # Functions made by one `def` share this object; what tells them apart are their cells.
            return _C.Tail(_C.disabled_call, plain_call(code, fn.__globals__, inputs))

        return eager

    return _C.Compiled(fn, _C.Cache(code), run, ctx)


def mentions_tensors(inputs: tuple[Any, ...], depth: int = 2) -> bool:
    """Whether a frame reached from broken code could do tensor work at all."""
    for x in inputs:
        if is_a(x, torch.Tensor, torch.nn.Module):
            return True
        if is_a(x, types.CellType):
            try:
                x = x.cell_contents
            except ValueError:
                continue
            if is_a(x, torch.Tensor, torch.nn.Module):
                return True
        if not depth:
            continue
        members = _members(x)
        if members is not None and mentions_tensors(tuple(itertools.islice(members, 32)), depth - 1):
            return True
    return False


def _members(x: Any) -> Iterable[Any] | None:
    """What a container or an object holds, read without its own methods."""
    for cls, values in _READERS:
        if is_a(x, cls):
            return values(x)
    if is_a(x, type, types.ModuleType) or type(x).__module__ in ("builtins", "torch"):
        return None
    held = attributes_of(x)
    return held.values() if held is not None else None


_READERS: tuple[tuple[type, Callable[[Any], Iterable[Any]]], ...] = ((list, list.__iter__), (tuple, tuple.__iter__), (dict, dict.values))
