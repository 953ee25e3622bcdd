"""Where a value was read from: paths over the frame inputs.

A source is one step (`kind`, `arg`) from its `base`. Steps are the accessors of the guard tree (see `_C.pyi`), so a path
is at once a name for people (`L['xs'][0].weight`), Python code for the entry function, and a branch of the guard tree.
Sources are interned per base: equal paths are the same object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynamo.inspection import attributes_of, given


class Source:
    """One step of a path. `kind` is a row of `_STEPS`; `arg` its parameter."""

    __slots__ = ("_children", "_name", "arg", "base", "kind", "label")

    def __init__(self, kind: str, arg: Any, base: Source | None, label: str = "") -> None:
        self.kind = kind
        self.arg = arg
        self.base = base
        self.label = label
        self._children: dict[Any, Source] = {}
        self._name: str | None = None

    def step(self, kind: str, arg: Any = None, label: str = "") -> Source:
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

    def inst_attr(self, name: str) -> Source:
        return self.step("inst_attr", name)

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
            self._name = self.label or _STEPS[self.kind][0](self)
        return self._name

    def code(self, load: Callable[[Source], str], const: Callable[[Any], str]) -> str:
        """Python expression for this step; `load` gives the expression of a base, `const` the name of a constant."""
        return _STEPS[self.kind][1](self, load, const)

    def __repr__(self) -> str:
        return f"<{self.name}>"


def _literal(key: Any, const: Callable[[Any], str]) -> str:
    return repr(key) if type(key) in (int, str, bool, type(None)) else const(key)


def _show(key: Any) -> str:
    return repr(key) if isinstance(key, int | str | bytes | float | tuple | type(None)) else f"<{type(key).__name__}>"


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


_STEPS: dict[str, tuple[Callable[[Source], str], Callable[[Source, Load, ConstName], str]]] = {
    "input": (lambda s: s.label or f"L[{s.arg}]", lambda s, load, const: f"i{s.arg}"),
    "const": (lambda s: s.label or f"<{type(s.arg).__name__}>", lambda s, load, const: const(s.arg)),
    "attr": (
        lambda s: f"{_base_name(s)}.{s.arg}",
        lambda s, load, const: f"{_base_code(s, load)}.{s.arg}" if s.arg.isidentifier() else f"getattr({_base_code(s, load)}, {s.arg!r})",
    ),
    "inst_attr": (
        lambda s: f"{_base_name(s)}.{s.arg}",
        lambda s, load, const: f"inst_dict({_base_code(s, load)})[{s.arg!r}]",
    ),
    "inst_dict": (
        lambda s: f"{_base_name(s)}.__dict__",
        lambda s, load, const: f"inst_dict({_base_code(s, load)})",
    ),
    "dict_item": (
        lambda s: s.label or f"{_base_name(s)}[{_show(s.arg)}]",
        lambda s, load, const: f"dict_getitem({_base_code(s, load)}, {_literal(s.arg, const)})",
    ),
    "list_item": (
        lambda s: f"{_base_name(s)}[{s.arg}]",
        lambda s, load, const: f"list_getitem({_base_code(s, load)}, {s.arg})",
    ),
    "tuple_item": (
        lambda s: f"{_base_name(s)}[{s.arg}]",
        lambda s, load, const: f"tuple_getitem({_base_code(s, load)}, {s.arg})",
    ),
    "cell": (
        lambda s: s.label or f"{_base_name(s)}.cell_contents",
        lambda s, load, const: f"{_base_code(s, load)}.cell_contents",
    ),
    "type": (lambda s: f"type({_base_name(s)})", lambda s, load, const: f"type({_base_code(s, load)})"),
    "call": (
        lambda s: f"{getattr(s.arg, '__name__', 'call')}({_base_name(s)})",
        lambda s, load, const: f"{const(s.arg)}({_base_code(s, load)})",
    ),
}


def input_source(index: int, name: str) -> Source:
    """A frame input; shown as `L['name']`."""
    return Source("input", index, None, f"L[{name!r}]")


def const_source(obj: Any, label: str = "") -> Source:
    """An object the entry keeps alive itself (a globals dict, a module)."""
    return Source("const", obj, None, label)


def read(source: Source, inputs: tuple[Any, ...]) -> Any:
    """What the path leads to now; None where it leads nowhere."""
    if source.base is None:
        return inputs[source.arg] if source.kind == "input" else given(source.arg)
    try:
        return _READS[source.kind](read(source.base, inputs), source.arg)
    except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError):
        return None


_READS: dict[str, Callable[[Any, Any], Any]] = {
    "attr": getattr,
    "inst_attr": lambda base, name: (attributes_of(base) or {})[name],
    "inst_dict": lambda base, _: attributes_of(base),
    "dict_item": dict.__getitem__,
    "list_item": list.__getitem__,
    "tuple_item": tuple.__getitem__,
    "cell": lambda base, _: base.cell_contents,
    "type": lambda base, _: type(base),
    "call": lambda base, fn: fn(base),
}
