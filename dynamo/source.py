"""Where a value was read from: paths over the frame inputs.

A source is one step (`kind`, `arg`) from its `base`. Steps are the accessors of the guard tree (see `_C.pyi`), so a path
is at once a name for people (`L['xs'][0].weight`), Python code for the entry function, and a branch of the guard tree.
Sources are interned per base: equal paths are the same object.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from dynamo.inspection import WRITTEN_BITS, attributes_of, given, written

if TYPE_CHECKING:
    from dynamo import _C


class Source:
    """One step of a path. `kind` is a row of `STEPS`; `arg` its parameter."""

    __slots__ = ("_children", "_name", "arg", "base", "kind", "label")

    def __init__(self, kind: _C.GuardAccessor, arg: Any, base: Source | None, label: str = "") -> None:
        self.kind = kind
        self.arg = arg
        self.base = base
        self.label = label
        self._children: dict[Any, Source] = {}
        self._name: str | None = None

    def step(self, kind: _C.GuardAccessor, arg: Any = None, label: str = "") -> Source:
        """The source one step further. Hashable args are interned by type and value, others by identity."""
        key: Any = (kind, type(arg), arg)
        try:
            found = self._children.get(key)
        except TypeError:
            key = (kind, id(arg))
            found = self._children.get(key)
        if found is None:
            found = self._children[key] = Source(kind, arg, self, label)
        return found

    def attr(self, name: str) -> Source:
        return self.step("attr", name)

    @property
    def root(self) -> Source:
        s = self
        while s.base is not None:
            s = s.base
        return s

    def path(self) -> list[Source]:
        """From the root to this step."""
        out: list[Source] = []
        s: Source | None = self
        while s is not None:
            out.append(s)
            s = s.base
        return out[::-1]

    @property
    def name(self) -> str:
        """As people read it. Paths share prefixes, so each step keeps its text; labels are given before anybody asks."""
        if self._name is None:
            self._name = self.label or STEPS[self.kind].name(self)
        return self._name

    def code(self, load: Callable[[Source], str], const: Callable[[Any], str]) -> str:
        """Python expression for this step; `load` gives the expression of a base, `const` the name of a constant."""
        return STEPS[self.kind].code(self, load, const)

    def __repr__(self) -> str:
        return f"<{self.name}>"


def literal(value: Any, const: Callable[[Any], str]) -> str:
    """Python expression of a constant: written out where that reads back as the same value, else what `const` names it."""
    if (type(value) is int and value.bit_length() > WRITTEN_BITS) or (type(value) is float and not math.isfinite(value)):
        return const(value)
    return repr(value) if type(value) in (int, bool, float, str, bytes, type(None)) or value is Ellipsis else const(value)


def _show(key: Any) -> str:
    return written(key) if isinstance(key, int | str | bytes | float | tuple | type(None)) else f"<{type(key).__name__}>"


Load = Callable[[Source], str]
ConstName = Callable[[Any], str]


def _base_name(s: Source) -> str:
    if s.base is None:
        raise ValueError(f"source step {s.kind!r} needs a base")
    return s.base.name


def _base_code(s: Source, load: Load) -> str:
    if s.base is None:
        raise ValueError(f"source step {s.kind!r} needs a base")
    return load(s.base)


class Step(NamedTuple):
    """One kind of step. name: the path as people read it, where it has no label. code: Python of the entry function. read: where it leads
    from an object.

    A row stands beside the one of the same name in `dynamo/csrc/kinds.h`, by which guard trees read it.
    """

    name: Callable[[Source], str]
    code: Callable[[Source, Load, ConstName], str]
    read: Callable[[Any, Any], Any]


STEPS: dict[_C.GuardAccessor, Step] = {
    "input": Step(lambda s: f"L[{s.arg}]", lambda s, load, const: f"i{s.arg}", lambda inputs, i: inputs[i]),
    "const": Step(lambda s: f"<{type(s.arg).__name__}>", lambda s, load, const: const(s.arg), lambda _, held: given(held)),
    "attr": Step(
        lambda s: f"{_base_name(s)}.{s.arg}",
        lambda s, load, const: f"{_base_code(s, load)}.{s.arg}" if s.arg.isidentifier() else f"getattr({_base_code(s, load)}, {s.arg!r})",
        getattr,
    ),
    "inst_dict": Step(
        lambda s: f"{_base_name(s)}.__dict__",
        lambda s, load, const: f"inst_dict({_base_code(s, load)})",
        lambda base, _: attributes_of(base),
    ),
    "dict_item": Step(
        lambda s: f"{_base_name(s)}[{_show(s.arg)}]",
        lambda s, load, const: f"dict_getitem({_base_code(s, load)}, {literal(s.arg, const)})",
        dict.__getitem__,
    ),
    "list_item": Step(
        lambda s: f"{_base_name(s)}[{s.arg}]",
        lambda s, load, const: f"list_getitem({_base_code(s, load)}, {s.arg})",
        list.__getitem__,
    ),
    "tuple_item": Step(
        lambda s: f"{_base_name(s)}[{s.arg}]",
        lambda s, load, const: f"tuple_getitem({_base_code(s, load)}, {s.arg})",
        tuple.__getitem__,
    ),
    "cell": Step(
        lambda s: f"{_base_name(s)}.cell_contents",
        lambda s, load, const: f"{_base_code(s, load)}.cell_contents",
        lambda base, _: base.cell_contents,
    ),
    "type": Step(
        lambda s: f"type({_base_name(s)})",
        lambda s, load, const: f"type({_base_code(s, load)})",
        lambda base, _: type(base),
    ),
    "call": Step(
        lambda s: f"{getattr(s.arg, '__name__', 'call')}({_base_name(s)})",
        lambda s, load, const: f"{const(s.arg)}({_base_code(s, load)})",
        lambda base, fn: fn(base),
    ),
}


def input_source(index: int, name: str) -> Source:
    """A frame input; shown as `L['name']`."""
    return Source("input", index, None, f"L[{name!r}]")


def const_source(obj: Any, label: str = "") -> Source:
    """An object the entry keeps alive itself (a globals dict, a module)."""
    return Source("const", obj, None, label)


def read(source: Source, inputs: tuple[Any, ...]) -> Any:
    """What the path leads to now; None where it leads nowhere, which any exception on the way means, as it does to guards."""
    base: Any = inputs if source.base is None else read(source.base, inputs)
    try:
        return STEPS[source.kind].read(base, source.arg)
    except Exception:  # noqa: BLE001  # autograd refuses `is_leaf` of a view whose memory was written with a RuntimeError
        return None
