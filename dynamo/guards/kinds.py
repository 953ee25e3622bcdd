"""The kinds of guards: what each costs, which facts are one, and its words for the record, the TUI and recompile reasons.

A row stands beside the row of the same name in `dynamo/csrc/kinds.h`, which says what is checked.
"""

from __future__ import annotations

import abc
import collections
import enum
import types
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from dynamo import _C
from dynamo.inspection import HEAP, attributes_of, given, has_flag, is_a, written
from dynamo.source import Source


@dataclass
class GuardRecord:
    """A fact the capture relies on. `file`/`line` is the user line that read the value; without a source the fact is about the call."""

    source: Source | None
    kind: _C.GuardKind
    arg: Any
    file: str = ""
    line: int = 0


_PLAIN_REPRS = frozenset(t.__repr__ for t in (int, float, str, bytes, complex, bool, type(None), type(...), torch.dtype, torch.device))


def _is_numpy_number(cls: type) -> bool:
    return not has_flag(cls, HEAP) and any((c.__module__, c.__name__) == ("numpy", "number") for c in cls.__mro__)


def _short(obj: object) -> str:
    obj = given(obj)
    if type(obj) in (torch.Tensor, torch.nn.Parameter):
        assert isinstance(obj, torch.Tensor)
        return f"tensor {tuple(obj.shape)} {str(obj.dtype).removeprefix('torch.')}"
    if is_a(obj, type, types.FunctionType, types.BuiltinFunctionType, types.MethodType):
        text = str(getattr(obj, "__qualname__", type(obj).__name__))
    elif type(obj).__repr__ in _PLAIN_REPRS or _is_numpy_number(type(obj)):
        text = written(obj)
    elif is_a(obj, enum.Enum):
        text = f"{type(obj).__qualname__}.{(attributes_of(obj) or {}).get('_name_')}"
    else:  # its repr would be code of the program, and so would attributes of a tensor of another class
        text = f"a {type(obj).__qualname__}"
    return text if len(text) <= 80 else text[:77] + "..."


@dataclass(frozen=True)
class KeptFacts:
    """What a guard keeps of a tensor: its facts for the check, and their words."""

    facts: _C.TensorFacts
    text: str


class HasItems:
    """The predicate that a set has exactly these items."""

    __slots__ = ("items",)

    def __init__(self, items: frozenset[Any]) -> None:
        self.items = items

    def __call__(self, obj: Any) -> bool:
        return frozenset(obj) == self.items


class IsUnset:
    """The slot of an object has no value."""

    __slots__ = ("slot",)

    def __init__(self, slot: Any) -> None:
        self.slot = slot

    def __call__(self, obj: Any) -> bool:
        try:
            self.slot.__get__(obj, type(obj))
        except AttributeError:
            return True
        return False


_PAYLOADS: dict[type, Any] = {
    int: int.__index__,
    float: float.__float__,
    complex: complex.__pos__,
    str: str.__str__,
    bytes: lambda obj: bytes.__getitem__(obj, slice(None)),
}


def payload(obj: Any) -> tuple[type, Any] | None:
    """The number or text in an object of a subclass, with the class of C that keeps it. Nothing of the object's own is asked."""
    base = next((cls for cls in _PAYLOADS if issubclass(type(obj), cls)), None)
    return None if base is None else (base, _PAYLOADS[base](obj))


class Holds:
    """An object of a number's or a text's subclass holds this value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, obj: Any) -> bool:
        seen = payload(obj)
        if seen is None or seen[0] is not type(self.value):
            return False
        return repr(seen[1]) == repr(self.value) if seen[0] in (float, complex) else bool(seen[1] == self.value)


class NotSubclass:
    """A class that is no subclass of another may be registered with it."""

    __slots__ = ("classes", "key", "token")

    def __init__(self, cls: type, abstract: type) -> None:
        self.classes = weakref.ref(cls), weakref.ref(abstract)
        self.key = id(cls), id(abstract)
        self.token = abc.get_cache_token()

    def __call__(self, _: object) -> bool:
        token = abc.get_cache_token()
        if token != self.token:
            cls, abstract = self.classes[0](), self.classes[1]()
            if cls is not None and abstract is not None and issubclass(cls, abstract):
                return False
            self.token = token
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NotSubclass) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def describe_tensor(t: torch.Tensor) -> str:
    grad = ", requires_grad" if t.requires_grad else ""
    return f"{type(t).__name__} {str(t.dtype).removeprefix('torch.')}{list(t.shape)} stride {list(t.stride())} on {t.device}{grad}"


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind of guard; the functions take the argument of a record.

    words: the check, as people read it. cost: leaves of a node are checked in its order. key: records of one source with equal keys are
    one fact. names: the argument is an object of the program, and held weakly. of: what it is about, where that is no source.
    failed: why it failed, in one line made of source, argument and what was seen; None says it in the usual words.
    """

    words: Callable[[Any], str]
    cost: int = 5
    key: Callable[[Any], object] = id
    names: bool = False
    of: Callable[[Any], str] | None = None
    failed: Callable[[str, Any, Any], str | None] = lambda at, arg, seen: None


def _itself(arg: object) -> object:
    return arg


def _typed(arg: object) -> object:
    return type(arg), arg


