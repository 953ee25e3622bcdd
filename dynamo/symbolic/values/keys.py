"""Keys of real objects in the tables of dict and set values.

A key is a Python object whose == and hash agree with the program's: constants by value, everything else by identity.
"""

from __future__ import annotations

import enum
import types
from collections import OrderedDict
from collections.abc import Iterable, Iterator
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


class Own(Identity):
    """Key for a real object whose class says in Python which others are equal to it, or that holds one.

    The tables keep apart what is not the same object; what is equal is looked for as the program compares: see `ComparedKey`.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(self.what)

    __eq__ = Identity.__eq__


_BY_IDENTITY = ("typing", "uuid")  # what these modules make is guarded by identity


def compares_itself(cls: type) -> bool:
    """Whether code of the program finds out if an object of this class is in a dict."""
    return type(cls.__hash__) is types.FunctionType and not issubclass(cls, enum.Enum) and cls.__module__ not in _BY_IDENTITY


def items_of(obj: dict[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """The items of a real dict, by no method of the program's. An OrderedDict keeps its order outside the dict."""
    cls: Any = OrderedDict if issubclass(type(obj), OrderedDict) else dict
    found: Iterable[tuple[Any, Any]] = cls.items(obj)
    return found


def object_key(obj: object) -> Any:
    """The key that `hash_key` gives for the value of this real object, but for those that are looked for by comparing."""
    if issubclass(type(obj), torch.Tensor | torch.nn.Module):
        return Identity(obj)
    if type(obj) is types.MethodType:
        return (METHOD, Identity(obj.__self__), object_key(obj.__func__))
    if issubclass(type(obj), tuple):
        key = tuple(object_key(x) for x in _members(obj))
        return Own(obj) if any(type(x) is Own for x in key) else key
    if type(obj) is frozenset:
        return Own(obj) if any(type(object_key(x)) is Own for x in obj) else obj
    if type(obj).__hash__ is object.__hash__ and not issubclass(type(obj), type):
        return Identity(obj)
    return Own(obj) if compares_itself(type(obj)) else obj


def _members(obj: Any) -> Iterator[object]:
    return tuple.__iter__(obj)
