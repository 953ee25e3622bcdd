"""Deep equality of two runs of one program, in values, types, order and aliasing.

The runs have separate namespaces, so classes and functions are compared by name. Objects met twice on one side must be
met twice on the other: `[x, x]` is not `[x, x.clone()]`.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import torch

_ATOMS = (int, str, bytes, bool, type(None), type(Ellipsis), type(NotImplemented), torch.dtype, torch.device, torch.layout, slice, range)
_BY_NAME = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.MethodType)


class Different(AssertionError):
    """Where two values differ; the message starts with the path to the place."""


def same(left: Any, right: Any, path: str, seen: dict[int, Any] | None = None) -> None:
    """Raise Different unless both values are equal, have equal types, and alias the same objects."""
    _Comparison({} if seen is None else seen).compare(left, right, path)


class _Comparison:
    def __init__(self, seen: dict[int, Any]) -> None:
        self.seen = seen
        self.keep: list[Any] = []  # ids stay valid as long as the objects live

    def compare(self, left: Any, right: Any, path: str) -> None:
        if _type_name(left) != _type_name(right):
            raise Different(f"{path}: {_type_name(left)} {left!r} in eager, {_type_name(right)} {right!r} compiled")
        if isinstance(left, float | complex):
            self.require(repr(left) == repr(right), left, right, path)
        elif isinstance(left, _ATOMS) and not hasattr(left, "__dict__"):
            self.require(left == right, left, right, path)
        elif isinstance(left, _BY_NAME):
            self.require(_name(left) == _name(right), left, right, path)
        elif id(left) in self.seen:
            self.require(self.seen[id(left)] is right, "an object met before", "another object", path)
        else:
            self.seen[id(left)] = right
            self.keep.append((left, right))
            self.contents(left, right, path)

    def contents(self, left: Any, right: Any, path: str) -> None:
        if isinstance(left, torch.Tensor):
            self.tensors(left, right, path)
        elif isinstance(left, Mapping):
            self.require(len(left) == len(right), left, right, path)
            for (key, value), (other_key, other_value) in zip(left.items(), right.items(), strict=True):
                self.compare(key, other_key, f"{path} key")
                self.compare(value, other_value, f"{path}[{key!r}]")
        elif isinstance(left, AbstractSet):
            self.require(sorted(map(repr, left)) == sorted(map(repr, right)), left, right, path)
        elif isinstance(left, Sequence | deque) and not isinstance(left, str):
            self.require(len(left) == len(right), left, right, f"len({path})")
            for index, (item, other) in enumerate(zip(left, right, strict=True)):
                self.compare(item, other, f"{path}[{index}]")
        elif isinstance(left, types.CellType):
            self.compare(left.cell_contents, right.cell_contents, f"{path} cell")
        elif isinstance(left, BaseException):
            self.compare(str(left), str(right), f"{path} message")
        elif isinstance(left, Iterator):
            self.compare(list(left), list(right), f"list({path})")
        self.attributes(left, right, path)

    def attributes(self, left: Any, right: Any, path: str) -> None:
        names = set(getattr(left, "__dict__", ())) | set(getattr(right, "__dict__", ()))
        for cls in type(left).__mro__:
            slots = cls.__dict__.get("__slots__", ())
            names |= {slots} if isinstance(slots, str) else set(slots)
        for name in sorted(names - {"__dict__", "__weakref__"}):
            missing = [side for side, value in (("eager", left), ("compiled", right)) if not hasattr(value, name)]
            if len(missing) == 1:
                raise Different(f"{path}.{name}: not set in {missing[0]}")
            if not missing:
                self.compare(getattr(left, name), getattr(right, name), f"{path}.{name}")

    def tensors(self, left: torch.Tensor, right: torch.Tensor, path: str) -> None:
        for fact in ("dtype", "shape", "device", "requires_grad", "is_leaf"):
            self.require(getattr(left, fact) == getattr(right, fact), getattr(left, fact), getattr(right, fact), f"{path}.{fact}")
        if left.layout == torch.strided:
            self.require(left.stride() == right.stride(), left.stride(), right.stride(), f"{path}.stride()")
        values, others = (side.detach().to_dense().as_subclass(torch.Tensor) for side in (left, right))
        if not torch.allclose(values, others, rtol=0, atol=0, equal_nan=True):
            raise Different(f"{path}: {values} in eager, {others} compiled")
        if left.is_leaf and left.requires_grad:
            self.compare(left.grad, right.grad, f"{path}.grad")

    def require(self, holds: bool, left: Any, right: Any, path: str) -> None:
        if not holds:
            raise Different(f"{path}: {left!r} in eager, {right!r} compiled")


def _name(value: Any) -> str:
    return getattr(value, "__qualname__", value.__name__)


def _type_name(value: Any) -> str:
    return type(value).__qualname__
