"""Keys of real objects in the tables of dict and set values.

A key is a Python object whose == and hash agree with the program's: constants by value, everything else by identity.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import torch

METHOD = object()  # marks the key of a bound method: methods are equal that bind one function to one object


class Identity:
    """Key for an object compared by identity."""

    __slots__ = ("what",)

    def __init__(self, what: object) -> None:
        self.what = what

    def __hash__(self) -> int:
        return id(self.what)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.what is self.what


def object_key(obj: object) -> Any:
    """The key that `hash_key` gives for the value of this real object."""
    if issubclass(type(obj), torch.Tensor | torch.nn.Module):
        return Identity(obj)
    if type(obj) is types.MethodType:
        return (METHOD, Identity(obj.__self__), object_key(obj.__func__))
    if issubclass(type(obj), tuple):
        return tuple(object_key(x) for x in _members(obj))
    if type(obj).__hash__ is object.__hash__ and not issubclass(type(obj), type):
        return Identity(obj)
    return obj


def _members(obj: Any) -> Iterator[object]:
    return tuple.__iter__(obj)
