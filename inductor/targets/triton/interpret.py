"""Kernels in Triton's interpreter: on tensors of processors, one program after another.

The interpreter is exact where the compiler is, with these exceptions, which are put right here: it has no libdevice and no assembler, it
cuts where it should round to bfloat16 and multiplies matrices of its bits, it makes floats of a condition that is spread over a tile, it
refuses integers that wrap, and it folds general reductions and scans element by element, which takes a second per thousand elements.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter

_lock = threading.RLock()  # the interpreter patches `triton.language` while it runs

SAME_NAME = """
    exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
    erf erfc lgamma sqrt trunc copysign fmod nextafter hypot atan2 pow
"""
FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {name: getattr(torch, name) for name in SAME_NAME.split()}
FUNCTIONS["nearbyint"] = torch.round
ASSEMBLY: dict[str, Callable[..., torch.Tensor]] = {  # helpers that are instructions of a GPU
    "ex2": lambda x: flushed(torch.exp2(x)),
    "rcp": lambda x: flushed(torch.reciprocal(flushed(x))),
    "round_bf16": lambda x: x.bfloat16().float(),
}


class Libdevice:
    """`triton.language.extra.libdevice`, by torch's functions."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return functools.partial(elementwise, FUNCTIONS[name])


def flushed(x: torch.Tensor) -> torch.Tensor:
    """Denormal numbers as zeros. The instructions that do so have registers of 32 bits: another type is a defect of the printer."""
    if x.dtype != torch.float32:
        raise TypeError(f"an instruction for float32 was given {x.dtype}")
    return torch.where(x.abs() < torch.finfo(x.dtype).tiny, x * 0, x)


def elementwise(function: Callable[..., torch.Tensor], *args: Any) -> Any:
    arrays = [a.handle.data if isinstance(a, tl.tensor) else np.float32(a) for a in args]
    kind = next(a.dtype for a in args if isinstance(a, tl.tensor))
    result = function(*(torch.from_numpy(np.array(a)) for a in arrays)).numpy().astype(arrays[0].dtype, copy=False)
    if not any(isinstance(a, tl.tensor) and a.type.is_block() for a in args):  # the interpreter has numbers as arrays of one
        return tl.tensor(interpreter.TensorHandle(result, kind.scalar), kind.scalar)
    return wrapped(result, kind)


def wrapped(data: np.ndarray, kind: Any) -> Any:
    kind = kind.scalar
    return tl.tensor(interpreter.TensorHandle(data, kind), tl.block_type(kind, list(data.shape)) if data.shape else kind)


def load(module: ModuleType, text: str, path: str) -> None:
    """Execute a kernel's file so that its functions are interpreted."""
    before = triton.knobs.runtime.interpret
    triton.knobs.runtime.interpret = True
    try:
        exec(compile(text, path, "exec"), module.__dict__)
    finally:
        triton.knobs.runtime.interpret = before
    names = module.__dict__
    names["libdevice"] = Libdevice()
    for name, value in list(names.items()):
        if isinstance(value, interpreter.InterpretedFunction) and value is not names["KERNEL"]:
            names[name] = value.fn  # called as it is: preparing a call takes a millisecond
    names.update({name: functools.partial(elementwise, function) for name, function in ASSEMBLY.items() if name in names})
    if "fetched" in names:
        names["fetched"] = lambda pointers: tl.load(pointers)  # which is another function while a kernel runs
    if names["KERNEL"] is not None:
        names["KERNEL"] = Interpreted(names["KERNEL"])


class Interpreted:
    """A kernel that is launched like a compiled one."""

    interpreter = interpreter

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.__name__ = kernel.__name__

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*args: Any, **options: Any) -> None:
            with _lock, corrected(), np.errstate(all="ignore"):
                self.kernel[grid](*args, **{k: v for k, v in options.items() if not k.startswith(("num_", "enable_"))})

        return launch


