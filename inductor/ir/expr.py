"""Expressions of the loop IR: an interned, immutable DAG.

Beside the pointwise ops of `ops.py` there are these node kinds; `attr` is what the second column says:

| op | attr | args |
|---|---|---|
| const | the Python number | |
| index | `Index`: its value as i64 | |
| load | `(buffer name, Index)`; axes named `$k` in the index stand for the value of `args[k]` | indirect indices |
| cast | | value; converts exactly as torch's `.to` |
| check | extent | an index; must be in 0..extent-1, else the call raises IndexError after running with 0 in its place |
| masked | | condition, value, other; `value` is not evaluated (loads included) where the condition is false |
| reduce | `(kind, axes, output number)` | value |
| scan | `(kind, axis)` | value; inclusive running value along `axis` |
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any
from weakref import WeakValueDictionary

from inductor.ir.affine import Axis, Index
from inductor.ir.dims import is_one
from inductor.ir.ops import CHOOSING, OPS
from inductor.ir.types import TYPES

Key = tuple[str, str, tuple["Expr", ...], Any]
_EMPTY: frozenset[Axis] = frozenset()


class Expr:
    """One node. Make nodes with the functions below, which check and fold."""

    __slots__ = ("__weakref__", "_axes", "args", "attr", "op", "type")
    _interned: WeakValueDictionary[Key, Expr] = WeakValueDictionary()
    op: str
    type: str
    args: tuple[Expr, ...]
    attr: Any
    _axes: frozenset[Axis] | None

    def __new__(cls, op: str, type: str, args: tuple[Expr, ...] = (), attr: Any = None) -> Expr:  # noqa: PYI034  # interned, as Axis
        key = (op, type, args, attr)
        found = cls._interned.get(key)
        if found is None:
            found = object.__new__(cls)
            found.op, found.type, found.args, found.attr, found._axes = op, type, args, attr, None
            cls._interned[key] = found
        return found

    def __repr__(self) -> str:
        attr = "" if self.attr is None else f"[{self.attr}]"
        return f"{self.op}{attr}({', '.join(map(repr, self.args))}):{self.type}"

    @property
    def axes(self) -> frozenset[Axis]:
        """Axes the value varies with: those of indices below it, without the ones that a reduction consumes."""
        if self._axes is None:
            found = _EMPTY
            for arg in self.args:
                found |= arg.axes
            if self.op == "index":
                found |= self.attr.axes
            elif self.op == "load":
                found |= frozenset(a for a in self.attr[1].axes if not a.name.startswith("$"))
            elif self.op == "reduce":
                found -= frozenset(self.attr[1])
            self._axes = found
        return self._axes


class FloatBits:
    """A float constant compared by bits, so that 0.0 and -0.0 differ and NaN equals itself."""

    __slots__ = ("text", "value")

    def __init__(self, value: float) -> None:
        self.value = value
        self.text = value.hex()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FloatBits) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return repr(self.value)


def const(value: float | bool, type: str) -> Expr:
    """A constant of a compute type. Integers wrap to their width, as a cast would."""
    row = TYPES[type]
    if row.kind == "float":
        return Expr("const", type, (), FloatBits(float(value)))
    if row.kind == "bool":
        return Expr("const", type, (), int(bool(value)))
    number = int(value) & ((1 << (8 * row.size)) - 1)
    if row.kind == "int" and number >> (8 * row.size - 1):
        number -= 1 << (8 * row.size)
    return Expr("const", type, (), number)


def const_value(node: Expr) -> float | int | None:
    """The Python number of a const node, else None."""
    if node.op != "const":
        return None
    return node.attr.value if isinstance(node.attr, FloatBits) else node.attr


def index_value(index: Index) -> Expr:
    if not index.terms:
        return const(index.const, "i64")
    return Expr("index", "i64", (), index)


def load(buffer: str, type: str, index: Index, indirect: tuple[Expr, ...] = ()) -> Expr:
    """Read one element in its storage type; callers cast halves to f32 with `widen`."""
    return Expr("load", type, indirect, (buffer, index))


def call(op: str, *args: Expr) -> Expr:
    """A pointwise op on operands of equal compute type."""
    row = OPS[op]
    if len(args) != row.arity:
        raise TypeError(f"{op} takes {row.arity} operands, got {len(args)}")
    operands = args[1:] if op == "where" else args
    if any(a.type != operands[0].type for a in operands):
        raise TypeError(f"{op}: operand types differ: {[a.type for a in args]}")
    if TYPES[operands[0].type].compute != operands[0].type:
        raise TypeError(f"{op}: {operands[0].type} is a storage type; widen it first")
    if op == "where":
        test = const_value(args[0])
        if test is not None:
            return args[1] if test else args[2]
        if args[1] is args[2]:
            return args[1]
    return Expr(op, args[-1].type if row.result == "same" else row.result, args)


def cast(value: Expr, type: str) -> Expr:
    """Convert exactly as torch does; constants are folded where that is exact."""
    if value.type == type:
        return value
    number = const_value(value)
    if number is not None and TYPES[type].compute == type:
        target, finite = TYPES[type].kind, number == number and abs(number) != float("inf")
        if target == "float" and type == "f64":
            return const(in_f32(float(number)) if value.type == "f32" else number, type)
        if isinstance(number, int) and (target != "float" or abs(number) < 2**24):
            return const(number, type)
        if target == "float" and (not finite or (float(number).is_integer() and abs(number) < 2**24)):
            return const(number, type)
    if value.op == "cast" and _is_exact(value.args[0].type, value.type):
        return cast(value.args[0], type)
    return Expr("cast", type, (value,))


def _is_exact(source: str, target: str) -> bool:
    """Every value of `source` is a value of `target`, and converting on from there gives what converting directly gives."""
    return (source, target) in {
        ("bf16", "f32"),
        ("f16", "f32"),
        ("f32", "f64"),
        ("bf16", "f64"),
        ("f16", "f64"),
        ("i32", "i64"),
        ("i16", "i64"),
    }


def in_f32(number: float) -> float:
    """The float32 next to a number. A constant of that type is written down as the program has it, and rounded where it is used."""
    try:
        found: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return found


def widen(value: Expr) -> Expr:
    """The value in its compute type."""
    return cast(value, TYPES[value.type].compute)


def _fits(number: float, half: str) -> bool:
    """Whether a number is one of a half type."""
    if number != number or abs(number) == float("inf"):
        return True
    try:
        (stored,) = struct.unpack("e", struct.pack("e", number)) if half == "f16" else struct.unpack("f", struct.pack("f", number))
    except OverflowError:
        return False
    return stored == number and (half == "f16" or struct.pack("<f", number)[:2] == b"\0\0")


def holds(value: Expr, type: str) -> bool:
    """Whether every number that `value` can be is one of `type`, so that rounding it to `type` changes nothing."""
    if value.op == "cast":
        return value.args[0].type == type or value.args[0].type == "bool"
    number = const_value(value)
    if number is not None:
        return _fits(float(number), type)
    if value.op == "masked":
        return holds(value.args[1], type) and holds(value.args[2], type)
    return value.op in CHOOSING and all(holds(a, type) for a in value.args if a.type == value.type)


def masked(condition: Expr, value: Expr, other: Expr) -> Expr:
    if value.type != other.type or condition.type != "bool":
        raise TypeError(f"masked: {condition.type} ? {value.type} : {other.type}")
    test = const_value(condition)
    if test is not None:
        return value if test else other
    return Expr("masked", value.type, (condition, value, other))


def reduce(kind: str, value: Expr, axes: tuple[Axis, ...], output: int = 0) -> Expr:
    """Reduce over axes. argmax and argmin give i64; the others keep the operand's type.

    Over no axes (all were of size 1) nothing is left to reduce. An axis of size 1 beside others says nothing: no index has it, so it would
    keep its name where theirs change, and could then have the name of one of them.
    """
    if not axes:
        return reduced_once(kind, value, output)
    walked = tuple(a for a in axes if not is_one(a.extent)) or axes[:1]
    return Expr("reduce", "i64" if kind.startswith("arg") else value.type, (value,), (kind, walked, output))


def scan(kind: str, value: Expr, axis: Axis) -> Expr:
    return Expr("scan", value.type, (value,), (kind, axis))


def reduced_once(kind: str, value: Expr, output: int = 0) -> Expr:
    """The reduction of one element."""
    if kind in ("argmax", "argmin"):
        return const(0, "i64")
    if (kind, output) == ("welford", 1):  # (x - mean)^2 with x = mean; NaN for infinities, as in the loop
        return call("sub", value, value)
    if (kind, output) == ("online_softmax", 1):  # exp(x - max) with x = max
        return call("exp", call("sub", value, value))
    return value


def walk(*roots: Expr) -> Iterator[Expr]:
    """Each distinct node once, operands before users."""
    seen: set[Expr] = set()
    for root in roots:
        stack: list[tuple[Expr, bool]] = [(root, False)]
        while stack:
            node, expanded = stack.pop()
            if expanded:
                yield node
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                stack.extend((arg, False) for arg in reversed(node.args) if arg not in seen)


Change = Callable[[Expr, tuple[Expr, ...]], Expr]


def rewrite(roots: Iterable[Expr], change: Change, known: dict[Expr, Expr] | None = None) -> tuple[Expr, ...]:
    """What `change` makes of each root: it is asked once per distinct node, operands first, with the node and its new operands.

    `known` holds answers given beforehand, below which nothing is looked at, and gets the others; calls may share one.
    """
    known = {} if known is None else known
    roots = tuple(roots)
    stack = list(reversed(roots))  # expressions may be deeper than Python's own stack
    while stack:
        node = stack[-1]
        if node in known:
            stack.pop()
            continue
        args = node.args
        missing = [a for a in args if a not in known]
        if missing:
            stack += reversed(missing)
            continue
        stack.pop()
        known[node] = change(node, tuple([known[a] for a in args]) if args else args)
    return tuple([known[root] for root in roots])


def contains(root: Expr, ops: Collection[str], known: dict[Expr, bool]) -> bool:
    """Whether one of the operations is in an expression. `known` has the answers for what was asked with the same operations."""
    stack = [] if root in known else [root]
    while stack:
        node = stack[-1]
        missing = [] if node.op in ops else [a for a in node.args if a not in known]
        if missing and node not in known:
            stack += missing
            continue
        stack.pop()
        known[node] = node.op in ops or any(known[a] for a in node.args)
    return known[root]


def kept(node: Expr, args: tuple[Expr, ...]) -> Expr:
    """The change of `rewrite` that changes nothing but what is below."""
    return rebuild(node, args, node.attr)


def moved(mapping: Mapping[Axis, Index]) -> Change:
    """The change that replaces axes. Reduced axes may be replaced too: a reduction then runs over the axes of the replacement."""
    return lambda node, args: rebuild(node, args, _substitute_attr(node, mapping))


def _substitute_attr(node: Expr, mapping: Mapping[Axis, Index]) -> Any:
    if node.op == "index":
        return node.attr.substitute(mapping)
    if node.op == "load":
        return (node.attr[0], node.attr[1].substitute(mapping))
    if node.op == "reduce":
        kind, axes, output = node.attr
        return (kind, _expand_axes(axes, mapping), output)
    if node.op == "scan":
        kind, axis = node.attr
        return (kind, next(iter(_expand_axes((axis,), mapping)), None))
    return node.attr


def _expand_axes(axes: tuple[Axis, ...], mapping: Mapping[Axis, Index]) -> tuple[Axis, ...]:
    """Axes that stand for `axes` after a substitution: outermost part first, so that position order (for argmax) is kept."""
    out: dict[Axis, None] = {}
    for axis in axes:
        if axis not in mapping:
            out[axis] = None
            continue
        for atom, _ in sorted(mapping[axis].terms, key=lambda t: -t[1]):
            out.update(dict.fromkeys([atom] if isinstance(atom, Axis) else sorted(atom.of.axes, key=lambda a: a.name)))
    return tuple(out)


def rebuild(node: Expr, args: tuple[Expr, ...], attr: Any) -> Expr:
    """The same kind of node with other operands, folded like a newly made one."""
    if args == node.args and attr == node.attr:
        return node
    if node.op == "index":
        return index_value(attr)
    if node.op == "cast":
        return cast(args[0], node.type)
    if node.op == "masked":
        return masked(*args)
    if node.op in OPS:
        return call(node.op, *args)
    if node.op == "reduce" and not attr[1]:
        return reduced_once(attr[0], args[0], attr[2])
    if node.op == "scan" and attr[1] is None:
        return args[0]
    return Expr(node.op, node.type, args, attr)


def cost(root: Expr) -> int:
    """Estimated cost of evaluating every distinct node below `root` once, in additions."""
    return sum(OPS[n.op].cost if n.op in OPS else 1 if n.op in ("load", "cast") else 0 for n in walk(root))
