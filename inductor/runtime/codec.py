"""Compiled graphs as JSON: recipes and facts are plain values, so nothing of an entry is executed when it is read.

Tuples are JSON lists; everything else that JSON lacks is an object with one key, its tag. Types are compared exactly: a value
of a class derived from one of these is refused rather than changed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

import dynamo.aot.rng  # noqa: F401  # declares operators that graphs may have
import inductor.runtime.packed  # noqa: F401  # the same
from dynamo.aot.facts import Facts, Output, Step
from inductor.ir.dims import is_dense
from inductor.ir.nest import Buffer, Extern, View
from inductor.runtime.recipe import Capture, KernelCall, Recipe

Json = Any
MAX_CONSTANT = 1 << 20  # bytes of one constant tensor


class NoPlainForm(Exception):
    """A value that can't be kept; the text says which."""


def encode(value: Any) -> Json:
    """A JSON value. Raises NoPlainForm."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is tuple or kind is torch.Size:
        return [encode(v) for v in value]
    row = _ENCODERS.get(kind)
    if row is None:
        if isinstance(value, torch.Tensor):
            return {"tensor": _tensor(value)}
        raise NoPlainForm(f"a {kind.__module__}.{kind.__qualname__} has no plain form")
    tag, write = row
    return {tag: write(value)}


def decode(value: Json) -> Any:
    """The value of a JSON value. Raises KeyError, TypeError or ValueError for what `encode` did not write."""
    if isinstance(value, list):
        return tuple([decode(v) for v in value])
    if isinstance(value, dict):
        ((tag, content),) = value.items()
        return _DECODERS[tag](content)
    return value


def _named(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _op_name(op: torch._ops.OpOverload) -> str:
    return f"{op.namespace}.{op._schema.name.partition('::')[2]}.{op._overloadname}"


def _op(name: str) -> Any:
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def _tensor(t: torch.Tensor) -> Json:
    size = t.numel() * t.element_size()
    if type(t) is not torch.Tensor or t.device.type != "cpu" or t.layout is not torch.strided or t.requires_grad or size > MAX_CONSTANT:
        raise NoPlainForm("a constant tensor is too large or unusual")
    if t.is_conj() or t.is_neg() or not is_dense(t.shape, t.stride()):
        raise NoPlainForm("a constant tensor has an unusual layout")
    flat = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage(), t.storage_offset(), (t.numel(),), (1,))
    raw = bytes(flat.view(torch.uint8).tolist()) if size else b""
    return [_named(t.dtype), list(t.shape), list(t.stride()), base64.b64encode(raw).decode("ascii")]


def _read_tensor(row: Json) -> torch.Tensor:
    name, shape, strides, text = row
    out = torch.empty_strided(shape, strides, dtype=getattr(torch, name))
    raw = bytearray(base64.b64decode(text))
    if raw:
        flat = torch.empty(0, dtype=out.dtype).set_(out.untyped_storage(), 0, (out.numel(),), (1,))
        flat.copy_(torch.frombuffer(raw, dtype=out.dtype))
    return out


def _spec(spec: TreeSpec) -> Json:
    return encode(tree_unflatten(list(range(spec.num_leaves)), spec))


def _extern(step: Extern) -> Json:
    return [step.name, *(encode(v) for v in (step.target, step.args, dict(step.kwargs), step.outs)), step.single, step.after]


def _read_extern(row: Json) -> Extern:
    name, target, args, kwargs, outs, single, after = row
    return Extern(name, decode(target), decode(args), decode(kwargs), decode(outs), single, (), after)


def _buffer(b: Buffer) -> Json:
    return [b.name, _named(b.dtype), encode(b.shape), encode(b.strides), b.kind, b.device]


def _read_buffer(row: Json) -> Buffer:
    name, dtype, shape, strides, kind, device = row
    return Buffer(name, getattr(torch, dtype), tuple(shape), tuple(strides), kind, device)


def _all(cls: type) -> tuple[Callable[[Any], Json], Callable[[Json], Any]]:
    """Writes and reads a dataclass as the list of its fields."""
    names = [f.name for f in fields(cls)]

    def write(value: Any) -> Json:
        return [encode(getattr(value, name)) for name in names]

    return write, lambda row: cls(*[decode(v) for v in row])


def _mapping(value: dict[Any, Any]) -> Json:
    return [[encode(k), encode(v)] for k, v in value.items()]


_Row = tuple[type, str, Callable[[Any], Json], Callable[[Json], Any]]
_ROWS: tuple[_Row, ...] = (
    (list, "list", lambda v: [encode(x) for x in v], lambda v: [decode(x) for x in v]),
    (dict, "dict", _mapping, lambda rows: {decode(k): decode(v) for k, v in rows}),
    (complex, "complex", lambda v: [v.real, v.imag], lambda v: complex(*v)),
    (torch.dtype, "dtype", _named, lambda name: getattr(torch, name)),
    (torch.device, "device", str, torch.device),
    (torch.layout, "layout", _named, lambda name: getattr(torch, name)),
    (torch.memory_format, "memory_format", _named, lambda name: getattr(torch, name)),
    (torch._ops.OpOverload, "op", _op_name, _op),
    (TreeSpec, "spec", _spec, lambda v: tree_flatten(decode(v))[1]),
    (Extern, "extern", _extern, _read_extern),
    (Buffer, "buffer", _buffer, _read_buffer),
    *((cls, cls.__name__.lower(), *_all(cls)) for cls in (View, KernelCall, Capture, Recipe, Step, Output, Facts)),
)
_ENCODERS: dict[type, tuple[str, Callable[[Any], Json]]] = {cls: (tag, write) for cls, tag, write, _ in _ROWS}
_DECODERS: dict[str, Callable[[Json], Any]] = {tag: read for _, tag, _, read in _ROWS} | {"tensor": _read_tensor}