KINDS: dict[_C.GuardKind, Kind] = {
    "type": Kind(
        lambda a: f"type is {_short(a)}",
        cost=0,
        names=True,
        failed=lambda at, a, seen: f"{at}: expected type {_short(a)}, got {_short(type(seen))}",
    ),
    "is": Kind(lambda a: f"is {_short(a)}", cost=0, names=True),
    "is_not": Kind(lambda a: f"is not {_short(a)}", names=True),
    "code": Kind(
        lambda a: f"runs {_code_text(given(a))}",
        cost=0,
        names=True,
        failed=lambda at, a, seen: f"{at}: expected runs {_code_text(given(a))}, got {_code_of(seen)}",
    ),
    "eq": Kind(lambda a: f"== {written(a)}", cost=2, key=_typed),
    "len": Kind(lambda a: f"len == {a}", cost=1, key=_itself, failed=lambda at, a, seen: f"{at}: expected length {a}, got {_length(seen)}"),
    "dict_keys": Kind(
        lambda a: f"keys are {_key_names(a)}",
        cost=4,
        failed=lambda at, a, seen: f"{at}: expected keys are {_key_names(a)}, got {_key_names(_keys(seen))}" if is_a(seen, dict) else None,
    ),
    "has_key": Kind(lambda a: f"has key {written(a)}", cost=3, key=_itself),
    "no_key": Kind(lambda a: f"has no key {written(a)}", cost=3, key=_itself),
    "no_inst_attr": Kind(lambda a: f"has no own attribute {a!r}"),
    "tensor": Kind(
        lambda a: a.text,
        cost=2,
        failed=lambda at, a, seen: f"tensor {at}: {a.facts.why(seen) or 'facts differ'}" if is_a(seen, torch.Tensor) else None,
    ),
    "pred": Kind(lambda a: _predicate_text(a), cost=9, key=_itself),
    "distinct": Kind(lambda a: "different objects", of=", ".join, failed=lambda at, a, seen: f"{at}: two of them are the same object now"),
    "same": Kind(lambda a: f"is {a.name}", cost=0),
    "defined": Kind(
        lambda a: _defined_text(a.holders),
        cost=2,
        of=lambda a: "definitions",
        failed=lambda at, a, seen: f"{seen} has another definition",
    ),
    "state": Kind(
        lambda a: ", ".join(f"{k}={v}" for k, v in a.describe().items()),
        cost=1,
        of=lambda a: "global state",
        failed=lambda at, a, seen: f"global state changed: {a.why()}",
    ),
}


def guard_text(record: GuardRecord) -> tuple[str, str]:
    """(source, check)."""
    row = KINDS[record.kind]
    return _at(row, record), row.words(record.arg)


def failure(record: GuardRecord, seen: object) -> str:
    """One line: which guard failed and the values. `seen` is what `GuardTree.explain` returned."""
    row = KINDS[record.kind]
    at = _at(row, record)
    if type(seen) is str and seen.startswith("AccessError"):
        return f"{at}: expected {row.words(record.arg)}, but it can't be read any more"
    return row.failed(at, record.arg, seen) or f"{at}: expected {row.words(record.arg)}, got {_short(seen)}"


def _at(row: Kind, record: GuardRecord) -> str:
    if row.of is not None:
        return row.of(record.arg)
    return record.source.name if record.source is not None else "call"


def _predicate_text(predicate: Any) -> str:
    if isinstance(predicate, HasItems):
        return f"== {written(set(predicate.items))}"
    if isinstance(predicate, Holds):
        return f"holds {written(predicate.value)}"
    if isinstance(predicate, NotSubclass):
        return " not a subclass of ".join(_short(ref()) for ref in predicate.classes)
    return str(getattr(predicate, "__doc__", None) or getattr(predicate, "__name__", "holds"))


def _code_of(obj: Any) -> str:
    code = obj.__code__ if is_a(obj, types.FunctionType) else None
    return f"that of {code.co_qualname} of line {code.co_firstlineno}" if isinstance(code, types.CodeType) else _short(obj)


def _code_text(code: Any) -> str:
    return f"the code of {code.co_qualname} of line {code.co_firstlineno}" if isinstance(code, types.CodeType) else "code that is gone"


def _defined_text(holders: tuple[tuple[str, Any, tuple[tuple[Any, ...], ...]], ...]) -> str:
    """`torch.nn.functional: relu, linear; Box: scale`."""
    texts = []
    for kind, held, facts in holders:
        holder = given(held)
        name = holder.get("__name__", "globals") if kind == "dict" else getattr(holder, "__qualname__", "gone")
        texts.append(f"{name}: {', '.join(dict.fromkeys('__mro__' if kind == 'bases' else fact[0] for fact in facts))}")
    return "; ".join(texts)


def _keys(seen: dict[Any, Any]) -> Iterable[object]:
    cls: Any = collections.OrderedDict if is_a(seen, collections.OrderedDict) else dict
    found: Iterable[object] = cls.keys(seen)
    return found


def _key_names(keys: Iterable[object]) -> list[object]:
    return [k if type(k) is str else _short(k) for k in keys]


def _length(obj: Any) -> object:
    lengths = [c.__len__(obj) for c in (list, tuple, dict, set, str, collections.deque) if is_a(obj, c)]
    return lengths[0] if lengths else _short(obj)
