"""Expressions over operands of every kind, compiled and in eager: what they give, or refuse and in which words.

    python -m tests.symbolic.operands [--part N/M]

runs all of them and prints those that differ; the tests run a part that is drawn anew with the text of this file.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import dynamo
from dynamo import internal_errors

WORLD = """
import collections, copy, dataclasses, enum, functools, itertools, math, operator, torch
from fractions import Fraction

Point = collections.namedtuple("Point", "u v")

class Index:
    def __index__(self): return 2
    def __repr__(self): return "Index"
class Plain:
    def __repr__(self): return "Plain"
class Reflected:
    def __repr__(self): return "Reflected"
    def __radd__(self, other): return "radd", type(other).__name__
    def __rmul__(self, other): return NotImplemented
    def __rsub__(self, other): return "rsub", type(other).__name__
    def __ror__(self, other): return "ror"
    def __rpow__(self, other, mod=None): return "rpow"
    def __matmul__(self, other): return "matmul"
    def __lt__(self, other): return NotImplemented
    def __gt__(self, other): return "gt"
    def __contains__(self, other): return bool(other)
    def __getitem__(self, key):
        if isinstance(key, int) and key > 2: raise IndexError(key)
        return "item", key
class Whole(int): pass
class Text(str): pass
class Items(list): pass
class Color(enum.Enum): RED = 1
class Level(enum.IntEnum): LOW = 1
@dataclasses.dataclass(order=True)
class Data: n: int
"""
KINDS = """
3; -2; True; 1.5; 2j; "ab"; b"ab"; None; [1, 2]; (1, 2); ([1],); {"a": 1}; {1, 2}; frozenset({1}); range(3); slice(0, 1)
collections.deque([1, 2]); collections.Counter("ab"); collections.OrderedDict(a=1); collections.defaultdict(int, a=1)
{"a": 1}.keys(); {"a": 1}.values(); int; len; ...; NotImplemented; Index(); Plain(); Reflected(); Point(1, 2); collections
ValueError(1); torch.float32; Whole(3); Items([1]); Text("ab"); Color.RED; Level.LOW; Plain; property(len)
functools.partial(len); Fraction(1, 2); Data(1); [].append
"""
UNARY = """
-a; +a; ~a; not a; len(a); abs(a); int(a); float(a); bool(a); str(a); list(a); tuple(a); set(a); dict(a); sorted(a); sum(a)
max(a); any(a); next(a); callable(a); a(); [*a]; {*a}; {**a}; round(a); bin(a); chr(a); ord(a); range(a); ascii(a); bytes(a)
math.floor(a); math.sqrt(a); math.factorial(a); math.gcd(a); operator.index(a); a.none; collections.deque(a); dict.fromkeys(a)
"".join(a); "%s" % a; "%d" % a; "%x" % a; "%c" % a; "%f" % a; "%r" % (a,); f"{a}"; f"{a:5}"; f"{a!r}"; list(zip(a))
list(map(str, a)); list(itertools.chain(*a)); isinstance(a, int); issubclass(a, int); x == a; x != a; copy.copy(a)
copy.deepcopy(a); operator.delitem(a, 0); operator.delitem(a, "s"); a[0]; a["a"]; a[:1]; functools.reduce(max, a)
"{0}{0!r:>9}".format(a); "%(a)s" % a; {a: 1}; list(reversed(a)); a in [a]
"""
BINARY = """
a + b; a - b; a * b; a / b; a // b; a % b; a ** b; a @ b; a << b; a >> b; a & b; a | b; a ^ b; a < b; a <= b; a == b; a != b
a > b; a in b; a[b]; divmod(a, b); isinstance(a, b); getattr(a, b); a and b; a or b; round(a, b); int(a, b); a[b:]; a[::b]
operator.contains(a, b); operator.iadd(a, b); operator.ior(a, b); operator.isub(a, b); operator.indexOf(a, b)
operator.countOf(a, b); issubclass(a, b); a(b); format(a, b); hasattr(a, b); list(zip(a, b)); list(map(a, b)); slice(a, b)
sorted(a, key=b); [*a, *b]; {**a, **b}; next(a, b); type(a)(b); "%s %s" % (a, b); a % (b,); "{}{}".format(a, b)
min(a, b, key=id) and 0; setattr(a, b, 1); iter(a, b) and 0; enumerate(a, b) and 0
"""
# Expressions over these operands that are known to differ, with the reason.
KNOWN = {
    r"int\(a, b\)|complex": "an operand that C code refuses before the other is looked at",
}


def rows(text: str) -> list[str]:
    return [part.strip() for line in text.splitlines() for part in line.split(";") if part.strip()]


def programs() -> list[tuple[str, str]]:
    """(assignment of operands, expression) of all."""
    kinds = rows(KINDS)
    alone = [(f"a = {a}", e) for a in kinds for e in rows(UNARY)]
    return alone + [(f"a, b = {a}, {b}", e) for a in kinds for b in kinds for e in rows(BINARY)]


def drawn(count: int) -> list[tuple[str, str]]:
    """Some, others after each change of this file."""
    return random.Random(Path(__file__).read_text()).sample(programs(), count)


def shown(value: object) -> Any:
    """Comparable, and without addresses; what has no order is sorted."""
    if isinstance(value, dict):
        return type(value).__name__, [(shown(k), shown(v)) for k, v in value.items()]
    if isinstance(value, list | tuple):
        return type(value).__name__, [shown(v) for v in value]
    text = repr(value)
    if isinstance(value, set | frozenset):
        text = " ".join(sorted(map(repr, value)))
    return type(value).__name__, re.sub(r" (object )?at 0x[0-9a-f]+", "", text)


def outcome(setup: str, expression: str, compiled: bool) -> Any:
    """What the expression gives or raises, and the operands after it; an internal error of the compiler is a difference."""
    text = f"""
def f(x):
    {setup}
    try:
        found = {expression}
    except Exception as e:
        return x + 1, type(e).__name__, e.args, a
    return x + 2, found, a
"""
    names: dict[str, Any] = {}
    exec(WORLD, names)
    exec(compile(text, f"<{expression}>", "exec"), names)
    f = names["f"]
    dynamo.reset()
    internal_errors.forget()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = shown((dynamo.compile(f, backend="eager") if compiled else f)(torch.ones(2)))
        except Exception as e:  # noqa: BLE001  # whatever leaves the function is compared
            result = "raised", type(e).__name__, str(e)
    return result, *internal_errors.internal_errors()


def differences(chosen: list[tuple[str, str]]) -> Iterator[str]:
    """The expressions that give something else when compiled."""
    for setup, expression in chosen:
        if any(re.fullmatch(known, expression) for known in KNOWN):
            continue
        with contextlib.redirect_stdout(None):
            eager, ours = (outcome(setup, expression, compiled) for compiled in (False, True))
        if eager != ours:
            yield f"{setup}; {expression}\n    eager    {eager}\n    compiled {ours}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--part", default="0/1", help="N/M: every Mth expression from the Nth on")
    first, step = map(int, parser.parse_args().part.split("/"))
    chosen = programs()[first::step]
    found = 0
    for found, line in enumerate(differences(chosen), 1):
        print(line, flush=True)
    print(f"{len(chosen)} expressions, {found} differ")


if __name__ == "__main__":
    main()
