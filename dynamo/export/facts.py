"""What an export is made of: how the function is called, which facts of its arguments it relies on, and how its result is built.

Everything here is plain data, so that it can be shown, compared and written to disk. A *leaf* is one tensor or other value inside
the arguments; the graph has a placeholder for each, in order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from dynamo.errors import CompileError


class ExportError(CompileError):
    """The function is one graph, but not a function of its arguments alone."""

    id = "DD094"


class ArgumentError(ExportError, TypeError):
    """An exported graph was called with an argument that it was not exported for."""

    id = "EXP001"


class SaveError(ExportError):
    """Something of the export has no form in a file."""

    id = "EXP002"


class LoadError(ExportError):
    """The file is damaged, or no exported graph."""

    id = "EXP003"


class VocabularyError(LoadError):
    """The file names an operation or a class that is not in the fixed vocabulary."""

    id = "EXP004"


@dataclass(frozen=True)
class Parameter:
    """One parameter of the original function. `kind` is the name of an `inspect.Parameter` kind."""

    name: str
    kind: str
    has_default: bool = False
    default: Any = None


@dataclass(frozen=True)
class Leaf:
    """One value inside the arguments, and what the graph relies on.

    kind: `tensor`, `value` (a number, a string, None and the like), or `object`, which is known by `cls`, the name of its class.
    `read` tells what is checked of one that is no tensor: "", "type" or "value"; of a tensor "" means that nothing is. `shape`, `dtype`,
    `device` describe a tensor, `strides` and `requires_grad` are None unless the function asked for them. `same_as` is the leaf that must
    be the same object.
    """

    path: str
    kind: str
    read: str = ""
    value: Any = None
    shape: tuple[int, ...] = ()
    dtype: torch.dtype | None = None
    device: str = ""
    strides: tuple[int, ...] | None = None
    requires_grad: bool | None = None
    same_as: int | None = None
    cls: str = ""


@dataclass(frozen=True)
class At:
    """The place of leaf `index` in a tree."""

    index: int


@dataclass(frozen=True)
class Group:
    """A container in a tree. `kind` is a row of `trees.KINDS`, `cls` its class, `keys` name its `items`."""

    kind: str
    cls: type
    keys: tuple[Any, ...]
    items: tuple[Tree, ...]


Tree = At | Group


# How one object of the result is made. `Output` is a result of the graph, `Given` is read from the arguments, `Made` refers to earlier
# rows, so that an object which the result holds twice is one object.


@dataclass(frozen=True)
class Output:
    index: int


@dataclass(frozen=True)
class Given:
    """The argument `parameter` itself, or what `steps` (("item", key) or ("attr", name)) lead to from there."""

    parameter: str
    steps: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Constant:
    value: Any


@dataclass(frozen=True)
class Made:
    """A container of earlier rows; `attributes` are set on it afterwards."""

    kind: str
    cls: type
    keys: tuple[Any, ...]
    items: tuple[int, ...]
    attributes: tuple[tuple[str, int], ...] = ()


Row = Output | Given | Constant | Made


def class_name(cls: type) -> str:
    """The name by which files know a class."""
    if cls.__module__ == "torch.return_types":
        return f"torch.return_types:{cls.__name__}"
    return f"{cls.__module__}:{cls.__name__ if '<locals>' in cls.__qualname__ else cls.__qualname__}"


class Guard(NamedTuple):
    """A fact that was true when the function was exported, in words."""

    source: str
    check: str


@dataclass(frozen=True)
class Call:
    """How an exported graph is called: parameters, the tree of each, the leaves, and the rows of the result, whose last is the whole.

    `restores_modes`: the graph switches global modes, which it puts back when it raises. `has_gradients`: results are connected to the
    arguments by autograd. `apart` says of tensors which must not be one: "" nothing, "objects", or "memory" where the graph writes to them.
    `more` checks, while the process lives, facts of objects that have no form as data.
    """

    name: str
    parameters: tuple[Parameter, ...]
    arguments: tuple[Tree, ...]
    leaves: tuple[Leaf, ...]
    result: tuple[Row, ...]
    guards: tuple[Guard, ...] = ()
    is_aten: bool = False
    restores_modes: bool = False
    has_gradients: bool = True
    apart: str = ""
    more: Callable[[dict[str, Any]], str] | None = dataclasses.field(default=None, compare=False, repr=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Call:
        return self