@contextlib.contextmanager
def corrected() -> Iterator[None]:
    """The interpreter as the compiler is."""
    builder, reduce_ops, scan_ops = interpreter.InterpreterBuilder, interpreter.ReduceOps, interpreter.ScanOps
    before = builder.cast_impl, builder.create_splat, builder.create_dot, reduce_ops.generic_reduce, scan_ops.generic_scan
    options, patch = interpreter.interpreter_builder.options, interpreter._patch_lang_tensor
    interpreter.interpreter_builder.options = replace(options, sanitize_overflow=False)  # integers wrap
    interpreter._patch_lang_tensor = counting(patch)
    builder.cast_impl, builder.create_splat, builder.create_dot = rounding_cast(before[0]), splat, product(before[2])
    reduce_ops.generic_reduce, scan_ops.generic_scan = tree_reduce, tree_scan
    try:
        yield
    finally:
        builder.cast_impl, builder.create_splat, builder.create_dot, reduce_ops.generic_reduce, scan_ops.generic_scan = before
        interpreter.interpreter_builder.options, interpreter._patch_lang_tensor = options, patch


def counting(original: Callable[..., None]) -> Callable[..., None]:
    """Triton 3.6 takes an array of one element, as a loaded bound of a loop is, for a number, which NumPy 2.4 refuses."""

    def patch(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    return patch


def rounding_cast(original: Callable[..., Any]) -> Callable[..., Any]:
    def cast(self: Any, src: Any, dst_type: Any) -> Any:
        source, target = src.dtype.scalar, dst_type.scalar
        if source == tl.float32 and target == tl.bfloat16:
            data = torch.from_numpy(np.array(src.data)).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
            return interpreter.TensorHandle(data, target)
        if source == tl.bfloat16 and target == tl.float32:
            data = (np.array(src.data).view(np.uint16).astype(np.uint32) << 16).view(np.float32)
            return interpreter.TensorHandle(data, target)
        return original(self, src, dst_type)

    return cast


def product(original: Callable[..., Any]) -> Callable[..., Any]:
    """The interpreter has bfloat16 as bits, and multiplies them."""

    def create_dot(self: Any, a: Any, b: Any, *more: Any) -> Any:
        a, b = (self.cast_impl(t, tl.float32) if t.dtype.scalar == tl.bfloat16 else t for t in (a, b))
        return original(self, a, b, *more)

    return create_dot


def splat(self: Any, ret_ty: Any, arg: Any) -> Any:
    data = np.asarray(arg.data)
    return interpreter.TensorHandle(np.full(ret_ty.shape, data.reshape(-1)[0], dtype=data.dtype), arg.dtype.scalar)


def tree_reduce(self: Any, inputs: tuple[Any, ...]) -> list[Any]:
    """Halves are combined until one is left, as warps do it."""
    kinds = [t.dtype for t in inputs]
    states = [t.handle.data for t in inputs]
    axis = self.axis
    while states[0].shape[axis] > 1:
        half = states[0].shape[axis] // 2
        low = [part(s, axis, 0, half) for s in states]
        high = [part(s, axis, half, 2 * half) for s in states]
        states = combined(self.combine_fn, low, high, kinds)
    if not self.keep_dims:
        states = [np.squeeze(s, axis) for s in states]
    return [self.to_tensor(s, kind) for s, kind in zip(states, kinds, strict=True)]


def tree_scan(self: Any, inputs: tuple[Any, ...]) -> list[Any]:
    """Every lane takes in the one 1, 2, 4, ... before it."""
    kinds = [t.dtype for t in inputs]
    states = [t.handle.data for t in inputs]
    axis, step = self.axis, 1
    size = states[0].shape[axis]
    while step < size:
        early = [np.concatenate([part(s, axis, 0, step), part(s, axis, 0, size - step)], axis) for s in states]
        new = combined(self.combine_fn, early, states, kinds)
        states = [np.concatenate([part(s, axis, 0, step), part(n, axis, step, size)], axis) for s, n in zip(states, new, strict=True)]
        step *= 2
    return [self.to_tensor(s, kind) for s, kind in zip(states, kinds, strict=True)]


def part(data: np.ndarray, axis: int, start: int, end: int) -> np.ndarray:
    return data[(slice(None),) * axis + (slice(start, end),)]


def combined(function: Any, first: list[np.ndarray], second: list[np.ndarray], kinds: list[Any]) -> list[np.ndarray]:
    function = getattr(function, "fn", function)
    args = [wrapped(a, kind) for state in (first, second) for a, kind in zip(state, kinds, strict=True)]
    result = function(*args)
    return [r.handle.data for r in (result if isinstance(result, tuple) else (result,))]
