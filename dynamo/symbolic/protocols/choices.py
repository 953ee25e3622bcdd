"""Which of two values it is depends on tensors: `max(a, b)` and `min(a, b)` of Python, of tensors.

What comes out is one of the arguments itself, so a graph that computes it as a new tensor is right only where nobody can tell: as an
argument of operators that neither write to it nor give back a view of it, and where no gradient flows. There it is a `torch.where` at each
use, of what the arguments hold then. Every other use (a result, an attribute, a branch, an identity, a break while it lives) traces the
frame again with the branch that Python's function takes, which is a break (`Decisions.plain_choices`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynamo.symbolic.values.kinds import Const, TensorValue, Value

if TYPE_CHECKING:
    from dynamo.symbolic.attempt.tracer import Tracer


class ChoiceValue(Value):
    """`yes` where `cond` holds, else `no`: both tensors with the same facts, or one a tensor without dimensions and one a number."""

    def __init__(self, tx: Tracer, cond: TensorValue, yes: Value, no: Value) -> None:
        self.tx = tx
        self.cond, self.yes, self.no = cond, yes, no
        self.fake = _fake(yes) if _fake(yes) is not None else _fake(no)
        self.is_tensor: bool = all(isinstance(v, TensorValue) or (isinstance(v, ChoiceValue) and v.is_tensor) for v in (yes, no))

    @property
    def cls(self) -> type:  # type: ignore[override]  # whoever asks for the type does something with the object itself
        raise self.tx.restart_plainly()

    def describe(self) -> str:
        return "a choice between tensors"


def _fake(v: Value) -> Any:
    return v.fake if isinstance(v, TensorValue | ChoiceValue) else None


def choice(tx: Tracer, cond: Value, yes: Value, no: Value) -> ChoiceValue | None:
    """`yes if cond else no`, or None where that can't be left to the graph."""
    if tx.known.plain_choices or not isinstance(cond, TensorValue) or cond.fake.constant is not None or cond.fake.numel() != 1:
        return None
    kinds = [_fake(v) for v in (yes, no)]
    tensors = [f for f in kinds if f is not None]
    classes = [v.cls for v in (yes, no) if isinstance(v, TensorValue)]
    if not tensors or any(f.requires_grad for f in tensors) or any(c is not torch.Tensor for c in classes):
        return None
    if len(tensors) == 1 or not all(v.is_tensor for v in (yes, no) if isinstance(v, ChoiceValue)):
        ok = all(_is_number(v) or _fake(v) is not None for v in (yes, no)) and tensors[0].dim() == 0 and cond.fake.dim() == 0
        if not ok or tensors[0].dtype not in (torch.float32, torch.float64) or tensors[0].device.type != "cpu":
            return None
    if len(tensors) == 2 and _facts(tensors[0]) != _facts(tensors[1]):
        return None
    return ChoiceValue(tx, cond, yes, no)


def _is_number(v: Value) -> bool:
    return isinstance(v, Const) and v.cls in (int, float) and abs(v.value) <= 1 << 24  # also whole numbers that float32 holds exactly


def _facts(f: Any) -> tuple[Any, ...]:
    return f.dtype, f.device, f.shape, f.stride()


def tensor_of_choice(tx: Tracer, v: ChoiceValue) -> TensorValue:
    """A new tensor with what the chosen one holds now."""
    parts = [tensor_of_choice(tx, p) if isinstance(p, ChoiceValue) else p for p in (v.yes, v.no)]
    made = tx.call_function(torch.where, [v.cond, *parts], {})
    assert isinstance(made, TensorValue)
    if _facts(made.fake) != _facts(v.fake):
        raise tx.restart_plainly()
    return made


def operands(tx: Tracer, symbol: str, a: Value, b: Value) -> tuple[Value, Value]:
    """Operands of arithmetic and comparisons, a choice as a tensor."""
    if not all(isinstance(v, TensorValue | ChoiceValue | Const) for v in (a, b)) or (isinstance(a, ChoiceValue) and symbol in _IN_PLACE):
        raise tx.restart_plainly()
    if any(isinstance(v, ChoiceValue) and not v.is_tensor for v in (a, b)):
        # What is a number for one of its values is computed with in the same way only beside tensors of the other's type.
        if symbol in _COMPARISONS and _is_exact(a, b):
            return tuple(tensor_of_choice(tx, v) if isinstance(v, ChoiceValue) else v for v in (a, b))  # type: ignore[return-value]  # two
        kinds = [_fake(v) for v in (a, b)]
        if None in kinds or kinds[0].dtype != kinds[1].dtype or kinds[0].device != kinds[1].device or symbol not in _ALIKE:
            raise tx.restart_plainly()
        numbers = [isinstance(v, ChoiceValue) and not v.is_tensor for v in (a, b)]
        if all(numbers) or (numbers[0] and symbol == "/"):  # torch multiplies a number with the reciprocal
            raise tx.restart_plainly()
    made = [tensor_of_choice(tx, v) if isinstance(v, ChoiceValue) else v for v in (a, b)]
    return made[0], made[1]


def _is_exact(choice: Value, number: Value) -> bool:
    """Whether the type of a choice's tensor holds its numbers, and the number beside it, without rounding."""
    if isinstance(choice, Const):
        return isinstance(number, ChoiceValue) and _is_exact(number, choice)
    numbers, todo = [number], [choice]
    while todo:
        v = todo.pop()
        if isinstance(v, ChoiceValue):
            todo += [v.yes, v.no]
        elif not isinstance(v, TensorValue):
            numbers.append(v)
    return all(_is_number(n) and torch.tensor(n.value, dtype=_fake(choice).dtype).item() == n.value for n in numbers)  # type: ignore[attr-defined]  # constants


_COMPARISONS = frozenset({"<", "<=", "==", "!=", ">", ">="})
_IN_PLACE = frozenset({"+=", "-=", "*=", "/=", "//=", "%=", "**=", "@=", "<<=", ">>=", "&=", "|=", "^="})
_ALIKE = frozenset({"+", "-", "*", "/", "+=", "-=", "*=", "/="}) | _COMPARISONS
