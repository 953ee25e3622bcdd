"""Guards in words: for the record, the TUI, and recompile reasons."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from dynamo import _C
from dynamo.inspection import given, is_a

if TYPE_CHECKING:
    from dynamo.symbolic.tracer import GuardRecord


_PLAIN_REPRS = frozenset(t.__repr__ for t in (int, float, str, bytes, complex, bool, type(None), type(...), torch.dtype, torch.device))


def _short(obj: object) -> str:
    obj = given(obj)
    if type(obj) in (torch.Tensor, torch.nn.Parameter):
        assert isinstance(obj, torch.Tensor)
        return f"tensor {tuple(obj.shape)} {str(obj.dtype).removeprefix('torch.')}"
    if is_a(obj, type, types.FunctionType, types.BuiltinFunctionType, types.MethodType):
        text = str(getattr(obj, "__qualname__", type(obj).__name__))
    elif type(obj).__repr__ in _PLAIN_REPRS:
        text = repr(obj)
    else:  # its repr would be code of the program, and so would attributes of a tensor of another class
        text = f"a {type(obj).__qualname__}"
    return text if len(text) <= 80 else text[:77] + "..."


@dataclass(frozen=True)
class KeptFacts:
    """What a guard keeps of a tensor: its facts for the check, and their words."""

    facts: _C.TensorFacts
    text: str


def describe_tensor(t: torch.Tensor) -> str:
    grad = ", requires_grad" if t.requires_grad else ""
    return f"{type(t).__name__} {str(t.dtype).removeprefix('torch.')}{list(t.shape)} stride {list(t.stride())} on {t.device}{grad}"


# leaf kind -> text of the check
_WORDS: dict[str, Callable[[Any], str]] = {
    "type": lambda a: f"type is {_short(a)}",
    "is": lambda a: f"is {_short(a)}",
    "is_not": lambda a: f"is not {_short(a)}",
    "code": lambda a: f"runs {_code_text(given(a))}",
    "eq": lambda a: f"== {a!r}",
    "len": lambda a: f"len == {a}",
    "pred_len": lambda a: f"len == {a}",
    "dict_keys": lambda a: f"keys are {[_short(k) if not isinstance(k, str) else k for k in a]}",
    "has_key": lambda a: f"has key {a!r}",
    "no_key": lambda a: f"has no key {a!r}",
    "no_inst_attr": lambda a: f"has no own attribute {a!r}",
    "tensor": lambda a: a.text,
    "set_items": lambda a: f"== {set(a)!r}",
    "same": lambda a: f"is {a.name}",
    "distinct": lambda a: "different objects",
    "defined": lambda a: _defined_text(a.holders),
    "state": lambda a: ", ".join(f"{k}={v}" for k, v in a.describe().items()),
    "pred": lambda a: str(getattr(a, "__doc__", None) or getattr(a, "__name__", "holds")),
}


def guard_text(record: GuardRecord) -> tuple[str, str]:
    """(source, check)."""
    if record.kind == "state":
        source = "global state"
    elif record.kind == "defined":
        source = "definitions"
    elif record.kind == "distinct":
        source = ", ".join(record.arg)
    else:
        source = record.source.name if record.source is not None else "call"
    return source, _WORDS.get(record.kind, repr)(record.arg)


def failure(record: GuardRecord, seen: object) -> str:
    """One line: which guard failed and the values. `seen` is what `GuardTree.explain` returned."""
    source, check = guard_text(record)
    if type(seen) is str and seen.startswith("AccessError"):
        return f"{source}: expected {check}, but it can't be read any more"
    if record.kind == "state":
        return f"global state changed: {record.arg.why()}"
    if record.kind == "defined":
        return f"{seen} has another definition"
    if record.kind == "tensor" and is_a(seen, torch.Tensor):
        return f"tensor {source}: {record.arg.facts.why(seen) or 'facts differ'}"
    if record.kind == "type":
        return f"{source}: expected type {_short(record.arg)}, got {_short(type(seen))}"
    if record.kind == "code":
        return f"{source}: expected {check}, got {_code_of(seen)}"
    if record.kind in ("len", "pred_len"):
        return f"{source}: expected length {record.arg}, got {_length(seen)}"
    if record.kind == "dict_keys" and is_a(seen, dict):
        keys = [_short(k) if type(k) is not str else k for k in _keys(seen)]
        return f"{source}: expected {check}, got {keys}"
    if record.kind == "distinct":
        return f"{source}: two of them are the same object now"
    return f"{source}: expected {check}, got {_short(seen)}"


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
        texts.append(f"{name}: {', '.join(dict.fromkeys(fact[0] for fact in facts))}")
    return "; ".join(texts)


def _keys(obj: Any) -> Iterable[object]:
    return dict.keys(obj)


def _length(obj: Any) -> object:
    lengths = [c.__len__(obj) for c in (list, tuple, dict, set, str) if is_a(obj, c)]
    return lengths[0] if lengths else _short(obj)
